#include "dropin/comm_shape.hpp"

#include "dropin/native.hpp"

namespace partita::dropin {

CommShape::CommShape(MPI_Comm comm) : comm_(comm) {
  if (comm == MPI_COMM_NULL) return;
  int is_inter = 0;
  if (native().Comm_test_inter(comm, &is_inter) != MPI_SUCCESS) return;
  is_between_groups_ = is_inter != 0;
  native().Comm_size(comm, &size_);
  native().Comm_rank(comm, &rank_);
}

int CommShape::peers() const {
  int peers = size_;
  if (is_between_groups_) native().Comm_remote_size(comm_, &peers);
  return peers;
}

int CommShape::sources() const {
  return neighbours().sources;
}

int CommShape::destinations() const {
  return neighbours().destinations;
}

CommShape::Neighbours CommShape::neighbours() const {
  int topology = MPI_UNDEFINED;
  if (size_ == 0 || native().Topo_test(comm_, &topology) != MPI_SUCCESS) return {};
  if (topology == MPI_CART) {
    int dimensions = 0;
    native().Cartdim_get(comm_, &dimensions);
    return {2 * dimensions, 2 * dimensions};
  }
  if (topology == MPI_GRAPH) {
    int count = 0;
    native().Graph_neighbors_count(comm_, rank_, &count);
    return {count, count};
  }
  if (topology == MPI_DIST_GRAPH) {
    Neighbours found;
    int is_weighted = 0;
    native().Dist_graph_neighbors_count(comm_, &found.sources, &found.destinations, &is_weighted);
    return found;
  }
  return {};
}

}  // namespace partita::dropin
