// Layouts of datatypes, each of which is flattened once.
#pragma once

#include <mpi.h>

#include <memory>
#include <mutex>

#include "core/layout.hpp"

namespace partita {

/// Keeps the layout of a derived datatype as an attribute of it, so that it goes with the datatype, and no later one
/// with the same handle is mistaken for it. Any thread.
class KnownLayouts {
 public:
  KnownLayouts() = default;
  /// What datatypes have stays theirs.
  ~KnownLayouts();
  KnownLayouts(const KnownLayouts&) = delete;
  KnownLayouts& operator=(const KnownLayouts&) = delete;

  /// Layout::of. Throws Error.
  std::shared_ptr<const Layout> of(MPI_Datatype datatype);

 private:
  std::mutex mutex_;
  int key_ = MPI_KEYVAL_INVALID;
};

}  // namespace partita
