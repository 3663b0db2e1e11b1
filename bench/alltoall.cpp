#include "bench/alltoall.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/support/own_mpi.hpp"
#include "bench/function_calls.hpp"
#include "bench/unknown_comm.hpp"
#include "capi/gpu_aware.hpp"

namespace partita::bench {

namespace {

/// A driver maps no less of an allocation, and places smaller ones within one.
constexpr std::size_t least_allocation_bytes = std::size_t{2} << 20;

// ---- What the ways of all cases share -------------------------------------------------------------------------------

/// Buffers for the largest case, so that peers map them once.
struct AlltoallBuffers {
  AlltoallBuffers(const Job& job, const AlltoallGpu& of_this_rank)
      : gpu(of_this_rank),
        size_bytes(std::max(static_cast<std::size_t>(job.options.max_bytes) * static_cast<std::size_t>(job.ranks),
                            least_allocation_bytes)),
        sent(gpu.memory.on_gpu(size_bytes)),
        received(gpu.memory.on_gpu(size_bytes)),
        sent_on_host(gpu.memory.page_locked(size_bytes)),
        received_on_host(gpu.memory.page_locked(size_bytes)),
        sent_for_cpu(gpu.map_for_cpu(sent.bytes().data())),
        received_for_cpu(gpu.map_for_cpu(received.bytes().data())),
        unknown(unknown_duplicate()) {}

  const AlltoallGpu gpu;
  const std::size_t size_bytes;
  const Buffer sent;
  const Buffer received;
  const Buffer sent_on_host;
  const Buffer received_on_host;
  const CpuMapped sent_for_cpu;
  const CpuMapped received_for_cpu;
  /// Partita knows nothing of this one, so that no call on it goes by peers.
  const OwnedComm unknown;
  /// Those of first calls. They stay, so that none comes to lie where peers have mapped another.
  std::vector<Buffer> fresh;
};

std::shared_ptr<AlltoallBuffers> buffers_of(Job& job, const AlltoallGpu& gpu) {
  static std::weak_ptr<AlltoallBuffers> shared;
  if (auto existing = shared.lock()) return existing;
  auto made = std::make_shared<AlltoallBuffers>(job, gpu);
  shared = made;
  job.shared.push_back(made);
  return made;
}

// ---- Ways -----------------------------------------------------------------------------------------------------------

/// One way of the call on this rank. A call may have parts: their names, and their times as the calls went.
class AlltoallWay {
 public:
  AlltoallWay(Job& job, std::string name, const Case& c, std::shared_ptr<AlltoallBuffers> buffers)
      : job_(job),
        name_(std::move(name)),
        block_bytes_(static_cast<std::size_t>(c.size_bytes)),
        buffers_(std::move(buffers)),
        received_(buffers_->received.bytes().data()) {}
  virtual ~AlltoallWay() = default;
  AlltoallWay(const AlltoallWay&) = delete;
  AlltoallWay& operator=(const AlltoallWay&) = delete;

  void prepare(std::uint64_t epoch) {
    set_up();
    std::vector<std::byte> contents(bytes());
    for (int peer = 0; peer < job_.ranks; ++peer) bench::fill(block(contents, peer), 1, number(job_.rank, peer, epoch));
    copy(sent(), contents.data());
    for (int peer = 0; peer < job_.ranks; ++peer)
      bench::poison(block(contents, peer), 1, number(peer, job_.rank, epoch));
    copy(received(), contents.data());
  }
  bool compare(std::uint64_t epoch) const {
    std::vector<std::byte> contents(bytes());
    copy(contents.data(), received());
    for (int peer = 0; peer < job_.ranks; ++peer) {
      const auto mismatch = bench::find_mismatch(block(contents, peer), 1, number(peer, job_.rank, epoch));
      if (!mismatch) continue;
      fmt::print(stderr,
                 "partita bench: wrong data: rank {} block {} offset {}: expected {:#04x}, got {:#04x}; {}, {} bytes\n",
                 job_.rank, peer, mismatch->offset, static_cast<int>(mismatch->expected),
                 static_cast<int>(mismatch->got), name_, block_bytes_);
      return false;
    }
    return true;
  }

