#include "two_sided/peer_collectives.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <climits>
#include <memory>
#include <string>
#include <utility>

#include "core/current_error.hpp"
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

/// A blocking call behind nonblocking ones.
class BehindQueue final : public Waiting {
 public:
  explicit BehindQueue(const PeerQueue& queue) : queue_(queue) {}
  std::string explain() const override {
    return "a collective waits for the nonblocking ones before it: " + queue_.explain_first();
  }
  int waits_for() const override { return queue_.waits_for(); }

 private:
  const PeerQueue& queue_;
};

void check_given_up(const PeerBoard& board) {
  if (const int rank = board.who_gave_up(); rank >= 0) {
    throw Error(ErrorClass::other, "rank {} of the communicator has given up a collective on it, after an error", rank);
  }
}

/// Behind a call that all ranks have made by peers: they are about to make a queue.
class Meeting final : private Waiting {
 public:
  Meeting(const PeerServices& services, PeerBoard& board, const std::vector<int>& world_ranks)
      : services_(services), board_(board), world_ranks_(world_ranks) {}

  /// Whether all ranks answer yes, as they all hear. Throws Error.
  bool all_say(PeerBoard::Question question, bool yes) {
    board_.answer(board_.call(), question, {yes});
    if (!yes) return false;
    PeerBoard::Answers answers;
    const auto are_there = [&] {
      answers = board_.answers(board_.call(), question);
      if (answers.outcome != PeerBoard::Outcome::open) return true;
      awaited_ = world_ranks_[static_cast<std::size_t>(answers.rank)];
      check_given_up(board_);
      return false;
    };
    try {
      if (!are_there()) services_.wait_until(*this, are_there);
    } catch (const std::exception&) {
      board_.give_up();
      throw;
    }
    return answers.outcome == PeerBoard::Outcome::all_yes;
  }

 private:
  std::string explain() const override {
    return fmt::format(
        "the first collective by peer memory on a communicator waits for rank {} to make one for the nonblocking ones",
        awaited_);
  }
  int waits_for() const override { return awaited_; }

  const PeerServices& services_;
  PeerBoard& board_;
  const std::vector<int>& world_ranks_;
  int awaited_ = -1;
};

/// One of Partita's, where none of the program's is under way.
class OwnConstructor {
 public:
  explicit OwnConstructor(Constructors& constructors) : constructors_(constructors) {}
  ~OwnConstructor() { end(); }
  OwnConstructor(const OwnConstructor&) = delete;
  OwnConstructor& operator=(const OwnConstructor&) = delete;

  void begin() { has_begun_ = constructors_.begin_own(); }
  bool has_begun() const { return has_begun_; }
  void end() {
    if (std::exchange(has_begun_, false)) constructors_.end_own();
  }

 private:
  Constructors& constructors_;
  bool has_begun_ = false;
};

}  // namespace

PeerCollectives::Begun PeerCollectives::begin(Communicator& communicator) {
  if (!services_.sizes) return Begun::none;
  if (communicator.part == nullptr) open(communicator);
  const PeerPlace& place = place_of(communicator);
  if (place.failure) {
    throw Error(ErrorClass::other, "an earlier collective on the communicator has failed: {}",
                place.failure->sentence());
  }
  if (place.board == nullptr) return Begun::none;
  check_given_up(*place.board);
  // Which number it gets is not known yet where others are before it: those may still be agreed on.
  if (!place.has_before() && place.board->have_calls_ended(place.board->call() + 1)) return Begun::none;
  if (services_.requests.device_memory.in_use()) return Begun::may_ask;
  leave(communicator);
  return Begun::left;
}

void PeerCollectives::leave(Communicator& communicator) {
  PeerPlace& place = place_of(communicator);
  if (place.has_before()) return place.queue->add_no();
  place.board->begin();
  place.last_blocking = place.board->call();
  place.board->leave();
}

void PeerCollectives::end_calls(Communicator& communicator) {
  const PeerPlace& place = place_of(communicator);
  const std::uint64_t last = std::max<std::uint64_t>(place.last_blocking, 1);
  if (place.queue != nullptr) return place.queue->end_calls(last);
  place.board->end_calls(last);
}

/// Who does not wait any longer must not be in a later call than the others.
void PeerCollectives::await_queue(PeerQueue& queue) {
  try {
    services_.wait_until(BehindQueue(queue), [&] { return queue.is_empty(); });
  } catch (const std::exception&) {
    const auto exclusive = services_.requests.progress.exclusive();
    queue.give_up();
    throw;
  }
}

