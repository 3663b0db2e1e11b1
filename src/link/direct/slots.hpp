// The way `slots`: the sender copies into memory of the receiver's, the receiver out of it (docs/design/link.md,
// "Slots").
#pragma once

#include <cstring>

#include "link/direct/way.hpp"

namespace partita::link::direct {

/// Two sets, for even and odd epochs, so that the sender may be an epoch ahead. A set has the arrival flags and, behind
/// them, the data of an epoch: small messages share a cache line with their flag.
class SlotBlock {
 public:
  SlotBlock(std::byte* block, const Plan& plan)
      : block_(block), flags_bytes_(Flags::size_bytes(plan)), set_bytes_(size_bytes(plan) / 2) {}
  static std::size_t size_bytes(const Plan& plan) {
    return 2 * ((Flags::size_bytes(plan) + static_cast<std::size_t>(plan.total_bytes()) + 63) / 64 * 64);
  }

  Flags flags(Epoch epoch) const { return Flags(set(epoch)); }
  std::byte* data(Epoch epoch) const { return set(epoch) + flags_bytes_; }

 private:
  std::byte* set(Epoch epoch) const { return block_ + (epoch & 1U) * set_bytes_; }

  std::byte* block_;
  std::size_t flags_bytes_;
  std::size_t set_bytes_;
};

class SlotPuts final : public Puts {
 public:
  SlotPuts(const Plan& plan, const std::byte* data, SlotBlock block) : plan_(plan), data_(data), block_(block) {}

  void put(Range run, Epoch epoch) override {
    const Range bytes = bytes_of(plan_, run);
    if (bytes.size() > 0) {
      std::memcpy(block_.data(epoch) + bytes.begin, data_ + bytes.begin, static_cast<std::size_t>(bytes.size()));
    }
    block_.flags(epoch).raise(run, epoch);
  }

 private:
  Plan plan_;
  const std::byte* data_;
  SlotBlock block_;
};

class SlotArrivals final : public Arrivals {
 public:
  explicit SlotArrivals(SlotBlock block) : block_(block) {}

  bool arrived(std::int32_t t, Epoch epoch) override { return block_.flags(epoch).raised(t, epoch); }
  std::int64_t first_missing(Range run, Epoch epoch) override {
    return block_.flags(epoch).first_not_raised(run, epoch);
  }
  ReceiverFacts facts() const override {
    return {.host_flags = HostFlags{block_.flags(0), block_.flags(1), true},
            .landings = {block_.data(0), block_.data(1)}};
  }

 private:
  SlotBlock block_;
};

}  // namespace partita::link::direct
