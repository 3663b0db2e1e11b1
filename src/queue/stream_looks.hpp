// How a thread that waits for a stream sees whether that gets on within what it runs by itself. docs/design/queues.md,
// "By the stream alone".
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "memory/blocks.hpp"
#include "memory/stream.hpp"
#include "partitioned/request_services.hpp"

namespace partita {

/// Looks at words in GPU memory that starts and waits change as they end. One thread at a time.
class StreamLooks {
 public:
  using Words = std::span<const std::byte>;

  StreamLooks(const RequestServices& services, int device) : services_(services), device_(device) {}
  /// Blocks until the GPU has answered.
  ~StreamLooks();
  StreamLooks(const StreamLooks&) = delete;
  StreamLooks& operator=(const StreamLooks&) = delete;

  /// Makes what a look needs, once: before kernels wait for which making it may have to wait. Throws Error.
  void set_up();
  /// The stream has got on, as far as the host sees.
  void begin();
  /// Another time limit has passed. Whether, since begin(), it is the second in a row between whose ends none of
  /// `words` has changed, or there are none. The first look has nothing to compare them with, and so finds them
  /// changed. A GPU that does not answer soon has not got on. Behind set_up(), where there are words. Throws Error
  /// where the GPU no longer works.
  bool is_in_vain(const std::vector<Words>& words);
  /// What was waited for has come: once this returns no look reads words any more, whose owners may go. Blocks where
  /// the GPU has yet to answer.
  void end() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t most_asked_at_once = 64;

  bool have_changed(const std::vector<Words>& words);
  void ask_more(const std::vector<Words>& words);
  bool is_answered(Clock::time_point give_up);

  const RequestServices& services_;
  const int device_;
  std::unique_ptr<memory::HostBlock> answer_;  ///< these two behind set_up()
  std::unique_ptr<memory::CopyQueue> queue_;
  bool is_asked_ = false;          ///< copies may be under way
  std::size_t answer_bytes_ = 0;   ///< so many are asked for, and not taken
  std::size_t asked_ = 0;          ///< so many words of this look were asked for
  std::vector<std::byte> coming_;  ///< those of them that were taken
  std::vector<std::byte> seen_;    ///< by the last whole look; empty before the first
  int looks_in_vain_ = 0;
};

}  // namespace partita
