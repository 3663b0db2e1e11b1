// The program that fft_fault_test.py runs: the app fft, whose work fails on one rank or on all, and what the program
// partita does then. Nothing is transformed, so that it needs no FFTW.
//
//   fft_probe STAGE EXCHANGE VICTIM   STAGE: begin pack unpack; VICTIM: a rank, or all
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "apps/fft/exchange.hpp"
#include "apps/fft/run.hpp"
#include "apps/support/job.hpp"
#include "apps/support/reachable_memory.hpp"
#include "probe_lines.hpp"
#include "program/end_job.hpp"

namespace {

/// The buffers of each of three ranks are so large that memory which is given back is unmapped.
constexpr fft::Extents size{144, 310, 310};
constexpr int slices = 4;
/// Counts hops from 1: in this one requests have been matched, and have had an epoch.
constexpr int fault_hop = 3;
/// In which what the victim has marked before waits for ranks that have not started yet; end_job takes longer.
constexpr auto late = std::chrono::milliseconds(100);

struct Fault {
  std::string stage;
  bool strikes = false;  ///< on this rank
};

std::size_t bytes(std::int64_t cells) {
  return static_cast<std::size_t>(cells) * sizeof(fft::Complex);
}

class FailingWork final : public fft::Work {
 public:
  FailingWork(const std::vector<fft::Hop>& hops, Fault fault)
      : fault_(std::move(fault)), sent_(bytes(room_for(hops).sent)), received_(bytes(room_for(hops).received)) {}

  fft::Buffers buffers() const override {
    return {static_cast<fft::Complex*>(sent_.get()), static_cast<fft::Complex*>(received_.get())};
  }
  void load(const std::vector<fft::Complex>& /*cells*/) override {}
  std::vector<fft::Complex> cells(std::int64_t count) const override {
    return std::vector<fft::Complex>(static_cast<std::size_t>(count));
  }

  void begin(const fft::Hop& /*hop*/) override {
    ++hop_;
    maybe_fail("begin", 0);
    if (hop_ == fault_hop && !fault_.strikes) std::this_thread::sleep_for(late);
  }
  void pack(int slice) override { maybe_fail("pack", slice); }
  void unpack(int slice) override { maybe_fail("unpack", slice); }
  void end() override {}

 private:
  void maybe_fail(std::string_view stage, int slice) const {
    const int fault_slice = stage == "pack" ? 1 : 0;  // some are marked by then
    if (fault_.strikes && hop_ == fault_hop && stage == fault_.stage && slice == fault_slice) {
      throw std::runtime_error("it fails on purpose.");
    }
  }

  Fault fault_;
  partita::apps::ReachableMemory sent_, received_;
  int hop_ = 0;
};

void transform(const Fault& fault, const std::string& exchange) {
  const partita::apps::Job job;
  const fft::WorkMaker make_work = [&](const std::vector<fft::Hop>& hops) {
    return std::make_unique<FailingWork>(hops, fault);
  };
  fft::run(job.comm(), {size, fft::Decomposition::slab, slices}, exchange, fft::spacing_of(exchange), make_work,
           fft::exchange_maker(exchange), {3, false, fft::Against::definition});
}

}  // namespace

int main(int argc, char** argv) {
  begin_probe(argc, argv);
  if (argc != 4) {
    std::fprintf(stderr, "probe: expected are a stage, an exchange and a rank\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const std::string_view victim = argv[3];
  try {
    transform({argv[1], victim == "all" || own_rank == std::atoi(argv[3])}, argv[2]);
  } catch (const std::exception& error) {
    partita::program::end_job(error);
  }
  say("ends well");
  return MPI_Finalize();
}
