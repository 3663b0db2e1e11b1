#include "partitioned/message.hpp"

#include <utility>

#include "core/error.hpp"

namespace partita {

Message::Message(memory::DeviceMemory& device_memory, RequestArguments arguments)
    : arguments_(std::move(arguments)), layout_(Layout::of(arguments_.datatype)) {
  if (null_peer()) return;
  place_ = device_memory.place_of(data(), static_cast<std::size_t>(total_bytes()));
  if (in_gpu_memory() && !contiguous()) {
    throw Error(
        ErrorClass::type,
        "argument datatype has gaps and argument buf is GPU memory, which Partita cannot pack yet; expected is a "
        "contiguous datatype or host memory");
  }
  if ((is_device_driven() || arguments_.in_place) && place_.kind != memory::Kind::device) {
    throw Error(ErrorClass::buffer, "info key {} needs a buffer in the memory of one GPU; argument buf is {} memory",
                is_device_driven() ? "partita_driver=device" : "partita_in_place", name_of(place_.kind));
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

HalfTerms Message::half_terms() const {
  HalfTerms terms;
  terms.side = arguments_.side;
  terms.peer = arguments_.peer;
  terms.communicator = arguments_.communicator;
  terms.tag = arguments_.tag;
  terms.shape = {{arguments_.partitions, total_bytes()}, arguments_.transport_partitions, in_gpu_memory() ? 1 : 0};
  terms.link = arguments_.link;
  terms.data = data();
  terms.packed_apart = !contiguous() && !null_peer();
  terms.place = place_;
  terms.driver = arguments_.driver;
  terms.in_place = arguments_.in_place;
  return terms;
}

std::string Message::name() const {
  return fmt::format("Partitioned {} rank {} (world rank {}), tag {}, {} partitions",
                     is_sent() ? "send to" : "receive from", arguments_.rank, arguments_.peer, arguments_.tag,
                     arguments_.partitions);
}

}  // namespace partita
