// ipc.fig6 to .fig11: collectives of the MPI's on GPU memory, by the drop-in (ipc-collectives-gpu, figures 6 to 11);
// and ipc.gatherv and the others that go by peer memory, of which that paper has no figures.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/support/own_mpi.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/table.hpp"
#include "bench/unknown_comm.hpp"
#include "capi/gpu_aware.hpp"

namespace partita::bench::gpu {

namespace {

/// By the MPI's names, in the order of peer_collective_namings.
enum class Kind : std::uint8_t {
#define COLLECTIVE(BENCHMARK, NAME, ...) NAME,
#include "bench/gpu/peer_collectives.inc"
#undef COLLECTIVE
};

bool is_one_of(Kind kind, std::initializer_list<Kind> kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
}
bool is_from_root(Kind kind) {
  return is_one_of(kind, {Kind::Bcast, Kind::Scatter, Kind::Scatterv});
}
bool is_to_root(Kind kind) {
  return is_one_of(kind, {Kind::Gather, Kind::Gatherv, Kind::Reduce});
}
/// Whether a rank sends each one a block of its own; and whether it has one from each.
bool has_block_for_each(Kind kind) {
  return is_one_of(kind, {Kind::Alltoall, Kind::Alltoallv, Kind::Scatter, Kind::Scatterv, Kind::Reduce_scatter,
                          Kind::Reduce_scatter_block});
}
bool has_block_from_each(Kind kind) {
  return is_one_of(kind,
                   {Kind::Alltoall, Kind::Alltoallv, Kind::Allgather, Kind::Allgatherv, Kind::Gather, Kind::Gatherv});
}
bool is_sum(Kind kind) {
  return is_one_of(kind, {Kind::Reduce, Kind::Allreduce, Kind::Reduce_scatter, Kind::Reduce_scatter_block});
}
int element_bytes(Kind kind) {
  return is_sum(kind) ? static_cast<int>(sizeof(float)) : 1;
}

constexpr int root = 0;

/// What is summed, out of any bytes: two of those of each float, as a whole number. Sums over 256 ranks are exact, in
/// whatever order.
void make_terms(std::vector<std::byte>& bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    std::uint16_t number = 0;
    std::memcpy(&number, &bytes[at], sizeof number);
    const float term = number;
    std::memcpy(&bytes[at], &term, sizeof term);
  }
}

void add(std::vector<std::byte>& sum, const std::vector<std::byte>& terms) {
  for (std::size_t at = 0; at < sum.size(); at += sizeof(float)) {
    float so_far = 0;
    float term = 0;
    std::memcpy(&so_far, &sum[at], sizeof so_far);
    std::memcpy(&term, &terms[at], sizeof term);
    so_far += term;
    std::memcpy(&sum[at], &so_far, sizeof so_far);
  }
}

/// What the ranks of one collective have: blocks of a case's bytes.
struct Blocks {
  Kind kind;
  int rank, ranks;
  int block_bytes;

  /// Whether rank `from` has a block for rank `to`; and the place of that among what each has.
  bool has_pair(int from, int to) const {
    return (!is_from_root(kind) || from == root) && (!is_to_root(kind) || to == root) &&
           (kind != Kind::Bcast || to != root);
  }
  int place_of_sent(int to) const { return has_block_for_each(kind) ? to : 0; }
  int place_of_received(int from) const { return has_block_from_each(kind) ? from : 0; }
  bool is_root() const { return rank == root; }
  int sent() const {
    if (is_from_root(kind) && !is_root()) return 0;
    return has_block_for_each(kind) ? ranks : 1;
  }
  int received() const {
    if ((is_to_root(kind) && !is_root()) || (kind == Kind::Bcast && is_root())) return 0;
    return has_block_from_each(kind) ? ranks : 1;
  }

