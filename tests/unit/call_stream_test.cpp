// What a stream of the program's is called in the environment and in info objects.
#include "core/call_stream.hpp"

#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <string>

namespace partita::test {
namespace {

TEST(CallStreamName, is_read_and_written_alike) {
  for (const char* const name : {"none", "legacy", "per-thread", "0x55d0c0ffee00", "0x3"}) {
    const auto stream = parse_call_stream(name);
    ASSERT_TRUE(stream) << name;
    EXPECT_EQ(text_of(*stream), name);
  }
}

TEST(CallStreamName, of_a_handle_is_what_printf_writes) {
  int somewhere = 0;
  char text[32];
  std::snprintf(text, sizeof text, "%p", static_cast<void*>(&somewhere));
  EXPECT_EQ(parse_call_stream(text), static_cast<CallStream>(reinterpret_cast<std::uintptr_t>(&somewhere)));
  EXPECT_EQ(parse_call_stream("0xABC"), static_cast<CallStream>(0xabc));
}

TEST(CallStreamName, may_be_cudas_number_of_a_default_stream) {
  EXPECT_EQ(parse_call_stream("0x1"), CallStream::legacy);
  EXPECT_EQ(parse_call_stream("0x2"), CallStream::per_thread);
}

TEST(CallStreamName, of_a_null_handle_does_not_say_which) {
  for (const char* const name : {"0x0", "0x00", "(nil)", "0"}) EXPECT_FALSE(parse_call_stream(name)) << name;
}

TEST(CallStreamName, is_nothing_else) {
  for (const char* const name : {"", "0x", "0xg", "0x1 ", " 0x1", "0x-1", "-0x1", "0x1ffffffffffffffff",
                                 "0xffffffffffffffff", "55d0c0ffee00", "Legacy", "per_thread", "default"}) {
    EXPECT_FALSE(parse_call_stream(name)) << name;
  }
}

TEST(CallStreamName, of_a_default_stream_is_no_handle) {
  EXPECT_EQ(parse_default_stream("legacy"), CallStream::legacy);
  EXPECT_FALSE(parse_default_stream("0x1"));
}

}  // namespace
}  // namespace partita::test
