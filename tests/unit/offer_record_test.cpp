// What travels in place of a message that is offered, and how a receiver knows it.
#include "two_sided/offer_record.hpp"

#include <gtest/gtest.h>

#include <span>

#include "core/error.hpp"

namespace partita::test {
namespace {

constexpr OfferMark mark{0x0123456789abcdef, 42};

OfferRecord offered(bool with_memory) {
  OfferRecord record;
  record.number = 12;
  record.sender = 3;
  record.size_bytes = 5000;
  record.slot = {7, 4096, {5, 99}};
  if (with_memory) {
    memory::DevicePiece& piece = record.gpu_memory.emplace();
    piece.way = memory::DevicePiece::Way::ipc;
    piece.handle.fill(std::byte{0xa5});
    piece.buffer_id = 8;
    piece.address = 0x70000100;
    piece.allocation_bytes = 1 << 20;
    piece.offset_bytes = 0x100;
    piece.size_bytes = 5000;
  }
  return record;
}

TEST(OfferRecord, is_read_as_it_was_written) {
  for (const bool with_memory : {false, true}) {
    const OfferRecord::Bytes message = offered(with_memory).written(mark);
    ASSERT_TRUE(OfferRecord::is_one(message, mark));
    const OfferRecord read = OfferRecord::read(message);
    EXPECT_EQ(read.number, 12U);
    EXPECT_EQ(read.sender, 3);
    EXPECT_EQ(read.size_bytes, 5000);
    EXPECT_EQ(read.slot.segment, 7U);
    EXPECT_EQ(read.slot.offset_bytes, 4096U);
    EXPECT_EQ(read.slot.file.inode, 99U);
    ASSERT_EQ(read.gpu_memory.has_value(), with_memory);
    if (!with_memory) continue;
    EXPECT_EQ(read.gpu_memory->handle, offered(true).gpu_memory->handle);
    EXPECT_EQ(read.gpu_memory->offset_bytes, 0x100U);
  }
}

TEST(OfferRecord, is_known_by_its_length_and_the_jobs_mark) {
  const OfferRecord::Bytes message = offered(true).written(mark);
  EXPECT_FALSE(OfferRecord::is_one(std::span(message).first(250), mark));
  EXPECT_FALSE(OfferRecord::is_one(message, {mark[0], mark[1] + 1}));
  EXPECT_FALSE(OfferRecord::is_one({}, mark));
}

TEST(OfferRecord, that_is_damaged_is_refused_or_within_its_bounds) {
  for (const bool with_memory : {false, true}) {
    const OfferRecord::Bytes message = offered(with_memory).written(mark);
    for (std::size_t place = sizeof mark; place < message.size(); ++place) {
      for (const int bits : {1, 0x80, 0xff}) {
        OfferRecord::Bytes damaged = message;
        damaged[place] ^= static_cast<std::byte>(bits);
        try {
          const OfferRecord read = OfferRecord::read(damaged);
          EXPECT_GT(read.size_bytes, static_cast<std::int64_t>(OfferRecord::bytes));
          if (!read.gpu_memory) continue;
          EXPECT_NE(read.gpu_memory->way, memory::DevicePiece::Way::same_process);
          EXPECT_LE(read.gpu_memory->size_bytes, read.gpu_memory->allocation_bytes);
          EXPECT_EQ(read.gpu_memory->size_bytes, static_cast<std::uint64_t>(read.size_bytes));
        } catch (const Error&) {
        }
      }
    }
  }
}

TEST(OfferRecord, that_no_rank_writes_is_refused) {
  OfferRecord other = offered(true);
  other.gpu_memory->size_bytes = 4999;
  EXPECT_THROW(OfferRecord::read(other.written(mark)), Error);
  other = offered(false);
  other.size_bytes = 251;
  EXPECT_THROW(OfferRecord::read(other.written(mark)), Error);
}

}  // namespace
}  // namespace partita::test
