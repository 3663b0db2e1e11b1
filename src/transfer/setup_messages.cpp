#include "transfer/setup_messages.hpp"

#include <cstddef>

namespace partita {
namespace {

/// Three lengths, a kind and an availability: a LinkOffer is no shorter.
constexpr std::size_t least_link_offer_bytes = 3 * sizeof(std::uint64_t) + 2;

wire::Writer begin(SetupKind kind) {
  wire::Writer message;
  message.put(kind);
  return message;
}

void write_key(wire::Writer& message, const MatchKey& key) {
  message.put(key.space).put(key.comm_id).put(key.sender).put(key.receiver).put(key.tag).put(key.ordinal);
  message.put(key.collective);
}

MatchKey read_key(wire::Reader& message) {
  MatchKey key;
  key.space = message.get_enum(last_space);
  key.comm_id = message.get<std::uint64_t>();
  key.sender = message.get<int>();
  key.receiver = message.get<int>();
  key.tag = message.get<int>();
  key.ordinal = message.get<std::uint32_t>();
  key.collective = message.get<std::uint32_t>();
  return key;
}

void write_partitioning(wire::Writer& message, const link::Partitioning& partitioning) {
  message.put(partitioning.even());
  if (partitioning.even()) {
    message.put(partitioning.count()).put(partitioning.total_bytes());
    return;
  }
  message.put(static_cast<std::uint64_t>(partitioning.count()));
  for (std::int64_t p = 0; p < partitioning.count(); ++p) message.put(partitioning.bytes({p, p + 1}).size());
}

link::Partitioning read_even_partitioning(wire::Reader& message) {
  const auto partitions = message.get<std::int32_t>();
  const auto total_bytes = message.get<std::int64_t>();
  if (partitions < 1 || total_bytes < 0 || total_bytes % partitions != 0) {
    throw wire::malformed("divides {} bytes into {} partitions of one size", total_bytes, partitions);
  }
  return {partitions, total_bytes};
}

link::Partitioning read_uneven_partitioning(wire::Reader& message) {
  std::vector<std::int64_t> sizes_bytes(message.get_count(sizeof(std::int64_t)));
  for (std::int64_t& size_bytes : sizes_bytes) size_bytes = message.get<std::int64_t>();
  try {
    link::Partitioning partitioning(sizes_bytes);
    if (!partitioning.even()) return partitioning;
  } catch (const Error& error) {
    throw wire::malformed("divides bytes into partitions where {}", error.sentence());
  }
  throw wire::malformed("lists the sizes of {} partitions, which are all the same", sizes_bytes.size());
}

link::Partitioning read_partitioning(wire::Reader& message) {
  return message.get_bool() ? read_even_partitioning(message) : read_uneven_partitioning(message);
}

SideShape read_shape(wire::Reader& message) {
  SideShape shape;
  shape.partitioning = read_partitioning(message);
  shape.wished_transport_partitions = message.get<std::int32_t>();
  shape.in_gpu_memory = message.get_bool() ? 1 : 0;
  if (shape.wished_transport_partitions < 0) {
    throw wire::malformed("wishes {} transport partitions", shape.wished_transport_partitions);
  }
  return shape;
}

/// From 1 to `most`.
std::int32_t read_transfers(wire::Reader& message, std::int32_t most) {
  const auto transfers = message.get<std::int32_t>();
  if (transfers < 1 || transfers > most) {
    throw wire::malformed("names {} transfers of {} transport partitions", transfers, most);
  }
  return transfers;
}

Verdict read_verdict(wire::Reader& message) {
  Verdict verdict;
  verdict.error_class = message.get_enum(ErrorClass::internal);
  verdict.sentence = message.get_string();
  return verdict;
}

}  // namespace

wire::Bytes write(const Offer& offer) {
  wire::Writer message = begin(SetupKind::offer);
  write_key(message, offer.key);
  message.put(offer.sender_id);
  write_partitioning(message, offer.shape.partitioning);
  message.put(offer.shape.wished_transport_partitions).put(offer.shape.in_gpu_memory != 0);
  message.put_string(offer.purpose).put_bytes(offer.enclosed);
  message.put(static_cast<std::uint64_t>(offer.links.size()));
  for (const LinkOffer& link : offer.links) {
    message.put_string(link.link).put(link.kind).put(link.availability).put_bytes(link.bytes).put_string(link.reason);
  }
  return message.take();
}

Offer read_head_of_offer(wire::Reader& message) {
  Offer offer;
  offer.key = read_key(message);
  offer.sender_id = message.get<std::uint64_t>();
  return offer;
}

Offer read_offer(wire::Reader& message) {
  Offer offer = read_head_of_offer(message);
  offer.shape = read_shape(message);
  offer.purpose = message.get_string();
  offer.enclosed = message.get_bytes();
  offer.links.resize(message.get_count(least_link_offer_bytes));
  for (LinkOffer& link : offer.links) {
    link.link = message.get_string();
    link.kind = message.get_enum(memory::Kind::managed);
    link.availability = message.get_enum(Availability::refused);
    link.bytes = message.get_bytes();
    link.reason = message.get_string();
  }
  message.end();
  return offer;
}

wire::Bytes write(const Ask& ask) {
  return begin(SetupKind::ask).put(ask.sender_id).put_string(ask.link).take();
}

Ask read_ask(wire::Reader& message) {
  Ask ask;
  ask.sender_id = message.get<std::uint64_t>();
  ask.link = message.get_string();
  message.end();
  return ask;
}

wire::Bytes write(const Answer& answer) {
  wire::Writer message = begin(SetupKind::answer);
  message.put(answer.sender_id).put(answer.receiver_id).put(answer.choice.has_value());
  if (const auto& choice = answer.choice) {
    write_partitioning(message, choice->receiver);
    message.put(choice->transport_partitions).put(choice->transfers).put(choice->staged);
    message.put_string(choice->link).put(choice->kind).put_string(choice->reason).put_bytes(choice->bytes);
  } else {
    message.put(answer.verdict.error_class).put_string(answer.verdict.sentence);
  }
  return message.take();
}

Answer read_head_of_answer(wire::Reader& message) {
  Answer answer;
  answer.sender_id = message.get<std::uint64_t>();
  answer.receiver_id = message.get<std::uint64_t>();
  return answer;
}

Answer read_answer(wire::Reader& message) {
  Answer answer = read_head_of_answer(message);
  if (message.get_bool()) {
    // Made here: clang does not see inside Answer that a Choice can be made of nothing.
    Answer::Choice& choice = answer.choice.emplace(Answer::Choice{});
    choice.receiver = read_partitioning(message);
    choice.transport_partitions = message.get<std::int32_t>();
    choice.transfers = read_transfers(message, choice.transport_partitions);
    choice.staged = message.get_bool();
    choice.link = message.get_string();
    choice.kind = message.get_enum(memory::Kind::managed);
    choice.reason = message.get_string();
    choice.bytes = message.get_bytes();
  } else {
    answer.verdict = read_verdict(message);
  }
  message.end();
  return answer;
}

wire::Bytes write(const Failure& failure) {
  wire::Writer message = begin(SetupKind::failure);
  message.put(failure.id).put(failure.first_lost).put(failure.rank);
  message.put(failure.verdict.error_class).put_string(failure.verdict.sentence);
  return message.take();
}

Failure read_head_of_failure(wire::Reader& message) {
  Failure failure;
  failure.id = message.get<std::uint64_t>();
  failure.first_lost = message.get<Epoch>();
  return failure;
}

Failure read_failure(wire::Reader& message) {
  Failure failure = read_head_of_failure(message);
  failure.rank = message.get<std::int32_t>();
  if (failure.rank < 0) throw wire::malformed("names rank {} as the one that failed", failure.rank);
  failure.verdict = read_verdict(message);
  message.end();
  return failure;
}

wire::Bytes write(const Bye& bye) {
  return begin(SetupKind::bye).put(bye.id).put(bye.first_lost).take();
}

Bye read_bye(wire::Reader& message) {
  Bye bye;
  bye.id = message.get<std::uint64_t>();
  bye.first_lost = message.get<Epoch>();
  message.end();
  return bye;
}

wire::Bytes write(const SegmentFreed& freed) {
  return begin(SetupKind::segment_freed).put(freed.segment).take();
}

SegmentFreed read_segment_freed(wire::Reader& message) {
  const SegmentFreed freed{message.get<std::uint64_t>()};
  message.end();
  return freed;
}

}  // namespace partita
