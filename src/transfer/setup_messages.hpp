// The messages between ranks by which halves find and release each other (docs/design/matching.md), as bytes and
// back. The bytes are another process's word: readers throw Error on whatever no writer makes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/epoch.hpp"
#include "core/error.hpp"
#include "core/wire.hpp"
#include "link/partitioning.hpp"
#include "memory/memory.hpp"
#include "transfer/key.hpp"

namespace partita {

/// The first byte of a message.
enum class SetupKind : std::uint8_t { offer = 1, answer = 2, bye = 3, ask = 4, failure = 5, segment_freed = 16 };

/// How one side describes itself to the other.
struct SideShape {
  link::Partitioning partitioning;
  std::int32_t wished_transport_partitions = 0;
  std::int32_t in_gpu_memory = 0;  ///< a truth value

  std::int32_t partitions() const { return partitioning.count(); }
  std::int64_t total_bytes() const { return partitioning.total_bytes(); }
};

enum class Availability : std::uint8_t {
  offered,
  held_back,  ///< costly to start, and another link can serve: started if the receiver asks for it
  refused,
};

/// One link from one form of the sender's memory: as it is, or, of a GPU, staged in host memory.
struct LinkOffer {
  std::string link;
  memory::Kind kind{};
  Availability availability = Availability::refused;
  wire::Bytes bytes;   ///< of the link, if offered
  std::string reason;  ///< if refused
};

struct Offer {
  MatchKey key;
  std::uint64_t sender_id = 0;
  SideShape shape;
  std::vector<LinkOffer> links;
  std::string purpose;   ///< as HalfTerms'
  wire::Bytes enclosed;  ///< likewise
};

struct Ask {
  std::uint64_t sender_id = 0;
  std::string link;
};

/// What is wrong, as the other side shall report it.
struct Verdict {
  ErrorClass error_class{};
  std::string sentence;
};

struct Answer {
  /// What the receiver chose.
  struct Choice {
    link::Partitioning receiver;  ///< of the same bytes as the sender's
    std::int32_t transport_partitions = 1;
    std::int32_t transfers = 1;  ///< in so many runs leaves what is complete together
    bool staged = false;         ///< one side at least is, so the link moves cut_for_staging() of the plan
    std::string link;
    memory::Kind kind{};  ///< of the form that the sender offered
    std::string reason;
    wire::Bytes bytes;  ///< of the link
  };

  std::uint64_t sender_id = 0;
  std::uint64_t receiver_id = 0;
  std::optional<Choice> choice;
  Verdict verdict;  ///< where there is neither a choice nor, of an empty half, a receiver
};

/// The other side has failed, or has given up, and nothing from epoch `first_lost` on completes.
struct Failure {
  std::uint64_t id = 0;  ///< of the half that shall hear of it
  Epoch first_lost = no_epoch;
  std::int32_t rank = 0;  ///< with which it began: the other side, or one of whom that has heard
  Verdict verdict;        ///< its sentence begins behind that rank
};

/// The same, since the other side was freed.
struct Bye {
  std::uint64_t id = 0;
  Epoch first_lost = no_epoch;
};

/// The sender of this message has freed what the receiver may have mapped.
struct SegmentFreed {
  std::uint64_t segment = 0;
};

wire::Bytes write(const Offer& offer);
wire::Bytes write(const Ask& ask);
wire::Bytes write(const Answer& answer);
wire::Bytes write(const Failure& failure);
wire::Bytes write(const Bye& bye);
wire::Bytes write(const SegmentFreed& freed);

/// What follows the first byte. Throw Error.
Offer read_offer(wire::Reader& message);
Ask read_ask(wire::Reader& message);
Answer read_answer(wire::Reader& message);
Failure read_failure(wire::Reader& message);
Bye read_bye(wire::Reader& message);
SegmentFreed read_segment_freed(wire::Reader& message);

/// Only whom the message concerns, the key and the ids: allocates nothing.
Offer read_head_of_offer(wire::Reader& message);
Answer read_head_of_answer(wire::Reader& message);
Failure read_head_of_failure(wire::Reader& message);

}  // namespace partita
