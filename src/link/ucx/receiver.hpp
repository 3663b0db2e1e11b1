// The receiving half of a request on link ucx.
#pragma once

#include <memory>
#include <span>

#include "link/link.hpp"
#include "link/ucx/process.hpp"

namespace partita::link::ucx {

class UcxReceiver final : public Receiver {
 public:
  /// `offer` is the sender's, of this UCX version.
  UcxReceiver(std::shared_ptr<Process> process, const Endpoint& endpoint, const Plan& plan,
              std::span<const std::byte> offer);
  ~UcxReceiver() override;

  ReceiverAnswer answer() override;
  void open(Epoch epoch) override;
  bool arrived(std::int32_t t, Epoch epoch) override;
  void release_memory() override;

 private:
  struct State;

  std::shared_ptr<Process> process_;
  std::unique_ptr<State> state_;
};

}  // namespace partita::link::ucx
