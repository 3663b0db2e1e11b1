#include "two_sided/peer_collectives.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "core/current_error.hpp"
#include "core/log.hpp"
#include "core/mpi_check.hpp"
#include "two_sided/peer_move.hpp"
#include "two_sided/peer_ranks.hpp"
#include "two_sided/peer_reduce.hpp"

namespace partita {
namespace {

/// Messages of the MPI's, which must stay where they are until it has ended them.
class Making final : private Waiting {
 public:
  Making(MPI_Comm comm, const PeerServices& services) : comm_(comm), services_(services) {}

  using Words = std::array<std::uint64_t, 5>;
  /// The largest of each word of all ranks. Throws Error.
  const Words& largest_of(const Words& own) {
    auto talk = std::make_unique<Talk>(Talk{own, {}, MPI_REQUEST_NULL, nullptr});
    Talk& begun = *talk;
    PARTITA_MPI(Iallreduce(begun.own.data(), begun.all.data(), static_cast<int>(begun.own.size()), MPI_UINT64_T,
                           MPI_MAX, comm_, &begun.request));
    try {
      services_.wait_until(*this, [&] {
        int ended = 0;
        PARTITA_MPI(Test(&begun.request, &ended, MPI_STATUS_IGNORE));
        return ended != 0;
      });
    } catch (const std::exception&) {
      leave_to_mpi(std::move(talk));
      throw;
    }
    all_ = begun.all;
    return all_;
  }

 private:
  struct Talk {
    Words own;
    Words all;
    MPI_Request request;
    Talk* next;
  };
  /// The MPI may still come to it: it stays to the end of the process.
  static void leave_to_mpi(std::unique_ptr<Talk> talk) noexcept {
    static std::atomic<Talk*> left{nullptr};
    Talk* const begun = talk.release();
    begun->next = left.exchange(begun);
  }
  std::string explain() const override {
    return "the first collective on a communicator waits until all its ranks have made it";
  }
  int waits_for() const override { return -1; }

  MPI_Comm comm_;
  const PeerServices& services_;
  Words all_{};
};

/// `before`: the words of another peer, of which the file is kept where this one cannot open it.
Making::Words board_words_of(const memory::HostAddress& address, const Making::Words& before) {
  // The number of no file is -1, and the words of ranks that name nothing are 0.
  const auto file = static_cast<std::uint64_t>(std::int64_t{address.file.number} + 1);
  if (file == 0) return {0, address.segment, address.offset_bytes, before[3], before[4]};
  return {0, address.segment, address.offset_bytes, file, address.file.inode};
}

memory::HostAddress board_address_of(const Making::Words& words) {
  memory::HostAddress address{words[1], words[2], {}};
  address.file.number = static_cast<int>(words[3]) - 1;
  address.file.inode = words[4];
  return address;
}

/// The owner cannot know who opens its files until it is tried; to the others it has passed a descriptor.
std::byte* import_from(memory::HostMemory& host_memory, int owner, memory::HostAddress address,
                       std::size_t size_bytes) {
  try {
    return host_memory.import(owner, address, size_bytes);
  } catch (const Error&) {
    address.file = {};
    return host_memory.import(owner, address, size_bytes);
  }
}

}  // namespace

PeerCollectives::Begun PeerCollectives::begin(Communicator& communicator) {
  if (!services_.sizes) return {};
  if (communicator.part == nullptr) {
    communicator.part = std::make_unique<Place>();
    try {
      place_of(communicator).board = make_board(communicator);
    } catch (const std::exception&) {
      place_of(communicator).failure = current_error();
      throw;
    }
  }
  const Place& place = place_of(communicator);
  if (place.failure) {
    throw Error(ErrorClass::other, "an earlier collective on the communicator has failed: {}",
                place.failure->sentence());
  }
  if (place.board == nullptr) return {};
  PeerBoard& board = *place.board;
  if (const int rank = board.who_gave_up(); rank >= 0) {
    throw Error(ErrorClass::other, "rank {} of the communicator has given up a collective on it, after an error", rank);
  }
  if (board.have_calls_ended()) return {};
  board.begin();
  if (services_.requests.device_memory.in_use()) return {&board, true};
  board.leave();
  return {&board, false};
}

template <class Call, class Description>
bool PeerCollectives::made(Communicator& communicator, const Description& description) {
  const PeerContext context{
      services_, mappings_, board_of(communicator), communicator, communicator.members(services_.requests.world),
      times_};
  Call call(context, description);
  if (call.make()) return true;
  if (!call.why_not().empty()) tell(description.call, call.why_not());
  return false;
}

bool PeerCollectives::make(Communicator& communicator, const PeerParts& parts) {
  return made<PeerMove>(communicator, parts);
}

bool PeerCollectives::make(Communicator& communicator, const PeerShares& shares) {
  return made<PeerReduce>(communicator, shares);
}

/// Each reason once. Where there is no memory for a word, the call goes on without: the others have their answer.
void PeerCollectives::tell(const char* call, const std::string& why_not) noexcept {
  if (!services_.requests.settings.verbose) return;
  try {
    {
      const std::lock_guard lock(mutex_);
      if (!told_.insert(call + (": " + why_not)).second) return;
    }
    log("{} on GPU memory goes through host memory on all ranks: {}", call, why_not);
  } catch (const std::exception&) {
    return;
  }
}

/// Whether all ranks are of this node, and not too many.
bool PeerCollectives::are_near(Communicator& communicator) const {
  const World& world = services_.requests.world;
  int is_inter = 0;
  PARTITA_MPI(Comm_test_inter(communicator.handle, &is_inter));
  const std::vector<int>& members = communicator.members(world);
  return is_inter == 0 && members.size() <= most_peer_ranks && std::ranges::all_of(members, [&](int world_rank) {
           return world_rank != MPI_UNDEFINED && world.on_my_node(world_rank);
         });
}

/// The first rank owns the board. All of them have it, or none uses it.
std::unique_ptr<PeerBoard> PeerCollectives::make_board(Communicator& communicator) {
  if (!are_near(communicator)) return nullptr;
  const RequestServices& requests = services_.requests;
  const std::vector<int>& members = communicator.members(requests.world);
  const auto ranks = static_cast<int>(members.size());
  const auto rank = static_cast<int>(std::ranges::find(members, requests.world.rank()) - members.begin());
  std::unique_ptr<PeerBoard> board;
  const auto tried = [&](const auto& make) {
    try {
      make();
      return true;
    } catch (const std::exception&) {
      tell("a collective", current_error().sentence());
      return false;
    }
  };
  Making making(communicator.handle, services_);
  Making::Words named{};
  const bool has_named = tried([&] {
    if (rank != 0) return;
    services_.left_boards.sweep();
    std::byte* const memory = requests.host_memory.allocate_block(PeerBoard::size_bytes(ranks));
    board = std::make_unique<PeerBoard>(memory, ranks, rank, &services_.left_boards);
    for (const int peer : members) named = board_words_of(requests.host_memory.export_to(peer, memory), named);
  });
  named[0] = has_named ? 0 : 1;
  named = making.largest_of(named);
  const bool has_it = tried([&] {
    if (rank == 0 || named[0] != 0) return;
    std::byte* const memory =
        import_from(requests.host_memory, members.front(), board_address_of(named), PeerBoard::size_bytes(ranks));
    board = std::make_unique<PeerBoard>(memory, ranks, rank, nullptr);
  });
  const bool all_have_it = making.largest_of({has_it && board != nullptr ? 0U : 1U})[0] == 0;
  return all_have_it ? std::move(board) : nullptr;
}

}  // namespace partita
