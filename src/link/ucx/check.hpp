// Calls UCX and turns a failure into an Error that names the call.
#pragma once

#include <ucp/api/ucp.h>

#include <string_view>

#include "core/error.hpp"

namespace partita::link::ucx {

/// `call` without its arguments.
constexpr std::string_view name_of_call(std::string_view call) {
  return call.substr(0, call.find('('));
}

inline void check(ucs_status_t status, std::string_view call) {
  if (status != UCS_OK)
    throw Error(ErrorClass::other, "UCX failed in {}: {}", name_of_call(call), ucs_status_string(status));
}

/// Checks a call that sets up what leads to a rank, which may be gone already.
inline void check_towards(int rank, ucs_status_t status, std::string_view call) {
  if (status == UCS_OK) return;
  throw Error(ErrorClass::other, "link ucx cannot reach rank {}: UCX reported '{}' for {}", rank,
              ucs_status_string(status), name_of_call(call));
}

/// The status of what an _nbx call returned: UCS_OK if it is done, UCS_INPROGRESS if its callback follows.
inline ucs_status_t status_of(ucs_status_ptr_t result) {
  return UCS_PTR_IS_PTR(result) ? UCS_INPROGRESS : UCS_PTR_STATUS(result);
}

}  // namespace partita::link::ucx

/// Throws; never for use in a destructor. Calls that report through callbacks end in Peer::fail instead.
#define PARTITA_UCX(call) ::partita::link::ucx::check((call), #call)
#define PARTITA_UCX_TOWARDS(rank, call) ::partita::link::ucx::check_towards((rank), (call), #call)
