// The C face of waits in which a layer above Partita waits for something of its own too.
#include "capi/report.hpp"
#include "capi/waits.hpp"

using namespace partita;
using namespace partita::capi;

namespace {

/// What a watched wait for `requests` says: the first active one's explanation.
Operation* first_active(int count, const Partita_Request requests[]) {
  for (int i = 0; i < count; ++i) {
    if (is_open(requests[i])) return &operation_of(requests[i]);
  }
  return nullptr;
}

/// Explains the wait by whichever request is still active when someone asks.
class WaitingForFirstActive final : public Waiting {
 public:
  WaitingForFirstActive(int count, const Partita_Request* requests) : count_(count), requests_(requests) {}
  std::string explain() const override {
    const Operation* operation = first_active(count_, requests_);
    return operation != nullptr ? operation->explain()
                                : "All partitioned requests are complete; requests of the MPI are not.";
  }
  int waits_for() const override {
    const Operation* operation = first_active(count_, requests_);
    return operation != nullptr ? operation->waits_for() : -1;
  }

 private:
  int count_;
  const Partita_Request* requests_;
};

}  // namespace

int Partita_Wait_until(int count, Partita_Request requests[], int (*done)(void* context), void* context) {
  return guarded(
      "Wait_until", [&] { return first_comm(count, requests); },
      [&] {
        check_list(count, requests, "requests");
        if (done == nullptr) throw Error(ErrorClass::arg, "argument done is null; expected is a function");
        wait_for(count, requests, WaitingForFirstActive(count, requests), [&] { return done(context) != 0; });
      });
}
