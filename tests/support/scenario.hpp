// One partitioned transfer as both of its sides know it beforehand.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/buffer.hpp"
#include "support/layout.hpp"
#include "support/random.hpp"

namespace partita::test {

struct Side {
  TypedLayout layout;
  int partitions = 1;
  MPI_Count count = 0;  ///< elements per partition
  Memory memory = Memory::plain;

  std::int64_t elements() const { return partitions * count; }
  std::int64_t partition_bytes() const { return count * layout.size_bytes(); }
};

struct Scenario {
  Side send;
  Side recv;
  MPI_Datatype basic = MPI_BYTE;
  int basic_bytes = 1;
  int tag = 0;
  int transport_partitions = 0;  ///< info key; 0: not given
  int epochs = 1;

  /// Partition counts of any ratio, layouts that differ with the same signature, sizes from nothing to about a
  /// megabyte.
  static Scenario random(Random& random);
  /// Plain bytes: `send_partitions` and `recv_partitions` over `total_bytes`.
  static Scenario of_bytes(int send_partitions, int recv_partitions, std::int64_t total_bytes);

  std::int64_t total_bytes() const { return send.elements() * send.layout.size_bytes(); }
  /// The send partitions of which receive partition `r` holds a part; for zero bytes, as if there were some.
  std::pair<int, int> senders_of(int r) const;
  /// The packed bytes that travel in the epoch with number `key`: what is at each place after the sender filled its
  /// buffer.
  std::vector<std::uint8_t> expected(std::uint64_t key) const;
  /// An info object with the keys of this scenario, or MPI_INFO_NULL; the caller frees it.
  MPI_Info make_info() const;
  std::string text() const;
};

}  // namespace partita::test
