#include "bench/gpu/allreduce_calls.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "bench/gpu/measurement.hpp"
#include "bench/gpu/vector_add.hpp"

namespace partita::bench::gpu {

namespace {

enum class AllreduceCall : std::uint8_t { init, prequest_create, prepare_first, prepare_later };

/// The whole life of a partitioned allreduce, of which one call is timed: it is made, started, prepared, gets a device
/// request, and passes two epochs of a vector addition.
class AllreduceCallCost final : public GpuMeasurement {
 public:
  AllreduceCallCost(Job& job, std::string name, const Case& c, AllreduceCall call)
      : GpuMeasurement(job, std::move(name), c),
        call_(call),
        a_(static_cast<std::size_t>(c.size_bytes)),
        b_(a_.size()),
        c_(a_.size()),
        sums_(a_.size()) {}

  void prepare(std::uint64_t epoch) override {
    gpu::fill_addends(a_.data(), b_.data(), region(c_), epoch, stream_.get());
    gpu::poison(region(sums_), epoch, stream_.get());
  }
  /// All ranks have the same, and so has the bitwise or of them: what was spoiled is seen, not whose data is missing.
  bool compare(std::uint64_t epoch) const override { return compare_region(region(sums_), epoch); }

  /// Microseconds of a call, the mean of the round's.
  double sample(const Round& round) override {
    spent_ns_ = 0;
    calls_ = 0;
    for (int i = 0; i < round.batch; ++i) live();
    return std::max(0.0, static_cast<double>(spent_ns_) / calls_ - job_.timer.cost_ns) / 1000;
  }

 private:
  Region region(const DeviceBuffer& of) const { return {of.data(), of.size(), case_.partitions}; }

  template <class F>
  void timed(AllreduceCall call, const F& body) {
    job_.barrier();  // what is timed is the call, and not how much later the other ranks come
    const std::int64_t begin_ns = now_ns();
    body();
    const std::int64_t end_ns = now_ns();
    if (call != call_) return;
    spent_ns_ += end_ns - begin_ns;
    ++calls_;
  }

  void live() {
    const OwnedInfo info = info_of({});
    const MPI_Count words = case_.size_bytes / 8 / case_.partitions;
    Partita_Request request = PARTITA_REQUEST_NULL;
    timed(AllreduceCall::init, [&] {
      check(Partita_Pallreduce_init(c_.data(), sums_.data(), case_.partitions, words, MPI_UINT64_T, MPI_BOR,
                                    MPI_COMM_WORLD, info.get(), &request),
            "Partita_Pallreduce_init");
    });
    MPIX_Prequest prequest{};
    for (const bool first : {true, false}) {
      check(Partita_Start(&request), "Partita_Start");
      timed(first ? AllreduceCall::prepare_first : AllreduceCall::prepare_later,
            [&] { check(Partita_Pbuf_prepare(request), "Partita_Pbuf_prepare"); });
      if (first) {
        timed(AllreduceCall::prequest_create,
              [&] { check(Partita_Prequest_create(&prequest, request), "Partita_Prequest_create"); });
      }
      launch_vector_add_and_mark({a_.data(), b_.data()}, c_.data(), case_.partitions, prequest, stream_.get());
      stream_.synchronize();
      check(Partita_Wait(&request, MPI_STATUS_IGNORE), "Partita_Wait");
    }
    check(Partita_Prequest_free(&prequest), "Partita_Prequest_free");
    job_.barrier();
    check(Partita_Request_free(&request), "Partita_Request_free");
  }

  AllreduceCall call_;
  DeviceBuffer a_, b_, c_, sums_;
  std::int64_t spent_ns_ = 0;
  int calls_ = 0;
};

}  // namespace

void add_allreduce_calls(std::vector<Contender>& contenders, Job& job, const Case& c) {
  constexpr std::array calls{std::pair("pallreduce_init", AllreduceCall::init),
                             std::pair("prequest_create allreduce", AllreduceCall::prequest_create),
                             std::pair("pbuf_prepare allreduce first", AllreduceCall::prepare_first),
                             std::pair("pbuf_prepare allreduce later", AllreduceCall::prepare_later)};
  for (const auto& [name, call] : calls) {
    contenders.push_back({name, calls.front().first, std::make_unique<AllreduceCallCost>(job, name, c, call)});
  }
}

}  // namespace partita::bench::gpu
