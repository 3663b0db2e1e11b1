#include "apps/fft/exchange.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "apps/fft/modes.hpp"

namespace fft {
namespace {

using Make = std::unique_ptr<Exchange>(MPI_Comm peers, const Hop& hop, const Buffers& buffers);

template <Make make>
std::unique_ptr<Exchange> of_unknown_peers(MPI_Comm peers, const Hop& hop, const Buffers& buffers) {
  return exchange_on_unknown_peers(peers, [&](MPI_Comm unknown_peers) { return make(unknown_peers, hop, buffers); });
}

struct Way {
  std::string_view name;
  Spacing spacing;
  Make* make;
  Make* make_staged;
};

constexpr std::array<Way, 3> ways{
    {{exchange_names[0], Spacing::equal, exchange_by_alltoall, of_unknown_peers<exchange_by_alltoall>},
     {exchange_names[1], Spacing::exact, exchange_by_alltoallv, of_unknown_peers<exchange_by_alltoallv>},
     {exchange_names[2], Spacing::slices, exchange_by_partitions, exchange_by_partitions_staged}}};

/// `name` may be that of the staged twin.
const Way& way(std::string_view name) {
  for (const Way& each : ways) {
    if (each.name == plain_name(name)) return each;
  }
  throw std::logic_error(fmt::format("fft: there is no exchange {}.", name));
}

}  // namespace

Spacing spacing_of(std::string_view name) {
  return way(name).spacing;
}

ExchangeMaker exchange_maker(std::string_view name) {
  return is_staged(name) ? way(name).make_staged : way(name).make;
}

}  // namespace fft