template <class Call, class Description>
bool PeerCollectives::made(Communicator& communicator, const Description& description) {
  PeerPlace& place = place_of(communicator);
  PeerBoard& board = *place.board;
  if (place.has_before()) await_queue(*place.queue);
  check_given_up(board);
  if (board.have_calls_ended(board.call() + 1)) return false;
  board.begin();
  place.last_blocking = board.call();
  const PeerContext context{services_,  mappings_, communicator, communicator.members(services_.requests.world),
                            place.rank, &board,    times_,       {}};
  Call call(context, description);
  if (call.make()) {
    if (!place.has_met) make_queue(communicator);
    return true;
  }
  reasons_.tell(description.call, call.why_not());
  return false;
}

/// All ranks have made the call that this is part of, the first one by peers, or one behind it. Here they may wait for
/// each other; in a nonblocking call they may not. Where a rank has a constructor of the program's under way the other
/// ranks of that may be waiting for this call to return. They ask again later, behind twice as many calls each time:
/// some are under way for good.
void PeerCollectives::make_queue(Communicator& communicator) {
  PeerPlace& place = place_of(communicator);
  if (!std::has_single_bit(++place.made)) return;
  services_.own_comms.sweep();
  std::unique_ptr<PeerQueue> queue;
  OwnConstructor constructor(services_.constructors);
  try {
    queue = std::make_unique<PeerQueue>(services_.requests.progress, services_.own_comms, *place.board, communicator);
    constructor.begin();
  } catch (const std::exception&) {
    reasons_.tell("a nonblocking collective", current_error().sentence());
  }
  Meeting meeting(services_, *place.board, communicator.members(services_.requests.world));
  if (!meeting.all_say(PeerBoard::Question::may_queue, constructor.has_begun())) return;
  place.has_met = true;
  bool is_open = false;
  try {
    queue->open();
    is_open = true;
  } catch (const std::exception&) {
    reasons_.tell("a nonblocking collective", current_error().sentence());
  }
  constructor.end();
  if (meeting.all_say(PeerBoard::Question::has_queue, is_open)) place.queue = std::move(queue);
}

bool PeerCollectives::make(Communicator& communicator, const PeerParts& parts) {
  return made<PeerMove>(communicator, parts);
}

bool PeerCollectives::make(Communicator& communicator, const PeerShares& shares) {
  return made<PeerReduce>(communicator, shares);
}

/// What is wrong behind calls that are in the queue, the request will say.
PeerQueue& PeerCollectives::queue_of(const Communicator& communicator) {
  const PeerPlace& place = place_of(communicator);
  if (!place.has_before()) {
    place.queue->check();
    check_given_up(*place.board);
  }
  return *place.queue;
}

void PeerCollectives::count(const Communicator& communicator) {
  PeerBoard& board = *place_of(communicator).board;
  board.begin();
  board.leave();
}

std::unique_ptr<PeerRequest> PeerCollectives::request_on(std::shared_ptr<Communicator> communicator) {
  const int rank = place_of(*communicator).rank;
  return std::make_unique<PeerRequest>(PeerRequest::Site{services_, mappings_, reasons_, side_work_, rank},
                                       std::move(communicator));
}

/// A send to nobody is checked as any other.
bool PeerCollectives::refuses(const void* buffer, std::int64_t count, MPI_Datatype type) const {
  const int some = static_cast<int>(std::clamp<std::int64_t>(count, -1, INT_MAX));
  return native::Send(buffer, some, type, MPI_PROC_NULL, 0, services_.requests.world.control()) != MPI_SUCCESS;
}

/// So is a reduction of no elements, of this process alone.
bool PeerCollectives::refuses(MPI_Op op, MPI_Datatype type) const {
  const char in = 0;
  char out = 0;
  return native::Reduce(&in, &out, 0, type, op, 0, services_.own_comms.self()) != MPI_SUCCESS;
}

void PeerCollectives::open(Communicator& communicator) {
  communicator.part = std::make_unique<PeerPlace>();
  PeerPlace& place = place_of(communicator);
  try {
    const World& world = services_.requests.world;
    const std::vector<int>& members = communicator.members(world);
    place.ranks = static_cast<int>(members.size());
    place.rank = static_cast<int>(std::ranges::find(members, world.rank()) - members.begin());
    place.board = make_board(communicator);
  } catch (const std::exception&) {
    place.failure = current_error();
    throw;
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
  const int rank = place_of(communicator).rank;
  std::unique_ptr<PeerBoard> board;
  const auto tried = [&](const auto& make) {
    try {
      make();
      return true;
    } catch (const std::exception&) {
      reasons_.tell("a collective", current_error().sentence());
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
