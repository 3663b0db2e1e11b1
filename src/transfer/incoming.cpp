#include "transfer/incoming.hpp"

#include <utility>

namespace partita {

Incoming::Incoming(const Services& services, User& user, HalfTerms terms) : Half(services, user, std::move(terms)) {
  if (terms_.packed_apart) {
    packed_apart_ = services_.host_blocks.allocate_block(static_cast<std::size_t>(shape().total_bytes()));
  }
}

Incoming::~Incoming() {
  link_.reset();
  if (packed_apart_ != nullptr) {
    services_.host_blocks.free_block(packed_apart_, static_cast<std::size_t>(shape().total_bytes()));
  }
}

void Incoming::connect(const link::Plan& plan, std::unique_ptr<link::Receiver> link, std::string link_name,
                       std::string reason) {
  const std::lock_guard lock(setup_mutex());
  take_match(plan, std::move(link_name), std::move(reason));
  link_ = std::move(link);
  finish_match();
}

bool Incoming::arrived(link::Range transports) const {
  for (std::int64_t t = transports.begin; t < transports.end; ++t) {
    if (!link_->arrived(static_cast<std::int32_t>(t), epoch())) return false;
  }
  return true;
}

void Incoming::release_memory() {
  if (link_ != nullptr) link_->release_memory();
}

}  // namespace partita
