// Where the bytes of an MPI datatype lie: flattened once, then packed without the MPI.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita {

/// The type map of one datatype as runs of bytes, in the type map's order.
class Layout {
 public:
  /// `count` pieces of `length_bytes`, the first at `offset_bytes` from the buffer's address, `stride_bytes` apart.
  struct Run {
    std::int64_t offset_bytes = 0;
    std::int64_t length_bytes = 0;
    std::int64_t stride_bytes = 0;
    std::int64_t count = 1;
    bool operator==(const Run&) const = default;
  };

  /// Flattens `datatype`, which must be committed. Throws Error on a null one.
  static Layout of(MPI_Datatype datatype);

  /// Packed bytes of one element.
  std::int64_t size_bytes() const { return size_bytes_; }
  /// Distance between elements.
  std::int64_t extent_bytes() const { return extent_bytes_; }
  const std::vector<Run>& runs() const { return runs_; }

  /// Whether elements in a row occupy one gapless stretch of memory, starting first_byte() from the buffer's address.
  bool contiguous() const { return contiguous_; }
  std::int64_t first_byte() const { return runs_.empty() ? 0 : runs_.front().offset_bytes; }

  /// Copies elements [first, first + count) of the buffer at `user` to `packed`, without gaps.
  void pack(const std::byte* user, std::int64_t first, std::int64_t count, std::byte* packed) const;
  /// The reverse; bytes in gaps stay untouched.
  void unpack(const std::byte* packed, std::byte* user, std::int64_t first, std::int64_t count) const;

 private:
  bool one_piece() const { return runs_.size() == 1 && runs_.front().count == 1; }

  std::int64_t size_bytes_ = 0;
  std::int64_t extent_bytes_ = 0;
  bool contiguous_ = false;
  std::vector<Run> runs_;
};

}  // namespace partita