  /// The mean time of a call, of so many in a row, or of one where only that can be had; from a barrier on.
  double run_us(int batch) {
    set_up();
    const int calls = begin(batch);
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    for (int i = 0; i < calls; ++i) call();
    const double each_us = static_cast<double>(now_ns() - begin_ns) / 1000 / calls;
    end(calls, each_us);
    return each_us;
  }

  const std::string& name() const { return name_; }
  /// Names that begin with a colon.
  virtual std::vector<std::string_view> parts() const { return {}; }
  /// The mean of each part in the calls of the last run.
  virtual std::vector<double> parts_us() const { return {}; }

 protected:
  /// Memory to receive into is there.
  virtual void set_up() {}
  /// Before the barrier. Returns how many calls are made.
  virtual int begin(int batch) { return batch; }
  virtual void call() = 0;
  virtual void end(int /*calls*/, double /*each_us*/) {}

  std::size_t bytes() const { return block_bytes_ * static_cast<std::size_t>(job_.ranks); }
  int count() const { return static_cast<int>(block_bytes_); }
  AlltoallBuffers& buffers() const { return *buffers_; }
  std::byte* sent() const { return buffers_->sent.bytes().data(); }
  std::byte* received() const { return received_; }
  void receive_into(std::byte* memory) { received_ = memory; }
  /// The standard call.
  void alltoall_on(MPI_Comm comm) const {
    check(MPI_Alltoall(sent(), count(), MPI_BYTE, received(), count(), MPI_BYTE, comm), name_.c_str());
  }

  Job& job_;

 private:
  static std::uint64_t number(int from, int to, std::uint64_t epoch) {
    return epoch * 4096 + static_cast<std::uint64_t>(from * 64 + to);
  }
  std::span<std::byte> block(std::vector<std::byte>& all, int peer) const {
    return std::span(all).subspan(block_bytes_ * static_cast<std::size_t>(peer), block_bytes_);
  }
  void copy(void* to, const void* from) const { buffers_->gpu.memory.copy(to, from, bytes()); }

  const std::string name_;
  const std::size_t block_bytes_;
  const std::shared_ptr<AlltoallBuffers> buffers_;
  std::byte* received_;
};

/// Whether a way tells the times of its parts.
enum class PartTimes : bool { untold, told };

/// Copies of the program's own, and the MPI's call past the drop-in on page-locked memory.
class AlltoallByHand final : public AlltoallWay {
 public:
  /// Copies all that is sent to the host, and what was received to the GPU; complete on return.
  struct Copies {
    std::function<void(std::size_t size_bytes)> to_host;
    std::function<void(std::size_t size_bytes)> to_gpu;
  };

  AlltoallByHand(Job& job, std::string name, const Case& c, std::shared_ptr<AlltoallBuffers> buffers, Copies copies,
                 PartTimes part_times)
      : AlltoallWay(job, std::move(name), c, std::move(buffers)), copies_(std::move(copies)), part_times_(part_times) {}

  std::vector<std::string_view> parts() const override { return {":to-host", ":mpi", ":to-gpu"}; }
  std::vector<double> parts_us() const override { return means_us_; }

 private:
  int begin(int batch) override {
    spent_ns_.assign(3, 0);
    return batch;
  }
  void call() override {
    static const auto own_alltoall = PARTITA_OF_MPI(Alltoall);
    if (part_times_ == PartTimes::told) last_ns_ = now_ns();
    copies_.to_host(bytes());
    lap(0);
    check(own_alltoall(buffers().sent_on_host.bytes().data(), count(), MPI_BYTE,
                       buffers().received_on_host.bytes().data(), count(), MPI_BYTE, MPI_COMM_WORLD),
          "MPI_Alltoall");
    lap(1);
    copies_.to_gpu(bytes());
    lap(2);
  }
  void lap(std::size_t part) {
    if (part_times_ == PartTimes::untold) return;
    const std::int64_t ns = now_ns();
    spent_ns_[part] += ns - std::exchange(last_ns_, ns);
  }
  void end(int calls, double) override {
    means_us_.clear();
    for (const std::int64_t ns : spent_ns_) means_us_.push_back(static_cast<double>(ns) / 1000 / calls);
  }

