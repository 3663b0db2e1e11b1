#include "link/ucx/words.hpp"

#include <algorithm>
#include <atomic>

namespace partita::link::ucx {
namespace {

constexpr std::size_t line_bytes = 64;
constexpr std::size_t slab_lines = 1024;

std::size_t lines_for(std::size_t words) {
  return (words * sizeof(Epoch) + line_bytes - 1) / line_bytes;
}

}  // namespace

WordSlab::WordSlab(Worker& worker, std::size_t lines) : region_(worker, lines * line_bytes), taken_(lines, false) {}

std::byte* WordSlab::line(std::size_t index) const {
  return region_.memory().data() + index * line_bytes;
}

std::ptrdiff_t WordSlab::take(std::size_t lines) {
  const std::lock_guard lock(mutex_);
  std::size_t first = next_;
  std::size_t run = 0;
  for (std::size_t looked = 0; looked <= taken_.size() + lines && run < lines; ++looked) {
    const std::size_t line = first + run;
    if (line == taken_.size()) {  // a run does not pass the end
      first = 0;
      run = 0;
    } else if (taken_[line]) {
      first = line + 1;
      run = 0;
    } else {
      ++run;
    }
  }
  if (run < lines) return -1;
  std::fill_n(taken_.begin() + static_cast<std::ptrdiff_t>(first), lines, true);
  next_ = first + lines;
  return static_cast<std::ptrdiff_t>(first);
}

void WordSlab::give_back(std::size_t first_line, std::size_t lines) {
  const std::lock_guard lock(mutex_);
  std::fill_n(taken_.begin() + static_cast<std::ptrdiff_t>(first_line), lines, false);
}

Words::Words(std::shared_ptr<WordSlab> slab, std::size_t first_line, std::size_t lines)
    : slab_(std::move(slab)),
      first_line_(first_line),
      lines_(lines),
      words_(reinterpret_cast<Epoch*>(slab_->line(first_line))) {
  for (std::size_t index = 0; index < lines * line_bytes / sizeof(Epoch); ++index) store(index, no_epoch);
}

Words::~Words() {
  slab_->give_back(first_line_, lines_);
}

Epoch Words::load(std::size_t index) const {
  return std::atomic_ref(words_[index]).load(std::memory_order_acquire);
}

void Words::store(std::size_t index, Epoch epoch) {
  std::atomic_ref(words_[index]).store(epoch, std::memory_order_release);
}

std::unique_ptr<Words> WordStore::words(std::size_t count) {
  const std::lock_guard lock(mutex_);
  const std::size_t lines = lines_for(count);
  for (const auto& slab : slabs_) {
    const auto first = slab->take(lines);
    if (first >= 0) return std::make_unique<Words>(slab, static_cast<std::size_t>(first), lines);
  }
  slabs_.push_back(std::make_shared<WordSlab>(worker_, std::max(lines, slab_lines)));
  return std::make_unique<Words>(slabs_.back(), static_cast<std::size_t>(slabs_.back()->take(lines)), lines);
}

}  // namespace partita::link::ucx
