#include "two_sided/offer_counts.hpp"

#include <sched.h>

#include <algorithm>
#include <new>
#include <vector>

#include "core/agreement.hpp"
#include "core/mpi_check.hpp"

namespace partita {
namespace {

constexpr std::size_t block_bytes = 64;
static_assert(sizeof(OfferCounts::Counts) <= block_bytes);
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "processes share them");

/// As it travels; `rank` is -1 to ranks that are not of this node.
struct Named {
  int rank = -1;
  memory::HostAddress address;
};

}  // namespace

OfferCounts::OfferCounts(const RequestServices& services, bool are_offered) : services_(services) {
  if (!are_offered) return;
  World& world = services_.world;
  do_together(world.control(), "make its counts of offers", [this] {
    block_ = services_.host_memory.allocate_block(block_bytes);
    own_ = new (block_) Counts;
  });
  MPI_Comm node = MPI_COMM_NULL;
  PARTITA_MPI(Comm_split_type(world.control(), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
  exchange_addresses(node);
  PARTITA_MPI(Comm_free(&node));
}

/// Nobody offers any more. What others still withdraw they write to their own mapping.
OfferCounts::~OfferCounts() {
  if (block_ != nullptr) services_.host_memory.free_block(block_, block_bytes);
}

void OfferCounts::exchange_addresses(MPI_Comm node) {
  World& world = services_.world;
  int size = 0;
  PARTITA_MPI(Comm_size(node, &size));
  std::vector<int> ranks(static_cast<std::size_t>(size));
  const int own_rank = world.rank();
  PARTITA_MPI(Allgather(&own_rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, node));
  std::vector<Named> given(ranks.size());
  std::vector<Named> got(ranks.size());
  do_together(world.control(), "name its counts of offers", [&] {
    std::ranges::transform(ranks, given.begin(), [&](int peer) {
      if (peer == own_rank || !world.on_my_node(peer)) return Named{};
      return Named{own_rank, services_.host_memory.export_to(peer, block_)};
    });
  });
  PARTITA_MPI(Alltoall(given.data(), sizeof(Named), MPI_BYTE, got.data(), sizeof(Named), MPI_BYTE, node));
  for (const Named& each : got) {
    if (each.rank >= 0) addresses_.emplace(each.rank, each.address);
  }
  pass_on(node);
}

/// Returns once the descriptors that peers need to map the counts have come to all of them: nobody would send them
/// later, and they would stand in the way of others.
void OfferCounts::pass_on(MPI_Comm node) {
  NodeSocket& socket = services_.world.socket();
  const auto have_gone = [&] {
    return std::ranges::all_of(addresses_, [&](const auto& each) { return socket.flush(each.first); });
  };
  MPI_Request all_gone = MPI_REQUEST_NULL;
  const int given = 0;
  int got = 0;
  for (int done = 0; done == 0; ::sched_yield()) {
    socket.take_in();
    if (all_gone == MPI_REQUEST_NULL) {
      if (!have_gone()) continue;
      PARTITA_MPI(Iallreduce(&given, &got, 1, MPI_INT, MPI_MAX, node, &all_gone));
    }
    PARTITA_MPI(Test(&all_gone, &done, MPI_STATUS_IGNORE));
  }
}

OfferCounts::Counts& OfferCounts::of(int peer) {
  const std::lock_guard lock(mutex_);
  Counts*& counts = mapped_[peer];
  if (counts == nullptr) {
    counts = reinterpret_cast<Counts*>(services_.host_memory.import(peer, addresses_.at(peer), sizeof(Counts)));
  }
  return *counts;
}

}  // namespace partita