  const Copies copies_;
  const PartTimes part_times_;
  std::int64_t last_ns_ = 0;
  std::vector<std::int64_t> spent_ns_;
  std::vector<double> means_us_;
};

/// The blocking call as the drop-in stages it.
class AlltoallStaged final : public AlltoallWay {
 public:
  using AlltoallWay::AlltoallWay;

 private:
  void call() override { alltoall_on(buffers().unknown.get()); }
};

/// Asks Partita for the times of calls by peers.
class PeerTiming {
 public:
  PeerTiming() = default;
  ~PeerTiming() { end(); }
  PeerTiming(const PeerTiming&) = delete;
  PeerTiming& operator=(const PeerTiming&) = delete;

  void begin() {
    times_ = {};
    Partita_Time_peers(&times_);
    asks_ = true;
  }
  const PeerTimes& end() {
    if (std::exchange(asks_, false)) Partita_Time_peers(nullptr);
    return times_;
  }

 private:
  PeerTimes times_;
  bool asks_ = false;
};

/// The blocking call by peer memory. Its first part is what comes before the agreement: the drop-in's look at the
/// communicator, and its board where there is none yet.
class AlltoallByPeers : public AlltoallWay {
 public:
  AlltoallByPeers(Job& job, std::string name, const Case& c, std::shared_ptr<AlltoallBuffers> buffers,
                  PartTimes part_times)
      : AlltoallWay(job, std::move(name), c, std::move(buffers)), part_times_(part_times) {}

  std::vector<std::string_view> parts() const final {
    return {":begin", ":agreement", ":naming", ":mapping", ":copies", ":end"};
  }
  std::vector<double> parts_us() const final { return means_us_; }

 protected:
  int begin(int batch) override {
    if (part_times_ == PartTimes::told) timing_.begin();
    return batch;
  }
  void call() override { alltoall_on(MPI_COMM_WORLD); }
  void end(int calls, double each_us) override {
    if (part_times_ == PartTimes::untold) return;
    const PeerTimes& times = timing_.end();
    if (times.calls != calls) {
      throw Failure("{}: {} of {} calls did not go from GPU to GPU; PARTITA_VERBOSE=1 tells why.", name(),
                    calls - times.calls, calls);
    }
    means_us_ = {each_us};
    for (const std::int64_t ns :
         {times.agreement_ns, times.naming_ns, times.mapping_ns, times.work_ns, times.ending_ns}) {
      means_us_.push_back(static_cast<double>(ns) / 1000 / calls);
      means_us_.front() -= means_us_.back();
    }
  }

 private:
  const PartTimes part_times_;
  PeerTiming timing_;
  std::vector<double> means_us_;
};

/// The first such call on a communicator, which receives into memory that no peer has mapped.
class FirstAlltoallByPeers final : public AlltoallByPeers {
 public:
  using AlltoallByPeers::AlltoallByPeers;

 private:
  void set_up() override {
    if (std::exchange(is_ready_, true)) return;
    auto& fresh = buffers().fresh;
    fresh.push_back(buffers().gpu.memory.on_gpu(std::max(bytes(), least_allocation_bytes)));
    receive_into(fresh.back().bytes().data());
  }
  int begin(int) override {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    return AlltoallByPeers::begin(1);
  }
  void call() override { alltoall_on(comm_); }
  /// What peers have mapped stays beyond the communicator.
  void end(int calls, double each_us) override {
    is_ready_ = false;
    check(MPI_Comm_free(&comm_), "MPI_Comm_free");
    AlltoallByPeers::end(calls, each_us);
  }

