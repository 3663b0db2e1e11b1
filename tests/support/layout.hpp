// Random datatypes together with an oracle of where their bytes lie, worked out beside the MPI and not by it.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/random.hpp"

namespace partita::test {

/// A committed datatype, the displacement of each of its bytes in type-map order, and how it was made. Shared by
/// copies.
class TypedLayout {
 public:
  /// A basic type.
  static TypedLayout basic(MPI_Datatype type, int size_bytes, std::string name);

  /// A random nest of constructors, up to `depth` deep, over copies of `element`. With `overlaps` false no byte of
  /// consecutive elements lies twice at the same place, as a receive demands.
  static TypedLayout random(Random& random, const TypedLayout& element, int depth, bool overlaps);

  MPI_Datatype type() const { return handle_->type; }
  std::int64_t size_bytes() const { return static_cast<std::int64_t>(displacements_.size()); }
  std::int64_t extent_bytes() const { return extent_; }
  /// Basic elements in one element of this type.
  std::int64_t basics() const { return basics_; }
  const std::string& text() const { return text_; }

  /// Whether elements and their bytes follow one another without a gap.
  bool is_dense() const { return !runs_.empty() && runs_[0] == extent_; }
  /// Whether a vector in it has a stride of -1 byte, which some MPIs lay out wrongly.
  bool steps_back_a_byte() const { return steps_back_a_byte_; }

  /// Where packed byte `position` of a buffer of these elements lies, from the buffer's address.
  std::int64_t offset_of(std::int64_t position) const {
    const std::int64_t element = position / size_bytes();
    return element * extent_ + displacements_[static_cast<std::size_t>(position % size_bytes())];
  }
  /// How many packed bytes from `position` on, up to `last`, lie one after another.
  std::int64_t run_at(std::int64_t position, std::int64_t last) const {
    const std::int64_t in_element = position % size_bytes();
    const std::int64_t to_break = is_dense() ? last - position : runs_[static_cast<std::size_t>(in_element)];
    return std::min(to_break, last - position);
  }
  /// Smallest and one past the largest offset that `count` elements touch; 0, 0 for none.
  std::pair<std::int64_t, std::int64_t> span_of(std::int64_t count) const;
  /// Whether bytes of `count` consecutive elements lie at the same place.
  bool overlaps_itself(std::int64_t count) const;

 private:
  struct Handle {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    bool owned = false;
    ~Handle();
  };

  static TypedLayout derived(MPI_Datatype made, std::vector<std::int64_t> displacements, std::int64_t lower_bound,
                             std::int64_t extent, std::int64_t basics, std::string text);
  /// Takes the displacements of one element.
  void set_displacements(std::vector<std::int64_t> displacements);
  static TypedLayout wrap_once(Random& random, const TypedLayout& inner);

  std::shared_ptr<Handle> handle_;
  std::vector<std::int64_t> displacements_;
  std::vector<std::int64_t> runs_;  ///< for each byte of an element, how many from it on lie one after another
  std::int64_t lower_bound_ = 0;
  std::int64_t extent_ = 0;
  std::int64_t basics_ = 1;
  bool steps_back_a_byte_ = false;
  std::string text_;
};

}  // namespace partita::test
