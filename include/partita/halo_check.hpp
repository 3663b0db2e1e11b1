// The C++ API: what the ranks of a halo have to agree on. <partita/halo.hpp> includes this.
#ifndef PARTITA_HALO_CHECK_HPP
#define PARTITA_HALO_CHECK_HPP

#include <mpi.h>
#include <partita/partita.h>
#include <partita/communicator.hpp>
#include <partita/error.hpp>
#include <partita/halo_block.hpp>
#include <partita/halo_field.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace partita::detail {

/// "(0, -1)"
template <std::size_t Dims>
std::string told(const halo_offset<Dims>& offset) {
  std::string text = "(";
  for (std::size_t d = 0; d < Dims; ++d) text += (d == 0 ? "" : ", ") + std::to_string(offset[d]);
  return text + ")";
}

/// What a rank tells all others of its arguments; the same number of numbers everywhere.
template <std::size_t Dims>
struct halo_terms {
  long long width = 0, fields = 0, field_sizes = 0;
  std::array<long long, Dims> cells{};
  std::array<long long, halo_directions<Dims>> neighbours{};

  halo_terms() = default;
  halo_terms(const halo_block<Dims>& block, const std::vector<halo_field>& given, const halo_neighbours<Dims>& ranks)
      : width(block.width), fields(static_cast<long long>(given.size())) {
    // A number that tells the lists of their sizes apart.
    unsigned long long sizes = 0;
    for (const halo_field& field : given)
      sizes = sizes * 1'000'003 + static_cast<unsigned long long>(field.cell_bytes());
    field_sizes = static_cast<long long>(sizes >> 1);
    std::copy(block.cells.begin(), block.cells.end(), cells.begin());
    std::copy(ranks.begin(), ranks.end(), neighbours.begin());
  }
};

/// What is wrong with a rank's own arguments; nothing: an empty sentence.
template <std::size_t Dims>
std::string own_problem(int ranks, const halo_block<Dims>& block, const std::vector<halo_field>& fields,
                        const halo_neighbours<Dims>& neighbours) {
  using std::to_string;
  if (block.width < 1) return "has a ghost width of " + to_string(block.width) + "; expected is at least 1";
  for (std::size_t d = 0; d < Dims; ++d) {
    if (block.cells[d] < 1) {
      return "has " + to_string(block.cells[d]) + " cells in dimension " + to_string(d) + "; expected is at least 1";
    }
    const long long all = block.cells[d] + 2LL * block.width;
    if (all > std::numeric_limits<int>::max()) {
      return "has " + to_string(all) + " cells in dimension " + to_string(d) +
             ", with those of the ghost width; expected are fewer than 2^31";
    }
    if (block.strides[d] == 0 && block.strides != std::array<std::ptrdiff_t, Dims>{}) {
      return "has a stride of 0 in dimension " + to_string(d) + "; expected is 0 in all dimensions or in none";
    }
  }
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (fields[f].cells() == nullptr) return "has no memory for field " + to_string(f) + ": its address is null";
    if (fields[f].cell_bytes() < 1 || fields[f].cell_bytes() > std::numeric_limits<int>::max()) {
      return "has " + to_string(fields[f].components()) + " components in field " + to_string(f) +
             "; expected are at least 1, and fewer than 2 GiB in a cell";
    }
  }
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    if (neighbours[i] == MPI_PROC_NULL) continue;
    const halo_offset<Dims> offset = halo_offset_of<Dims>(i);
    if (neighbours[i] < 0 || neighbours[i] >= ranks) {
      return "has neighbour " + to_string(neighbours[i]) + " in direction " + told<Dims>(offset) +
             "; expected is MPI_PROC_NULL or a rank from 0 to " + to_string(ranks - 1);
    }
    for (std::size_t d = 0; d < Dims; ++d) {
      if (offset[d] == 0 || block.cells[d] >= block.width) continue;
      return "has " + to_string(block.cells[d]) + " cells in dimension " + to_string(d) +
             ", fewer than the ghost width of " + to_string(block.width) + ", but a neighbour in direction " +
             told<Dims>(offset);
    }
  }
  return {};
}

