// The one UCX worker of a process: who may touch it, what is under way, and what comes next.
#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>

#include "core/progress.hpp"
#include "link/ucx/context.hpp"
#include "link/ucx/gate.hpp"
#include "link/ucx/peer.hpp"
#include "link/ucx/transfer.hpp"
#include "memory/device.hpp"

namespace partita::link::ucx {

/// Takes eager messages. Called by whichever thread makes progress, one at a time.
class Sink {
 public:
  virtual void deliver(const EagerHeader& header, std::span<const std::byte> bytes) = 0;

 protected:
  ~Sink() = default;
};

/// What must outlive its owner until the last of its transfers has ended.
class Retired {
 public:
  virtual ~Retired() = default;
  virtual bool idle() const = 0;

 private:
  friend class Worker;
  std::unique_ptr<Retired> next_;
};

/// A transfer passes: inbox, put, flush, flags, end; an eager one: inbox, message, end. Each step is taken
/// by the thread that holds the gate; UCX's callbacks only move transfers between lists. A thread that finds the gate
/// closed leaves its transfer in the inbox, which the holder empties before and after it leaves, so submit() and
/// progress() never wait. Whoever enters has a GPU current, once use_gpu has named one.
class Worker {
 public:
  /// Starts UCX. Takes milliseconds; throws Error. `progress` is told when steps are left that belong to no open epoch.
  Worker(Progress& progress, memory::DeviceMemory& device_memory)
      : progress_(progress), device_memory_(device_memory) {}
  ~Worker() { close(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const Context& context() const { return context_; }
  /// Closes the connections and destroys what was retired; waits for what is under way, a second at most. The last call
  /// of all.
  void close() noexcept;

  /// Memory of GPU `device` travels from here on: some of UCX's copies run in whatever CUDA context the thread has that
  /// drives it. Before that memory is registered. Any thread.
  void use_gpu(int device) { gpu_.store(device, std::memory_order_relaxed); }
  /// Calls `body` with GPU `device` current. With the gate held. Throws Error where the GPU is gone.
  void with_gpu(int device, const std::function<void()>& body) const { device_memory_.with_gpu(device, body); }

  /// The connection to `rank`, made with its worker's `address` the first time. Waits for the gate; throws Error.
  Peer& connect(int rank, std::span<const std::byte> address);

  /// Starts `transfer`. Any thread. A failure is remembered by the peer and the tally.
  void submit(Transfer& transfer);
  /// Any thread. True if something moved, or bytes move in further calls; false also when another thread is at it.
  bool progress();

  /// Eager messages with the returned number go to `sink` until remove_sink. Waits for the gate.
  std::uint64_t add_sink(Sink& sink);
  void remove_sink(std::uint64_t number) noexcept;
  /// Destroys `owner` once it is idle. Waits for the gate.
  void retire(std::unique_ptr<Retired> owner) noexcept;

  /// Keeps the worker to the thread that made it. Waits for the gate.
  class Hold {
   public:
    explicit Hold(Worker& worker) : worker_(worker) { worker_.enter(); }
    ~Hold() { worker_.leave(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    /// Calls `body` with no GPU current in this thread. Nobody takes steps meanwhile, this thread included.
    void without_gpu(const std::function<void()>& body) const { worker_.device_memory_.without_gpu(body); }

   private:
    Worker& worker_;
  };

 private:
  void enter();
  bool try_enter();
  void enter_gpu() noexcept;
  void leave();
  void empty_inbox();
  bool take_steps();

  template <class Item, void (Worker::*after)(Item&, ucs_status_t)>
  static ucp_request_param_t then(Item& item);
  void begin(Transfer& transfer);
  void send_message(Transfer& transfer);
  void after_message(Transfer& transfer, ucs_status_t status);
  void put_bytes(Transfer& transfer);
  void after_bytes(Transfer& transfer, ucs_status_t status);
  void serve(Peer& peer);
  void flush(Peer& peer);
  void after_flush(Flush& flush, ucs_status_t status);
  void put_flags(Transfer& transfer);
  void after_flags(Transfer& transfer, ucs_status_t status);
  void after_last_step(Transfer& transfer, ucs_status_t status, const char* call);
  void want_prompt_steps(bool& wanted);
  void unwant_prompt_steps(bool& wanted);
  void list(Peer& peer);
  void drop(Transfer& transfer);
  void drop_all(TransferList& transfers);
  void end(Transfer& transfer);

  void close_connections() noexcept;
  std::unique_ptr<Retired> take_idle_retired() noexcept;

  /// What UCX's callbacks are given leads to a peer, and that to its worker.
  struct PeerOfWorker final : Peer {
    PeerOfWorker(Worker& its, int rank) : Peer(rank), worker(its) {}
    Worker& worker;
  };
  static Worker& worker_of(Peer& peer) { return static_cast<PeerOfWorker&>(peer).worker; }
  static void on_failure(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t on_arrival(void* worker, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t size_bytes, const ucp_am_recv_param_t* param);

  Progress& progress_;
  memory::DeviceMemory& device_memory_;
  std::atomic<int> gpu_{-1};  ///< whose memory travels, if any does
  Gate gate_;                 ///< by enter() and try_enter() only
  TransferInbox inbox_;
  TransferList flags_due_;
  int prompt_steps_wanted_ = 0;  ///< by how many transfers and flushes
  Peer* listed_ = nullptr;       ///< peers with something due
  std::map<int, std::unique_ptr<PeerOfWorker>> peers_;
  std::unordered_map<std::uint64_t, Sink*> sinks_;
  std::uint64_t newest_sink_ = 0;
  std::unique_ptr<Retired> retired_;
  Context context_;  ///< goes first: its end calls back for what is under way
};

}  // namespace partita::link::ucx
