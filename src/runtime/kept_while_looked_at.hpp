// Operations that a call frees while another one of its thread looks at them.
#pragma once

#include <memory>
#include <utility>

#include "partitioned/operation.hpp"

namespace partita {

/// A look at `operation` may come to an error handler of the program's, which may complete and free it. While this
/// lives the operation does, too; only the thread of the look may free it meanwhile.
class KeptWhileLookedAt {
 public:
  explicit KeptWhileLookedAt(const Operation& operation)
      : operation_(operation), outer_(std::exchange(innermost, this)) {}
  ~KeptWhileLookedAt() { innermost = outer_; }
  KeptWhileLookedAt(const KeptWhileLookedAt&) = delete;
  KeptWhileLookedAt& operator=(const KeptWhileLookedAt&) = delete;

  /// A call of this thread has freed `operation`.
  static void keep(const std::shared_ptr<Operation>& operation) {
    for (KeptWhileLookedAt* look = innermost; look != nullptr; look = look->outer_) {
      if (&look->operation_ == operation.get()) look->kept_ = operation;
    }
  }

 private:
  inline static thread_local KeptWhileLookedAt* innermost = nullptr;

  const Operation& operation_;
  KeptWhileLookedAt* const outer_;
  std::shared_ptr<Operation> kept_;
};

}  // namespace partita
