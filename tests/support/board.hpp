// Words that all ranks of the job see at once, beside MPI: who has marked what. One machine only.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace partita::test {

/// An array of `words` atomic words, zero at first, in memory shared by all ranks. Creation and destruction are
/// collective.
class Board {
 public:
  /// Null where the ranks share no memory (they run on several hosts).
  static std::unique_ptr<Board> make(std::size_t words);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Pairs with read(): what was written before is seen after.
  void write(std::size_t word, std::uint32_t value) { words_[word].store(value, std::memory_order_release); }
  std::uint32_t read(std::size_t word) const { return words_[word].load(std::memory_order_acquire); }
  std::uint32_t add(std::size_t word, std::uint32_t value) {
    return words_[word].fetch_add(value, std::memory_order_acq_rel);
  }

 private:
  Board(MPI_Win window, std::atomic<std::uint32_t>* words) : window_(window), words_(words) {}

  MPI_Win window_;
  std::atomic<std::uint32_t>* words_;
};

}  // namespace partita::test
