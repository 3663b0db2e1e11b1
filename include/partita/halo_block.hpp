// The C++ API: blocks of a grid, their ghost cells and their neighbours. <partita/halo.hpp> includes this.
//
// A grid of 2 or 3 dimensions is divided into blocks, one a rank. Around its own cells a block has ghost cells, which
// stand for cells of its neighbours: beyond its faces, its edges and its corners.
//
//     width                          own cells that are sent             ghost cells
//    ┌─┬─────────┬─┐                 in direction (0, 1):                in direction (0, 1):
//    │ │ ghost   │ │
//    ├─┼─────────┼─┤                 ┌───────┬─┐                                   ┌─┐
//    │ │ own     │ │   ▲             │       │▒│                                   │▒│
//    │ │         │ │   cells[0]      │       │▒│                                   │▒│
//    ├─┼─────────┼─┤   ▼             └───────┴─┘                                   └─┘
//    └─┴─────────┴─┘
//       cells[1]
#ifndef PARTITA_HALO_BLOCK_HPP
#define PARTITA_HALO_BLOCK_HPP

#include <mpi.h>
#include <partita/partita.h>
#include <partita/communicator.hpp>
#include <partita/error.hpp>

#include <array>
#include <cstddef>
#include <string>

namespace partita {

/// How many neighbours a block has: 8 or 26. They are numbered by their direction, the last dimension fastest, from
/// (-1, -1) to (1, 1), or from (-1, -1, -1) to (1, 1, 1); opposite to direction i is halo_directions<Dims> - 1 - i.
template <std::size_t Dims>
inline constexpr std::size_t halo_directions = Dims == 2 ? 8 : 26;

/// -1, 0 or 1 blocks away in each dimension.
template <std::size_t Dims>
using halo_offset = std::array<int, Dims>;

template <std::size_t Dims>
constexpr halo_offset<Dims> halo_offset_of(std::size_t direction) {
  halo_offset<Dims> offset{};
  std::size_t number = direction < halo_directions<Dims> / 2 ? direction : direction + 1;  // the block itself has none
  for (std::size_t d = Dims; d-- > 0; number /= 3) offset[d] = static_cast<int>(number % 3) - 1;
  return offset;
}

/// The rank in each direction: may be this rank itself, or one rank in several; MPI_PROC_NULL where there is none.
template <std::size_t Dims>
using halo_neighbours = std::array<int, halo_directions<Dims>>;

/// A rank's block of the grid, and how its cells lie in memory.
template <std::size_t Dims>
struct halo_block {
  static_assert(Dims == 2 || Dims == 3, "halos are of grids of 2 or 3 dimensions");

  std::array<int, Dims> cells{};  ///< its own, in each dimension
  int width = 1;                  ///< ghost cells on each side
  /// From a cell to the next one in each dimension, in cells. All 0: the last dimension fastest, without gaps.
  std::array<std::ptrdiff_t, Dims> strides{};

  /// `strides` as they are, the default written out.
  [[nodiscard]] std::array<std::ptrdiff_t, Dims> true_strides() const {
    if (strides != std::array<std::ptrdiff_t, Dims>{}) return strides;
    std::array<std::ptrdiff_t, Dims> dense{};
    std::ptrdiff_t next = 1;
    for (std::size_t d = Dims; d-- > 0; next *= cells[d] + std::ptrdiff_t{2} * width) dense[d] = next;
    return dense;
  }
};

/// A box of a block's cells. Places count from the first ghost cell, which is 0 in all dimensions.
template <std::size_t Dims>
struct halo_region {
  std::array<int, Dims> first{}, cells{};
};

/// The block's own cells that its neighbour at `offset` has as ghost cells.
template <std::size_t Dims>
halo_region<Dims> own_region(const halo_block<Dims>& block, const halo_offset<Dims>& offset) {
  halo_region<Dims> region;
  for (std::size_t d = 0; d < Dims; ++d) {
    region.first[d] = offset[d] > 0 ? block.cells[d] : block.width;
    region.cells[d] = offset[d] == 0 ? block.cells[d] : block.width;
  }
  return region;
}

/// The block's ghost cells that are its neighbour's at `offset`.
template <std::size_t Dims>
halo_region<Dims> ghost_region(const halo_block<Dims>& block, const halo_offset<Dims>& offset) {
  halo_region<Dims> region = own_region(block, offset);
  for (std::size_t d = 0; d < Dims; ++d) region.first[d] += offset[d] * block.width;
  return region;
}

/// The neighbours of this rank in the Cartesian topology of `cart`, whose dimensions are those of the grid, periodic or
/// not. Throws error (MPI_ERR_TOPOLOGY) where there is no such topology. Local.
template <std::size_t Dims>
halo_neighbours<Dims> cartesian_neighbours(communicator cart) {
  constexpr int dims = static_cast<int>(Dims);
  int kind = MPI_UNDEFINED, found = 0;
  check(MPI_Topo_test(cart.handle(), &kind));
  if (kind == MPI_CART) check(MPI_Cartdim_get(cart.handle(), &found));
  if (found != dims) {
    const std::string sentence = "partita::halo: the communicator has " +
                                 (kind == MPI_CART ? "a Cartesian topology of " + std::to_string(found) + " dimensions"
                                                   : std::string("no Cartesian topology")) +
                                 "; expected is one of " + std::to_string(dims) + ", or neighbours as an argument";
    check(Partita_Raise(cart.handle(), MPI_ERR_TOPOLOGY, sentence.c_str()));
  }
  std::array<int, Dims> ranks{}, periodic{}, own{};
  check(MPI_Cart_get(cart.handle(), dims, ranks.data(), periodic.data(), own.data()));
  halo_neighbours<Dims> neighbours{};
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    const halo_offset<Dims> offset = halo_offset_of<Dims>(i);
    std::array<int, Dims> place{};
    bool exists = true;
    for (std::size_t d = 0; d < Dims; ++d) {
      place[d] = own[d] + offset[d];
      exists = exists && (periodic[d] != 0 || (place[d] >= 0 && place[d] < ranks[d]));
    }
    neighbours[i] = MPI_PROC_NULL;
    if (exists) check(MPI_Cart_rank(cart.handle(), place.data(), &neighbours[i]));
  }
  return neighbours;
}

}  // namespace partita
#endif
