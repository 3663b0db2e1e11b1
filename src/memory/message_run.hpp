// Steps of messages, and of requests whose epochs kernels open, that a stream takes together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/grid.hpp"
#include "memory/messages.hpp"
#include "memory/stream.hpp"

namespace partita::memory {

/// One step, a start for instance, of any number of messages, in one launch, and of any number of requests whose epochs
/// kernels open, in another; for waits of large messages see add. What has gaps is packed in a launch in front of
/// these, and unpacked in one behind them. One thread.
class MessageRun {
 public:
  /// `limit_s`: how long a wait may take; 0: for ever. `report`: RunMessages.report.
  MessageRun(MessageStep step, double limit_s, partita_u32 report = 0)
      : step_(step), limit_ns_(static_cast<partita_u64>(limit_s * 1e9)), report_(report) {}

  /// `moves_bytes`: what this side may have to move in the step. A wait that may have to move much has two launches of
  /// its own, right behind each other, so that whoever has decided to move does so whatever other messages wait for.
  void add(StreamMessage* message, std::int64_t moves_bytes) {
    const Grid moving = moving_grid(moves_bytes);
    if (step_ != MessageStep::wait) return add_together(message, moving);
    if (moves_bytes <= most_bytes_of_waiting_blocks) return add_together(message, waiting_grid(moves_bytes));
    launches_.push_back(launch_of(MessageStage::decide));
    launches_.back().add(message, {1, threads_of_a_warp});
    launches_.push_back(launch_of(MessageStage::move));
    launches_.back().add(message, moving);
  }

  /// `request`, whose epochs kernels open, starts or waits; `threads`: as many as the step has use for.
  void add(const Partita_Prequest& request, unsigned threads) {
    if (epochs_.empty() || epochs_.back().blocks == RunEpochs::most) {
      epochs_.emplace_back().run.step = step_ == MessageStep::start ? EpochStep::start : EpochStep::wait;
    }
    epochs_.back().add(request, std::clamp(threads, threads_of_a_warp, RunEpochs::most_threads));
  }

  /// `packing` has bytes.
  void pack_before(const PackElements& packing) { add(packing, before_); }
  void unpack_behind(const PackElements& unpacking) { add(unpacking, behind_); }

  /// Asks `stream`. Throws Error.
  void launch(Stream& stream) const {
    for (const PackLaunch& each : before_) each.ask(stream);
    for (const Launch& each : launches_) each.ask(stream);
    if (together_.run.count > 0) together_.ask(stream);
    for (const EpochsLaunch& each : epochs_) each.ask(stream);
    for (const PackLaunch& each : behind_) each.ask(stream);
  }

 private:
  struct Launch {
    RunMessages run;
    unsigned blocks = 0;
    unsigned threads = 0;

    void add(StreamMessage* message, Grid grid) {
      run.messages[run.count] = message;
      run.blocks[run.count++] = grid.blocks;
      blocks += grid.blocks;
      threads = std::max(threads, grid.threads);
    }
    void ask(Stream& stream) const { stream.launch({blocks, threads}, run); }
  };

  struct EpochsLaunch {
    RunEpochs run;
    unsigned blocks = 0;
    unsigned threads = 0;

    void add(const Partita_Prequest& request, unsigned its_threads) {
      run.requests[blocks++] = request;
      threads = std::max(threads, its_threads);
    }
    void ask(Stream& stream) const { stream.launch({blocks, threads}, run); }
  };

  struct PackLaunch {
    PackTogether together;
    partita_u32 count = 0;
    Grid grid{0, 0};

    void add(const PackElements& packing) {
      const Grid own = grid_for(static_cast<std::int64_t>(packing.bytes));
      together.each[count] = packing;
      together.blocks[count++] = own.blocks;
      grid = {grid.blocks + own.blocks, own.threads};
    }
    void ask(Stream& stream) const {
      count == 1 ? stream.launch(grid, together.each[0]) : stream.launch(grid, together);
    }
  };
  static void add(const PackElements& packing, std::vector<PackLaunch>& launches) {
    if (launches.empty() || launches.back().count == PackTogether::most) launches.emplace_back();
    launches.back().add(packing);
  }

  static constexpr unsigned threads_of_a_warp = 32;
  /// A block moves so much where that takes no longer than to bring more blocks together.
  static constexpr std::int64_t most_bytes_of_a_block = 64 * 1024;
  static constexpr unsigned most_threads = 512;
  static constexpr unsigned most_moving_blocks = 256;
  /// A wait keeps no more of the GPU than a few small blocks: what it waits for needs room, too.
  static constexpr unsigned most_waiting_threads = 256;
  static constexpr std::int64_t bytes_of_a_waiting_block = 64 * 1024;
  static constexpr std::int64_t most_bytes_of_waiting_blocks = 4 * bytes_of_a_waiting_block;

  static Grid one_block(std::int64_t bytes, unsigned most) {
    constexpr std::int64_t bytes_of_a_warp = 16 * threads_of_a_warp;
    const std::int64_t warps = (bytes + bytes_of_a_warp - 1) / bytes_of_a_warp;
    return {1, static_cast<unsigned>(std::clamp<std::int64_t>(warps, 1, most / threads_of_a_warp)) * threads_of_a_warp};
  }
  static Grid waiting_grid(std::int64_t bytes) {
    Grid grid = one_block(bytes, most_waiting_threads);
    const std::int64_t blocks = (bytes + bytes_of_a_waiting_block - 1) / bytes_of_a_waiting_block;
    grid.blocks = static_cast<unsigned>(std::max<std::int64_t>(blocks, 1));
    return grid;
  }
  static Grid moving_grid(std::int64_t bytes) {
    if (bytes <= most_bytes_of_a_block) return one_block(bytes, most_threads);
    Grid grid = grid_for(bytes);
    grid.blocks = std::min(grid.blocks, most_moving_blocks);
    return grid;
  }

  Launch launch_of(MessageStage stage) const {
    Launch made;
    made.run.step = step_;
    made.run.stage = stage;
    made.run.report = report_;
    made.run.limit_ns = limit_ns_;
    return made;
  }
  void add_together(StreamMessage* message, Grid grid) {
    if (together_.run.count == RunMessages::most) {
      launches_.push_back(together_);
      together_ = launch_of(MessageStage::all);
    }
    together_.add(message, grid);
  }

  const MessageStep step_;
  const partita_u64 limit_ns_;
  const partita_u32 report_;
  Launch together_ = launch_of(MessageStage::all);  ///< what more messages can join; goes last
  std::vector<Launch> launches_;
  std::vector<EpochsLaunch> epochs_;
  std::vector<PackLaunch> before_, behind_;
};

}  // namespace partita::memory
