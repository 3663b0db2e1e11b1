// The state of one offer of a message, in host memory that both ranks map.
#pragma once

#include <atomic>
#include <cstdint>

namespace partita {

/// Who moves the bytes of an offered message is decided by atomic steps on this word. It tells of which offer it is, so
/// that a rank which comes late, or with an offer that is none, finds that out and changes nothing.
///
///     offer ─► open ─claim─► claimed ─────────end─────────► ended
///               │ │             │ wish                        ▲
///               │ └───wish──► wished ─stage─► staging ─► staged ─end
///               └──────────stage─────────────────┘ └─► failed ─end
///
/// The receiver claims, wishes and ends; the sender stages, and withdraws what nobody has claimed. Each step tells
/// whether it was made. Any thread.
class OfferWord {
 public:
  enum class Phase : std::uint8_t {
    none,       ///< nothing is offered
    open,       ///< the sender waits for somebody to receive it
    claimed,    ///< the receiver copies out of the sender's memory
    wished,     ///< the receiver wants the sender to stage it
    staging,    ///< the sender copies into host memory
    staged,     ///< the bytes lie there
    failed,     ///< the sender could not
    withdrawn,  ///< the sender has given it up
    ended,      ///< the receiver needs nothing more of the sender
  };
  struct Standing {
    std::uint64_t number = 0;  ///< of the offer
    int receiver = -1;         ///< the world rank that has received it; -1 where nobody has yet
    Phase phase = Phase::none;
    bool operator==(const Standing&) const = default;
  };
  struct Step {
    bool made = false;
    bool met = false;  ///< the offer, which waited for its receiver until then, waits no more
    int wishes = 0;    ///< by so many more than before the sender has to serve: -1, 0 or 1
    explicit operator bool() const { return made; }
  };
  /// Numbers of offers, and world ranks, are below these.
  static constexpr std::uint64_t most_numbers = std::uint64_t{1} << 36;
  static constexpr int most_ranks = (1 << 24) - 1;

  /// What the other side has written before its last step is seen by who reads this.
  Standing standing() const;

  // The sender's steps.
  /// Begins an offer; nobody uses the word.
  void offer(std::uint64_t number);
  /// From open, or from wished: the bytes are the sender's to stage.
  Step stage();
  /// From staging: they lie there, or could not be copied.
  bool finish_staging(bool succeeded);
  /// From where the receiver uses neither the sender's memory nor what is staged: nobody will. True, too, where it has
  /// been ended.
  Step withdraw();

  // Those of the receiver, whose world rank is `receiver`, on the offer `number`.
  /// From open: the receiver copies out of the sender's memory.
  Step claim(std::uint64_t number, int receiver);
  /// From open, and from its own claim: the sender shall stage. True, too, where that does so already, for nobody yet:
  /// from then on it is for this receiver.
  Step wish(std::uint64_t number, int receiver);
  /// From whatever the receiver may have come to: the sender is released. Not from an offer that was withdrawn.
  Step end(std::uint64_t number, int receiver);

 private:
  template <class Next>
  Step advance(const Next& next);

  std::atomic<std::uint64_t> word_{0};
};

}  // namespace partita
