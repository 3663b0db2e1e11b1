// What went wrong: an MPI error class and a sentence.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <memory>
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
  calls_differ,  ///< to the program the same as `request`: ranks have made different collectives
  arg,
  info,
  info_key,
  info_value,
  truncate,
  no_mem,
  other,
  internal
};
inline constexpr int error_class_count = 19;

/// What another rank has told: `rank` `cause`, where the cause begins with a verb: "could not send: …".
struct Origin {
  int rank = -1;
  std::string cause;
};

/// Thrown inside Partita and turned into a return code at the faces. The place that first knows an error writes
/// the sentence; callers pass it on.
class Error : public std::exception {
 public:
  template <class... Args>
  Error(ErrorClass error_class, fmt::format_string<Args...> format, Args&&... args)
      : class_(error_class), sentence_(fmt::format(format, std::forward<Args>(args)...)) {}

  /// The same error, which began on another rank: who passes it on names that rank, and not itself.
  Error began_at(Origin origin) && {
    origin_ = std::make_shared<const Origin>(std::move(origin));
    return std::move(*this);
  }

  /// The same error, which the MPI has raised with a code of its own: the error handler has heard of it.
  Error raised_as(int code) && {
    raised_code_ = code;
    return std::move(*this);
  }

  ErrorClass error_class() const { return class_; }
  const std::string& sentence() const { return sentence_; }
  /// Null: it began on this rank.
  const Origin* origin() const { return origin_.get(); }
  /// 0: nobody has raised it yet.
  int raised_code() const { return raised_code_; }
  const char* what() const noexcept override { return sentence_.c_str(); }

 private:
  ErrorClass class_;
  std::string sentence_;
  std::shared_ptr<const Origin> origin_;
  int raised_code_ = 0;
};

}  // namespace partita
