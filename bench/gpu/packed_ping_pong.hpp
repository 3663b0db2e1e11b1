// A ping-pong of messages that kernels pack and unpack (cpu-free-stream-triggered-mpi, section VI-A2).
//
// Rank 1 sends back what it has unpacked, and rank 0 adds 1 to each byte when it unpacks. So a byte that was not moved
// in one round trip, or moved too early, is wrong in all that follow.
#pragma once

#include <memory>
#include <string>

#include "bench/gpu/measurement.hpp"
#include "bench/gpu/queue_requests.hpp"

namespace partita::bench::gpu {

/// What all contenders of a case pack, send, receive and unpack, in GPU memory.
class PackedArrays {
 public:
  explicit PackedArrays(std::int64_t size_bytes);

  std::byte* sent() const { return sent_.data(); }
  std::byte* received() const { return received_.data(); }

  /// Rank 0 holds what `epoch` sends; nothing else is right.
  void prepare(bool first, std::uint64_t epoch, cudaStream_t stream);
  void pack(cudaStream_t stream) const;
  void unpack(bool first, cudaStream_t stream) const;
  void add_turns(int trips) { turns_ += trips; }

  /// The contents as they were before rank 0 added anything to them. The bytes that pad a message of less than a word
  /// are right.
  Region restored(bool first, std::uint64_t epoch, cudaStream_t stream) const;
  /// On rank 0 it tells how often that has unpacked, modulo 256.
  unsigned last_byte() const;

 private:
  std::int64_t size_bytes_;
  int turns_ = 0;
  DeviceBuffer turned_, sent_, received_, restored_;
};

/// Half a round trip, the mean of a sample's, by rank 0's clock: from a barrier until its GPU has unpacked the last
/// one. As many round trips as --batch says, of larger messages fewer.
class PackedPingPong : public GpuMeasurement {
 public:
  PackedPingPong(Job& job, std::string name, const Case& c, std::shared_ptr<PackedArrays> arrays);

  void prepare(std::uint64_t epoch) final { arrays_->prepare(job_.is_first(), epoch, stream_.get()); }
  bool compare(std::uint64_t epoch) const final {
    return compare_region(arrays_->restored(job_.is_first(), epoch, stream_.get()), epoch);
  }
  double sample(const Round& round) final;

 protected:
  /// All round trips, until this rank's stream has ended.
  virtual void play() = 0;
  /// This rank's figure, of half a round trip on rank 0 and 0 on rank 1.
  virtual double counted_us(double half_trip_us) { return half_trip_us; }

  /// Rank 1 has started its first receive, and says so; rank 0 waits for that before its first send.
  virtual void let_begin() {}
  virtual void start_receive() = 0;
  virtual void send() = 0;
  virtual void await_receive() = 0;
  virtual void pack() { launch_pack(); }
  virtual void unpack() { arrays_->unpack(job_.is_first(), stream_.get()); }

  /// Each receive starts before the send, or the word, that the peer's next send waits for: so all sends may be ready
  /// ones.
  void make_trips();

  void launch_pack() const { arrays_->pack(stream_.get()); }
  int trips() const { return trips_; }
  std::byte* sent() const { return arrays_->sent(); }
  std::byte* received() const { return arrays_->received(); }
  int send_tag() const { return job_.is_first() ? to_rank_1_tag : to_rank_0_tag; }
  int receive_tag() const { return job_.is_first() ? to_rank_0_tag : to_rank_1_tag; }

 private:
  static constexpr int to_rank_1_tag = 81;
  static constexpr int to_rank_0_tag = 82;
  /// Cheap enough for each sample: one whose waits ended early must not be the fastest.
  void check_turns(unsigned before) const;

  std::shared_ptr<PackedArrays> arrays_;
  int trips_;
};

/// The host waits for the packing kernel, sends, receives, and launches the unpacking one.
class ByHost : public PackedPingPong {
 public:
  using PackedPingPong::PackedPingPong;

 protected:
  void play() final {
    make_trips();
    stream_.synchronize();
  }
  /// The host may send when it returns, and receive: what came before is unpacked.
  void pack() override {
    launch_pack();
    stream_.synchronize();
  }
};

/// Ordinary persistent requests of Partita's, started and awaited by the host.
class Traditional : public ByHost {
 public:
  Traditional(Job& job, std::string name, const Case& c, std::shared_ptr<PackedArrays> arrays);
  LinkUsed link_used() final { return send_.link_used(); }

 private:
  void start_receive() final { receive_.start(); }
  void send() final {
    send_.start();
    send_.wait();
  }
  void await_receive() final { receive_.wait(); }

  PersistentMessage send_, receive_;
};

/// Requests of one partition, which the host marks and the progress engine's copies move.
class TraditionalEngine : public ByHost {
 public:
  TraditionalEngine(Job& job, std::string name, const Case& c, std::shared_ptr<PackedArrays> arrays);
  LinkUsed link_used() final { return send_.link_used(); }

 private:
  RequestShape shape(bool sends) const;
  void start_receive() final { receive_.start(); }
  void send() final {
    send_.start();
    send_.ready_all();
    send_.wait();
  }
  void await_receive() final { receive_.wait(); }

  Request send_, receive_;
};

}  // namespace partita::bench::gpu
