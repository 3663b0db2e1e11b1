// A matched pair of device requests in one process, with no library behind it: the words that a host would make, and
// the host's part of an epoch. The device API is tested with it on CPU threads and, given GPU memory, in kernels.
#pragma once

#include <partita/device/prequest.h>
#include <partita/device/impl/plan.hpp>
#include <partita/device/impl/words.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/pattern.hpp"

namespace partita::test {

enum class Spot { sender_gpu, receiver_gpu, host };

/// Where the words and buffers of a pair lie. Memory is zeroed, aligned to 128 bytes and lives as long as this.
class PairMemory {
 public:
  virtual ~PairMemory() = default;
  virtual unsigned char* allocate(Spot spot, std::size_t size_bytes) = 0;
  /// Between any two places; complete on return, and not behind any kernel.
  virtual void copy(void* to, const void* from, std::size_t size_bytes) = 0;
};

/// Host memory for all of it: the CPU's tests.
class HostPairMemory : public PairMemory {
 public:
  unsigned char* allocate(Spot, std::size_t size_bytes) override {
    const std::size_t rounded = (size_bytes + 127) / 128 * 128 + 128;
    void* const block = std::aligned_alloc(128, rounded);
    if (block == nullptr) throw std::bad_alloc();
    std::memset(block, 0, rounded);
    blocks_.emplace_back(block, &std::free);
    return static_cast<unsigned char*>(block);
  }
  void copy(void* to, const void* from, std::size_t size_bytes) override { std::memcpy(to, from, size_bytes); }

 private:
  std::vector<std::unique_ptr<void, void (*)(void*)>> blocks_;
};

struct PairShape {
  int send_partitions = 1;
  int recv_partitions = 1;
  int transport_partitions = 1;
  std::int64_t total_bytes = 64;
  bool send_device_driven = false;
  bool recv_device_driven = false;
  bool packets = false;
  bool in_place = false;
  bool mapped = true;       ///< false: the sender's kernels cannot reach the receive buffer
  bool has_front = false;   ///< the sender's host announces the first ones by a count where it can
  Epoch before = no_epoch;  ///< the first epoch is the one after it
  std::uint64_t limit_ns = 20'000'000'000;
  int misaligned_send_bytes = 0;  ///< the send buffer begins so far behind a boundary
  int misaligned_recv_bytes = 0;

