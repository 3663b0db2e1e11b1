#include "link/ucx/worker.hpp"

#include <chrono>
#include <cstring>

#include "core/error.hpp"
#include "link/ucx/check.hpp"

namespace partita::link::ucx {
namespace {

constexpr unsigned eager_message = 1;  // the one kind of active message
constexpr std::chrono::milliseconds close_limit{1000};

/// `param` for the bytes of `transfer`. What UCX is told here it need not find out for each transfer.
ucp_request_param_t with_source(ucp_request_param_t param, const Transfer& transfer) {
  if (transfer.source_handle == nullptr) return param;
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  param.memh = transfer.source_handle;
  return param;
}

}  // namespace

void Worker::close() noexcept {
  enter();
  close_connections();
  const auto idle = take_idle_retired();
  gate_.leave();
  // What UCX has not let go of by now it may touch until its worker is gone: better lost than freed.
  static_cast<void>(retired_.release());
}

Peer& Worker::connect(int rank, std::span<const std::byte> address) {
  const Hold hold(*this);
  std::unique_ptr<PeerOfWorker>& peer = peers_[rank];
  if (peer != nullptr) return *peer;
  auto made = std::make_unique<PeerOfWorker>(*this, rank);

  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&Worker::on_failure, made.get()};
  PARTITA_UCX_TOWARDS(rank, ucp_ep_create(context_.worker(), &params, &made->endpoint_));
  peer = std::move(made);
  return *peer;
}

std::uint64_t Worker::add_sink(Sink& sink) {
  const Hold hold(*this);
  if (newest_sink_ == 0) {
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                         UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = eager_message;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    handler.cb = &Worker::on_arrival;
    handler.arg = this;
    PARTITA_UCX(ucp_worker_set_am_recv_handler(context_.worker(), &handler));
  }
  sinks_.emplace(++newest_sink_, &sink);
  return newest_sink_;
}

void Worker::remove_sink(std::uint64_t number) noexcept {
  const Hold hold(*this);
  sinks_.erase(number);
}

void Worker::retire(std::unique_ptr<Retired> owner) noexcept {
  std::unique_ptr<Retired> idle;  // destroyed outside the gate, which their members take
  const Hold hold(*this);
  idle = take_idle_retired();
  owner->next_ = std::move(retired_);
  retired_ = std::move(owner);
}

std::unique_ptr<Retired> Worker::take_idle_retired() noexcept {
  std::unique_ptr<Retired> idle;
  for (auto* place = &retired_; *place != nullptr;) {
    if (!(*place)->idle()) {
      place = &(*place)->next_;
      continue;
    }
    auto owner = std::move(*place);
    *place = std::move(owner->next_);
    owner->next_ = std::move(idle);
    idle = std::move(owner);
  }
  return idle;
}

// ---- The gate ------------------------------------------------------------------------------------------------------

void Worker::enter() {
  gate_.enter();
  enter_gpu();
}

bool Worker::try_enter() {
  if (!gate_.try_enter()) return false;
  enter_gpu();
  return true;
}

/// With the gate held: who registered the first GPU memory has held it after use_gpu, so whoever may be handed steps on
/// that memory sees the GPU here.
void Worker::enter_gpu() noexcept {
  const int device = gpu_.load(std::memory_order_relaxed);
  if (device < 0) return;
  try {
    device_memory_.make_current(device);
  } catch (const Error&) {
    // The GPU is gone or broken: UCX's own calls say so where they need it.
  }
}

void Worker::leave() {
  gate_.leave();
  empty_inbox();
}

void Worker::submit(Transfer& transfer) {
  inbox_.push(transfer);
  empty_inbox();
}

void Worker::empty_inbox() {
  while (!inbox_.empty()) {
    if (!try_enter()) return;  // the holder looks into the inbox once more after it has left
    take_steps();
    gate_.leave();
  }
}

bool Worker::progress() {
  if (!try_enter()) return false;
  bool moved = ucp_worker_progress(context_.worker()) != 0;
  moved |= take_steps();
  moved |= prompt_steps_wanted_ > 0;
  leave();
  return moved;
}

