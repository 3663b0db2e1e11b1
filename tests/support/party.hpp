// A half of a transfer and what stands behind it in tests, as a request or a collective would.
#pragma once

#include <cstddef>
#include <string>
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
  void before_match() override { ++matches; }
  void opened_epoch() noexcept override { ++opened; }
  std::string explain() const override { return "A test's half"; }

  bool kernels_may_use_peer() const override { return kernels_store; }

  void start() { half.start(); }

  std::vector<std::byte> buffer;
  Kind half;
  int matches = 0;
  int opened = 0;  ///< epochs, on the link
  bool kernels_store = false;

 private:
  HalfTerms with_data(HalfTerms terms) {
    terms.data = buffer.data();
    return terms;
  }
};

using SendParty = Party<Outgoing>;
using RecvParty = Party<Incoming>;

}  // namespace partita::test