  std::string text() const {
    return std::to_string(send_partitions) + " send, " + std::to_string(recv_partitions) + " receive, " +
           std::to_string(transport_partitions) + " transport partitions, " + std::to_string(total_bytes) + " bytes" +
           (send_device_driven ? ", device-driven send" : "") + (recv_device_driven ? ", device-driven receive" : "") +
           (packets ? ", packets" : "") + (in_place ? ", in place" : "") + (mapped ? "" : ", not mapped") +
           (has_front ? ", with a front" : "") + ", from epoch " + std::to_string(before);
  }
};

/// Words between threads of the host, and between the host and kernels.
inline Epoch load_word(const std::uint32_t* word) {
  return std::atomic_ref<std::uint32_t>(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire);
}
inline void store_word(std::uint32_t* word, std::uint32_t value) {
  std::atomic_ref<std::uint32_t>(*word).store(value, std::memory_order_release);
}

/// Where the host says that kernels are released.
enum class Release { host_memory, gpu_memory, both };

class DevicePair {
 public:
  DevicePair(PairMemory& memory, const PairShape& shape) : memory_(memory), shape_(shape) {
    const bool both_device_driven = shape.send_device_driven && shape.recv_device_driven;
    if (shape.packets && !both_device_driven) throw std::logic_error("packets need two device-driven requests");
    if (shape.has_front && shape.send_device_driven) throw std::logic_error("no host puts what kernels open");
    const auto total = static_cast<std::size_t>(shape.total_bytes);
    const auto transports = static_cast<std::size_t>(shape.transport_partitions);

    send_buffer_ = memory.allocate(Spot::sender_gpu, total + 16) + shape.misaligned_send_bytes;
    recv_buffer_ = memory.allocate(Spot::receiver_gpu, total + 16) + shape.misaligned_recv_bytes;
    promise_ = reinterpret_cast<std::uint32_t*>(memory.allocate(both_device_driven ? Spot::sender_gpu : Spot::host, 8));
    started_ = reinterpret_cast<std::uint32_t*>(memory.allocate(Spot::host, 8));
    const auto words = static_cast<std::size_t>(device::words_with_front(shape.transport_partitions));
    arrival_device_ = reinterpret_cast<std::uint32_t*>(memory.allocate(Spot::receiver_gpu, 4 * words));
    if (!shape.recv_device_driven) {
      arrival_host_ = reinterpret_cast<std::uint32_t*>(memory.allocate(Spot::host, 4 * words));
    }
    unsigned char* slots = nullptr;
    if (shape.packets) slots = memory.allocate(Spot::receiver_gpu, device::packet_slot_bytes(shape.total_bytes) + 16);

    send_.flags = PARTITA_PREQUEST_SEND;
    recv_.flags = PARTITA_PREQUEST_RECV;
    if (shape.send_device_driven) send_.flags |= PARTITA_PREQUEST_DEVICE_DRIVEN;
    if (shape.recv_device_driven) recv_.flags |= PARTITA_PREQUEST_DEVICE_DRIVEN;
    if (shape.packets) send_.flags |= PARTITA_PREQUEST_PACKETS;
    if (shape.packets) recv_.flags |= PARTITA_PREQUEST_PACKETS;
    if (shape.in_place) send_.flags |= PARTITA_PREQUEST_IN_PLACE;
    if (shape.has_front) recv_.flags |= PARTITA_PREQUEST_FRONT;
    const bool copies = shape.mapped && !shape.in_place;
    if (!shape.packets && device::announces_together(shape.send_partitions, shape.transport_partitions,
                                                     copies ? shape.total_bytes / shape.send_partitions : 0)) {
      send_.flags |= PARTITA_PREQUEST_TOGETHER;
    }
    for (Partita_Prequest* request : {&send_, &recv_}) {
      request->life = device::first_life;
      request->flags |= PARTITA_PREQUEST_MADE;
      const Spot gpu = request == &send_ ? Spot::sender_gpu : Spot::receiver_gpu;
      const auto state_bytes =
          device::state_bytes(request->flags, shape.send_partitions, shape.recv_partitions, shape.transport_partitions);
      request->state = reinterpret_cast<Partita_Prequest_state*>(memory.allocate(gpu, state_bytes));
      const Partita_Prequest_state state = device::first_state(request->flags, shape.before, request->life);
      memory.copy(request->state, &state, sizeof state);
      request->host = reinterpret_cast<Partita_Prequest_host*>(
          memory.allocate(Spot::host, device::host_bytes(request->flags, shape.transport_partitions)));
      request->host->completed = shape.before;
      request->total_bytes = shape.total_bytes;
      request->send_partition_bytes = shape.total_bytes / shape.send_partitions;
      request->recv_partition_bytes = shape.total_bytes / shape.recv_partitions;
      request->send_partitions = shape.send_partitions;
      request->recv_partitions = shape.recv_partitions;
      request->transport_partitions = shape.transport_partitions;
      request->limit_ns = shape.limit_ns;
      request->arrival_device = arrival_device_;
    }
    send_.arrival_host = arrival_host_;
    send_.promise = reinterpret_cast<const partita_u64*>(promise_);
    send_.buffer = send_buffer_;
    send_.remote = !shape.mapped ? nullptr : shape.packets ? slots : recv_buffer_;
    recv_.credit = promise_;
    recv_.buffer = recv_buffer_;
    recv_.remote = slots;
    recv_.promise = reinterpret_cast<const partita_u64*>(started_);
    for (Partita_Prequest* request : {&send_, &recv_}) {
      request->unit_bytes = device::unit_bytes(*request);
      request->marks_each = device::marks_each(*request);
    }
    moved_.assign(transports, shape.before);
    fill(promise_, 2, shape.before);
    fill(started_, 2, shape.before);
    fill(arrival_device_, words, shape.before);
    if (arrival_host_ != nullptr) fill(arrival_host_, words, shape.before);
    fill(device::handed_over(send_.host), transports, shape.before);
  }

  const Partita_Prequest& send() const { return send_; }
  const Partita_Prequest& recv() const { return recv_; }
  const PairShape& shape() const { return shape_; }
  device::Plan plan() const {
    return device::Plan(shape_.send_partitions, shape_.recv_partitions, shape_.transport_partitions,
                        shape_.total_bytes);
  }
  unsigned char* send_buffer() const { return send_buffer_; }
  unsigned char* recv_buffer() const { return recv_buffer_; }

  // ---- The hosts, of host-driven requests ----