  /// Block `number` of those that rank `from` sends.
  std::vector<std::byte> contents(int from, int number, std::uint64_t epoch) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(block_bytes));
    bench::fill(bytes, 1, epoch * 4096 + static_cast<std::uint64_t>(from * 64 + number));
    if (is_sum(kind)) make_terms(bytes);
    return bytes;
  }
  /// What this rank has to receive as its block `place`.
  std::vector<std::byte> expected(int place, std::uint64_t epoch) const {
    const int number = has_block_for_each(kind) ? rank : 0;
    if (!is_sum(kind)) return contents(is_from_root(kind) ? root : place, number, epoch);
    std::vector<std::byte> sum = contents(0, number, epoch);
    for (int from = 1; from < ranks; ++from) add(sum, contents(from, number, epoch));
    return sum;
  }
};

/// The MPI's functions under either of their names, on buffers anywhere.
struct Calls {
#define COLLECTIVE(BENCHMARK, NAME, ...) decltype(&MPI_##NAME) NAME;
#include "bench/gpu/peer_collectives.inc"
#undef COLLECTIVE
};

class PeerCollective : public GpuMeasurement {
 public:
  /// `receives_into`: where not in memory of its own.
  PeerCollective(Job& job, std::string name, const Case& c, Kind kind, std::byte* receives_into = nullptr)
      : GpuMeasurement(job, std::move(name), c),
        blocks_{kind, job.rank, job.ranks, static_cast<int>(c.size_bytes)},
        counts_(static_cast<std::size_t>(job.ranks), blocks_.block_bytes / element_bytes(kind)),
        sent_(room(blocks_.sent())),
        received_(receives_into == nullptr ? room(blocks_.received()) : 0),
        received_at_(receives_into == nullptr ? received_.data() : receives_into) {
    for (int peer = 0; peer < job.ranks; ++peer) places_.push_back(peer * counts_.front());
  }

  void prepare(std::uint64_t epoch) final {
    for (int place = 0; place < blocks_.sent(); ++place)
      copy(sent() + offset(place), blocks_.contents(job_.rank, place, epoch).data(), cudaMemcpyHostToDevice);
    for (int place = 0; place < blocks_.received(); ++place) {
      std::vector<std::byte> wrong = blocks_.expected(place, epoch);
      for (std::byte& each : wrong) each = ~each;
      copy(received() + offset(place), wrong.data(), cudaMemcpyHostToDevice);
    }
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  bool compare(std::uint64_t epoch) const final {
    std::vector<std::byte> found(static_cast<std::size_t>(blocks_.block_bytes));
    for (int place = 0; place < blocks_.received(); ++place) {
      copy(found.data(), received() + offset(place), cudaMemcpyDeviceToHost);
      const std::vector<std::byte> right = blocks_.expected(place, epoch);
      const auto [wrong, wanted] = std::ranges::mismatch(found, right);
      if (wrong == found.end()) continue;
      std::fprintf(stderr, "rank %d: %s: byte %td of block %d is %d, expected %d\n", job_.rank, name_.c_str(),
                   wrong - found.begin(), place, std::to_integer<int>(*wrong), std::to_integer<int>(*wanted));
      return false;
    }
    return true;
  }

  double sample(const Round& round) final {
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    for (int i = 0; i < round.batch; ++i) run();
    return static_cast<double>(now_ns() - begin_ns) / 1000 / round.batch;
  }

 protected:
  virtual void run() = 0;

  std::size_t room(int blocks) const {
    return static_cast<std::size_t>(blocks) * static_cast<std::size_t>(blocks_.block_bytes);
  }
  std::byte* sent() const { return sent_.data(); }
  std::byte* received() const { return received_at_; }

  /// Makes the call by one of `functions`, out of `in` and into `out`.
  int call(const Calls& functions, std::byte* in, std::byte* out, MPI_Comm comm) const {
    const MPI_Datatype type = is_sum(blocks_.kind) ? MPI_FLOAT : MPI_BYTE;
    const int count = counts_.front();
    const int* const counts = counts_.data();
    const int* const places = places_.data();
    std::byte* const inout = blocks_.is_root() ? in : out;
    switch (blocks_.kind) {
#define COLLECTIVE(BENCHMARK, NAME, ...) \
  case Kind::NAME:                       \
    return functions.NAME(__VA_ARGS__, comm);
#include "bench/gpu/peer_collectives.inc"
#undef COLLECTIVE
    }
    return MPI_ERR_OTHER;
  }

  const Blocks blocks_;

 private:
  std::size_t offset(int place) const { return room(place); }
  void copy(void* to, const void* from, cudaMemcpyKind direction) const {
    check(cudaMemcpy(to, from, room(1), direction), "cudaMemcpy");
  }

  std::vector<int> counts_;
  std::vector<int> places_;
  DeviceBuffer sent_;
  DeviceBuffer received_;
  std::byte* const received_at_;
};

/// The call as a program makes it, on a communicator of all ranks.
class Standard final : public PeerCollective {
 public:
  Standard(Job& job, std::string name, const Case& c, Kind kind, MPI_Comm comm)
      : PeerCollective(job, std::move(name), c, kind), comm_(comm) {}

