// Fixes, once, which receive a send talks to, and over which link.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "transfer/incoming.hpp"
#include "transfer/link_report.hpp"
#include "transfer/outgoing.hpp"
#include "transfer/services.hpp"
#include "transfer/setup_messages.hpp"
#include "transfer/unconnected.hpp"

namespace partita {

/// Messages (docs/design/matching.md):
///   offer   sender → receiver   when the send is added: key, shape, one offer of each link that could serve
///   ask     receiver → sender   when both are known and the first link that could serve is one that the sender holds
///                               back: the sender starts it and makes its offer again
///   answer  receiver → sender   when both are known: the chosen link and its answer, or what is wrong
///   failure either → the other  where a side has failed, cannot do what the answer asks of it, or has given up
///   bye     either → the other  when a half is freed, so that memory which the other may still touch is kept until
///                               both are done
/// Any thread may call; halves are connected on whichever thread takes the message.
class Matcher : private ActiveStep {
 public:
  Matcher(const Services& services, LinkReport& link_report);
  ~Matcher() { services_.progress.dismiss(*this); }

  /// `half` looks for its peer. It gets its place in the order now: among the halves of its space, communicator,
  /// direction, peer and tag, the first of one side meets the first of the other. It stays where it is until it is
  /// freed. Where these throw, they know nothing of it, and its place is the next one's.
  void add(Outgoing& half);
  void add(Incoming& half);
  /// What keeps `half`, which is not matched, waiting; and, of a receive, what its peer offers instead. Any thread.
  std::string explain_unmatched(const Half& half) const;
  /// It is freed, and goes when its peer can no longer touch its memory.
  void free(std::shared_ptr<Half> freed);

 private:
  using Clock = Unconnected::Clock;

  /// A receive that the program has freed.
  struct Dropped {
    SideShape shape;
    std::string purpose;
  };

  void post_offer(Outgoing& half);
  void offer_links(Unconnected& unanswered, const Outgoing& half);
  void take_offer(int from, Offer offer);
  void refuse_offer(int from, const Offer& head, const Error& error);
  void take_ask(int from, const Ask& ask);
  /// `unread`: why there is no more than the head of it, if so.
  void take_answer(int from, Answer answer, const Error* unread = nullptr);
  bool awaits_answer(std::uint64_t sender_id, int receiver);
  std::optional<link::Obstacle> connect(Unconnected& answered, const Answer& answer, const Error* unread = nullptr);
  void connect_later(Unconnected& answered, Answer answer, link::Obstacle obstacle);
  Outcome step() noexcept override;
  bool try_again();
  bool is_obstructed(std::size_t which) noexcept;
  bool place_was_tried(std::size_t which) const;
  void release_peers();
  void make_way() noexcept;
  Unconnected* unused_obstacle(std::size_t which);
  void open_wanted(Unconnected& unanswered, std::uint64_t sender_id, const std::string& wanted);
  bool take_drop(const Offer& offer);
  void retire_unmatched(Half& half, std::uint64_t peer_id);
  void take_failure(int from, Failure failure);
  void take_bye(int from, const Bye& bye);

  void settle(Incoming& half, const Offer& offer);
  void await_offer(Incoming& half);
  void post_failure(int to, std::uint64_t sender_id, std::uint64_t receiver_id, const Error& error);
  void post_bye(const Half& half);

  /// Gives `half` its id and its place, calls `seek`, and takes the former back where the latter throws.
  template <class Kind, class Seek>
  void add_with(Kind& half, Seek seek);
  void draw_place(Half& half);
  static void give_place_back(const Half& half);
  void name(Half& half);
  std::shared_ptr<Half> free_or_retire(std::shared_ptr<Half> freed);
  Half* find(std::uint64_t id);
  /// Whether half `id` is `side`'s and rank `peer` is at its other end: other ranks have no say in it.
  bool is_between(std::uint64_t id, Side side, int peer);

  const Services& services_;
  Mail& mail_;
  LinkReport& link_report_;
  mutable std::recursive_mutex mutex_;
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, Half*> live_;                     ///< not freed by the program
  std::unordered_map<std::uint64_t, std::shared_ptr<Half>> retired_;  ///< freed, the peer not yet
  std::map<MatchKey, Incoming*> receives_;                            ///< without an offer yet
  std::map<MatchKey, Offer> offers_;                                  ///< without a receive yet
  std::map<MatchKey, Dropped> dropped_;                               ///< receives freed before their offer came
  std::map<MatchKey, Error> refused_;                                 ///< offers that there was no memory to keep
  std::unordered_map<std::uint64_t, Unconnected> unconnected_;        ///< sends, by their id
  std::vector<std::uint64_t> obstructed_;                             ///< those of them that have an obstacle
  Clock::time_point next_try_{};                                      ///< to connect these, ...
  Clock::duration pause_{};                                           ///< ... and so long behind the last one
  /// Halves that hold memory of peers whose halves were freed. Under the engine's lock.
  std::vector<Half*> holding_;
};

}  // namespace partita
