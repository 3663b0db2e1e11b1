// Steps of messages that a stream takes together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/grid.hpp"
#include "memory/messages.hpp"
#include "memory/stream.hpp"

namespace partita::memory {

/// One step, a start for instance, of any number of messages. One launch has all that one block moves; each larger
/// message has one that decides and behind it one that moves, so that whoever has decided to move does so whatever
/// other messages wait for. One thread.
class MessageRun {
 public:
  /// `limit_s`: how long a wait may take; 0: for ever.
  MessageRun(MessageStep step, double limit_s) : step_(step), limit_ns_(static_cast<partita_u64>(limit_s * 1e9)) {}

  /// `moves_bytes`: what this side may have to move in the step.
  void add(StreamMessage* message, std::int64_t moves_bytes) {
    if (moves_bytes > most_bytes_of_a_block) {
      launches_.push_back({Grid{1, threads_of_a_warp}, launch_of(message, 0)});
      const Grid grid = grid_for(moves_bytes);
      launches_.push_back({grid, launch_of(message, grid.blocks)});
      return;
    }
    if (together_ == nothing || launches_[together_].run.count == RunMessages::most) {
      together_ = launches_.size();
      launches_.push_back({Grid{0, threads_of_a_warp}, launch_of(nullptr, 0)});
    }
    auto& [grid, run] = launches_[together_];
    run.messages[run.count++] = message;
    grid = {run.count, std::max(grid.threads, threads_for(moves_bytes))};
  }

  /// Asks `stream`. Throws Error.
  void launch(Stream& stream) const {
    for (const auto& [grid, run] : launches_) stream.launch(grid, run);
  }

 private:
  struct Launch {
    Grid grid;
    RunMessages run;
  };

  static constexpr unsigned threads_of_a_warp = 32;
  static constexpr std::size_t nothing = ~std::size_t{0};

  static unsigned threads_for(std::int64_t bytes) {
    constexpr std::int64_t bytes_of_a_warp = 16 * threads_of_a_warp;
    constexpr std::int64_t most_warps = RunMessages::most_deciding_threads / threads_of_a_warp;
    const std::int64_t warps = std::clamp<std::int64_t>((bytes + bytes_of_a_warp - 1) / bytes_of_a_warp, 1, most_warps);
    return static_cast<unsigned>(warps) * threads_of_a_warp;
  }
  RunMessages launch_of(StreamMessage* only, unsigned moving_blocks) const {
    RunMessages made;
    if (only != nullptr) made.messages[made.count++] = only;
    made.step = step_;
    made.limit_ns = limit_ns_;
    made.moving_blocks = moving_blocks;
    return made;
  }

  const MessageStep step_;
  const partita_u64 limit_ns_;
  std::vector<Launch> launches_;
  std::size_t together_ = nothing;  ///< the launch that takes what one block moves
};

}  // namespace partita::memory
