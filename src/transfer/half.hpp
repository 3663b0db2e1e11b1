// One side of a transfer: what its two halves have in common, before the match and after.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/epoch.hpp"
#include "core/error.hpp"
#include "core/mail.hpp"
#include "core/trace.hpp"
#include "core/wire.hpp"
#include "link/link.hpp"
#include "memory/blocks.hpp"
#include "transfer/communicator.hpp"
#include "transfer/ending.hpp"
#include "transfer/key.hpp"
#include "transfer/services.hpp"
#include "transfer/setup_messages.hpp"
#include "transfer/staging.hpp"

namespace partita {

enum class Side : std::uint8_t { send, recv };

/// What a half is made for.
struct HalfTerms {
  Side side{};
  int peer = -1;  ///< world rank; -1 for MPI_PROC_NULL
  Space space = Space::point_to_point;
  std::shared_ptr<Communicator> communicator;  ///< unless the peer is MPI_PROC_NULL
  int tag = 0;
  CollectivePlaces* places = nullptr;  ///< of a leg: those of its collective; asked when it looks for its peer
  SideShape shape;                     ///< as the other side is told
  std::string link = "auto";           ///< the link that is wished
  std::byte* data = nullptr;           ///< the program's buffer
  bool packed_apart = false;           ///< the buffer has gaps: links see packed bytes that the half has memory for
  memory::Place place;                 ///< of the buffer, and of packed bytes apart from it
  link::Driver driver{};               ///< who opens the epochs
  bool in_place = false;               ///< kernels store into the peer's memory themselves
  bool synchronous = false;            ///< as link::Endpoint's
  /// `data` is memory of the library's on both sides, which stays there until both are freed: nobody lets go of what
  /// the peer shows before this side is freed, as kernels may come to use it later.
  bool of_library = false;
  std::string purpose;   ///< both sides are made for the same, or refuse each other: words for the sentence
  wire::Bytes enclosed;  ///< of a send: what its user tells the receiver's; no link looks at it
};

/// Life: made, matched (once, by the Matcher, on any thread), then epochs. Unless said otherwise a member is called by
/// one thread at a time. Members throw Error.
class Half {
 public:
  /// Whoever uses the half and lives as long as it.
  class User {
   public:
    /// The plan is known, and the link there. The half is matched after this, and after opened_epoch() where an epoch
    /// is open. May throw Error.
    virtual void before_match() {}
    /// The epoch is open on the link, by start() or, where that came before the match, by the match: its partitions may
    /// travel from here on, so that nothing may fail any more.
    virtual void opened_epoch() noexcept = 0;
    /// What the half is for and how far it has come; a sentence.
    virtual std::string explain() const = 0;
    /// Whether kernels of the program may use the peer's buffer, though the peer's half was freed when all of its
    /// epochs were complete. May ask the GPU. Any thread.
    virtual bool kernels_may_use_peer() const { return false; }

   protected:
    ~User() = default;
  };

  /// What moves the half's messages beside it.
  class Streams {
   public:
    /// As User::kernels_may_use_peer().
    virtual bool may_use_peer() const = 0;

   protected:
    ~Streams() = default;
  };

  Half(const Services& services, User& user, HalfTerms terms)
      : services_(services), terms_(std::move(terms)), user_(user), epoch_(services.settings.first_epoch) {}
  virtual ~Half();
  Half(const Half&) = delete;
  Half& operator=(const Half&) = delete;

  const HalfTerms& terms() const { return terms_; }
  Side side() const { return terms_.side; }
  int peer() const { return terms_.peer; }
  const SideShape& shape() const { return terms_.shape; }
  /// It has no bytes for its peer, as a leg of a collective may. It is matched, so that it has its place in the order
  /// and a peer that does expect bytes hears of it. There is no link, no epoch opens, and it may be freed at any time.
  bool is_empty() const { return rules_of(terms_.space).may_be_empty && shape().total_bytes() == 0; }
  bool in_gpu_memory() const { return !memory::is_host(terms_.place.kind); }
  /// The packed bytes: the program's buffer, or memory apart where that has gaps.
  std::byte* packed() const { return terms_.packed_apart ? packed_apart_ : terms_.data; }
  /// The forms in which links may take this side's memory, the best first: as it is, and, of a GPU, staged in host
  /// memory.
  std::vector<link::Endpoint> endpoints() const;
  /// One of them, with memory behind it.
  link::Endpoint allocated(link::Endpoint endpoint);

  bool matched() const { return matched_.load(std::memory_order_acquire); }
  /// An empty one has met one that is empty, too.
  void match_empty() { matched_.store(true, std::memory_order_release); }
  /// Keeps the match from happening meanwhile.
  std::mutex& setup_mutex() const { return setup_mutex_; }
  /// These three once matched, but for an empty one.
  const link::Plan& plan() const { return plan_; }
  const std::string& link_name() const { return link_name_; }
  const std::string& link_reason() const { return link_reason_; }
  /// The half is being freed: no step of the progress engine, and no look at what waits, finds it any more. Blocks
  /// while another thread takes steps, and until no copy of a GPU's reads or writes the program's buffer.
  virtual void withdraw() = 0;
  /// The open epoch ends with an error: nothing more of it leaves or is taken. The half was given up, and no step of
  /// the progress engine runs meanwhile.
  virtual void give_up_epoch() = 0;
  /// The half was freed: the program's buffer may go before it does.
  virtual void release_memory() = 0;
  /// The peer's half was freed: as the link's of that name, which says what may be held still. Any thread.
  virtual bool release_peer(bool complete) = 0;
  /// Once the peer's half was freed: whether no kernel uses its buffer any more. May ask the GPU. Any thread.
  bool kernels_are_done() const;
  /// Streams that move the half's messages by themselves, from here on; null: they do so no more. Any thread.
  void set_streams(const Streams* streams);

