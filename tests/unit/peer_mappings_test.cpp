// How much of peers' memory collectives keep mapped.
#include "two_sided/peer_mappings.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <variant>

#include "support/fake_transfer.hpp"

namespace partita::test {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
constexpr std::uint64_t most = PeerMappings::mapped_at_most_bytes;
constexpr std::uint64_t part = most / 4;

/// Keeps mapped what it has mapped until it is trimmed, as the driver's does.
class CachingMemory final : public NoDeviceMemory {
 public:
  std::variant<std::shared_ptr<std::byte>, memory::NotMappable> import(int, const memory::DeviceExport& named, int,
                                                                       memory::Closing closing) override {
    EXPECT_EQ(closing, memory::Closing::without_blocking);
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    if (is_occupied) return memory::NotMappable{"the peer has freed what is mapped there", true};
    if (is_failing) throw Error(ErrorClass::no_mem, "it is to fail");
    const memory::DevicePiece& piece = named.front();
    auto& mapping = mapped_[piece.buffer_id];
    if (mapping.memory == nullptr) {
      ++imported;
      mapping = {std::make_shared<std::byte>(), piece.way, piece.allocation_bytes};
    }
    return mapping.memory;
  }
  std::shared_ptr<std::byte> find_mapping(int, const memory::DeviceExport& named, int) override {
    const auto found = mapped_.find(named.front().buffer_id);
    return found == mapped_.end() ? nullptr : found->second.memory;
  }
  std::uint64_t trim(std::size_t allowed_bytes, memory::Closing closing) override {
    if (unused_bytes() <= allowed_bytes) return unused_bytes();
    closings.insert(closing);
    close(memory::DevicePiece::Way::file_descriptor);
    if (closing == memory::Closing::all) close(memory::DevicePiece::Way::ipc);
    return unused_bytes();
  }
  std::uint64_t memory_bytes(int) override { return gpu_bytes; }
  void decline(int, const memory::DeviceExport&) override { ++declined; }
  /// What freeing a request does.
  void close_all() { trim(0, memory::Closing::all); }
  /// The same, in another thread, up to where the driver closes what that holds.
  std::shared_ptr<std::byte> begin_closing(std::uint64_t id) { return std::move(mapped_.extract(id).mapped().memory); }
  bool is_mapped(std::uint64_t id) const { return mapped_.contains(id); }

  std::uint64_t gpu_bytes = std::uint64_t{80} << 30;
  bool is_occupied = false;
  bool is_failing = false;
  std::function<void()> meanwhile;  ///< while the driver maps what is mapped next
  int imported = 0;
  int declined = 0;
  std::set<memory::Closing> closings;  ///< of what was to be closed

 private:
  struct Mapping {
    std::shared_ptr<std::byte> memory;
    memory::DevicePiece::Way way = memory::DevicePiece::Way::ipc;
    std::uint64_t size_bytes = 0;
  };
  void close(memory::DevicePiece::Way way) {
    std::erase_if(mapped_,
                  [way](const auto& each) { return each.second.memory.use_count() == 1 && each.second.way == way; });
  }
  std::uint64_t unused_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [id, mapping] : mapped_) bytes += mapping.memory.use_count() == 1 ? mapping.size_bytes : 0;
    return bytes;
  }

  std::map<std::uint64_t, Mapping> mapped_;
};

class PeerMappingsKept : public testing::Test {
 protected:
  using Way = memory::DevicePiece::Way;

  static memory::DevicePiece piece(std::uint64_t id, std::uint64_t size_bytes, Way way) {
    memory::DevicePiece named;
    named.way = way;
    named.buffer_id = id;
    named.address = id << 40;
    named.allocation_bytes = named.size_bytes = size_bytes;
    return named;
  }
  /// A call maps this allocation of a rank, whatever becomes of it then. Whether it could.
  bool maps(std::uint64_t id, std::uint64_t size_bytes, Way way = Way::ipc, int peer = 1) {
    mappings.begin_call();
    return std::holds_alternative<std::shared_ptr<std::byte>>(mappings.map(peer, piece(id, size_bytes, way), 0));
  }
  /// Until what was used before may be closed.
  void make_other_calls() {
    for (std::uint64_t call = 0; call < PeerMappings::calls_kept; ++call) EXPECT_TRUE(maps(1000, 1));
    mappings.begin_call();
  }

  CachingMemory memory;
  PeerMappings mappings{memory};
};

TEST_F(PeerMappingsKept, what_calls_use_again_stays) {
  for (int call = 0; call < 1000; ++call) {
    EXPECT_TRUE(maps(1, mebibyte));
    memory.close_all();
  }
  EXPECT_EQ(memory.imported, 1);
}