  void start_send(Epoch epoch) { store_word(promise_ + 1, epoch); }
  void start_recv(Epoch epoch) {
    store_word(started_ + 1, epoch);
    store_word(promise_, epoch);
  }
  /// The sender's host tells the kernels that it has seen the receiver ready in `epoch`. On CPUs by an exchange of the
  /// whole word, in which thread sanitizers see the order that a store of one half has, too.
  void note_ready(Epoch epoch) {
    if (dynamic_cast<HostPairMemory*>(&memory_) == nullptr) {
      return memory_.copy(device::seen_ready(send_.state), &epoch, sizeof epoch);
    }
    std::atomic_ref<partita_u64> head(send_.state->head);
    partita_u64 known = head.load(std::memory_order_relaxed);
    while (!head.compare_exchange_weak(known, device::pair_of(device::low_half(known), epoch),
                                       std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  Epoch opened_by_receiver() const { return load_word(promise_); }
  bool send_is_decided(Epoch epoch) const { return load_word(&send_.host->completed) == epoch; }
  bool handed_over(int t, Epoch epoch) const { return load_word(device::handed_over(send_.host) + t) == epoch; }
  bool was_moved(int t, Epoch epoch) const { return moved_[static_cast<std::size_t>(t)] == epoch; }
  bool host_sees_arrival(int t, Epoch epoch) const {
    if (load_word(arrival_host_ + t) == epoch) return true;
    if (!shape_.has_front) return false;
    const auto front = std::atomic_ref(*front_behind(arrival_host_)).load(std::memory_order_acquire);
    return static_cast<std::uint32_t>(t) < device::arrived_in_front(front, epoch);
  }
  bool all_arrived(Epoch epoch) const {
    for (int t = 0; t < shape_.transport_partitions; ++t) {
      if (!host_sees_arrival(t, epoch)) return false;
    }
    return true;
  }
  std::uint32_t failure(const Partita_Prequest& request) const { return load_word(&request.host->failure); }
  /// By the words of the host, by those in GPU memory, or, as the library does, by both.
  void release_kernels(Release where = Release::both) {
    for (const Partita_Prequest* request : {&send_, &recv_}) {
      if (where != Release::gpu_memory) store_word(&request->host->abort, 1);
      if (where != Release::host_memory) store_in_gpu(&request->state->live, request->life | device::life_released);
    }
  }

  /// One round of the progress engine: moves what was handed over and may travel. How many transport partitions. Where
  /// there is a front it counts there what it has moved before the first gap, if it has moved several of these now.
  int progress(Epoch epoch) {
    std::vector<int> now;
    for (int t = 0; t < shape_.transport_partitions; ++t) {
      const auto index = static_cast<std::size_t>(t);
      if (moved_[index] == epoch || !handed_over(t, epoch) || !reached(load_word(promise_), epoch)) continue;
      const device::Range bytes = plan().bytes(t);
      if (bytes.size() > 0) {
        memory_.copy(recv_buffer_ + bytes.begin, send_buffer_ + bytes.begin, static_cast<std::size_t>(bytes.size()));
      }
      moved_[index] = epoch;
      now.push_back(t);
    }
    const auto gap = std::ranges::find_if(moved_, [&](Epoch moved) { return moved != epoch; });
    const auto in_front = static_cast<int>(gap - moved_.begin());
    const bool counts = shape_.has_front && std::ranges::count_if(now, [&](int t) { return t < in_front; }) > 1;
    if (counts) advance_front(in_front, epoch);
    for (const int t : now) {
      if (!counts || t >= in_front) raise(t, epoch);
    }
    return static_cast<int>(now.size());
  }

  /// The flag of transport partition `t`, in GPU memory by a copy, as a progress engine does; on CPUs by a release
  /// store.
  void raise(int t, Epoch epoch) {
    store_in_gpu(arrival_device_ + t, epoch);
    if (arrival_host_ != nullptr) store_word(arrival_host_ + t, epoch);
  }
  /// Likewise the front: the first `count` have arrived.
  void advance_front(int count, Epoch epoch) {
    const std::uint64_t front = device::front_of(static_cast<std::uint32_t>(count), epoch);
    store_in_gpu(front_behind(arrival_device_), front);
    if (arrival_host_ == nullptr) return;
    std::atomic_ref(*front_behind(arrival_host_)).store(front, std::memory_order_release);
  }
  void advance_front_to_end(Epoch epoch) { advance_front(shape_.transport_partitions, epoch); }

  // ---- Contents ----

  /// The byte of `epoch` at `position`.
  static std::uint8_t expected(Epoch epoch, std::int64_t position) { return pattern(epoch, position); }

 private:
  void fill(std::uint32_t* words, std::size_t count, std::uint32_t value) {
    const std::vector<std::uint32_t> values(count, value);
    if (count != 0) memory_.copy(words, values.data(), 4 * count);
  }

  std::uint64_t* front_behind(std::uint32_t* flags) const {
    return reinterpret_cast<std::uint64_t*>(flags + device::place_of_front(shape_.transport_partitions));
  }

  template <class Word>
  void store_in_gpu(Word* word, Word value) {
    if (dynamic_cast<HostPairMemory*>(&memory_) != nullptr) {
      std::atomic_ref(*word).store(value, std::memory_order_release);
    } else {
      memory_.copy(word, &value, sizeof value);
    }
  }

  PairMemory& memory_;
  PairShape shape_;
  Partita_Prequest send_{};
  Partita_Prequest recv_{};
  unsigned char* send_buffer_ = nullptr;
  unsigned char* recv_buffer_ = nullptr;
  std::uint32_t* promise_ = nullptr;  // {credit, started}
  std::uint32_t* started_ = nullptr;
  std::uint32_t* arrival_device_ = nullptr;
  std::uint32_t* arrival_host_ = nullptr;
  std::vector<Epoch> moved_;  // by the progress engine
};

}  // namespace partita::test
