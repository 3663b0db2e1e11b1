// The sending half of a request on link mpi.
#pragma once

#include <atomic>
#include <vector>

#include "link/link.hpp"
#include "link/mpi/blocks.hpp"
#include "link/mpi/copied_sends.hpp"
#include "link/mpi/persistent.hpp"

namespace partita::link::mpi {

class MpiSender final : public Sender {
 public:
  MpiSender(World& world, CopiedSends& copied, const Endpoint& endpoint)
      : world_(world),
        copied_(copied),
        peer_(endpoint.peer),
        synchronous_(endpoint.synchronous),
        sends_(endpoint.peer) {}

  wire::Bytes offer() override { return {}; }
  std::variant<SenderFacts, Obstacle> connect(const Plan& plan, std::byte* data,
                                              std::span<const std::byte> answer) override;
  void start(Epoch epoch) override;
  // The MPI keeps messages that come before their receive, and keeps them in order.
  bool ready(Epoch) const override { return true; }
  bool prepared(Epoch) const override { return true; }
  void put(Range run, Epoch epoch) override;
  bool finished() override { return sends_.test_all(); }

 private:
  void put_part(std::int64_t block, Range part, Epoch epoch);

  World& world_;
  CopiedSends& copied_;
  const int peer_;
  const bool synchronous_;
  Blocks blocks_;
  const std::byte* data_ = nullptr;
  int first_tag_ = 0;
  PersistentRequests sends_;  ///< by block
  std::vector<std::atomic<std::int32_t>>
      left_;  ///< per block that may go in parts: transport partitions still to go so
};

}  // namespace partita::link::mpi
