// Where the ranks compute: on their hosts, or on GPUs. Either has the same modes, but for the graph.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/cg/exchange.hpp"
#include "apps/cg/problem.hpp"

namespace cg {

/// This rank's share of the grid, and the others.
struct Share {
  MPI_Comm comm = MPI_COMM_NULL;
  Problem problem;
  int first_row = 0, rows = 0;
  Neighbours neighbours;
};

/// This rank's vectors, for runs in any mode one after the other.
class Machine {
 public:
  virtual ~Machine() = default;
  /// For people: "NVIDIA H200, a GPU for each rank".
  virtual std::string describe() const = 0;
  /// Why `mode` cannot run in this job, the same on every rank; nothing if it can.
  virtual std::optional<std::string> problem_with(std::string_view mode) const = 0;
  virtual Work& work() = 0;
  /// Collective. Throws std::runtime_error or partita::error where that fails.
  virtual std::unique_ptr<Exchange> make_exchange(std::string_view mode) = 0;
  /// What asks for `count` iterations each time that it is called, behind those before; `exchange` is of `mode`.
  virtual std::function<void()> make_batch(std::string_view mode, Exchange& exchange, int count) = 0;
};

std::unique_ptr<Machine> make_host(const Share& share);

/// Asks for iterations one by one.
inline std::function<void()> one_by_one(Work& work, Exchange& exchange, int count) {
  return [&work, &exchange, count] {
    for (int i = 0; i < count; ++i) iterate(work, exchange);
  };
}

}  // namespace cg
