#include "transfer/incoming.hpp"

#include <utility>

namespace partita {

Incoming::Incoming(const Services& services, User& user, HalfTerms terms) : Half(services, user, std::move(terms)) {
  if (!terms_.packed_apart) return;
  packed_apart_ = in_gpu_memory()
                      ? allocate_packed_on_gpu()
                      : services_.host_blocks.allocate_block(static_cast<std::size_t>(shape().total_bytes()));
}

Incoming::~Incoming() {
  staged_.reset();
  link_.reset();
  if (packed_apart_ != nullptr && !packed_on_gpu_) {
    services_.host_blocks.free_block(packed_apart_, static_cast<std::size_t>(shape().total_bytes()));
  }
}

void Incoming::connect(const link::Plan& plan, const link::Plan& wire, std::unique_ptr<link::Receiver> link,
                       const link::ReceiverFacts& facts, memory::Kind form, std::string link_name, std::string reason) {
  const std::lock_guard lock(setup_mutex());
  take_match(plan, std::move(link_name), std::move(reason));
  link_ = std::move(link);
  facts_ = facts;
  const auto stage = this->stage(form);
  if (stage) facts_.landings.fill(packed());
  if (stage || wire != plan) {
    facts_.host_flags.reset();  // the bytes are there when they were copied
    StagedArrivals::Owner& owner = *this;
    staged_ = std::make_unique<StagedArrivals>(services_, owner, *link_, facts.landings, Pieces(plan, wire), stage);
  }
  finish_match();
}

void Incoming::start() {
  start_with([] {}, [this] { open_link(); });
}

void Incoming::open() {
  open_link();
}

std::int64_t Incoming::ask_for_missing(link::Range transports) const {
  if (staged_ == nullptr) return link_->first_missing(transports, epoch());
  return link::first_not(transports, [this](std::int64_t t) { return staged_->arrived({t, t + 1}, epoch()); });
}

/// Nothing has told that the first of them has arrived.
std::int64_t Incoming::ask_for_missing_alone(link::Range transports) const {
  std::int64_t t = transports.begin;
  while (staged_ == nullptr && t < transports.end && link_->arrived(static_cast<std::int32_t>(t), epoch())) {
    t = first_missing({t + 1, transports.end});
  }
  return t;
}

void Incoming::could_not_take() noexcept {
  try {
    fail_with_current("could not take what has arrived");
  } catch (const std::exception&) {
    // There is no memory to tell it.
  }
}

void Incoming::withdraw() {
  StagedArrivals* staged = nullptr;
  {
    const auto exclusive = services_.progress.exclusive();  // a step may make the match
    staged = staged_.get();
  }
  if (staged != nullptr) staged->close();
}

void Incoming::release_memory() {
  if (link_ != nullptr) link_->release_memory();
}

}  // namespace partita
