// Link `direct` between the GPUs of a node: the receive buffer is mapped into the sender's GPU.
#pragma once

#include <memory>
#include <span>
#include <variant>

#include "link/context.hpp"
#include "link/link.hpp"
#include "memory/blocks.hpp"

namespace partita::link {

/// Kernels put by themselves (device_route); what the host puts, the GPU's copy engine moves. Both endpoints are GPU
/// memory of one node; whether the GPUs reach each other is tried by mapping.
/// `probe`: any block of the sender's GPU, which the receiver tries to map.
std::variant<std::unique_ptr<Sender>, Refusal> make_device_sender(const Context& context, const Endpoint& endpoint,
                                                                  const memory::DeviceBlock& probe);
std::variant<std::unique_ptr<Receiver>, Refusal> make_device_receiver(const Context& context, const Endpoint& endpoint,
                                                                      const Plan& plan,
                                                                      std::span<const std::byte> offer);

}  // namespace partita::link
