// What a call on an array of requests knows of those that go before it returns.
#pragma once

#include <functional>
#include <utility>

#include "capi/state.hpp"

namespace partita::capi {

/// Lives as long as the call, which may come to an error handler of the program's, whose calls may complete or free
/// some of `requests`: what is freed so is null there from then on.
class ArrayCall {
 public:
  ArrayCall(int count, Partita_Request requests[])
      : count_(count), requests_(requests), outer_(std::exchange(innermost, this)) {}
  ~ArrayCall() { innermost = outer_; }
  ArrayCall(const ArrayCall&) = delete;
  ArrayCall& operator=(const ArrayCall&) = delete;

  /// A call of this thread has freed `request`, and makes the handle at `own` null itself.
  static void forget(Partita_Request request, const Partita_Request* own) {
    for (const ArrayCall* call = innermost; call != nullptr; call = call->outer_) {
      if (!call->has(own)) call->forget(request);
    }
  }

 private:
  /// Most often it is the array of the call itself, or one within a wait for the same array.
  bool has(const Partita_Request* own) const {
    const std::less<> before;
    return !before(own, requests_) && before(own, requests_ + count_);
  }
  void forget(Partita_Request request) const {
    for (int i = 0; i < count_; ++i) {
      if (requests_[i] == request) requests_[i] = PARTITA_REQUEST_NULL;
    }
  }

  inline static thread_local const ArrayCall* innermost = nullptr;

  const int count_;
  Partita_Request* const requests_;
  const ArrayCall* const outer_;
};

}  // namespace partita::capi
