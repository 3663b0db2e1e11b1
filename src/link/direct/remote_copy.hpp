// The way `remote copy`: the sender's thread has the kernel copy into the receive buffer.
#pragma once

#include "link/direct/remote_process.hpp"
#include "link/direct/way.hpp"

namespace partita::link::direct {

class RemotePuts final : public Puts {
 public:
  RemotePuts(const Plan& plan, const std::byte* data, Flags flags, RemoteBytes receiver)
      : plan_(plan), data_(data), flags_(flags), receiver_(std::move(receiver)) {}

  void put(Range run, Epoch epoch) override {
    receiver_.write(data_, bytes_of(plan_, run));
    flags_.raise(run, epoch);
  }

 private:
  Plan plan_;
  const std::byte* data_;
  Flags flags_;
  RemoteBytes receiver_;
};

}  // namespace partita::link::direct
