// How many entries the arrays of a collective have.
#pragma once

#include <mpi.h>

namespace partita::dropin {

/// Everything is 0 for MPI_COMM_NULL and where there are no neighbours to ask for, and the C API says what is wrong.
class CommShape {
 public:
  explicit CommShape(MPI_Comm comm);

  bool is_between_groups() const { return is_between_groups_; }
  int size() const { return size_; }
  bool is(int root) const { return size_ > 0 && rank_ == root; }
  /// The length of arrays that only the root gives.
  int at(int root) const { return is(root) ? size_ : 0; }
  /// The length of arrays that count unless the call is in place.
  int all(const void* buffer) const { return buffer == MPI_IN_PLACE ? 0 : size_; }
  /// The ranks that blocks come from and go to: of the other group, between groups.
  int peers() const;
  /// peers(), but 0 where the call is in place and looks at no array of what it sends.
  int peers(const void* buffer) const { return buffer == MPI_IN_PLACE ? 0 : peers(); }
  /// peers() at the root, and 0 on other ranks.
  int peers_at(int root) const { return is_root(root) ? peers() : 0; }
  /// Whether this rank is the root, between groups too.
  bool is_root(int root) const { return is_between_groups_ ? root == MPI_ROOT : is(root); }
  /// Whether this rank has data for a root, or from it: the root itself does, but not between groups.
  bool is_below(int root) const { return size_ > 0 && root != MPI_ROOT && root != MPI_PROC_NULL; }
  int rank() const { return rank_; }
  /// The neighbours of a process topology.
  int sources() const;
  int destinations() const;

 private:
  struct Neighbours {
    int sources = 0;
    int destinations = 0;
  };
  Neighbours neighbours() const;

  MPI_Comm comm_;
  bool is_between_groups_ = false;
  int size_ = 0;
  int rank_ = 0;
};

}  // namespace partita::dropin
