#include "partitioned/gpu/hand_overs.hpp"

namespace partita {

/// Calls `use` with each word that holds some of `run`, and the bits of those.
template <class Use>
void HandOvers::for_words_of(link::Range run, Use use) {
  for (std::int64_t word = run.begin / word_bits; word * word_bits < run.end; ++word) {
    const std::int64_t first = std::max(run.begin - word * word_bits, std::int64_t{0});
    const std::int64_t end = std::min(run.end - word * word_bits, std::int64_t{word_bits});
    use(static_cast<std::size_t>(word),
        static_cast<std::uint32_t>((std::uint64_t{1} << end) - (std::uint64_t{1} << first)));
  }
}

void HandOvers::set_up(std::int32_t transport_partitions) {
  size_ = transport_partitions;
  taken_.resize((static_cast<std::size_t>(transport_partitions) + word_bits - 1) / word_bits);
  stayed_.resize(taken_.size());
  seen_.resize(taken_.size());
  forget();
}

void HandOvers::begin(Epoch epoch) {
  epoch_ = epoch;
  std::ranges::fill(taken_, 0);
  std::ranges::fill(stayed_, 0);
  looks_far_ = true;  // the first call need not
  taken_words_ = 0;
  std::ranges::fill(seen_, 0);
}

std::int32_t HandOvers::first_left() {
  while (taken_words_ < words() && taken_[static_cast<std::size_t>(taken_words_)] == all_of(taken_words_)) {
    ++taken_words_;
  }
  if (taken_words_ == words()) return size_;
  return taken_words_ * word_bits + std::countr_one(taken_[static_cast<std::size_t>(taken_words_)]);
}

bool HandOvers::can_grow(link::Range run) const {
  const bool after_taken = run.begin == 0 || any_in(taken_, {run.begin - 1, run.begin});
  const bool before_taken = run.end == size_ || any_in(taken_, {run.end, run.end + 1});
  return !after_taken || !before_taken;
}

bool HandOvers::any_in(const std::vector<std::uint32_t>& set, link::Range run) {
  bool any = false;
  for_words_of(run, [&](std::size_t word, std::uint32_t bits) { any = any || (set[word] & bits) != 0; });
  return any;
}

void HandOvers::add(std::vector<std::uint32_t>& set, link::Range run) {
  for_words_of(run, [&](std::size_t word, std::uint32_t bits) { set[word] |= bits; });
}

}  // namespace partita