  bool is_ready_ = false;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

// ---- Measurements ---------------------------------------------------------------------------------------------------

class WholeAlltoall final : public Measurement {
 public:
  explicit WholeAlltoall(std::unique_ptr<AlltoallWay> way) : way_(std::move(way)) {}
  void prepare(std::uint64_t epoch) override { way_->prepare(epoch); }
  double sample(const Round& round) override { return way_->run_us(round.batch); }
  bool compare(std::uint64_t epoch) const override { return way_->compare(epoch); }

 private:
  std::unique_ptr<AlltoallWay> way_;
};

/// The calls of a round, for the whole and its parts.
struct AlltoallRun {
  explicit AlltoallRun(std::unique_ptr<AlltoallWay> of) : way(std::move(of)) {}

  /// In epoch 0 the harness times the rows themselves, to choose a batch.
  bool is_of(std::uint64_t wanted) const { return wanted != 0 && epoch == wanted; }
  void take(const Round& round) {
    us = {way->run_us(round.batch)};
    std::ranges::copy(way->parts_us(), std::back_inserter(us));
    epoch = round.epoch;
  }

  const std::unique_ptr<AlltoallWay> way;
  std::uint64_t epoch = 0;
  std::vector<double> us;  ///< the whole's, and those of the parts
};

class PartOfAlltoall final : public Measurement {
 public:
  PartOfAlltoall(const Job& job, std::shared_ptr<AlltoallRun> run, std::size_t part)
      : job_(job), run_(std::move(run)), part_(part) {}
  void prepare(std::uint64_t epoch) override {
    if (!run_->is_of(epoch)) run_->way->prepare(epoch);
  }
  double sample(const Round& round) override {
    if (!run_->is_of(round.epoch)) run_->take(round);
    return job_.is_first() ? run_->us[part_] : std::numeric_limits<double>::lowest();
  }
  bool compare(std::uint64_t epoch) const override { return run_->way->compare(epoch); }

