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
/// Their nonblocking twins, under the names of those.
struct NonblockingCalls {
#define COLLECTIVE(BENCHMARK, NAME, TWIN, ...) decltype(&MPI_##TWIN) NAME;
#include "bench/gpu/peer_collectives.inc"
#undef COLLECTIVE
};

class PeerCollective : public GpuMeasurement {
 public:
  PeerCollective(Job& job, std::string name, const Case& c, Kind kind)
      : GpuMeasurement(job, std::move(name), c),
        blocks_{kind, job.rank, job.ranks, static_cast<int>(c.size_bytes)},
        counts_(static_cast<std::size_t>(job.ranks), blocks_.block_bytes / element_bytes(kind)),
        sent_(room(blocks_.sent())),
        received_(room(blocks_.received())) {
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
  std::byte* received() const { return received_.data(); }

  /// Makes the call by one of `functions`, out of `in` and into `out`; or begins it, where that is for a request.
  template <class Functions, class... Request>
  int call(const Functions& functions, std::byte* in, std::byte* out, Request*... request) const {
    const MPI_Datatype type = is_sum(blocks_.kind) ? MPI_FLOAT : MPI_BYTE;
    const int count = counts_.front();
    const int* const counts = counts_.data();
    const int* const places = places_.data();
    std::byte* const inout = blocks_.is_root() ? in : out;
    switch (blocks_.kind) {
#define COLLECTIVE(BENCHMARK, NAME, TWIN, ...) \
  case Kind::NAME:                             \
    return functions.NAME(__VA_ARGS__, MPI_COMM_WORLD, request...);
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
};

/// The blocking call as a program makes it.
class Blocking final : public PeerCollective {
 public:
  using PeerCollective::PeerCollective;

 private:
  void run() override {
    static const Calls standard{
#define COLLECTIVE(BENCHMARK, NAME, ...) MPI_##NAME,
#include "bench/gpu/peer_collectives.inc"
#undef COLLECTIVE
    };
    check(call(standard, sent(), received()), name_.c_str());
  }
};

/// The nonblocking one, which the drop-in stages whatever its size.
class Staged final : public PeerCollective {
 public:
  using PeerCollective::PeerCollective;

 private:
  void run() override {
    static const NonblockingCalls standard{
#define COLLECTIVE(BENCHMARK, NAME, TWIN, ...) MPI_##TWIN,
#include "bench/gpu/peer_collectives.inc"
#undef COLLECTIVE
    };
    MPI_Request request = MPI_REQUEST_NULL;
    check(call(standard, sent(), received(), &request), name_.c_str());
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
  }
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
    check(call(own, sent_on_host_.data(), received_on_host_.data()), name_.c_str());
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
  contenders.push_back({"call", "staged", std::make_unique<Blocking>(job, "call", c, kind)});
  contenders.push_back({"staged", "staged", std::make_unique<Staged>(job, "staged", c, kind)});
  contenders.push_back({"by-hand", "staged", std::make_unique<ByHand>(job, "by-hand", c, kind)});
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
          .metric_title = "x_staged",
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
