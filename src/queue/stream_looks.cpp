#include "queue/stream_looks.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "partitioned/facets.hpp"

namespace partita {
namespace {

constexpr auto time_for_words = std::chrono::milliseconds(100);

}  // namespace

/// The block for answers is what others get next.
StreamLooks::~StreamLooks() {
  end();
}

void StreamLooks::end() noexcept {
  if (!std::exchange(is_asked_, false)) return;
  try {
    queue_->drain();
  } catch (const Error&) {
    // The GPU works no longer: nothing is under way.
  }
}

bool StreamLooks::is_in_vain(const std::vector<Words>& words) {
  constexpr int most_in_vain = 2;
  if (words.empty()) return true;
  looks_in_vain_ = have_changed(words) ? 0 : looks_in_vain_ + 1;
  return looks_in_vain_ == most_in_vain;
}

void StreamLooks::set_up() {
  if (queue_ != nullptr) return;
  answer_ =
      std::make_unique<memory::HostBlock>(services_.host_memory, most_asked_at_once * StreamRunnable::most_words_bytes);
  services_.device_memory.device_pointer(device_, answer_->address());  // page-locks it
  queue_ = services_.device_memory.make_copy_queue(device_);
}

/// What was asked for before and has not come yet comes in front of what will be.
void StreamLooks::begin() {
  answer_bytes_ = 0;
  coming_.clear();
  asked_ = 0;
  seen_.clear();
  looks_in_vain_ = 0;
}

/// What the GPU has not answered in this look, the next one takes, and goes on behind it.
bool StreamLooks::have_changed(const std::vector<Words>& words) {
  const auto give_up = Clock::now() + time_for_words;
  do {
    if (answer_bytes_ == 0) ask_more(words);
    if (!is_answered(give_up)) return false;
    coming_.insert(coming_.end(), answer_->address(), answer_->address() + std::exchange(answer_bytes_, 0));
  } while (asked_ < words.size());
  asked_ = 0;
  const bool changed = coming_ != seen_;
  seen_ = std::exchange(coming_, {});
  return changed;
}

void StreamLooks::ask_more(const std::vector<Words>& words) {
  is_asked_ = true;
  for (const std::size_t end = std::min(asked_ + most_asked_at_once, words.size()); asked_ < end; ++asked_) {
    queue_->copy(answer_->address() + answer_bytes_, words[asked_].data(), words[asked_].size());
    answer_bytes_ += words[asked_].size();
  }
}

bool StreamLooks::is_answered(Clock::time_point give_up) {
  while (!queue_->idle()) {
    if (Clock::now() > give_up) return false;
    std::this_thread::yield();
  }
  is_asked_ = false;
  return true;
}

}  // namespace partita