/// With the gate held.
bool Worker::take_steps() {
  bool moved = false;
  while (true) {
    if (!inbox_.empty()) {
      TransferList arrived = inbox_.take();
      while (Transfer* transfer = arrived.pop()) begin(*transfer);
    } else if (listed_ != nullptr) {
      Peer& peer = *std::exchange(listed_, listed_->next_listed_);
      peer.listed_ = false;
      serve(peer);
    } else if (Transfer* transfer = flags_due_.pop()) {
      put_flags(*transfer);
    } else {
      return moved;
    }
    moved = true;
  }
}

// ---- The steps of a transfer, in their order -----------------------------------------------------------------------
//
// Each is a call of UCX, made with the gate held, and what follows when it has ended. The latter may run in a callback
// of UCX, from which nothing may be sent: it leaves the transfer where take_steps() finds it.

/// What UCX is to call when the step has ended with `item`.
template <class Item, void (Worker::*after)(Item&, ucs_status_t)>
ucp_request_param_t Worker::then(Item& item) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = [](void* request, ucs_status_t status, void* ended) {
    ucp_request_free(request);
    Item& its = *static_cast<Item*>(ended);
    (worker_of(*its.peer).*after)(its, status);
  };
  param.user_data = &item;
  return param;
}

void Worker::begin(Transfer& transfer) {
  if (transfer.peer->failed()) return drop(transfer);
  if (transfer.eager) return send_message(transfer);
  if (transfer.size_bytes == 0) return put_flags(transfer);
  put_bytes(transfer);
}

void Worker::send_message(Transfer& transfer) {
  ucp_request_param_t param = with_source(then<Transfer, &Worker::after_message>(transfer), transfer);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  const auto status = status_of(ucp_am_send_nbx(transfer.peer->endpoint_, eager_message, &transfer.header,
                                                sizeof(EagerHeader), transfer.source, transfer.size_bytes, &param));
  if (status != UCS_INPROGRESS) after_message(transfer, status);
}

void Worker::after_message(Transfer& transfer, ucs_status_t status) {
  after_last_step(transfer, status, "ucp_am_send_nbx");
}

void Worker::put_bytes(Transfer& transfer) {
  const ucp_request_param_t param = with_source(then<Transfer, &Worker::after_bytes>(transfer), transfer);
  const auto status = status_of(ucp_put_nbx(transfer.peer->endpoint_, transfer.source, transfer.size_bytes,
                                            transfer.data.address, transfer.data.key, &param));
  if (status != UCS_INPROGRESS) return after_bytes(transfer, status);
  want_prompt_steps(transfer.wants_prompt_steps);
}

void Worker::after_bytes(Transfer& transfer, ucs_status_t status) {
  Peer& peer = *transfer.peer;
  unwant_prompt_steps(transfer.wants_prompt_steps);
  list(peer);
  if (status == UCS_OK) return peer.put_.push(transfer);
  peer.fail(status, "ucp_put_nbx");
  drop(transfer);
}

/// What is due to a peer in the list: a flush of what was put, whose flags follow, or of flags and messages alone.
void Worker::serve(Peer& peer) {
  if (peer.failed()) {
    drop_all(peer.put_);
    peer.close();
  } else if (!peer.put_.empty() || (peer.unconfirmed_ && peer.flushes_under_way_ == 0)) {
    flush(peer);
  }
}

void Worker::flush(Peer& peer) {
  if (peer.free_flush_ == nullptr) return;  // the next one to end lists the peer again
  Flush& flush = *std::exchange(peer.free_flush_, peer.free_flush_->next_free);
  flush.transfers.append(peer.put_);
  peer.unconfirmed_ = false;
  ++peer.flushes_under_way_;
  const ucp_request_param_t param = then<Flush, &Worker::after_flush>(flush);
  const auto status = status_of(ucp_ep_flush_nbx(peer.endpoint_, &param));
  if (status != UCS_INPROGRESS) return after_flush(flush, status);
  if (!flush.transfers.empty()) return want_prompt_steps(flush.wants_prompt_steps);
  flush.wants_progress = true;
  progress_.want();
}

void Worker::after_flush(Flush& flush, ucs_status_t status) {
  Peer& peer = *flush.peer;
  list(peer);
  if (status == UCS_OK) {
    flags_due_.append(flush.transfers);
  } else {
    peer.fail(status, "ucp_ep_flush_nbx");
    drop_all(flush.transfers);
  }
  flush.next_free = std::exchange(peer.free_flush_, &flush);
  --peer.flushes_under_way_;
  unwant_prompt_steps(flush.wants_prompt_steps);
  if (std::exchange(flush.wants_progress, false)) progress_.unwant();
}

