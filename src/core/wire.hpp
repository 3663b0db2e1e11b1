// How small records are laid out in messages between ranks of one job (one architecture, one build).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace partita::wire {

using Bytes = std::vector<std::byte>;

/// Appends values and byte strings to a message.
class Writer {
 public:
  template <class T>
    requires std::is_trivially_copyable_v<T>
  Writer& put(const T& value) {
    static_assert(sizeof(T) <= most_held_bytes);
    if (sizeof(T) > most_held_bytes - held_bytes_) spill();
    std::memcpy(held_.data() + held_bytes_, &value, sizeof(T));
    held_bytes_ += sizeof(T);
    return *this;
  }
  Writer& put_bytes(std::span<const std::byte> data) {
    put(static_cast<std::uint64_t>(data.size()));
    if (data.size() > most_held_bytes - held_bytes_) {
      spill();
      bytes_.insert(bytes_.end(), data.begin(), data.end());
    } else if (!data.empty()) {
      std::memcpy(held_.data() + held_bytes_, data.data(), data.size());
      held_bytes_ += data.size();
    }
    return *this;
  }
  Writer& put_string(std::string_view text) { return put_bytes(std::as_bytes(std::span(text))); }

  /// Once, behind all else.
  Bytes take() {
    spill();
    return std::move(bytes_);
  }

 private:
  static constexpr std::size_t most_held_bytes = 512;

  void spill() {
    bytes_.insert(bytes_.end(), held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(held_bytes_));
    held_bytes_ = 0;
  }

  Bytes bytes_;
  /// What has come last: records are many small values, for each of which the vector would grow.
  std::array<std::byte, most_held_bytes> held_;
  std::size_t held_bytes_ = 0;
};

/// A message is not what a Writer of this build makes. `format` and `args` say what is wrong with it.
template <class... Args>
Error malformed(fmt::format_string<Args...> format, Args&&... args) {
  return {ErrorClass::internal, "a setup message {}: do all ranks run the same build of Partita?",
          fmt::format(format, std::forward<Args>(args)...)};
}

/// Reads back, in the same order, what a Writer put. The bytes are another process's word: nothing is taken from them,
/// a length least of all, that has not been looked at. Throws Error on a message that is too short, and on values that
/// no Writer puts.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
    requires std::is_trivially_copyable_v<T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  /// One of the values from 0 to `last` of an enumeration.
  template <class Enum>
    requires std::is_enum_v<Enum>
  Enum get_enum(Enum last) {
    using Number = std::underlying_type_t<Enum>;
    static_assert(std::is_unsigned_v<Number>);
    const auto number = get<Number>();
    if (number > static_cast<Number>(last)) {
      throw malformed("holds {} where a value from 0 to {} is expected", std::uint64_t{number},
                      std::uint64_t{static_cast<Number>(last)});
    }
    return static_cast<Enum>(number);
  }
  bool get_bool() {
    const auto value = get<std::uint8_t>();
    if (value > 1) throw malformed("holds {} where a truth value, 0 or 1, is expected", value);
    return value != 0;
  }
  /// How many records of at least `bytes_each` follow; no more than the rest of the message can hold.
  std::size_t get_count(std::size_t bytes_each) {
    const auto count = get<std::uint64_t>();
    if (count > rest_.size() / bytes_each) {
      throw malformed("announces {} records of at least {} bytes, but ended after {} bytes more", count, bytes_each,
                      rest_.size());
    }
    return static_cast<std::size_t>(count);
  }
  Bytes get_bytes() {
    const auto data = take(get<std::uint64_t>());
    return {data.begin(), data.end()};
  }
  std::string get_string() {
    const auto data = take(get<std::uint64_t>());
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }

  /// The message has been read: nothing follows.
  void end() const {
    if (!rest_.empty()) throw malformed("is {} bytes too long", rest_.size());
  }

 private:
  std::span<const std::byte> take(std::uint64_t count) {
    if (count > rest_.size()) throw malformed("ended {} bytes early", count - rest_.size());
    const auto head = rest_.first(count);
    rest_ = rest_.subspan(count);
    return head;
  }

  std::span<const std::byte> rest_;
};

}  // namespace partita::wire