TEST_F(PeerMappingsKept, what_is_kept_is_found_without_the_driver) {
  EXPECT_EQ(mappings.find(1, piece(1, mebibyte, Way::ipc), 0), nullptr);
  maps(1, mebibyte);
  maps(2, mebibyte, Way::file_descriptor);
  memory.is_failing = true;
  EXPECT_NE(mappings.find(1, piece(1, mebibyte, Way::ipc), 0), nullptr);
  EXPECT_EQ(mappings.find(1, piece(1, mebibyte, Way::ipc), 1), nullptr) << "for another GPU";
  EXPECT_EQ(mappings.find(2, piece(1, mebibyte, Way::ipc), 0), nullptr) << "of another rank";
  EXPECT_EQ(mappings.find(1, piece(2, mebibyte, Way::file_descriptor), 0), nullptr) << "what was passed is to be taken";
  memory.is_failing = false;
  make_other_calls();
  EXPECT_EQ(mappings.find(1, piece(1, mebibyte, Way::ipc), 0), nullptr) << "it may be closed";
}

/// Nobody waits for the driver but who needs what it maps.
TEST_F(PeerMappingsKept, what_is_kept_is_there_while_the_driver_maps) {
  maps(1, mebibyte);
  int looked = 0;
  memory.meanwhile = [&] {
    std::thread other([&] {
      EXPECT_TRUE(mappings.may_map(1, 0));
      EXPECT_NE(mappings.find(1, piece(1, mebibyte, Way::ipc), 0), nullptr);
      EXPECT_TRUE(maps(1, mebibyte));
      ++looked;
    });
    other.join();
  };
  EXPECT_TRUE(maps(2, mebibyte));
  EXPECT_EQ(looked, 1);
  EXPECT_NE(mappings.find(1, piece(2, mebibyte, Way::ipc), 0), nullptr);
}

/// What the driver is about to map counts, too.
TEST_F(PeerMappingsKept, the_bound_holds_while_the_driver_maps) {
  for (std::uint64_t id = 1; id <= 3; ++id) EXPECT_TRUE(maps(id, part));
  memory.meanwhile = [&] { EXPECT_FALSE(maps(5, part)); };
  EXPECT_TRUE(maps(4, part));
  EXPECT_FALSE(memory.is_mapped(5));
}

TEST_F(PeerMappingsKept, calls_that_map_nothing_count) {
  maps(1, mebibyte);
  maps(2, mebibyte);
  for (std::uint64_t call = 0; call <= PeerMappings::calls_kept; ++call) {
    mappings.count_call();
    EXPECT_NE(mappings.find(1, piece(2, mebibyte, Way::ipc), 0), nullptr);
  }
  mappings.begin_call();
  memory.close_all();
  EXPECT_FALSE(memory.is_mapped(1));
  EXPECT_TRUE(memory.is_mapped(2));
}

TEST_F(PeerMappingsKept, what_no_call_uses_any_more_may_be_closed) {
  maps(1, mebibyte);
  for (std::uint64_t call = 0; call < PeerMappings::calls_kept; ++call) maps(2, mebibyte);
  memory.close_all();
  EXPECT_TRUE(memory.is_mapped(1));
  maps(2, mebibyte);
  memory.close_all();
  EXPECT_FALSE(memory.is_mapped(1));
  EXPECT_TRUE(memory.is_mapped(2));
}

/// A call that is not made after all has mapped it all the same.
TEST_F(PeerMappingsKept, so_much_of_a_peers_memory_is_mapped_at_most) {
  for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_TRUE(maps(id, part));
  EXPECT_FALSE(maps(5, part));
  EXPECT_FALSE(memory.is_mapped(5));
  EXPECT_EQ(memory.declined, 1) << "what was passed is taken";
  EXPECT_TRUE(maps(6, part, Way::ipc, 2)) << "of another peer's";
}

TEST_F(PeerMappingsKept, what_is_larger_is_never_mapped) {
  EXPECT_FALSE(maps(1, most + 1));
  EXPECT_FALSE(maps(2, std::uint64_t{45} << 30));
  EXPECT_EQ(memory.imported, 0);
}

TEST_F(PeerMappingsKept, a_small_gpu_maps_less) {
  memory.gpu_bytes = PeerMappings::mapped_at_most_part * part;
  EXPECT_FALSE(maps(1, part + 1));
  EXPECT_TRUE(maps(2, part));
  EXPECT_FALSE(maps(3, 1));
}

TEST_F(PeerMappingsKept, small_allocations_count_as_what_the_driver_maps) {
  memory.gpu_bytes = PeerMappings::mapped_at_most_part * 4 * mebibyte;
  EXPECT_TRUE(maps(1, 1));
  EXPECT_TRUE(maps(2, 1));
  EXPECT_FALSE(maps(3, 1));
}