void Worker::put_flags(Transfer& transfer) {
  if (transfer.peer->failed()) return drop(transfer);
  const ucp_request_param_t param = then<Transfer, &Worker::after_flags>(transfer);
  const auto status =
      status_of(ucp_put_nbx(transfer.peer->endpoint_, transfer.flag_values.data(), transfer.flag_values.size_bytes(),
                            transfer.flags.address, transfer.flags.key, &param));
  if (status != UCS_INPROGRESS) after_flags(transfer, status);
}

void Worker::after_flags(Transfer& transfer, ucs_status_t status) {
  after_last_step(transfer, status, "ucp_put_nbx (flags)");
}

void Worker::after_last_step(Transfer& transfer, ucs_status_t status, const char* call) {
  Peer& peer = *transfer.peer;
  list(peer);
  if (status != UCS_OK) {
    peer.fail(status, call);
    return drop(transfer);
  }
  peer.unconfirmed_ = true;
  end(transfer);
}

/// UCX goes on with bytes in our calls alone, part by part where it emulates a put. So a thread calls soon and again,
/// though nothing else moves.
void Worker::want_prompt_steps(bool& wanted) {
  wanted = true;
  if (prompt_steps_wanted_++ > 0) return;
  progress_.want();  // an epoch that was given up wants none any more
  progress_.want_prompt();
}

void Worker::unwant_prompt_steps(bool& wanted) {
  if (!std::exchange(wanted, false) || --prompt_steps_wanted_ > 0) return;
  progress_.unwant_prompt();
  progress_.unwant();
}

/// Something is due to the peer: take_steps() serves it.
void Worker::list(Peer& peer) {
  if (std::exchange(peer.listed_, true)) return;
  peer.next_listed_ = std::exchange(listed_, &peer);
}

void Worker::drop(Transfer& transfer) {
  transfer.tally->lost.store(true, std::memory_order_relaxed);
  end(transfer);
}

void Worker::drop_all(TransferList& transfers) {
  while (Transfer* transfer = transfers.pop()) drop(*transfer);
}

void Worker::end(Transfer& transfer) {
  transfer.tally->outstanding.fetch_sub(1, std::memory_order_release);  // the owner may free the transfer from here on
}

// ---- What UCX reports by itself -------------------------------------------------------------------------------------

void Worker::on_failure(void* argument, ucp_ep_h, ucs_status_t status) {
  auto& peer = *static_cast<Peer*>(argument);
  peer.fail(status, "the connection");
  worker_of(peer).list(peer);
}

ucs_status_t Worker::on_arrival(void* argument, const void* header_bytes, std::size_t header_size, void* data,
                                std::size_t size_bytes, const ucp_am_recv_param_t*) {
  EagerHeader header;
  if (header_size != sizeof(header)) return UCS_OK;  // not of this protocol
  std::memcpy(&header, header_bytes, sizeof(header));
  auto& worker = *static_cast<Worker*>(argument);
  const auto found = worker.sinks_.find(header.sink);
  if (found != worker.sinks_.end()) {
    found->second->deliver(header, {static_cast<const std::byte*>(data), size_bytes});
  }
  return UCS_OK;
}

// ---- End -----------------------------------------------------------------------------------------------------------

void Worker::close_connections() noexcept {
  const auto any_peer = [this](auto condition) {
    for (const auto& [rank, peer] : peers_) {
      if (peer != nullptr && condition(*peer)) return true;
    }
    return false;
  };
  const auto deadline = std::chrono::steady_clock::now() + close_limit;
  const auto wait_while = [&](auto condition) {
    while (any_peer(condition) && std::chrono::steady_clock::now() < deadline) {
      ucp_worker_progress(context_.worker());
      take_steps();
    }
  };
  wait_while([](const Peer& peer) { return !peer.failed() && peer.flushes_under_way_ > 0; });
  // Without asking the other side, which may be gone. What is still under way ends with an error.
  any_peer([](Peer& peer) {
    peer.close();
    return false;
  });
  wait_while([](Peer& peer) { return peer.closing(); });
}

}  // namespace partita::link::ucx
