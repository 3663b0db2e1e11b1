// What the init calls of collectives are given, checked and gathered.
#pragma once

#include <mpi.h>
#include <partita/partita.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "capi/state.hpp"
#include "collective/collective_arguments.hpp"

namespace partita::capi {

/// What all init calls are given. One of a collective that is not partitioned moves all in one partition.
struct CommonArguments {
  int partitions;
  MPI_Comm comm;
  MPI_Info info;
  Partita_Request* request;
  bool is_partitioned = true;
};

/// One buffer of the program, as the call names it.
struct GivenBuffer {
  const char* name;
  const void* address;

  bool in_place() const { return address == MPI_IN_PLACE; }
};

/// Gathers the arguments of one init call. Members throw Error on what is wrong.
class CollectiveCall {
 public:
  CollectiveCall(collective::Kind kind, const CommonArguments& common);

  collective::Problem& problem() { return arguments_.problem; }
  int size() { return problem().size; }
  bool is_root() { return problem().rank == problem().root; }
  int source_count() { return static_cast<int>(problem().sources.size()); }
  int destination_count() { return static_cast<int>(problem().destinations.size()); }

  void set_root(int root);
  /// The neighbours of a process topology, in the order of the blocks (MPI-4, section 8.6).
  void find_neighbours();
  void refuse_in_place(const GivenBuffer& buffer, const char* why) const;
  void set_in_place() { problem().in_place = true; }

  std::shared_ptr<const Layout> layout(const char* name, MPI_Datatype datatype);
  /// ⊕, and the datatype that it takes.
  std::shared_ptr<const Layout> reduce_with(MPI_Op op, MPI_Datatype datatype);

  /// A block at `offset` bytes of `buffer`, which this rank sends or receives.
  void add_sent(const GivenBuffer& buffer, MPI_Aint offset, MPI_Count count, std::shared_ptr<const Layout> layout);
  void add_received(const GivenBuffer& buffer, MPI_Aint offset, MPI_Count count, std::shared_ptr<const Layout> layout);
  void check_array(const char* name, int length, const void* array) const;
  /// The extent of a block: the slices of all partitions.
  MPI_Aint block_extent(MPI_Count count, const Layout& layout) const;
  static std::int64_t product(std::int64_t a, std::int64_t b);
  static std::int64_t sum(std::int64_t a, std::int64_t b);

  void make();

 private:
  void check_place(const char* name, const memory::Place& place, const Layout& layout);
  std::int64_t add(std::vector<collective::Block>& blocks, const GivenBuffer& buffer, MPI_Aint offset, MPI_Count count,
                   std::shared_ptr<const Layout> layout);

  Runtime& runtime_;
  const CommonArguments& common_;
  collective::CollectiveArguments arguments_;
  const char* first_name_ = nullptr;  ///< of a buffer that is not empty
  memory::Place first_place_;         ///< its
};

}  // namespace partita::capi