 private:
  void run() override {
    static const Calls standard{
#define COLLECTIVE(BENCHMARK, NAME, ...) MPI_##NAME,
#include "bench/gpu/peer_collectives.inc"
#undef COLLECTIVE
    };
    check(call(standard, sent(), received(), comm_), name_.c_str());
  }

  const MPI_Comm comm_;
};

/// What each rank receives into by pairs, mapped by all others: once, for the largest case.
class PairMemory {
 public:
  explicit PairMemory(const Job& job)
      : comm(unknown_duplicate()),
        memory_(
            (static_cast<std::size_t>(job.options.max_bytes) * static_cast<std::size_t>(job.ranks) + unit_bytes - 1) /
            unit_bytes * unit_bytes) {
    cudaIpcMemHandle_t own{};
    check(cudaIpcGetMemHandle(&own, memory_.data()), "cudaIpcGetMemHandle");
    std::vector<cudaIpcMemHandle_t> handles(static_cast<std::size_t>(job.ranks));
    check(PARTITA_OF_MPI(Allgather)(&own, sizeof own, MPI_BYTE, handles.data(), sizeof own, MPI_BYTE, comm.get()),
          "MPI_Allgather");
    for (int peer = 0; peer < job.ranks; ++peer) {
      void* at = memory_.data();
      if (peer != job.rank) {
        const cudaIpcMemHandle_t& handle = handles[static_cast<std::size_t>(peer)];
        if (cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) {
          static_cast<void>(cudaGetLastError());
          at = nullptr;
        }
      }
      at_peers_.push_back(static_cast<std::byte*>(at));
    }
  }
  /// Nobody frees what another one has mapped. Collective.
  ~PairMemory() {
    for (std::byte* const at : at_peers_) {
      if (at != nullptr && at != memory_.data()) cudaIpcCloseMemHandle(at);
    }
    PARTITA_OF_MPI(Barrier)(comm.get());
  }
  PairMemory(const PairMemory&) = delete;
  PairMemory& operator=(const PairMemory&) = delete;

  std::byte* own() const { return memory_.data(); }
  /// Null where this rank's GPU cannot map it.
  std::byte* of(int peer) const { return at_peers_[static_cast<std::size_t>(peer)]; }
  bool is_mapped() const { return std::ranges::find(at_peers_, nullptr) == at_peers_.end(); }

  /// Its messages are the MPI's own: no drop-in knows it.
  const OwnedComm comm;

 private:
  /// The driver names and maps whole pieces of this size.
  static constexpr std::size_t unit_bytes = std::size_t{2} << 20;

  DeviceBuffer memory_;
  std::vector<std::byte*> at_peers_;
};

/// Null, with a note, where some rank cannot map a peer's. Collective.
std::shared_ptr<PairMemory> pair_memory(Job& job) {
  static std::weak_ptr<PairMemory> shared;
  auto found = shared.lock();
  if (found == nullptr) {
    found = std::make_shared<PairMemory>(job);
    shared = found;
    job.shared.push_back(found);
  }
  if (job.on_both(found->is_mapped())) return found;
  job.note("pairs is left out: some rank's GPU cannot map the memory of another's");
  return nullptr;
}

/// What a program does that has no collective on GPU memory: a send and a receive for each two ranks, all of them begun
/// at once. The receiver says that it is ready, the sender copies into its memory, which is mapped, and waits for that;
/// then it says so.
class Pairs final : public PeerCollective {
 public:
  Pairs(Job& job, std::string name, const Case& c, Kind kind, std::shared_ptr<PairMemory> memory)
      : PeerCollective(job, std::move(name), c, kind, memory->own()),
        memory_(std::move(memory)),
        ready_(static_cast<std::size_t>(job.ranks)) {}

