// The table behind the drop-in's handles: found while there, gone when erased, by many threads at once.
#include "dropin/request_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

namespace partita::dropin {
namespace {

using Key = RequestTable::Key;

/// A request that is told from others by its key, never used.
Partita_Request request_for(Key key) {
  return reinterpret_cast<Partita_Request>(key * 2 + 1);
}

TEST(RequestTable, finds_what_was_inserted_and_nothing_else) {
  RequestTable table;
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(PARTITA_REQUEST_NULL, table.find(17));
  table.insert(17, request_for(17));
  EXPECT_FALSE(table.empty());
  EXPECT_EQ(request_for(17), table.find(17));
  EXPECT_EQ(PARTITA_REQUEST_NULL, table.find(18));
  EXPECT_EQ(17U, table.any());
  table.erase(18);
  table.erase(17);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(0U, table.any());
  EXPECT_EQ(PARTITA_REQUEST_NULL, table.find(17));
}

TEST(RequestTable, replaces_the_request_of_a_key) {
  RequestTable table;
  table.insert(5, request_for(5));
  table.insert(5, request_for(6));
  EXPECT_EQ(request_for(6), table.find(5));
  table.erase(5);
  EXPECT_TRUE(table.empty());
}

TEST(RequestTable, agrees_with_a_map_through_random_changes) {
  std::mt19937 random(4);
  RequestTable table;
  std::unordered_map<Key, Partita_Request> expected;
  for (int step = 0; step < 100'000; ++step) {
    const Key key = 64 * (1 + random() % 500);
    if (random() % 2 == 0) {
      table.insert(key, request_for(key));
      expected[key] = request_for(key);
    } else {
      table.erase(key);
      expected.erase(key);
    }
    const Key asked = 64 * (1 + random() % 500);
    const auto found = expected.find(asked);
    ASSERT_EQ(found == expected.end() ? PARTITA_REQUEST_NULL : found->second, table.find(asked)) << "step " << step;
    ASSERT_EQ(expected.empty(), table.empty());
  }
}

TEST(RequestTable, does_not_grow_with_the_number_of_requests_made) {
  RequestTable table;
  for (Key key = 1; key < 200'000; ++key) {
    table.insert(key, request_for(key));
    if (key > 20) table.erase(key - 20);
  }
  EXPECT_LE(table.capacity(), 64U);
}

TEST(RequestTable, holds_a_hundred_thousand_at_once) {
  constexpr Key many = 100'000;
  RequestTable table;
  for (Key key = 1; key <= many; ++key) table.insert(key << 4, request_for(key));
  for (Key key = 1; key <= many; ++key) ASSERT_EQ(request_for(key), table.find(key << 4));
  EXPECT_LE(table.capacity(), 4 * many);
}

TEST(RequestTable, is_read_without_a_lock_while_others_change_it) {
  constexpr Key lasting = 100;
  constexpr int rounds = 3000;
  RequestTable table;
  for (Key key = 1; key <= lasting; ++key) table.insert(key * 8, request_for(key));

  std::atomic<bool> changing{true};
  std::atomic<int> wrong{0};
  const auto change = [&](Key first) {
    for (int round = 0; round < rounds; ++round) {
      for (Key key = first; key < first + 40; ++key) table.insert(key * 8, request_for(key));
      for (Key key = first; key < first + 40; ++key) {
        if (table.find(key * 8) != request_for(key)) ++wrong;
        table.erase(key * 8);
      }
    }
  };
  const auto read = [&] {
    while (changing.load()) {
      for (Key key = 1; key <= lasting; ++key) {
        if (table.find(key * 8) != request_for(key)) ++wrong;
        if (table.find(key * 8 + 1) != PARTITA_REQUEST_NULL) ++wrong;
      }
    }
  };
  std::thread reader(read);
  std::array changers = {std::thread(change, 1000), std::thread(change, 2000)};
  for (auto& thread : changers) thread.join();
  changing = false;
  reader.join();
  EXPECT_EQ(0, wrong);
}

}  // namespace
}  // namespace partita::dropin
