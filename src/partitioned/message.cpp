#include "partitioned/message.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace partita {

Message::Message(memory::DeviceMemory& device_memory, RequestArguments arguments)
    : arguments_(std::move(arguments)), layout_(Layout::of(arguments_.datatype)) {
  if (null_peer()) return;
  place_ = device_memory.place_of(data(), static_cast<std::size_t>(total_bytes()));
  if (!is_device_driven() && !arguments_.in_place) return;
  const char* const key = is_device_driven() ? "partita_driver=device" : "partita_in_place";
  if (place_.kind != memory::Kind::device) {
    throw Error(ErrorClass::buffer, "info key {} needs a buffer in the memory of one GPU; argument buf is {} memory",
                key, name_of(place_.kind));
  }
  if (!contiguous()) {
    throw Error(ErrorClass::type,
                "info key {} needs a datatype without gaps, since kernels of the program pack nothing; argument "
                "datatype has some",
                key);
  }
}

void Message::pack(link::Range partitions, std::byte* packed) const {
  const std::int64_t first = partitions.begin * arguments_.count;
  layout_.pack(arguments_.buffer, first, partitions.size() * arguments_.count, packed + first * layout_.size_bytes());
}

void Message::unpack(link::Range partitions, const std::byte* packed) const {
  const std::int64_t first = partitions.begin * arguments_.count;
  layout_.unpack(packed + first * layout_.size_bytes(), arguments_.buffer, first, partitions.size() * arguments_.count);
}

void Message::unpack_bytes(std::int64_t size_bytes, const std::byte* packed) const {
  if (size_bytes == 0) return;
  const std::int64_t whole = size_bytes / layout_.size_bytes();
  const std::int64_t rest = size_bytes % layout_.size_bytes();
  layout_.unpack(packed, arguments_.buffer, 0, whole);
  if (rest == 0) return;
  // The rest of that element is written as it is.
  std::vector<std::byte> element(static_cast<std::size_t>(layout_.size_bytes()));
  layout_.pack(arguments_.buffer, whole, 1, element.data());
  std::memcpy(element.data(), packed + whole * layout_.size_bytes(), static_cast<std::size_t>(rest));
  layout_.unpack(element.data(), arguments_.buffer, whole, 1);
}

HalfTerms Message::half_terms() const {
  HalfTerms terms;
  terms.side = arguments_.side;
  terms.peer = arguments_.peer;
  terms.communicator = arguments_.communicator;
  terms.space = arguments_.space;
  terms.tag = arguments_.tag;
  terms.shape = {{arguments_.partitions, total_bytes()}, arguments_.transport_partitions, in_gpu_memory() ? 1 : 0};
  terms.link = arguments_.link;
  terms.data = data();
  terms.packed_apart = !contiguous() && !null_peer();
  terms.place = place_;
  if (terms.packed_apart && in_gpu_memory()) terms.place.kind = memory::Kind::device;  // of the packed bytes
  const bool streams_move_it = place_.kind == memory::Kind::device && total_bytes() > 0;
  terms.driver = arguments_.driver == link::Driver::stream && !streams_move_it ? link::Driver::host : arguments_.driver;
  terms.in_place = arguments_.in_place;
  terms.synchronous = arguments_.synchronous;
  return terms;
}

std::string Message::name() const {
  if (arguments_.space == Space::queue) {
    return fmt::format("Persistent {} rank {} (world rank {}), tag {}", is_sent() ? "send to" : "receive from",
                       arguments_.rank, arguments_.peer, arguments_.tag);
  }
  return fmt::format("Partitioned {} rank {} (world rank {}), tag {}, {} partitions",
                     is_sent() ? "send to" : "receive from", arguments_.rank, arguments_.peer, arguments_.tag,
                     arguments_.partitions);
}

}  // namespace partita
