// What offers of messages need of the runtime.
#pragma once

#include <cstdint>
#include <optional>

#include "partitioned/request_services.hpp"
#include "two_sided/host_image.hpp"
#include "two_sided/offer_counts.hpp"
#include "two_sided/offer_record.hpp"

namespace partita {

/// The runtime makes and owns all of it.
struct OfferServices {
  const RequestServices& requests;
  GpuLanes& lanes;
  std::optional<std::int64_t> from_bytes;  ///< the same on all ranks; none: never
  OfferMark mark;                          ///< likewise
  OfferCounts& counts;
};

}  // namespace partita
