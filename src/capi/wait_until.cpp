// The C face of waits in which a layer above Partita waits for something of its own too.
#include "capi/array_call.hpp"
#include "capi/asking.hpp"
#include "capi/report.hpp"
#include "capi/waits.hpp"

using namespace partita;
using namespace partita::capi;

int Partita_Wait_until(int count, Partita_Request requests[], int (*done)(void* context), void* context) {
  return guarded(
      "Wait_until", [&] { return first_comm(count, requests); },
      [&] {
        check_list(count, requests, "requests");
        if (done == nullptr) throw Error(ErrorClass::arg, "argument done is null; expected is a function");
        const ArrayCall call(count, requests);
        Asking asking(count, requests);
        const Asking::Lend lent(asking);
        wait_for(count, requests, [&] {
          const LookOnce::OfWait turn;
          return done(context) != 0;
        });
      });
}
