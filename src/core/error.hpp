// What went wrong: an MPI error class and a sentence.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace partita {

/// The MPI error classes that Partita reports; capi/ maps them to the MPI's values.
enum class ErrorClass : std::uint8_t {
  buffer,
  count,
  type,
  tag,
  comm,
  rank,
  root,
  op,
  topology,
  request,
  arg,
  info,
  info_key,
  info_value,
  truncate,
  no_mem,
  other,
  internal
};
inline constexpr int error_class_count = 18;

/// Thrown inside Partita and turned into a return code at the faces. The place that first knows an error writes
/// the sentence; callers pass it on.
class Error : public std::exception {
 public:
  template <class... Args>
  Error(ErrorClass error_class, fmt::format_string<Args...> format, Args&&... args)
      : class_(error_class), sentence_(fmt::format(format, std::forward<Args>(args)...)) {}

  ErrorClass error_class() const { return class_; }
  const std::string& sentence() const { return sentence_; }
  const char* what() const noexcept override { return sentence_.c_str(); }

 private:
  ErrorClass class_;
  std::string sentence_;
};

}  // namespace partita
