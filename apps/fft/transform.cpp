#include "apps/fft/transform.hpp"

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "apps/support/clock.hpp"

namespace fft {

std::vector<std::string> names_in(std::string_view text) {
  constexpr std::string_view between = ", ";
  std::set<std::string> names;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(between), text.size());
    if (end > 0) names.emplace(text.substr(0, end));
    text.remove_prefix(std::min(end + between.size(), text.size()));
  }
  return {names.begin(), names.end()};
}

Transform::Transform(MPI_Comm comm, const Problem& problem, Spacing spacing, const WorkMaker& make_work,
                     const ExchangeMaker& make_exchange)
    : comm_(comm) {
  int ranks = 1, rank = 0;
  MPI_Comm_size(comm, &ranks);
  MPI_Comm_rank(comm, &rank);
  hops_ = hops_of(problem, ranks, rank, spacing);
  work_ = make_work(hops_.all);
  const RankGrid grid = rank_grid(problem.decomposition, ranks);
  MPI_Comm_split(comm, rank / grid.columns, rank, &row_);
  MPI_Comm_split(comm, rank % grid.columns, rank, &column_);
  for (const Hop& hop : hops_.all) {
    exchanges_.push_back(make_exchange(hop.route.in_row ? row_ : column_, hop, work_->buffers()));
  }
}

Transform::~Transform() {
  if (std::uncaught_exceptions() > 0) {
    // A request that is active cannot be freed. Until the job ends it reads and writes the buffers, and so do peers.
    for (auto& exchange : exchanges_) static_cast<void>(exchange.release());
    static_cast<void>(work_.release());
    return;
  }
  exchanges_.clear();
  // Requests before buffers, on both sides.
  MPI_Barrier(comm_);
  MPI_Comm_free(&row_);
  MPI_Comm_free(&column_);
}

void Transform::forward() {
  for (std::size_t i = 0; i < hops_.forward_ones; ++i) hop(i);
}

void Transform::inverse() {
  for (std::size_t i = hops_.forward_ones; i < hops_.all.size(); ++i) hop(i);
}

double Transform::exchange_s() {
  return std::exchange(exchange_s_, 0.0);
}

std::vector<std::string> Transform::links() const {
  std::string all;
  for (const auto& exchange : exchanges_) {
    if (const std::string links = exchange->links(); !links.empty()) all += (all.empty() ? "" : ", ") + links;
  }
  return names_in(all);
}

void Transform::hop(std::size_t which) {
  const Hop& hop = hops_.all[which];
  Exchange& exchange = *exchanges_[which];
  const auto timed = [&](auto&& call) {
    const auto begin = partita::apps::Clock::now();
    call();
    exchange_s_ += partita::apps::seconds_since(begin);
  };
  work_->begin(hop);
  timed([&] { exchange.start(); });
  for (int slice = 0; slice < hop.route.slices; ++slice) {
    work_->pack(slice);
    timed([&] { exchange.packed(slice); });
  }
  for (int slice = 0; slice < hop.route.slices; ++slice) {
    timed([&] { exchange.await(slice); });
    work_->unpack(slice);
  }
  timed([&] { exchange.finish(); });
  if (hop.last) work_->end();
}

}  // namespace fft