/// What does not go together with the terms of the others, by rank.
template <std::size_t Dims>
std::string mutual_problem(int rank, const std::vector<halo_terms<Dims>>& all) {
  using std::to_string;
  const halo_terms<Dims>& own = all[static_cast<std::size_t>(rank)];
  if (own.width != all[0].width) {
    return "has a ghost width of " + to_string(own.width) + ", but rank 0 one of " + to_string(all[0].width);
  }
  if (own.fields != all[0].fields) {
    return "has " + to_string(own.fields) + " fields, but rank 0 has " + to_string(all[0].fields);
  }
  if (own.field_sizes != all[0].field_sizes) return "has fields whose cells have other sizes than those of rank 0";
  for (std::size_t i = 0; i < own.neighbours.size(); ++i) {
    if (own.neighbours[i] == MPI_PROC_NULL) continue;
    const halo_terms<Dims>& there = all[static_cast<std::size_t>(own.neighbours[i])];
    const std::string neighbour = "rank " + to_string(own.neighbours[i]);
    const halo_offset<Dims> offset = halo_offset_of<Dims>(i);
    if (there.neighbours[own.neighbours.size() - 1 - i] != rank) {
      return "has " + neighbour + " in direction " + told<Dims>(offset) +
             ", which has another neighbour, or none, in the opposite direction";
    }
    for (std::size_t d = 0; d < Dims; ++d) {
      if (offset[d] != 0 || own.cells[d] == there.cells[d]) continue;
      return "has " + to_string(own.cells[d]) + " cells in dimension " + to_string(d) + ", but " + neighbour +
             " in direction " + told<Dims>(offset) + " has " + to_string(there.cells[d]);
    }
  }
  return {};
}

/// Throws on all ranks the first rank's problem, if one has any. Collective.
inline void throw_first_problem(communicator comm, const std::string& problem) {
  const int ranks = comm.size(), rank = comm.rank();
  int first = problem.empty() ? ranks : rank;
  check(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm.handle()));
  if (first == ranks) return;
  std::array<char, MPI_MAX_ERROR_STRING> sentence{};
  const std::string told = "partita::halo: rank " + std::to_string(rank) + " " + problem;
  if (rank == first) told.copy(sentence.data(), sentence.size() - 1);
  check(MPI_Bcast(sentence.data(), static_cast<int>(sentence.size()), MPI_CHAR, first, comm.handle()));
  check(Partita_Raise(comm.handle(), MPI_ERR_ARG, sentence.data()));
}

/// Throws (MPI_ERR_COMM) on an intercommunicator, whose ranks have no common numbers. Local.
inline void check_intracommunicator(communicator comm) {
  int is_inter = 0;
  check(MPI_Comm_test_inter(comm.handle(), &is_inter));
  if (is_inter == 0) return;
  check(Partita_Raise(comm.handle(), MPI_ERR_COMM,
                      "partita::halo: the communicator is an intercommunicator; expected is an intracommunicator"));
}

/// `neighbours`, if the arguments of all ranks make a halo; else throws on all. Collective.
template <std::size_t Dims>
halo_neighbours<Dims> checked_neighbours(communicator comm, const halo_block<Dims>& block,
                                         const std::vector<halo_field>& fields,
                                         const halo_neighbours<Dims>& neighbours) {
  check_intracommunicator(comm);
  throw_first_problem(comm, own_problem(comm.size(), block, fields, neighbours));
  std::vector<halo_terms<Dims>> all(static_cast<std::size_t>(comm.size()));
  const halo_terms<Dims> own(block, fields, neighbours);
  constexpr int numbers = static_cast<int>(sizeof(own) / sizeof(long long));
  check(MPI_Allgather(&own, numbers, MPI_LONG_LONG, all.data(), numbers, MPI_LONG_LONG, comm.handle()));
  throw_first_problem(comm, mutual_problem<Dims>(comm.rank(), all));
  return neighbours;
}

}  // namespace partita::detail
#endif
