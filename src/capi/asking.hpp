// How a call on an array looks at requests of the MPI's that stand behind those of the array.
#pragma once

#include <optional>
#include <utility>

#include "capi/requests.hpp"
#include "core/asked_together.hpp"

namespace partita::capi {

/// Lives as long as the call. Where requests of the MPI's stand behind two of `requests` or more, looks at these ask
/// the MPI once for all of them; looks within a wait ask for what the wait has gathered, too.
class Asking {
 public:
  using Wanted = AskedTogether::Wanted;

  Asking(int count, const Partita_Request requests[]) {
    const bool gathers = count >= 2 && AskedTogether::Member::are_several();
    is_on_ = gathers || lent != nullptr;
    if (!gathers) return;
    together_.emplace(2 * static_cast<std::size_t>(count));  // two stand behind an exchange
    for (int i = 0; i < count; ++i) {
      if (requests[i] != PARTITA_REQUEST_NULL) operation_of(requests[i]).leave_asking_to(*together_);
    }
    if (together_->count() < 2) together_.reset();
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  /// Comes before a look at the operations. Calls on arrays complete all that are done, or `one` of them.
  void ask(Wanted wanted) {
    if (!is_on_) return;
    if (together_) together_->ask(wanted);
    if (lent != nullptr) lent->ask(wanted);
  }
  /// Whether that has found nothing new about `operation`, which is open. In an error handler within it nobody knows.
  bool is_waiting(const Operation& operation) const {
    if (!is_on_) return false;
    const AskedTogether* const in = operation.asked_in();
    return in != nullptr && (in == lent || (together_ && in == &*together_)) && !in->is_asking();
  }

  /// While it lives the calls of this thread ask by `asking`, and do not gather what is in there again.
  class Lend {
   public:
    explicit Lend(Asking& asking) : outer_(std::exchange(lent, asking.together_ ? &*asking.together_ : nullptr)) {}
    ~Lend() { lent = outer_; }
    Lend(const Lend&) = delete;
    Lend& operator=(const Lend&) = delete;

   private:
    AskedTogether* outer_;
  };

 private:
  inline static thread_local AskedTogether* lent = nullptr;

  bool is_on_ = false;
  std::optional<AskedTogether> together_;
};

}  // namespace partita::capi