/// Also what is mapped and no longer kept for calls, since the driver has not closed it.
TEST_F(PeerMappingsKept, what_is_mapped_is_used_where_there_is_no_room) {
  for (std::uint64_t id = 1; id <= 4; ++id) maps(id, part - mebibyte);
  make_other_calls();
  EXPECT_FALSE(maps(5, part));
  for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_TRUE(maps(id, part - mebibyte));
  EXPECT_EQ(memory.imported, 5);
}

TEST_F(PeerMappingsKept, what_the_driver_has_not_closed_counts) {
  maps(1, most - 4 * mebibyte);
  make_other_calls();
  EXPECT_FALSE(maps(2, part)) << "it is let go of and mapped";
  memory.close_all();
  EXPECT_TRUE(maps(2, part));
}

/// It is not taken up again: it would be closed in the middle of the call that uses it.
TEST_F(PeerMappingsKept, what_another_thread_is_closing_counts_and_is_mapped_anew) {
  maps(1, most - 4 * mebibyte);
  make_other_calls();
  std::shared_ptr<std::byte> closing = memory.begin_closing(1);
  EXPECT_FALSE(maps(1, most - 4 * mebibyte)) << "there is no room for both";
  closing.reset();
  EXPECT_TRUE(maps(1, most - 4 * mebibyte));
  EXPECT_EQ(memory.imported, 3) << "the small one of other calls, and twice this one";
}

TEST_F(PeerMappingsKept, what_is_unused_no_call_closes_where_the_driver_would_wait) {
  maps(1, most - 4 * mebibyte);
  make_other_calls();
  EXPECT_FALSE(maps(2, part));
  EXPECT_TRUE(memory.closings.contains(memory::Closing::without_blocking));
  EXPECT_FALSE(memory.closings.contains(memory::Closing::all));
  EXPECT_TRUE(memory.is_mapped(1));
}

TEST_F(PeerMappingsKept, what_came_by_descriptors_makes_room) {
  for (std::uint64_t id = 1; id <= 4; ++id) maps(id, part - mebibyte, Way::file_descriptor);
  make_other_calls();
  EXPECT_TRUE(maps(5, part));
  EXPECT_FALSE(memory.is_mapped(1));
}

/// It is in the way of what the peer has made there since; the rest stays.
TEST_F(PeerMappingsKept, what_the_peer_has_freed_may_be_closed_where_it_is_in_the_way) {
  maps(1, mebibyte);
  maps(2, mebibyte);
  memory.is_occupied = true;
  memory::DevicePiece anew = piece(1, mebibyte, Way::ipc);
  anew.buffer_id = 3;
  EXPECT_TRUE(std::holds_alternative<memory::NotMappable>(mappings.map(1, anew, 0)));
  memory.close_all();
  EXPECT_FALSE(memory.is_mapped(1));
  EXPECT_TRUE(memory.is_mapped(2));
}

TEST_F(PeerMappingsKept, what_was_not_mapped_counts_not) {
  memory.is_failing = true;
  EXPECT_THROW(maps(1, most), Error);
  memory.is_failing = false;
  EXPECT_TRUE(maps(2, most));
}

TEST_F(PeerMappingsKept, what_cannot_be_mapped_again_and_again_is_not_tried) {
  const auto fails = [&](int device) {
    EXPECT_THROW(static_cast<void>(mappings.map(1, piece(1, 1, Way::ipc), device)), Error);
  };
  memory.is_failing = true;
  fails(0);
  fails(0);
  memory.is_failing = false;
  EXPECT_TRUE(maps(1, 1));
  memory.is_failing = true;
  for (int call = 0; call < 3; ++call) {
    EXPECT_TRUE(mappings.may_map(1, 0)) << "it could meanwhile";
    fails(0);
  }
  EXPECT_FALSE(mappings.may_map(1, 0));
  EXPECT_TRUE(mappings.may_map(1, 1)) << "for another GPU";
  EXPECT_TRUE(mappings.may_map(2, 0)) << "of another peer";
}

/// Both may pass.
TEST_F(PeerMappingsKept, neither_want_of_room_nor_what_is_in_the_way_counts_as_a_failure) {
  for (int call = 0; call < 5; ++call) EXPECT_FALSE(maps(1, most + 1));
  memory.is_occupied = true;
  for (int call = 0; call < 5; ++call) EXPECT_FALSE(maps(2, 1));
  EXPECT_TRUE(mappings.may_map(1, 0));
}

TEST_F(PeerMappingsKept, who_cannot_name_memory_again_and_again_names_none) {
  for (int i = 0; i < 15; ++i) mappings.could_not_name();
  EXPECT_TRUE(mappings.may_name());
  mappings.could_not_name();
  EXPECT_FALSE(mappings.may_name());
}

}  // namespace
}  // namespace partita::test
