// The messages of plain MPI, between rows of p in host memory, wherever p itself lies.
#pragma once

#include <mpi.h>

#include <array>

#include "apps/cg/exchange.hpp"

namespace cg {

/// Where messages of a halo begin and end, `columns` doubles each.
struct HaloRows {
  int columns;
  const double* first;
  const double* last;
  double* before;
  double* behind;
};

/// Persistent requests of the MPI's own, and its own allreduce: what Partita is compared with has no part of the
/// drop-in in it.
class OwnMpi {
 public:
  OwnMpi(MPI_Comm comm, const HaloRows& rows, const Neighbours& neighbours);
  ~OwnMpi();
  OwnMpi(const OwnMpi&) = delete;
  OwnMpi& operator=(const OwnMpi&) = delete;

  void exchange_rows();
  void sum(const double* own, double* all);

 private:
  MPI_Comm comm_;
  std::array<MPI_Request, 4> requests_;  ///< receives first
};

}  // namespace cg
