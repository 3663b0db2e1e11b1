// The receiving half of a request on link mpi.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "core/world.hpp"
#include "link/link.hpp"
#include "link/mpi/blocks.hpp"
#include "link/mpi/messages.hpp"
#include "link/mpi/persistent.hpp"
#include "link/mpi/tag_ranges.hpp"

namespace partita::link::mpi {

/// Has a receive for each block, which starts with the epoch; and one for pieces, into memory of its own, which waits
/// across epochs.
class MpiReceiver final : public Receiver {
 public:
  MpiReceiver(World& world, const Endpoint& endpoint, const Plan& plan, std::int32_t blocks, TagRanges& tags);
  ~MpiReceiver() override;

  ReceiverAnswer answer() override;
  void open(Epoch epoch) override;
  bool arrived(std::int32_t t, Epoch epoch) override;

 private:
  /// What is still to come of a block in the open epoch.
  struct Awaited {
    bool message = false;         ///< of the block
    std::int64_t transports = 0;  ///< partitions that have not come in pieces
  };

  bool has_arrived(std::int32_t t, Epoch epoch) const;
  void say_arrived(Range run, Epoch epoch);
  bool take_next(std::int64_t block, Epoch epoch);
  PersistentRequests::Done look(std::int64_t block, MPI_Status* status);
  void take_message(std::int64_t block, Epoch epoch, const MPI_Status& status);
  bool take_piece(std::size_t size_bytes, Epoch epoch);
  void take_run(Range run, Epoch epoch);
  void create_receives(World& world);

  const int peer_;
  std::byte* const data_;
  const Blocks blocks_;
  const Tags tags_;
  std::vector<std::atomic<Epoch>> arrived_;  ///< by transport partition: the last epoch in which it has

  std::mutex mutex_;  ///< of what follows: one thread looks
  PersistentRequests block_receives_;
  std::vector<Awaited> awaited_;  ///< by block
  PersistentRequests piece_receive_;
  std::vector<std::byte> piece_message_;    ///< empty where no block may go in parts
  std::optional<std::size_t> piece_bytes_;  ///< of a message that has come, of a later epoch; else the receive waits
};

}  // namespace partita::link::mpi
