#include "collective/leg.hpp"

#include <cstring>

namespace partita::collective {

Leg::Leg(CollectiveMemory& memory, LegTerms terms)
    : memory_(memory), terms_(std::move(terms)), is_whole_(memory.is_whole(terms_.region)), data_([&]() -> std::byte* {
        if (terms_.region.bytes == 0) return nullptr;
        if (std::byte* const row = memory.row(terms_.region)) return row;
        own_.emplace(memory.home(),
                     static_cast<std::size_t>(terms_.region.bytes) * static_cast<std::size_t>(memory.partitions()));
        return own_->data();
      }()) {}

/// Each partition is a transport partition, which does not wait for others: another one may be marked only after this
/// one has come back.
HalfTerms Leg::half_terms(Side side) const {
  HalfTerms terms;
  terms.side = side;
  terms.peer = terms_.peer;
  terms.space = Space::collective;
  terms.communicator = terms_.communicator;
  terms.tag = terms_.tag;
  terms.places = terms_.places;
  terms.place = own_ ? memory_.home().place : memory_.place(terms_.region);
  terms.shape = {{memory_.partitions(), memory_.partitions() * terms_.region.bytes},
                 memory_.partitions(),
                 memory::is_host(terms.place.kind) ? 0 : 1};
  terms.link = terms_.link;
  terms.data = data_;
  terms.purpose = terms_.purpose;
  return terms;
}

std::string Leg::explain() const {
  const std::string wait = describe_wait();
  return wait.empty() ? fmt::format("nothing is missing between this rank and rank {}", terms_.rank) : wait;
}

void Leg::give_up(const std::optional<Error>& cause) {
  Half& half = this->half();
  Epoch lost = no_epoch;
  {
    const std::lock_guard lock(half.setup_mutex());
    half.give_up();
    lost = first_lost();
    if (half.active()) half.give_up_epoch();
  }
  if (cause) half.say(lost, "gave its request up", *cause);
}

Epoch Leg::first_lost() {
  const Half& half = this->half();
  if (!half.active()) return next(half.epoch());
  try {
    if (is_over()) return next(half.epoch());
  } catch (const std::exception&) {
    // Not that anybody knows.
  }
  return half.epoch();
}

/// As sentences name it.
std::string Leg::peer_name() const {
  return fmt::format("rank {} (world rank {})", terms_.rank, terms_.peer);
}

SendLeg::SendLeg(const Services& services, CollectiveMemory& memory, LegTerms terms)
    : Leg(memory, std::move(terms)), out_(services, *this, half_terms(Side::send)) {}

std::string SendLeg::describe_wait() const {
  if (!out_.matched()) return peer_name() + " has not made its request";
  if (out_.is_empty()) return {};
  if (out_.receiver_has_started()) return {};
  return peer_name() + (out_.peer_freed ? " has freed its request" : " has not started this epoch");
}

void SendLeg::pack(link::Range partitions) {
  if (!own_) return;
  for_each_piece(partitions, [this](link::Range piece) {
    memory_.read(terms_.region.times(piece.size()), static_cast<int>(piece.begin), row(piece));
  });
}

ReceiveLeg::ReceiveLeg(const Services& services, CollectiveMemory& memory, LegTerms terms)
    : Leg(memory, std::move(terms)), in_(services, *this, half_terms(Side::recv)) {}

std::string ReceiveLeg::describe_wait() const {
  if (!in_.matched()) return peer_name() + " has not made its request";
  if (in_.is_empty()) return {};
  if (in_.all_arrived()) return {};
  return fmt::format("{} has not sent all over link {}", peer_name(), in_.link_name());
}

/// Each partition is a transport partition.
std::int64_t ReceiveLeg::first_missing(link::Range partitions) const {
  return in_.matched() ? in_.first_missing_alone(partitions) : partitions.begin;
}

void ReceiveLeg::note(link::Range partitions) {
  in_.record(Trace::Event::arrived, partitions);
  seen_.fetch_add(static_cast<int>(partitions.size()), std::memory_order_release);
}

void ReceiveLeg::take(link::Range partitions) {
  note(partitions);
  if (!unpacks()) return;
  for_each_piece(partitions, [this](link::Range piece) {
    const Region regions = terms_.region.times(piece.size());
    if (own_) {
      memory_.write(regions, static_cast<int>(piece.begin), landed(piece));
    } else {
      std::memcpy(row(piece), landed(piece), static_cast<std::size_t>(regions.bytes));
    }
  });
}

}  // namespace partita::collective
