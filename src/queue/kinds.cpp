#include "queue/kinds.hpp"

#include <fmt/ranges.h>

#include <array>

#include "partita/partita.h"

namespace partita {

std::unique_ptr<Queue> make_queue(int type, const QueueServices& services, void* stream) {
#define PARTITA_QUEUE_KIND(name, its_type) \
  if (type == (its_type)) return make_##name##_queue(services, stream);
#include "queue/kinds.inc"
#undef PARTITA_QUEUE_KIND
  constexpr std::array types = {
#define PARTITA_QUEUE_KIND(name, its_type) #its_type,
#include "queue/kinds.inc"
#undef PARTITA_QUEUE_KIND
  };
  throw Error(ErrorClass::arg, "argument type is {}; expected is {}", type, fmt::join(types, " or "));
}

}  // namespace partita
