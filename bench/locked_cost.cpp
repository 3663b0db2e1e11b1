// What setting the bits of a word one by one costs a thread that owns its cache line: by one locked instruction each,
// and by a load and a compare-and-exchange, as a mark does it (transfer/partition_set.hpp). Less than the first no mark
// takes that another thread may meet. Prints JSON: nanoseconds a bit, the least of several batches.
//
//   partita_locked_cost
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>

namespace {

using Word = std::atomic<std::uint64_t>;

template <class Set>
double least_ns(Set set) {
  constexpr int batches = 31, words = 20000, bits = 64;
  double least = std::numeric_limits<double>::max();
  for (int batch = 0; batch < batches; ++batch) {
    const auto begin = std::chrono::steady_clock::now();
    for (int number = 0; number < words; ++number) {
      Word word{0};
      for (int bit = 0; bit < bits; ++bit) set(word, std::uint64_t{1} << bit);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count() / words / bits);
  }
  return least;
}

void by_one_instruction(Word& word, std::uint64_t wish) {
  word.fetch_add(wish, std::memory_order_seq_cst);
}

void as_a_mark(Word& word, std::uint64_t wish) {
  std::uint64_t before = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(before, before | wish, std::memory_order_seq_cst, std::memory_order_relaxed)) {
  }
}

}  // namespace

int main() {
  std::printf("{\"one locked instruction\": %.2f, \"load and compare-and-exchange\": %.2f}\n",
              least_ns(by_one_instruction), least_ns(as_a_mark));
  return 0;
}
