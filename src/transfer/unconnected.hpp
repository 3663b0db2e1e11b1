// A send that is not connected to its receive yet, and what it has for that.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "link/link.hpp"
#include "memory/memory.hpp"
#include "transfer/outgoing.hpp"
#include "transfer/setup_messages.hpp"

namespace partita {

/// The Matcher's, under its lock. It stays where the half was freed, or could not be connected, before the receiver is
/// done with the link's memory.
struct Unconnected {
  using Clock = std::chrono::steady_clock;

  /// The link's sender of one offer.
  struct Opened {
    std::string link;
    memory::Kind kind{};
    std::unique_ptr<link::Sender> sender;
  };

  /// What stands in the way of the connection, and may go.
  struct Obstacle {
    Answer answer;  ///< as which it is connected then
    link::Obstacle found;
    Clock::time_point give_up;
    /// When it is closed beside kernels that may wait, if nobody uses it.
    std::optional<Clock::time_point> clear_at;

    /// To be called for each one that is found.
    void set_clear_at();
  };

  Outgoing* half = nullptr;  ///< live, or retired
  Offer offer;
  std::vector<Opened> opened;
  bool answered = false;
  std::optional<Obstacle> obstacle;

  /// Starts `link` for `offered`, or notes why not.
  void open(LinkOffer& offered, link::Link& link, const link::Endpoint& endpoint);
  /// Connects the half as the answer says. Gives what stands in the way if that may go; then it may be called again.
  /// Throws Error.
  std::optional<link::Obstacle> connect(const Answer::Choice& choice);
  /// Closes what stands in the way and is unused: see link::Sender::make_way. Throws Error.
  void make_way();
  /// The half was freed.
  void release_memory();

 private:
  /// Throws Error where it was not offered.
  std::unique_ptr<link::Sender>& chosen(const Answer::Choice& choice);
};

}  // namespace partita
