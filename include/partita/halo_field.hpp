// The C++ API: what a halo exchanges of each cell, and the cells of a region as a message. <partita/halo.hpp> includes
// this.
#ifndef PARTITA_HALO_FIELD_HPP
#define PARTITA_HALO_FIELD_HPP

#include <mpi.h>
#include <partita/error.hpp>
#include <partita/halo_block.hpp>

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace partita {

namespace detail {

/// Cells in memory, by three dimensions, of which the first may be one cell long.
struct halo_cells {
  std::array<int, 3> count{1, 1, 1};
  std::array<std::ptrdiff_t, 3> stride_bytes{};
};

/// Adds the cells of `message`, which lie one behind the other in the order of `cells`, to those at `to`.
template <class T>
void add_cells(std::byte* to, const std::byte* message, const halo_cells& cells, int components) {
  const T* added = reinterpret_cast<const T*>(message);
  for (int i = 0; i < cells.count[0]; ++i) {
    for (int j = 0; j < cells.count[1]; ++j) {
      std::byte* cell = to + i * cells.stride_bytes[0] + j * cells.stride_bytes[1];
      for (int k = 0; k < cells.count[2]; ++k, cell += cells.stride_bytes[2]) {
        T* const sum = reinterpret_cast<T*>(cell);
        for (int c = 0; c < components; ++c) sum[c] = static_cast<T>(sum[c] + *added++);
      }
    }
  }
}

template <class T, class = void>
inline constexpr bool can_be_added = false;
template <class T>
inline constexpr bool
    can_be_added<T, std::void_t<decltype(static_cast<T>(std::declval<const T&>() + std::declval<const T&>()))>> = true;

}  // namespace detail

/// A field on a block: `components` elements of one type in each cell, one behind the other. A view.
class halo_field final {
 public:
  /// `cells` points to the first ghost cell, and holds all of the block's, in host memory or in a GPU's.
  template <class T>
  halo_field(T* cells, int components = 1) noexcept
      : cells_(reinterpret_cast<std::byte*>(cells)),
        components_(components),
        cell_bytes_(static_cast<long long>(sizeof(T)) * components) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>, "cells are copied by their bytes");
    static_assert(alignof(T) <= 64);
    if constexpr (detail::can_be_added<T>) add_ = detail::add_cells<T>;
  }

  [[nodiscard]] std::byte* cells() const noexcept { return cells_; }
  [[nodiscard]] int components() const noexcept { return components_; }
  [[nodiscard]] long long cell_bytes() const noexcept { return cell_bytes_; }

  /// Adds a message to the cells at `to`; null where elements have no sum.
  using adder = void (*)(std::byte* to, const std::byte* message, const detail::halo_cells& cells, int components);
  [[nodiscard]] adder add() const noexcept { return add_; }

  /// A field of the same elements elsewhere.
  [[nodiscard]] halo_field at(std::byte* cells) const noexcept {
    halo_field other = *this;
    other.cells_ = cells;
    return other;
  }

 private:
  std::byte* cells_;
  int components_;
  long long cell_bytes_;
  adder add_ = nullptr;
};

namespace detail {

/// A region's cells of one field: where they are, and as a datatype.
class halo_part final {
 public:
  template <std::size_t Dims>
  halo_part(const halo_block<Dims>& block, const halo_region<Dims>& region, const halo_field& field)
      : first_(field.cells()) {
    const auto strides = block.true_strides();
    bytes_ = field.cell_bytes();
    for (std::size_t d = 0; d < Dims; ++d) {
      const std::size_t place = d + 3 - Dims;
      const std::ptrdiff_t stride_bytes = strides[d] * static_cast<std::ptrdiff_t>(field.cell_bytes());
      cells_.count[place] = region.cells[d];
      cells_.stride_bytes[place] = stride_bytes;
      first_ += region.first[d] * stride_bytes;
      bytes_ *= region.cells[d];
    }
    check(MPI_Type_contiguous(static_cast<int>(field.cell_bytes()), MPI_BYTE, &type_));
    for (std::size_t d = 3; d-- > 3 - Dims;) nest(cells_.count[d], cells_.stride_bytes[d]);
    check(MPI_Type_commit(&type_));
  }
  halo_part(const halo_part&) = delete;
  halo_part& operator=(const halo_part&) = delete;
  ~halo_part() {
    if (type_ != MPI_DATATYPE_NULL && is_running()) MPI_Type_free(&type_);  // MPI may have ended with the runtime
  }

  [[nodiscard]] std::byte* first() const noexcept { return first_; }
  [[nodiscard]] long long bytes() const noexcept { return bytes_; }
  [[nodiscard]] const halo_cells& cells() const noexcept { return cells_; }
  /// One of it is the region, from first() on.
  [[nodiscard]] MPI_Datatype type() const noexcept { return type_; }

 private:
  void nest(int count, std::ptrdiff_t stride_bytes) {
    MPI_Datatype inner = type_;
    type_ = MPI_DATATYPE_NULL;
    const int code = MPI_Type_create_hvector(count, 1, stride_bytes, inner, &type_);
    MPI_Type_free(&inner);
    check(code);
  }

  std::byte* first_;
  long long bytes_ = 0;
  halo_cells cells_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace detail
}  // namespace partita
#endif
