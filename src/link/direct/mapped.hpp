// The way `mapped`: the sender stores into the receive buffer, which its process maps or owns.
#pragma once

#include <cstring>

#include "link/direct/way.hpp"

namespace partita::link::direct {

class MappedPuts final : public Puts {
 public:
  MappedPuts(const Plan& plan, const std::byte* data, Flags flags, std::byte* receive_buffer)
      : plan_(plan), data_(data), flags_(flags), receive_buffer_(receive_buffer) {}

  void put(Range run, Epoch epoch) override {
    const Range bytes = bytes_of(plan_, run);
    if (bytes.size() > 0) {
      std::memcpy(receive_buffer_ + bytes.begin, data_ + bytes.begin, static_cast<std::size_t>(bytes.size()));
    }
    flags_.raise(run, epoch);
  }

 private:
  Plan plan_;
  const std::byte* data_;
  Flags flags_;
  std::byte* receive_buffer_;
};

}  // namespace partita::link::direct
