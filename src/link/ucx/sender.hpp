// The sending half of a request on link ucx.
#pragma once

#include <memory>
#include <span>

#include "link/link.hpp"
#include "link/ucx/process.hpp"

namespace partita::link::ucx {

class UcxSender final : public Sender {
 public:
  /// `gpu_region`: the endpoint's memory where that is a GPU's, else null.
  UcxSender(std::shared_ptr<Process> process, const Endpoint& endpoint, std::shared_ptr<Region> gpu_region);
  ~UcxSender() override;

  wire::Bytes offer() override;
  std::variant<SenderFacts, Obstacle> connect(const Plan& plan, std::byte* data,
                                              std::span<const std::byte> answer) override;
  void start(Epoch epoch) override;
  bool ready(Epoch epoch) const override;
  bool prepared(Epoch epoch) const override { return ready(epoch); }
  void put(Range run, Epoch epoch) override;
  bool finished() override;
  void release_memory() override;

 private:
  struct State;

  bool promised(Epoch epoch) const;

  std::shared_ptr<Process> process_;
  Endpoint endpoint_;
  std::unique_ptr<State> state_;
};

}  // namespace partita::link::ucx
