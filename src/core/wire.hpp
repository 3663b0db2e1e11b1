// How small records are laid out in messages between ranks of one job (one architecture, one build).
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
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
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), first, first + sizeof(T));
    return *this;
  }
  Writer& put_bytes(std::span<const std::byte> data) {
    put(static_cast<std::uint64_t>(data.size()));
    bytes_.insert(bytes_.end(), data.begin(), data.end());
    return *this;
  }
  Writer& put_string(std::string_view text) { return put_bytes(std::as_bytes(std::span(text))); }

  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// Reads back, in the same order, what a Writer put. Throws Error on a message that is too short.
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
  Bytes get_bytes() {
    const auto data = take(get<std::uint64_t>());
    return {data.begin(), data.end()};
  }
  std::string get_string() {
    const auto data = take(get<std::uint64_t>());
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) {
      throw Error(ErrorClass::internal,
                  "a setup message ended {} bytes early: do all ranks run the same build of Partita?",
                  count - rest_.size());
    }
    const auto head = rest_.first(count);
    rest_ = rest_.subspan(count);
    return head;
  }

  std::span<const std::byte> rest_;
};

}  // namespace partita::wire
