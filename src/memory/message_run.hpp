// Steps of messages that a stream takes together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "memory/grid.hpp"
#include "memory/messages.hpp"
#include "memory/stream.hpp"

namespace partita::memory {

/// The same step of any number of messages: what decides, and what one block moves, in one launch, and each message
/// that is larger in a launch behind it. One thread.
class MessageRun {
 public:
  /// `limit_s`: how long a wait may take; 0: for ever.
  MessageRun(MessageStep step, double limit_s) : step_(step), limit_ns_(static_cast<partita_u64>(limit_s * 1e9)) {}

  /// `moves_bytes`: what this side may have to move in the step.
  void add(StreamMessage* message, std::int64_t moves_bytes) {
    if (deciding_.empty() || deciding_.back().count == RunMessages::most) deciding_.push_back(launch_of(0));
    RunMessages& last = deciding_.back();
    last.messages[last.count++] = message;
    if (moves_bytes <= most_bytes_of_a_block) {
      threads_ = std::max(threads_, threads_for(moves_bytes));
      return;
    }
    const Grid grid = grid_for(moves_bytes);
    RunMessages moving = launch_of(grid.blocks);
    moving.messages[moving.count++] = message;
    moving_.push_back({grid, moving});
  }

  /// Asks `stream`, and has none to take any more. Throws Error.
  void launch(Stream& stream) {
    for (const RunMessages& each : deciding_) stream.launch(Grid{each.count, threads_}, each);
    for (const Move& each : moving_) stream.launch(each.grid, each.run);
    deciding_.clear();
    moving_.clear();
    threads_ = threads_of_a_warp;
  }

 private:
  struct Move {
    Grid grid;
    RunMessages run;
  };

  static constexpr unsigned threads_of_a_warp = 32;

  static unsigned threads_for(std::int64_t bytes) {
    constexpr std::int64_t bytes_of_a_warp = 16 * threads_of_a_warp;
    constexpr std::int64_t most_warps = 32;
    const std::int64_t warps = std::clamp<std::int64_t>((bytes + bytes_of_a_warp - 1) / bytes_of_a_warp, 1, most_warps);
    return static_cast<unsigned>(warps) * threads_of_a_warp;
  }
  RunMessages launch_of(unsigned moving_blocks) const {
    RunMessages made;
    made.step = step_;
    made.limit_ns = limit_ns_;
    made.moving_blocks = moving_blocks;
    return made;
  }

  const MessageStep step_;
  const partita_u64 limit_ns_;
  std::vector<RunMessages> deciding_;
  std::vector<Move> moving_;
  unsigned threads_ = threads_of_a_warp;
};

}  // namespace partita::memory