  /// Opens the next epoch: on the link too, if matched, else the match does that. Where it throws, no epoch is open,
  /// and the next start opens the same one.
  virtual void start() = 0;
  /// The epoch that was opened last. Any thread: a step of the progress engine may still look when the next one opens.
  Epoch epoch() const { return epoch_.load(std::memory_order_relaxed); }
  void set_epoch(Epoch epoch) { epoch_.store(epoch, std::memory_order_relaxed); }
  /// Whether it is open still. Any thread.
  bool active() const { return active_.load(std::memory_order_acquire); }
  void set_active(bool active) { active_.store(active, std::memory_order_release); }
  /// Whether an epoch ended with an error: no other opens, and nothing more of it leaves. Any thread.
  bool given_up() const { return given_up_.load(std::memory_order_acquire); }
  /// Throws Error if no other epoch may open.
  void throw_if_given_up() const;
  void give_up() { given_up_.store(true, std::memory_order_release); }

  /// The half can never complete: throw_if_failed() throws `error` from now on. The first error counts. Any thread.
  void fail(const Error& error);
  /// Fails likewise, and the other side hears of it: this side `what`, "could not send" for instance, and why.
  void fail_on_both_sides(const char* what, const Error& error, Mail::Caller caller = Mail::Caller::may_call_the_mpi);
  /// Fails on both sides with the exception that is being handled; gives it back, to be thrown.
  Error fail_with_current(const char* what);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  void throw_if_failed() const;
  /// Whether it has failed since the other side is made for something else.
  bool purposes_differ() const;
  /// Whether a caller has heard of the failure.
  bool failure_is_told() const { return told_.load(std::memory_order_relaxed); }

  /// The other side hears that nothing from `first_lost` on completes.
  void say(Epoch first_lost, const char* what, const Error& error,
           Mail::Caller caller = Mail::Caller::may_call_the_mpi);
  /// Sends what was said, once, as soon as the peer is known.
  void send_last_word(Mail::Caller caller = Mail::Caller::may_call_the_mpi);
  /// Whether the other side has ended so that the open epoch cannot complete, unless it has by now: asked before the
  /// look at that.
  bool is_lost() const { return ending.loses(epoch()); }
  /// Why, and how far this side has come.
  Error why_lost() const { return why_lost(explain()); }
  Error why_lost(const std::string& state) const;
  /// The first epoch that is lost to the other side when this one is freed.
  Epoch first_epoch_after_free() const { return next(epoch()); }

  /// As User::explain.
  std::string explain() const { return user_.explain(); }

  /// Traces an event of the open epoch.
  void record(Trace::Event event, std::int64_t partition = -1) const {
    services_.trace.record(event, id, epoch(), partition);
  }
  /// An event of each of these partitions.
  void record(Trace::Event event, link::Range partitions) const {
    if (!services_.trace.enabled()) return;
    for (std::int64_t p = partitions.begin; p < partitions.end; ++p) record(event, p);
  }

  /// These are the Matcher's.
  MatchKey key;                           ///< once it looks for its peer
  std::uint64_t id = 0;                   ///< names this half in messages to this rank; 0: it was not added
  std::atomic<std::uint64_t> peer_id{0};  ///< names the peer's half; 0 while unknown
  std::atomic<bool> peer_freed{false};
  Ending ending;

 protected:
  /// As start(). `begin`: nothing of the new epoch is complete; matched, or under setup_mutex(). `open`: as open(),
  /// called without a detour.
  template <class Begin, class Open>
  void start_with(Begin begin, Open open);
  /// Opens the epoch on the link: the last that can fail.
  virtual void open() = 0;
  /// As link::Endpoint's.
  virtual std::int32_t held_partitions() const { return 0; }
  /// Memory for the packed bytes, in the GPU of the buffer. Throws Error.
  std::byte* allocate_packed_on_gpu();
  /// What is copied where the link serves memory of kind `form`; none where that is the packed bytes' own.
  std::optional<Stage> stage(memory::Kind form) const;
  /// Under setup_mutex(), as the next.
  void take_match(const link::Plan& plan, std::string link_name, std::string link_reason);
  void finish_match();

  const Services& services_;
  const HalfTerms terms_;
  std::byte* packed_apart_ = nullptr;
  std::optional<memory::DeviceBlock> packed_on_gpu_;  ///< where packed_apart_ lies there
  std::byte* host_copy_ = nullptr;  ///< of a buffer in GPU memory, where the link does not move that; else null

 private:
  User& user_;
  mutable std::mutex setup_mutex_;
  std::atomic<bool> matched_{false};
  link::Plan plan_;
  std::string link_name_;
  std::string link_reason_;
  std::atomic<Epoch> epoch_;
  std::atomic<bool> active_{false};
  std::atomic<bool> given_up_{false};

  mutable std::mutex failure_mutex_;
  std::atomic<bool> failed_{false};
  mutable std::atomic<bool> told_{false};
  std::optional<Error> failure_;

  mutable std::mutex streams_mutex_;  ///< of the next, also while they are asked
  const Streams* streams_ = nullptr;
};

template <class Begin, class Open>
void Half::start_with(Begin begin, Open open) {
  std::unique_lock lock(setup_mutex_, std::defer_lock);
  bool opens = matched();  // else the match does
  if (!opens) {
    lock.lock();
    opens = matched();
  }
  const Epoch last = epoch();
  set_epoch(next(last));
  try {
    begin();
    record(Trace::Event::started);
    if (opens) open();
  } catch (...) {
    set_epoch(last);
    throw;
  }
  if (opens) user_.opened_epoch();
  set_active(true);
}

}  // namespace partita
