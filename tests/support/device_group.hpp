// The ranks of a collective that kernels do, all in one process, with no library behind them: the words and areas that
// their hosts would make. CPU threads are their kernels.
#pragma once

#include <partita/device.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/cpu_kernel.hpp"
#include "support/device_pair.hpp"

namespace partita::test {

struct GroupShape {
  partita_u32 collective = PARTITA_COLLECTIVE_ALLREDUCE;
  int ranks = 2;
  int root = 0;
  std::size_t block_bytes = 64;
  device::Element element = device::Element::f32;
  device::Combine by = device::Combine::sum;
  partita_u32 algorithm = PARTITA_ALGORITHM_PACKETS;
  bool in_place = false;
  std::size_t misaligned_bytes = 0;       ///< the buffers begin so far behind a boundary, ...
  std::size_t more_misaligned_bytes = 0;  ///< ... and those of each rank so much farther than those of the one before
  partita_u32 most_strips = device::most_strips;
  int slow_rank = -1;  ///< comes late to each call
  Epoch before = no_epoch;
  std::uint64_t limit_ns = 30'000'000'000;
};

class DeviceGroup {
 public:
  explicit DeviceGroup(const GroupShape& shape) : shape_(shape) {
    const auto ranks = static_cast<std::size_t>(shape.ranks);
    const bool scatters =
        shape.collective == PARTITA_COLLECTIVE_REDUCE_SCATTER || shape.collective == PARTITA_COLLECTIVE_ALLTOALL;
    const bool gathers =
        shape.collective == PARTITA_COLLECTIVE_ALLGATHER || shape.collective == PARTITA_COLLECTIVE_ALLTOALL;
    sent_bytes_ = shape.block_bytes * (scatters ? ranks : 1);
    received_bytes_ = shape.block_bytes * (gathers ? ranks : 1);
    const device::Cut cut =
        device::cut_of(device::cut_bytes(shape.algorithm, shape.block_bytes, static_cast<partita_u32>(shape.ranks)),
                       shape.most_strips);
    const auto area = device::area_bytes(cut.strips);
    for (std::size_t r = 0; r < ranks; ++r) {
      areas_.push_back(memory_.allocate(Spot::receiver_gpu, area * ranks + 1));
      for (std::size_t from = 0; from < ranks; ++from) {
        for (partita_u32 strip = 0; strip < cut.strips; ++strip) {
          auto* const line = reinterpret_cast<partita_u32*>(areas_[r] + area * from) + strip * device::words_of_line;
          line[0] = shape.before;
        }
      }
      const std::size_t most = std::max(sent_bytes_, received_bytes_) + 64;
      const std::size_t misaligned_bytes = (shape.misaligned_bytes + r * shape.more_misaligned_bytes) % 32;
      received_.push_back(memory_.allocate(Spot::receiver_gpu, most) + misaligned_bytes);
      const bool one_buffer = shape.in_place || shape.collective == PARTITA_COLLECTIVE_BCAST;
      const bool own_block = shape.collective == PARTITA_COLLECTIVE_ALLGATHER;  // in place it lies where it belongs
      sent_.push_back(one_buffer ? received_.back() + (own_block ? r * shape.block_bytes : 0)
                                 : memory_.allocate(Spot::sender_gpu, most) + misaligned_bytes);
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      auto* const peers =
          reinterpret_cast<Partita_Peer*>(memory_.allocate(Spot::receiver_gpu, sizeof(Partita_Peer) * 2 * ranks));
      auto joined = static_cast<partita_u64>(shape.block_bytes);
      for (std::size_t to = 0; to < ranks; ++to) {
        peers[to].device_words = reinterpret_cast<partita_u32*>(areas_[to] + area * r);
        peers[to].buffer = received_[to];
        peers[ranks + to].buffer = sent_[to];
        joined |= reinterpret_cast<partita_u64>(received_[to]) | reinterpret_cast<partita_u64>(sent_[to]);
      }
      Partita_Prequest request{};
      request.flags = PARTITA_PREQUEST_MADE | PARTITA_PREQUEST_COLLECTIVE;
      request.life = device::first_life;
      request.limit_ns = shape.limit_ns;
      request.state = reinterpret_cast<Partita_Prequest_state*>(
          memory_.allocate(Spot::receiver_gpu, sizeof(Partita_Prequest_state)));
      *request.state = device::first_state(request.flags, shape.before, request.life);
      request.state->round = shape.before;
      request.host =
          reinterpret_cast<Partita_Prequest_host*>(memory_.allocate(Spot::host, sizeof(Partita_Prequest_host)));
      request.peers = peers;
      request.remote = areas_[r];
      request.buffer = received_[r];
      request.sent = sent_[r];
      request.total_bytes = static_cast<partita_i64>(shape.block_bytes);
      request.collective = shape.collective;
      request.rank = static_cast<partita_i32>(r);
      request.ranks = shape.ranks;
      request.root = shape.root;
      request.reduction = device::reduction_code(shape.element, shape.by);
      request.algorithm = shape.block_bytes > 0 ? shape.algorithm : partita_u32{PARTITA_ALGORITHM_PACKETS};
      request.unit_bytes = device::common_unit_bytes(joined);
      request.strips = cut.strips;
      request.rounds = cut.rounds;
      request.share_units = cut.share_units;
      request.longer_shares = cut.longer_shares;
      requests_.push_back(request);
    }
  }

  const GroupShape& shape() const { return shape_; }
  std::size_t ranks() const { return requests_.size(); }
  const Partita_Prequest& request(std::size_t rank) const { return requests_[rank]; }
  unsigned char* sent(std::size_t rank) const { return sent_[rank]; }
  unsigned char* received(std::size_t rank) const { return received_[rank]; }
  std::size_t sent_bytes() const { return sent_bytes_; }
  std::size_t received_bytes() const { return received_bytes_; }
  std::uint32_t failure(std::size_t rank) const { return load_word(&requests_[rank].host->failure); }

  int call(std::size_t rank) const { return call(shape_.collective, requests_[rank]); }
  static int call(partita_u32 collective, const Partita_Prequest& request) {
    switch (collective) {
      case PARTITA_COLLECTIVE_ALLREDUCE:
        return MPIX_Pallreduce(request);
      case PARTITA_COLLECTIVE_ALLGATHER:
        return MPIX_Pallgather(request);
      case PARTITA_COLLECTIVE_REDUCE_SCATTER:
        return MPIX_Preduce_scatter(request);
      case PARTITA_COLLECTIVE_ALLTOALL:
        return MPIX_Palltoall(request);
      default:
        return MPIX_Pbcast(request);
    }
  }

 private:
  const GroupShape shape_;
  HostPairMemory memory_;
  std::vector<unsigned char*> areas_;
  std::vector<unsigned char*> sent_;
  std::vector<unsigned char*> received_;
  std::vector<Partita_Prequest> requests_;
  std::size_t sent_bytes_ = 0;
  std::size_t received_bytes_ = 0;
};

}  // namespace partita::test
