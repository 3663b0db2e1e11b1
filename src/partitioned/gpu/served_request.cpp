#include "partitioned/gpu/served_request.hpp"

namespace partita {

std::optional<Error> KernelFindings::why_ended(int peer, const std::string& name) {
  if (!has_ended(peer)) return {};
  return Error(ErrorClass::other,
               "rank {} has ended (its process is gone), and kernels that waited for it were released. {}", peer, name);
}

bool KernelFindings::has_ended(int peer) {
  const auto [found, is_new] = has_ended_.try_emplace(peer, false);
  if (is_new) found->second = world_.has_ended(peer);
  return found->second;
}

const Error* KernelFindings::fault_of(int device) {
  const auto [found, is_new] = fault_of_.try_emplace(device);
  try {
    if (is_new) device_memory_.check(device);
  } catch (const Error& error) {
    found->second.emplace(error);
  }
  return found->second ? &*found->second : nullptr;
}

}  // namespace partita
