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

/// The blocks that the steps of a message have; found once, for all of its epochs.
class MessageGrids {
 public:
  explicit MessageGrids(std::int64_t bytes)
      : moving_(moving_grid(bytes)),
        waiting_(waiting_grid(bytes)),
        waits_apart_(bytes > most_bytes_of_waiting_blocks) {}

  /// Those of a side that moves it, or looks for whether it is to.
  Grid moving() const { return moving_; }
  /// Those of a start that moves nothing.
  static Grid starting() { return {1, threads_of_a_warp}; }
  /// Those of a wait that may have to move it; where that waits apart, of the launch that decides.
  Grid waiting() const { return waits_apart_ ? Grid{1, threads_of_a_warp} : waiting_; }
  /// Whether a wait has two launches of its own, right behind each other, so that whoever has decided to move much does
  /// so whatever other messages wait for.
  bool waits_apart() const { return waits_apart_; }

  static constexpr unsigned threads_of_a_warp = 32;

 private:
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

  Grid moving_, waiting_;
  bool waits_apart_;
};

/// One step, a start for instance, of any number of messages, in one launch, and of any number of requests whose epochs
/// kernels open, in another. What has gaps is packed in a launch in front of these, and unpacked in one behind them. A
/// run of one message costs its host little more than that launch. One thread.
class MessageRun {
 public:
  /// `limit_s`: how long a wait may take; 0: for ever. `report`: MessageWork.report.
  MessageRun(MessageStep step, double limit_s, partita_u32 report = 0)
      : work_{step, MessageStage::all, report, static_cast<partita_u64>(limit_s * 1e9)} {}

  /// `moves`: whether this side may have to move it in the step.
  void add(StreamMessage* message, const MessageGrids& grids, bool moves) {
    if (work_.step != MessageStep::wait) {
      return add_together(message, moves ? grids.moving() : MessageGrids::starting());
    }
    if (!grids.waits_apart()) return add_together(message, grids.waiting());
    apart_.push_back({message, grids.waiting(), MessageStage::decide});
    apart_.push_back({message, grids.moving(), MessageStage::move});
  }

  /// `request`, whose epochs kernels open, starts or waits; `threads`: as many as the step has use for.
  void add(const Partita_Prequest& request, unsigned threads) {
    if (epochs_.empty() || epochs_.back().blocks == RunEpochs::most) {
      epochs_.emplace_back().run.step = work_.step == MessageStep::start ? EpochStep::start : EpochStep::wait;
    }
    epochs_.back().add(request, std::clamp(threads, MessageGrids::threads_of_a_warp, RunEpochs::most_threads));
  }

  /// `packing` has bytes.
  void pack_before(const PackElements& packing) { add(packing, before_); }
  void unpack_behind(const PackElements& unpacking) { add(unpacking, behind_); }

  /// Asks `stream`. Throws Error.
  void launch(Stream& stream) const {
    for (const PackLaunch& each : before_) each.ask(stream);
    for (const One& each : apart_) each.ask(stream, work_);
    for (const Launch& each : full_) each.ask(stream);
    if (count_ == 1) first_.ask(stream, work_);
    if (count_ > 1) together_.ask(stream);
    for (const EpochsLaunch& each : epochs_) each.ask(stream);
    for (const PackLaunch& each : behind_) each.ask(stream);
  }

 private:
  struct One {
    StreamMessage* message = nullptr;
    Grid grid;
    MessageStage stage = MessageStage::all;

    void ask(Stream& stream, MessageWork work) const {
      work.stage = stage;
      stream.launch(grid, RunMessage{message, grid.blocks, work});
    }
  };

  struct Launch {
    explicit Launch(const MessageWork& work) { run.work = work; }
    RunMessages run;
    unsigned blocks = 0;
    unsigned threads = 0;

    void begin_with(const One& first) {
      run.count = 0;
      blocks = threads = 0;
      add(first.message, first.grid);
    }
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

  /// The first one waits for others to join it.
  void add_together(StreamMessage* message, Grid grid) {
    if (count_ == 0) {
      first_ = {message, grid};
    } else {
      if (count_ == 1) together_.begin_with(first_);
      together_.add(message, grid);
    }
    if (++count_ < RunMessages::most) return;
    full_.push_back(together_);
    count_ = 0;
  }

  const MessageWork work_;
  partita_u32 count_ = 0;  ///< of messages that more can join
  One first_;
  Launch together_{work_};  ///< where there are more
  std::vector<One> apart_;
  std::vector<Launch> full_;
  std::vector<EpochsLaunch> epochs_;
  std::vector<PackLaunch> before_, behind_;
};

}  // namespace partita::memory
