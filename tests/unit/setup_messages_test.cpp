// Messages between ranks that no rank would write: cut, longer, with single bits turned, with huge counts. Readers
// throw Error, or read something that can be written again; they take no memory for what is not there.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>

#include "core/error.hpp"
#include "support/sanitized.hpp"
#include "support/setup_readers.hpp"

namespace partita::test {
namespace {

/// From one place to spoil to the next. The thread sanitizer has nothing to find in the one thread of these tests; a
/// step of 7 comes to each bit of a byte and each byte of a word, too.
constexpr std::size_t step = thread_sanitized ? 7 : 1;

class SetupMessages : public testing::TestWithParam<SetupReader> {
 protected:
  /// False where it is refused with a sentence of ours. What is read is the same when it is written and read again.
  static bool accepted(std::span<const std::byte> bytes) {
    try {
      const wire::Bytes once = GetParam().again(bytes);
      EXPECT_EQ(GetParam().again(once), once);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::internal);
      EXPECT_NE(error.sentence().find("setup message"), std::string::npos) << error.sentence();
      return false;
    }
  }
};

TEST_P(SetupMessages, come_back_as_they_were_written) {
  EXPECT_EQ(GetParam().again(GetParam().good), GetParam().good);
}

TEST_P(SetupMessages, cut_anywhere_are_refused) {
  const wire::Bytes& good = GetParam().good;
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(accepted(std::span(good).first(length))) << length << " of " << good.size() << " bytes";
  }
}

TEST_P(SetupMessages, with_something_behind_them_are_refused) {
  wire::Bytes longer = GetParam().good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(accepted(longer));
}

TEST_P(SetupMessages, with_any_bit_turned_are_refused_or_read) {
  wire::Bytes bytes = GetParam().good;
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit += step) {
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    bytes[bit / 8] ^= mask;
    accepted(bytes);
    bytes[bit / 8] ^= mask;
  }
}

TEST_P(SetupMessages, with_huge_numbers_anywhere_are_refused_or_read) {
  const wire::Bytes& good = GetParam().good;
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{1} << 31, std::uint64_t{1} << 40, std::uint64_t{1} << 63,
        std::numeric_limits<std::uint64_t>::max(), std::numeric_limits<std::uint64_t>::max() / 26}) {
    for (std::size_t at = 0; at + sizeof number <= good.size(); at += step) {
      wire::Bytes bytes = good;
      std::memcpy(bytes.data() + at, &number, sizeof number);
      accepted(bytes);
    }
  }
}

TEST_P(SetupMessages, of_random_bytes_are_refused_or_read) {
  std::mt19937_64 random(1);
  for (int round = 0; round < repetitions(2000, 500); ++round) {
    wire::Bytes bytes = GetParam().good;
    for (int i = 0; i < 4; ++i) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    bytes.resize(random() % (bytes.size() + 1));
    accepted(bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SetupMessages, testing::ValuesIn(setup_readers()),
                         [](const auto& reader) { return reader.param.name; });

}  // namespace
}  // namespace partita::test
