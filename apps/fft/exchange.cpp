#include "apps/fft/exchange.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "apps/fft/modes.hpp"

namespace fft {
namespace {

struct Way {
  std::string_view name;
  Spacing spacing;
  std::unique_ptr<Exchange> (*make)(MPI_Comm peers, const Hop& hop, const Buffers& buffers);
};

constexpr std::array<Way, 3> ways{{{exchange_names[0], Spacing::equal, exchange_by_alltoall},
                                   {exchange_names[1], Spacing::exact, exchange_by_alltoallv},
                                   {exchange_names[2], Spacing::slices, exchange_by_partitions}}};

const Way& way(std::string_view name) {
  for (const Way& each : ways) {
    if (each.name == name) return each;
  }
  throw std::logic_error(fmt::format("fft: there is no exchange {}.", name));
}

}  // namespace

Spacing spacing_of(std::string_view name) {
  return way(name).spacing;
}

ExchangeMaker exchange_maker(std::string_view name) {
  return way(name).make;
}

}  // namespace fft
