// How much of peers' memory collectives keep mapped.
#include "two_sided/peer_mappings.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "support/fake_transfer.hpp"

namespace partita::test {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

/// Counts who holds what it has mapped.
class CountingMemory final : public NoDeviceMemory {
 public:
  std::variant<std::shared_ptr<std::byte>, memory::NotMappable> import(int, const memory::DeviceExport& named, int,
                                                                       memory::Closing closing) override {
    EXPECT_EQ(closing, memory::Closing::without_blocking);
    if (is_occupied) return memory::NotMappable{"the peer has freed what is mapped there", true};
    const std::uint64_t id = named.front().buffer_id;
    ++held;
    return std::shared_ptr<std::byte>(&byte_, [this, id](std::byte*) {
      --held;
      let_go.push_back(id);
    });
  }
  std::uint64_t trim(std::size_t, memory::Closing closing) override {
    EXPECT_EQ(closing, memory::Closing::without_blocking);
    ++trimmed;
    return unclosed_bytes;
  }
  int held = 0;
  int trimmed = 0;
  std::uint64_t unclosed_bytes = 0;
  std::vector<std::uint64_t> let_go;
  bool is_occupied = false;

 private:
  std::byte byte_{};
};

class PeerMappingsKept : public testing::Test {
 protected:
  static memory::DevicePiece piece(std::uint64_t id, std::uint64_t size_bytes) {
    memory::DevicePiece named;
    named.way = memory::DevicePiece::Way::ipc;
    named.buffer_id = id;
    named.address = id << 40;
    named.allocation_bytes = named.size_bytes = size_bytes;
    return named;
  }
  /// A call that uses this allocation of rank 1. Whether others are kept no more.
  bool call(std::uint64_t id, std::uint64_t size_bytes) {
    auto mapped = mappings.map(1, piece(id, size_bytes), 0);
    std::vector<PeerMappings::Mapped> used;
    used.push_back(std::get<PeerMappings::Mapped>(std::move(mapped)));
    const int before = memory.trimmed;
    mappings.keep(std::move(used));
    return memory.trimmed > before;
  }

  CountingMemory memory;
  PeerMappings mappings{memory};
};

TEST_F(PeerMappingsKept, what_calls_use_again_stays) {
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(call(1, mebibyte));
  EXPECT_EQ(memory.held, 1);
}

TEST_F(PeerMappingsKept, what_no_call_uses_any_more_goes) {
  call(1, mebibyte);
  for (std::uint64_t i = 0; i + 1 < PeerMappings::calls_kept; ++i) EXPECT_FALSE(call(2, mebibyte));
  EXPECT_TRUE(call(2, mebibyte));
  EXPECT_EQ(memory.held, 1);
}

TEST_F(PeerMappingsKept, so_many_bytes_stay_and_the_oldest_go) {
  const std::uint64_t part = PeerMappings::bytes_kept / 4;
  for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_FALSE(call(id, part));
  EXPECT_FALSE(call(1, part));
  memory.let_go.clear();
  EXPECT_TRUE(call(5, part));
  EXPECT_EQ(memory.let_go, std::vector<std::uint64_t>{2});
}

/// Or a program that uses the same large buffers again and again would have them mapped each time.
TEST_F(PeerMappingsKept, what_the_last_call_used_stays_however_much_it_is) {
  EXPECT_FALSE(call(1, 8 * PeerMappings::bytes_kept));
  EXPECT_FALSE(call(1, 8 * PeerMappings::bytes_kept));
  EXPECT_EQ(memory.held, 1);
  EXPECT_TRUE(call(2, mebibyte));
  EXPECT_EQ(memory.held, 1);
}

TEST_F(PeerMappingsKept, so_many_mappings_stay) {
  std::vector<PeerMappings::Mapped> used;
  for (std::uint64_t id = 0; id < PeerMappings::mappings_kept; ++id)
    used.push_back(std::get<PeerMappings::Mapped>(mappings.map(1, piece(id, 1), 0)));
  mappings.keep(std::move(used));
  EXPECT_EQ(memory.trimmed, 0);
  EXPECT_TRUE(call(1'000, 1));
  EXPECT_EQ(memory.held, static_cast<int>(PeerMappings::mappings_kept));
}

/// It is in the way of what the peer has made there since; the rest stays.
TEST_F(PeerMappingsKept, what_the_peer_has_freed_goes_where_it_is_in_the_way) {
  call(1, mebibyte);
  call(2, mebibyte);
  memory.is_occupied = true;
  memory::DevicePiece anew = piece(1, mebibyte);
  anew.buffer_id = 3;
  EXPECT_TRUE(std::holds_alternative<memory::NotMappable>(mappings.map(1, anew, 0)));
  EXPECT_EQ(memory.let_go.back(), 1U);
  EXPECT_EQ(memory.held, 1);
}

TEST_F(PeerMappingsKept, there_is_no_room_while_too_much_cannot_be_closed) {
  memory.unclosed_bytes = PeerMappings::unclosed_at_most_bytes + 1;
  EXPECT_TRUE(mappings.have_room()) << "nothing was let go of yet";
  call(1, 2 * PeerMappings::bytes_kept);
  EXPECT_TRUE(call(2, mebibyte));
  EXPECT_FALSE(mappings.have_room());
  memory.unclosed_bytes = PeerMappings::unclosed_at_most_bytes;
  EXPECT_TRUE(mappings.have_room());
}

TEST_F(PeerMappingsKept, who_cannot_name_memory_again_and_again_names_none) {
  for (int i = 0; i < 15; ++i) mappings.could_not_name();
  EXPECT_TRUE(mappings.may_name());
  mappings.could_not_name();
  EXPECT_FALSE(mappings.may_name());
}

}  // namespace
}  // namespace partita::test
