// A half of a transfer and what stands behind it in tests, as a request or a collective would.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "transfer/incoming.hpp"
#include "transfer/outgoing.hpp"

namespace partita::test {

/// One half and the buffer of whoever uses it.
template <class Kind>
class Party final : public Half::User {
 public:
  Party(const Services& services, HalfTerms terms)
      : buffer(static_cast<std::size_t>(terms.shape.total_bytes())),
        half(services, *this, with_data(std::move(terms))) {}
  void before_match() override {
    ++matches;
    if (half.active()) half.open();
  }
  std::string explain() const override { return "A test's half"; }

  /// As a request's start.
  void start() {
    std::unique_lock lock(half.setup_mutex(), std::defer_lock);
    if (!half.matched()) lock.lock();
    const Epoch before = half.epoch();
    half.set_epoch(next(before));
    if constexpr (std::is_same_v<Kind, Outgoing>) half.begin();
    try {
      if (half.matched()) half.open();
    } catch (...) {
      half.set_epoch(before);
      throw;
    }
    half.set_active(true);
  }

  std::vector<std::byte> buffer;
  Kind half;
  int matches = 0;

 private:
  HalfTerms with_data(HalfTerms terms) {
    terms.data = buffer.data();
    return terms;
  }
};

using SendParty = Party<Outgoing>;
using RecvParty = Party<Incoming>;

}  // namespace partita::test