 private:
  static constexpr int ready_tag = 1;
  static constexpr int done_tag = 2;

  void run() override {
    static const auto isend = PARTITA_OF_MPI(Isend);
    static const auto irecv = PARTITA_OF_MPI(Irecv);
    static const auto wait = PARTITA_OF_MPI(Wait);
    static const auto waitall = PARTITA_OF_MPI(Waitall);
    const MPI_Comm comm = memory_->comm.get();
    requests_.clear();
    for (int step = 1; step <= job_.ranks; ++step) {
      const int to = (job_.rank + step) % job_.ranks;
      const int from = (job_.rank + job_.ranks - step) % job_.ranks;
      MPI_Request& ready = ready_[static_cast<std::size_t>(to)];
      if (blocks_.has_pair(job_.rank, to)) check(irecv(nullptr, 0, MPI_BYTE, to, ready_tag, comm, &ready), "MPI_Irecv");
      if (!blocks_.has_pair(from, job_.rank)) continue;
      check(irecv(nullptr, 0, MPI_BYTE, from, done_tag, comm, &next_request()), "MPI_Irecv");
      check(isend(nullptr, 0, MPI_BYTE, from, ready_tag, comm, &next_request()), "MPI_Isend");
    }
    for (int step = 1; step <= job_.ranks; ++step) {
      const int to = (job_.rank + step) % job_.ranks;
      if (!blocks_.has_pair(job_.rank, to)) continue;
      check(wait(&ready_[static_cast<std::size_t>(to)], MPI_STATUS_IGNORE), "MPI_Wait");
      const std::byte* const from = sent() + room(blocks_.place_of_sent(to));
      std::byte* const at = memory_->of(to) + room(blocks_.place_of_received(job_.rank));
      check(cudaMemcpyAsync(at, from, room(1), cudaMemcpyDeviceToDevice, stream_.get()), "cudaMemcpyAsync");
      stream_.synchronize();
      check(isend(nullptr, 0, MPI_BYTE, to, done_tag, comm, &next_request()), "MPI_Isend");
    }
    check(waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }
  MPI_Request& next_request() { return requests_.emplace_back(MPI_REQUEST_NULL); }

  const std::shared_ptr<PairMemory> memory_;
  std::vector<MPI_Request> ready_;
  std::vector<MPI_Request> requests_;
};

/// What a program does without: its own copies, and the MPI past the drop-in, on page-locked memory.
class ByHand final : public PeerCollective {
 public:
  ByHand(Job& job, std::string name, const Case& c, Kind kind)
      : PeerCollective(job, std::move(name), c, kind),
        sent_on_host_(std::max<std::size_t>(room(blocks_.sent()), 1)),
        received_on_host_(std::max<std::size_t>(room(blocks_.received()), 1)) {}

 private:
  void run() override {
    static const Calls own{
#define COLLECTIVE(BENCHMARK, NAME, ...) PARTITA_OF_MPI(NAME),
#include "bench/gpu/peer_collectives.inc"
#undef COLLECTIVE
    };
    if (blocks_.sent() > 0) copy(sent_on_host_.data(), sent(), room(blocks_.sent()), cudaMemcpyDeviceToHost);
    check(call(own, sent_on_host_.data(), received_on_host_.data(), MPI_COMM_WORLD), name_.c_str());
    if (blocks_.received() > 0)
      copy(received(), received_on_host_.data(), room(blocks_.received()), cudaMemcpyHostToDevice);
  }
  void copy(void* to, const void* from, std::size_t size_bytes, cudaMemcpyKind direction) const {
    check(cudaMemcpyAsync(to, from, size_bytes, direction, stream_.get()), "cudaMemcpyAsync");
    stream_.synchronize();
  }

