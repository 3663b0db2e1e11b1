#include "apps/fft/ways.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "apps/fft/exchange.hpp"
#include "apps/fft/memory.hpp"
#include "apps/fft/modes.hpp"
#include "apps/support/two_nodes.hpp"
#include "capi/gpu_aware.hpp"
#include "two_sided/peer_ranks.hpp"

namespace fft {
namespace {

struct Collective {
  std::string_view exchange;
  partita::PeerCollective collective;
};
constexpr std::array<Collective, 2> collectives{
    {{exchange_names[0], partita::PeerCollective::Alltoall}, {exchange_names[1], partita::PeerCollective::Alltoallv}}};

bool is_among(std::string_view exchange, std::span<const std::string> exchanges) {
  return std::ranges::find(exchanges, exchange) != exchanges.end();
}

bool has_twin(std::string_view exchange, std::span<const std::string> exchanges) {
  return is_among(exchange, exchanges) && is_among(std::string(exchange) + std::string(staged_suffix), exchanges);
}

/// For each rank the lowest one of its node, as Partita sees nodes.
std::vector<int> nodes_of_ranks(MPI_Comm comm) {
  int ranks = 1, rank = 0, first = 0;
  MPI_Comm_size(comm, &ranks);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm node = partita::apps::split_by_node(comm);
  MPI_Allreduce(&rank, &first, 1, MPI_INT, MPI_MIN, node);
  MPI_Comm_free(&node);
  std::vector<int> firsts(static_cast<std::size_t>(ranks));
  MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, comm);
  return firsts;
}

/// Where a rank is, and in which rows and columns.
struct Seat {
  RankGrid grid;
  int rank = 0;
  std::vector<int> nodes;  ///< of all ranks
};

bool are_of_one_node(const RankGrid& grid, int rank, const std::vector<int>& nodes, bool in_row) {
  const auto shares_a_line = [&](int other) {
    return in_row ? other / grid.columns == rank / grid.columns : other % grid.columns == rank % grid.columns;
  };
  for (int other = 0; other < grid.ranks(); ++other) {
    const auto at = static_cast<std::size_t>(other);
    if (shares_a_line(other) && nodes[at] != nodes[static_cast<std::size_t>(rank)]) return false;
  }
  return true;
}

std::int64_t larger_buffer_bytes(const Hop& hop) {
  const auto cells = [](const Places& places) {
    return std::accumulate(places.counts.begin(), places.counts.end(), std::int64_t{0});
  };
  return bytes_of(std::max(cells(hop.sent), cells(hop.received)));
}

std::string why_staged(Reach reach, std::int64_t from_bytes) {
  switch (reach) {
    case Reach::among_too_many:
      return fmt::format("its calls are among more than {} ranks", partita::most_peer_ranks);
    case Reach::between_nodes:
      return "its calls are among ranks of several nodes";
    case Reach::too_small:
      return fmt::format("no rank has a buffer of {} bytes, from which on calls go by peer memory", from_bytes);
    case Reach::by_peers:
      break;
  }
  return {};
}

/// As the hop goes that comes the farthest on any rank.
CollectiveWay way_of(MPI_Comm comm, const Problem& problem, const Seat& seat, const Collective& collective) {
  CollectiveWay way{std::string(collective.exchange), -1};
  int reach = 0;
  for (const Hop& hop : hops_of(problem, seat.grid.ranks(), seat.rank, spacing_of(collective.exchange)).all) {
    const char* why = "";
    const std::int64_t from_bytes = Partita_Peers_from_bytes(collective.collective, hop.route.peers, &why);
    if (from_bytes < 0) {
      way.why_staged = why;
      return way;
    }
    way.peers_from_bytes = way.peers_from_bytes < 0 ? from_bytes : std::min(way.peers_from_bytes, from_bytes);
    reach = std::max(reach, static_cast<int>(reach_of(hop, seat.grid, seat.rank, seat.nodes, from_bytes)));
  }
  MPI_Allreduce(MPI_IN_PLACE, &reach, 1, MPI_INT, MPI_MAX, comm);
  way.why_staged = why_staged(static_cast<Reach>(reach), way.peers_from_bytes);
  return way;
}

}  // namespace

Reach reach_of(const Hop& hop, const RankGrid& grid, int rank, const std::vector<int>& nodes, std::int64_t from_bytes) {
  if (static_cast<std::size_t>(hop.route.peers) > partita::most_peer_ranks) return Reach::among_too_many;
  if (!are_of_one_node(grid, rank, nodes, hop.route.in_row)) return Reach::between_nodes;
  return larger_buffer_bytes(hop) < from_bytes ? Reach::too_small : Reach::by_peers;
}

GpuMemoryWay gpu_memory_way(MPI_Comm comm, const Problem& problem, std::span<const std::string> exchanges) {
  const char* why = "";
  GpuMemoryWay way{Partita_is_gpu_aware(&why) != 0, why};
  if (!way.by_partita) return way;
  Seat seat;
  seat.nodes = nodes_of_ranks(comm);
  seat.grid = rank_grid(problem.decomposition, static_cast<int>(seat.nodes.size()));
  MPI_Comm_rank(comm, &seat.rank);
  for (const Collective& each : collectives) {
    if (is_among(each.exchange, exchanges)) way.collectives.push_back(way_of(comm, problem, seat, each));
  }
  return way;
}

std::string describe(const GpuMemoryWay& way) {
  std::string text = fmt::format("GPU memory in MPI's own calls: {}, since {}\n",
                                 way.by_partita ? "by Partita" : "left to the MPI", way.why);
  for (const CollectiveWay& each : way.collectives) {
    text += each.why_staged.empty()
                ? fmt::format("  {}: by peer memory from {} bytes on where the ranks' GPUs reach each other\n",
                              each.exchange, each.peers_from_bytes)
                : fmt::format("  {}: through host memory, since {}\n", each.exchange, each.why_staged);
  }
  return text;
}

std::vector<std::string> notes_on_twins(const GpuMemoryWay* way, std::span<const std::string> exchanges) {
  std::vector<std::string> notes;
  for (const Collective& collective : collectives) {
    const std::string_view name = collective.exchange;
    if (!has_twin(name, exchanges)) continue;
    if (way == nullptr) {
      notes.push_back(
          fmt::format("{0} and {0}{1} are the same calls: in host memory nothing is staged.", name, staged_suffix));
    } else if (!way->by_partita) {
      notes.push_back(
          fmt::format("{0} and {0}{1} are the same calls of the MPI's, which is left GPU memory, since {2}.", name,
                      staged_suffix, way->why));
    }
  }
  for (const CollectiveWay& each : way != nullptr ? way->collectives : std::vector<CollectiveWay>{}) {
    if (!has_twin(each.exchange, exchanges) || each.why_staged.empty()) continue;
    notes.push_back(fmt::format("{0} goes through host memory as {0}{1} does, since {2}.", each.exchange, staged_suffix,
                                each.why_staged));
  }
  return notes;
}

std::vector<std::string> notes_on_links(const std::vector<std::string>& links, std::span<const std::string> exchanges) {
  constexpr std::string_view name = exchange_names[2];
  if (!has_twin(name, exchanges) || links != std::vector<std::string>{"mpi"}) return {};
  return {fmt::format("{0} goes over link mpi as {0}{1} does.", name, staged_suffix)};
}

}  // namespace fft
