// The readers of whole messages (support/setup_readers.hpp), and those that look at the head of one, or at a record.
#pragma once

#include <utility>
#include <vector>

#include "core/node_datagram.hpp"
#include "link/mpi/messages.hpp"
#include "support/setup_readers.hpp"

namespace partita::test {

inline std::vector<SetupReader> fuzzed_readers() {
  std::vector<SetupReader> readers = setup_readers();
  /// A head is read from the same bytes; there is nothing to write again.
  const auto add_head = [&readers](std::string name, wire::Bytes good, auto read) {
    readers.push_back({std::move(name), std::move(good), [read](std::span<const std::byte> bytes) {
                         read(bytes);
                         return wire::Bytes(bytes.begin(), bytes.end());
                       }});
  };
  const auto add_head_of = [&add_head](std::string name, wire::Bytes good, auto read) {
    add_head(std::move(name), std::move(good), [read](std::span<const std::byte> bytes) {
      wire::Reader reader(bytes);
      reader.get<SetupKind>();
      read(reader);
    });
  };
  add_head_of("head_of_offer", write(Offer{{Space::collective, 77, 3, 4, 12, 5}, 9, {}, {}, {}, {}}),
              read_head_of_offer);
  add_head_of("head_of_answer", write(Answer{9, 11, std::nullopt, {ErrorClass::other, "why"}}), read_head_of_answer);
  add_head_of("head_of_failure", write(Failure{11, 7, 3, {ErrorClass::other, "why"}}), read_head_of_failure);
  add_head("version_of_ucx_offer", link::ucx::Offer{{1, 22}, {}, 0, {}}.pack(), link::ucx::Offer::version_of);
  readers.push_back({"mpi_answer", link::mpi::Answer{40}.pack(), [](std::span<const std::byte> bytes) {
                       return link::mpi::Answer::unpack(bytes, 16, 65535).pack();
                     }});
  const auto pack = [](const NodeDatagram& datagram) {
    const auto bytes = std::as_bytes(std::span(&datagram, 1));
    return wire::Bytes(bytes.begin(), bytes.end());
  };
  readers.push_back(
      {"node_datagram", pack({3, DescriptorKind::device_memory, 7, 8192}), [pack](std::span<const std::byte> bytes) {
         const auto datagram = read_node_datagram(bytes);
         if (!datagram) throw wire::malformed("is no datagram");  // a node socket drops it without a word
         return pack(*datagram);
       }});
  return readers;
}

}  // namespace partita::test