  PinnedBuffer sent_on_host_;
  PinnedBuffer received_on_host_;
};

/// On which the drop-in stages calls, whatever their size. Collective.
MPI_Comm unknown_comm(Job& job) {
  static std::weak_ptr<OwnedComm> shared;
  auto found = shared.lock();
  if (found == nullptr) {
    found = std::make_shared<OwnedComm>(unknown_duplicate());
    shared = found;
    job.shared.push_back(found);
  }
  return found->get();
}

/// Someone has to take GPU memory.
void check_route(const Job& job) {
  const char* why = "libpartita_mpi is not loaded";
  const bool taken = Partita_is_gpu_aware(&why) != 0 || job.options.gpu_aware_mpi;
  if (!job.on_both(taken)) {
    throw Failure("Partita does not take GPU memory in MPI's own calls: {}. With --gpu-aware-mpi the MPI gets it.",
                  why);
  }
}

/// Places are ints, and contents() tells so many ranks apart.
constexpr int most_ranks = 64;

void check_places(const Job& job, const Case& c) {
  if (job.ranks > most_ranks) {
    throw Failure("{} ranks are more than the {} whose blocks are told apart.", job.ranks, most_ranks);
  }
  if (c.size_bytes * job.ranks > std::numeric_limits<int>::max()) {
    throw Failure("{} blocks of {} bytes are more than the 2 GiB that a place of MPI's can tell.", job.ranks,
                  c.size_bytes);
  }
}

template <Kind kind>
std::vector<Contender> make_contenders(Job& job, const Subjects&, const Case& c) {
  check_places(job, c);
  if (c.size_bytes % element_bytes(kind) != 0) {
    throw Failure("{} bytes are not a whole number of floats; expected are blocks of {} bytes or a multiple.",
                  c.size_bytes, element_bytes(kind));
  }
  check_route(job);
  std::vector<Contender> contenders;
  contenders.push_back({"call", "staged-call", std::make_unique<Standard>(job, "call", c, kind, MPI_COMM_WORLD)});
  contenders.push_back(
      {"staged-call", "staged-call", std::make_unique<Standard>(job, "staged-call", c, kind, unknown_comm(job))});
  contenders.push_back({"by-hand", "staged-call", std::make_unique<ByHand>(job, "by-hand", c, kind)});
  if (is_sum(kind)) return contenders;
  if (auto memory = pair_memory(job))
    contenders.push_back({"pairs", "staged-call", std::make_unique<Pairs>(job, "pairs", c, kind, std::move(memory))});
  return contenders;
}

template <Kind kind>
void set_peer_defaults(Options& options) {
  options.min_bytes = element_bytes(kind);
  options.max_bytes = 32 << 20;
  options.partitions = {1};
  options.iterations = 40;
  options.warmup = 4;
}

template <Kind kind>
Benchmark peer_benchmark() {
  const Naming& naming = peer_collective_namings[static_cast<std::size_t>(kind)];
  std::vector<std::string_view> lacks = unused_by_ipc();
  std::erase(lacks, "--gpu-aware-mpi");
  return {.name = naming.name,
          .what = naming.what,
          .unit = "us",
          .compares_subjects = false,
          .compares_names = true,
          .ranks = Ranks::any,
          .on_gpu = true,
          .lacks = lacks,
          .set_defaults = set_peer_defaults<kind>,
          .contenders = make_contenders<kind>,
          .metric_title = "x_staged_call",
          .metric = times_faster};
}

}  // namespace

std::vector<Benchmark> peer_collective_benchmarks() {
  return {
#define COLLECTIVE(BENCHMARK, NAME, ...) peer_benchmark<Kind::NAME>(),
#include "bench/gpu/peer_collectives.inc"
#undef COLLECTIVE
  };
}

}  // namespace partita::bench::gpu
