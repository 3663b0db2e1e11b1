#include "core/wire.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace partita::wire {
namespace {

struct Record {
  std::int32_t rank;
  std::int64_t size_bytes;
  bool operator==(const Record&) const = default;
};

Bytes sample() {
  Writer writer;
  writer.put(std::int32_t{7}).put_string("setup").put(Record{3, -5}).put_bytes({}).put(std::uint8_t{255});
  return writer.take();
}

void read_sample(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  EXPECT_EQ(reader.get<std::int32_t>(), 7);
  EXPECT_EQ(reader.get_string(), "setup");
  EXPECT_EQ(reader.get<Record>(), (Record{3, -5}));
  EXPECT_TRUE(reader.get_bytes().empty());
  EXPECT_EQ(reader.get<std::uint8_t>(), 255);
}

TEST(Wire, a_reader_gives_back_what_the_writer_put) {
  read_sample(sample());
}

TEST(Wire, bytes_of_any_value_and_length_survive) {
  for (const std::size_t length : {0U, 1U, 2U, 7U, 255U, 256U, 503U, 504U, 505U, 512U, 513U, 100000U}) {
    Bytes data(length);
    for (std::size_t i = 0; i < length; ++i) data[i] = static_cast<std::byte>(i * 31 + length);
    Writer writer;
    writer.put_bytes(data);
    const Bytes message = writer.take();
    EXPECT_EQ(Reader(message).get_bytes(), data) << length;
  }
}

TEST(Wire, many_values_and_byte_strings_come_in_their_order) {
  Writer writer;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    writer.put(i).put(static_cast<std::uint8_t>(i)).put_string(std::string(i % 97 == 0 ? i : i % 7, 'x')).put(-1.5 * i);
  }
  const Bytes message = writer.take();
  Reader reader(message);
  for (std::uint32_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(reader.get<std::uint32_t>(), i);
    ASSERT_EQ(reader.get<std::uint8_t>(), static_cast<std::uint8_t>(i));
    ASSERT_EQ(reader.get_string(), std::string(i % 97 == 0 ? i : i % 7, 'x'));
    ASSERT_EQ(reader.get<double>(), -1.5 * i);
  }
  reader.end();
}

TEST(Wire, a_message_cut_anywhere_is_an_error_that_says_so) {
  const Bytes whole = sample();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    try {
      read_sample(std::span(whole).first(length));
      ADD_FAILURE() << "a message cut to " << length << " of " << whole.size() << " bytes was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::internal);
      EXPECT_NE(error.sentence().find("ended"), std::string::npos) << error.sentence();
    }
  }
}

TEST(Wire, a_length_beyond_the_message_is_an_error) {
  for (const std::uint64_t length : {std::uint64_t{1}, std::uint64_t{1} << 32, UINT64_MAX}) {
    Writer writer;
    writer.put(length);
    const Bytes message = writer.take();
    EXPECT_THROW(Reader(message).get_bytes(), Error) << length;
    EXPECT_THROW(Reader(message).get_string(), Error) << length;
  }
}

}  // namespace
}  // namespace partita::wire
