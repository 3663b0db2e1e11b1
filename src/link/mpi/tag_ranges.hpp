// Which tags of the private communicator the messages from one rank may use.
#pragma once

#include <iterator>
#include <map>
#include <mutex>

#include "core/error.hpp"

namespace partita::link::mpi {

/// Hands out disjoint ranges of [0, upper_bound], going round so that a freed range is used again as late as possible.
/// Any thread.
class TagRanges {
 public:
  explicit TagRanges(int upper_bound) : limit_(static_cast<long>(upper_bound) + 1) {}

  /// `count` tags in a row; the first one. Throws Error when there are none.
  int take(int count) {
    const std::lock_guard lock(mutex_);
    for (const long from : {next_, 0L}) {
      const long first = first_gap(from, count);
      if (first + count > limit_) continue;
      taken_[first] = count;
      next_ = first + count;
      return static_cast<int>(first);
    }
    throw Error(ErrorClass::other,
                "link mpi has no {} tags left for messages from one rank (the MPI offers {}): free requests "
                "or use fewer transport partitions",
                count, limit_);
  }

  void give_back(int first) {
    const std::lock_guard lock(mutex_);
    taken_.erase(first);
  }

 private:
  long first_gap(long from, int count) const {
    auto range = taken_.upper_bound(from);
    if (range != taken_.begin()) {
      const auto before = std::prev(range);
      if (before->first + before->second > from) from = before->first + before->second;
    }
    for (; range != taken_.end() && range->first < from + count; ++range) from = range->first + range->second;
    return from;
  }

  const long limit_;
  std::mutex mutex_;
  long next_ = 0;
  std::map<long, int> taken_;  ///< first tag -> how many
};

/// Some tags in a row, until this goes.
class Tags {
 public:
  Tags(TagRanges& ranges, int count) : ranges_(ranges), first_(ranges.take(count)) {}
  ~Tags() { ranges_.give_back(first_); }
  Tags(const Tags&) = delete;
  Tags& operator=(const Tags&) = delete;

  int first() const { return first_; }

 private:
  TagRanges& ranges_;
  const int first_;
};

}  // namespace partita::link::mpi