 private:
  const Job& job_;
  std::shared_ptr<AlltoallRun> run_;
  std::size_t part_;
};

// ---- Contenders -----------------------------------------------------------------------------------------------------

constexpr const char* program_copies = "by-hand";
constexpr const char* cpu_copies = "fast-copies";

AlltoallByHand::Copies copies_by_gpu(const std::shared_ptr<AlltoallBuffers>& all) {
  return {[&of = *all](std::size_t size_bytes) {
            of.gpu.memory.copy(of.sent_on_host.bytes().data(), of.sent.bytes().data(), size_bytes);
          },
          [&of = *all](std::size_t size_bytes) {
            of.gpu.memory.copy(of.received.bytes().data(), of.received_on_host.bytes().data(), size_bytes);
          }};
}

AlltoallByHand::Copies copies_by_cpu(const std::shared_ptr<AlltoallBuffers>& all) {
  return {[&of = *all](std::size_t size_bytes) {
            of.sent_for_cpu.mapping->read(of.sent_on_host.bytes().data(), size_bytes);
          },
          [&of = *all](std::size_t size_bytes) {
            of.received_for_cpu.mapping->write(of.received_on_host.bytes().data(), size_bytes);
          }};
}

/// Whether the CPU copies a case: on all ranks alike.
bool cpu_copies_case(Job& job, const Case& c, const AlltoallBuffers& buffers) {
  const bool both_mapped = buffers.sent_for_cpu.mapping != nullptr && buffers.received_for_cpu.mapping != nullptr;
  if (!job.on_both(both_mapped)) {
    const std::string& why =
        buffers.sent_for_cpu.mapping == nullptr ? buffers.sent_for_cpu.why_not : buffers.received_for_cpu.why_not;
    job.note(fmt::format("{} is left out: the CPU cannot map GPU memory: {}", cpu_copies,
                         both_mapped ? "not on another rank" : why));
    return false;
  }
  return c.size_bytes * job.ranks <= cpu_mapped_bytes;
}

/// Whether the drop-in takes calls on GPU memory. Without that `rows` are left out.
bool drop_in_takes_calls(Job& job, std::string_view rows) {
  const char* why = "Partita has not been started";
  const bool partita_does = Partita_is_gpu_aware(&why) != 0;
  if (!drop_in_is_loaded()) why = "libpartita_mpi is not loaded";
  if (job.on_both(partita_does && drop_in_is_loaded())) return true;
  job.note(fmt::format("{} left out: Partita does not take GPU memory in the MPI's own calls: {}", rows,
                       partita_does && drop_in_is_loaded() ? "not on another rank" : why));
  return false;
}

/// Whether a call of these bytes goes by peers, on all ranks. Without that `rows` are left out.
bool goes_by_peers(Job& job, const Case& c, const AlltoallBuffers& buffers, std::string_view rows) {
  PeerTiming timing;
  timing.begin();
  const int count = static_cast<int>(c.size_bytes);
  check(MPI_Alltoall(buffers.sent.bytes().data(), count, MPI_BYTE, buffers.received.bytes().data(), count, MPI_BYTE,
                     MPI_COMM_WORLD),
        "MPI_Alltoall");
  if (job.on_both(timing.end().calls == 1)) return true;
  job.note(
      fmt::format("{} left out at sizes whose calls do not go from GPU to GPU: PARTITA_PEER_COLLECTIVES=0 takes them "
                  "all, PARTITA_VERBOSE=1 tells other reasons",
                  rows));
  return false;
}

void add_with_parts(std::vector<Contender>& contenders, const Job& job, std::unique_ptr<AlltoallWay> way) {
  const std::string whole = way->name();
  const std::vector<std::string_view> parts = way->parts();
  const auto run = std::make_shared<AlltoallRun>(std::move(way));
  contenders.push_back({whole, whole, std::make_unique<PartOfAlltoall>(job, run, 0)});
  for (std::size_t part = 0; part < parts.size(); ++part) {
    contenders.push_back(
        {whole + std::string(parts[part]), whole, std::make_unique<PartOfAlltoall>(job, run, part + 1)});
  }
}

}  // namespace

std::vector<Contender> compare_protocols(Job& job, const Case& c, const AlltoallGpu& gpu) {
  const auto buffers = buffers_of(job, gpu);
  std::vector<Contender> contenders;
  const auto add = [&](std::unique_ptr<AlltoallWay> way) {
    const std::string name = way->name();
    contenders.push_back({name, program_copies, std::make_unique<WholeAlltoall>(std::move(way))});
  };
  add(std::make_unique<AlltoallByHand>(job, program_copies, c, buffers, copies_by_gpu(buffers), PartTimes::untold));
  if (cpu_copies_case(job, c, *buffers))
    add(std::make_unique<AlltoallByHand>(job, cpu_copies, c, buffers, copies_by_cpu(buffers), PartTimes::untold));
  if (!drop_in_takes_calls(job, "staged and peers are")) return contenders;
  add(std::make_unique<AlltoallStaged>(job, "staged", c, buffers));
  if (goes_by_peers(job, c, *buffers, "peers is"))
    add(std::make_unique<AlltoallByPeers>(job, "peers", c, buffers, PartTimes::untold));
  return contenders;
}

std::vector<Contender> split_protocols(Job& job, const Case& c, const AlltoallGpu& gpu) {
  const auto buffers = buffers_of(job, gpu);
  std::vector<Contender> contenders;
  const auto add = [&](std::unique_ptr<AlltoallWay> way) { add_with_parts(contenders, job, std::move(way)); };
  add(std::make_unique<AlltoallByHand>(job, program_copies, c, buffers, copies_by_gpu(buffers), PartTimes::told));
  if (cpu_copies_case(job, c, *buffers))
    add(std::make_unique<AlltoallByHand>(job, cpu_copies, c, buffers, copies_by_cpu(buffers), PartTimes::told));
  if (!drop_in_takes_calls(job, "peers and peers-first are") ||
      !goes_by_peers(job, c, *buffers, "peers and peers-first are"))
    return contenders;
  add(std::make_unique<AlltoallByPeers>(job, "peers", c, buffers, PartTimes::told));
  add(std::make_unique<FirstAlltoallByPeers>(job, "peers-first", c, buffers, PartTimes::told));
  return contenders;
}

}  // namespace partita::bench
