#include "link/ucx/peer.hpp"

#include "core/error.hpp"

namespace partita::link::ucx {
namespace {

ucs_status_ptr_t close_at_once(ucp_ep_h endpoint) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  return ucp_ep_close_nbx(endpoint, &param);
}

}  // namespace

Peer::Peer(int rank) : rank_(rank) {
  for (Flush& flush : flushes_) {
    flush.peer = this;
    flush.next_free = std::exchange(free_flush_, &flush);
  }
}

void Peer::fail(ucs_status_t status, const char* where) {
  if (failed()) return;
  failed_call_.store(where, std::memory_order_relaxed);
  failure_.store(status, std::memory_order_release);
}

void Peer::throw_failure() const {
  throw Error(ErrorClass::other, "link ucx lost rank {}: UCX reported '{}' for {}", rank_,
              ucs_status_string(failure_.load(std::memory_order_acquire)),
              failed_call_.load(std::memory_order_relaxed));
}

bool Peer::closing() noexcept {
  if (close_request_ == nullptr) return false;
  if (ucp_request_check_status(close_request_) == UCS_INPROGRESS) return true;
  ucp_request_free(std::exchange(close_request_, nullptr));
  return false;
}

void Peer::close() noexcept {
  if (endpoint_ == nullptr) return;
  const auto result = close_at_once(std::exchange(endpoint_, nullptr));
  if (UCS_PTR_IS_PTR(result)) close_request_ = result;
}

}  // namespace partita::link::ucx
