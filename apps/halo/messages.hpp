// The packed messages of the ways of exchanging a halo that pack, and what all ways have in common.
#pragma once

#include <mpi.h>

#include <partita/halo.hpp>
#include <vector>

#include "apps/halo/halo.hpp"

namespace partita {

/// What a block exchanges with the neighbour in one direction: `length` cells, in partitions of equal size.
struct halo_message {
  std::size_t direction = 0;
  int neighbour = MPI_PROC_NULL;
  int length = 0, partitions = 1;
  std::byte* sent = nullptr;      ///< the cells of the block's own rim
  std::byte* received = nullptr;  ///< those of the frame

  int cells_each() const { return length / partitions; }
  /// A message carries the direction in which it travels.
  int send_tag() const { return static_cast<int>(direction); }
  int receive_tag() const { return static_cast<int>(halo_directions<2> - 1 - direction); }
};

/// Where messages get their memory.
struct halo_memory {
  decltype(&PMPI_Alloc_mem) allocate = &MPI_Alloc_mem;
  decltype(&PMPI_Free_mem) free = &MPI_Free_mem;
};

/// The messages of one shape and their memory: MPI_Alloc_mem's, where others of the node may write, unless told
/// otherwise.
class halo_messages {
 public:
  explicit halo_messages(const halo_shape& shape, const halo_memory& memory = {});
  /// Leaves the memory as it is: neighbours may write there until free_memory() is called.
  ~halo_messages() = default;
  halo_messages(const halo_messages&) = delete;
  halo_messages& operator=(const halo_messages&) = delete;

  std::vector<halo_message>::const_iterator begin() const { return messages_.begin(); }
  std::vector<halo_message>::const_iterator end() const { return messages_.end(); }
  bool empty() const { return messages_.empty(); }
  /// What is sent lies in one piece, and what is received likewise; of so many bytes each.
  std::byte* sent() const { return memory_; }
  std::byte* received() const { return memory_ + bytes_; }
  std::ptrdiff_t bytes() const { return bytes_; }

  void pack(const framed_block& block) const;
  void unpack(const framed_block& block) const;

  /// Once all requests of these messages are freed, the neighbours' too. The messages are of no more use.
  void free_memory();

 private:
  halo_memory calls_;
  std::vector<halo_message> messages_;
  std::byte* memory_ = nullptr;
  std::ptrdiff_t bytes_ = 0;
};

/// The first cell of a run along one edge or in one corner, and the distance to the next.
struct halo_run {
  std::byte* first = nullptr;
  std::ptrdiff_t step_bytes = 0;
};
/// Those that lie in a direction, in the frame or in the block beside it.
halo_run run_of(const framed_block& block, std::size_t direction, bool in_frame);

/// One partition of a message.
void pack_partition(const framed_block& block, const halo_message& message, int partition);
void unpack_partition(const framed_block& block, const halo_message& message, int partition);

/// One way of exchanging a halo. Without the two calls that end it, it leaves its messages' memory as it is.
class framed_halo::exchanger {
 public:
  exchanger() = default;
  virtual ~exchanger() = default;
  exchanger(const exchanger&) = delete;
  exchanger& operator=(const exchanger&) = delete;

  virtual void exchange(const framed_block& block) = 0;
  /// Completes and frees all requests. All ranks call, after exchanges that have all succeeded.
  virtual void free_requests() = 0;
  /// When all ranks have freed theirs.
  virtual void free_memory() {}
  /// In place of the two, behind an exchange that has thrown: this rank comes to no end with the others.
  virtual void leave() noexcept {}
};

std::unique_ptr<framed_halo::exchanger> make_traditional_halo(MPI_Comm comm, const halo_shape& shape);
std::unique_ptr<framed_halo::exchanger> make_queue_halo(MPI_Comm comm, const halo_shape& shape,
                                                        const framed_pair& blocks, halo_sends sends);
std::unique_ptr<framed_halo::exchanger> make_partitioned_halo(MPI_Comm comm, const halo_shape& shape);

}  // namespace partita
