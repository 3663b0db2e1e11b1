// Epoch words that other ranks write: readiness at a sender, arrival flags at a receiver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/epoch.hpp"
#include "core/wire.hpp"
#include "link/ucx/region.hpp"

namespace partita::link::ucx {

/// A registered block that many requests have their words in. Any thread.
class WordSlab {
 public:
  WordSlab(Worker& worker, std::size_t lines);

  /// The first of `lines` free lines in a row, now taken; or -1. Looks on from where it last found some, so that a
  /// line comes back into use as late as may be: a straggling write of a broken request then hits no new one.
  std::ptrdiff_t take(std::size_t lines);
  void give_back(std::size_t first_line, std::size_t lines);

  std::byte* line(std::size_t index) const;
  const wire::Bytes& packed_key() const { return region_.packed_key(); }

 private:
  Region region_;
  std::mutex mutex_;
  std::vector<bool> taken_;
  std::size_t next_ = 0;
};

/// Words of one request, alone on their cache lines. They begin as no_epoch.
class Words {
 public:
  Words(std::shared_ptr<WordSlab> slab, std::size_t first_line, std::size_t lines);
  ~Words();
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  /// Acquires what was written before word `index`.
  Epoch load(std::size_t index) const;
  /// Pairs with load().
  void store(std::size_t index, Epoch epoch);

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(words_); }
  const wire::Bytes& packed_key() const { return slab_->packed_key(); }

 private:
  std::shared_ptr<WordSlab> slab_;
  std::size_t first_line_;
  std::size_t lines_;
  Epoch* words_;
};

/// Gives out words. Any thread.
class WordStore {
 public:
  explicit WordStore(Worker& worker) : worker_(worker) {}

  std::unique_ptr<Words> words(std::size_t count);

 private:
  Worker& worker_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<WordSlab>> slabs_;
};

}  // namespace partita::link::ucx
