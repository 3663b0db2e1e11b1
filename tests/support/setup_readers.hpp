// Every reader of messages between ranks, with one good message for each: what tests of garbled messages go through.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collective/shown_buffers.hpp"
#include "core/wire.hpp"
#include "link/direct/device_messages.hpp"
#include "link/direct/messages.hpp"
#include "link/mpi/messages.hpp"
#include "link/ucx/messages.hpp"
#include "transfer/setup_messages.hpp"

namespace partita::test {

struct SetupReader {
  std::string name;
  wire::Bytes good;
  /// Reads a message and writes what it has read. Throws Error.
  std::function<wire::Bytes(std::span<const std::byte>)> again;
};

namespace detail {

/// A message of the mailbox, whose first byte is its kind.
template <class Message, class Read>
SetupReader mailbox_reader(std::string name, const Message& message, Read read) {
  return {std::move(name), write(message), [read](std::span<const std::byte> bytes) {
            wire::Reader reader(bytes);
            reader.get<SetupKind>();
            return write(read(reader));
          }};
}

/// A link's part of an offer or an answer.
template <class Message>
SetupReader link_reader(std::string name, const Message& message) {
  return {std::move(name), message.pack(),
          [](std::span<const std::byte> bytes) { return Message::unpack(bytes).pack(); }};
}

inline SetupReader mpi_answer_reader() {
  return {"mpi_answer", link::mpi::Answer{7, 4}.pack(),
          [](std::span<const std::byte> bytes) { return link::mpi::Answer::unpack(bytes, 16, 32767).pack(); }};
}

/// The second and last piece of a run of three transport partitions of 2 KiB.
inline SetupReader mpi_piece_reader() {
  const link::mpi::Blocks blocks({16, 8, 16, 32768}, 4);
  const auto head = link::mpi::Piece{5, 8, 1, 3}.pack();
  wire::Bytes message(head.begin(), head.end());
  message.resize(head.size() + 3 * 2048 - link::mpi::Piece::most_bytes);
  return {"mpi_piece", message, [blocks](std::span<const std::byte> bytes) {
            const auto head_again = link::mpi::Piece::unpack(bytes, blocks).pack();
            wire::Bytes again(head_again.begin(), head_again.end());
            again.insert(again.end(), bytes.begin() + link::mpi::Piece::head_bytes, bytes.end());
            return again;
          }};
}

inline wire::Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace detail

inline std::vector<SetupReader> setup_readers() {
  using detail::bytes_of;
  using detail::link_reader;
  using detail::mailbox_reader;
  Offer offer;
  offer.key = {Space::queue, 77, 3, 4, 12, 5, 6};
  offer.sender_id = 9;
  offer.purpose = "partitioned bcast";
  offer.enclosed = bytes_of("what its user says");
  offer.shape = {{16, 65536}, 4, 1};
  offer.links = {{"direct", memory::Kind::device, Availability::offered, bytes_of("forty bytes"), {}},
                 {"ucx", memory::Kind::device, Availability::held_back, {}, {}},
                 {"mpi", memory::Kind::host, Availability::refused, {}, "link direct is demanded"}};
  const Answer chosen{
      9, 11, Answer::Choice{{8, 65536}, 4, 2, true, "direct", memory::Kind::host, "why", bytes_of("answer")}, {}};
  const link::Partitioning uneven(std::vector<std::int64_t>{70, 0, 65466});
  Offer uneven_offer = offer;
  uneven_offer.shape.partitioning = uneven;
  const Answer uneven_chosen{9, 11, Answer::Choice{uneven, 2, 1, false, "mpi", memory::Kind::host, "why", {}}, {}};
  const Answer refused{9, 0, std::nullopt, {ErrorClass::truncate, "the sizes differ"}};
  const link::direct::ReachProbe probe{4711, 0x7f0000001000, 0x123456789abcdef};
  const memory::DevicePiece piece{
      memory::DevicePiece::Way::file_descriptor, {}, 5, 6, 0x7f0000000000, 8192, 4096, 4096};
  const memory::HostAddress host_words{1, 64, {5, 4711}};
  const link::direct::DeviceOffer device_offer{
      link::Driver::device, true, 0, {{}, memory::DeviceExport{piece}, host_words}};
  const link::direct::DeviceAnswer device_answer{
      link::Driver::host, false, {memory::DeviceExport{piece, piece}, memory::DeviceExport{piece}, host_words}};
  link::ucx::Offer ucx_offer{{1, 22}, bytes_of("address"), 0x7f0000001000, bytes_of("key")};
  link::ucx::Answer ucx_answer{bytes_of("address"), 3, 8192, 0x7f0000001000, {}, 0x7f0000002000, bytes_of("key")};
  return {
      mailbox_reader("offer", offer, read_offer),
      mailbox_reader("ask", Ask{9, "ucx"}, read_ask),
      mailbox_reader("answer", chosen, read_answer),
      mailbox_reader("uneven_offer", uneven_offer, read_offer),
      mailbox_reader("uneven_answer", uneven_chosen, read_answer),
      mailbox_reader("refusal", refused, read_answer),
      mailbox_reader("failure", Failure{11, 7, 3, {ErrorClass::other, "could not send: why"}}, read_failure),
      mailbox_reader("bye", Bye{11, 7}, read_bye),
      mailbox_reader("segment_freed", SegmentFreed{2}, read_segment_freed),
      link_reader("direct_offer", link::direct::Offer{{1, 128, {}}, 0, probe}),
      link_reader("direct_answer",
                  link::direct::Answer{link::direct::Way::mapped, probe, 0, {2, 0, {6, 4712}}, {1, 192, {5, 4711}}}),
      link_reader("shown_buffers",
                  collective::ShownBuffers{{}, memory::DeviceExport{piece, piece}, memory::DeviceExport{piece}}),
      link_reader("hidden_buffers", collective::ShownBuffers{"why", {}, {}}),
      link_reader("device_offer", device_offer),
      link_reader("device_answer", device_answer),
      detail::mpi_answer_reader(),
      detail::mpi_piece_reader(),
      link_reader("ucx_offer", ucx_offer),
      link_reader("ucx_answer", ucx_answer)};
}

}  // namespace partita::test
