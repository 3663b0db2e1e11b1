// Communicator constructors (MPI-4, sections 7.4, 7.6 and 8.5): every new communicator becomes known to Partita, so
// that partitioned requests can be made on it. Those of spawn, connect, accept, join and sessions do not: a request on
// one is refused with a sentence.
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/aside.hpp"
#include "dropin/calling.hpp"
#include "dropin/constructing.hpp"
#include "dropin/gathering.hpp"
#include "dropin/gpu_aware.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"

namespace {

using namespace partita::dropin;

/// A program may start the MPI past the drop-in, by a session for instance: then its communicators are the MPI's alone.
bool runs() {
  int started = 0;
  return Partita_Initialized(&started) == MPI_SUCCESS && started != 0;
}

/// Makes known, without communication, the result of a constructor that is collective over `parent` and gave `code`.
int derived(int code, MPI_Comm parent, const MPI_Comm* result) {
  return code == MPI_SUCCESS && parent != MPI_COMM_NULL && runs() ? Partita_Comm_derive(parent, *result) : code;
}

/// Runs such a constructor.
template <class Construct>
int derive(MPI_Comm parent, const MPI_Comm* result, Construct construct) {
  const Constructing constructing;
  if (const int code = gather_all(parent); code != MPI_SUCCESS) return code;
  return derived(construct(), parent, result);
}

/// The program has told the MPI what it wants of calls on `comm`, which gave `code`: Partita has keys of its own.
int told(int code, MPI_Comm comm, MPI_Info info) {
  return code == MPI_SUCCESS && comm != MPI_COMM_NULL && runs() ? Partita_Take_info(comm, info) : code;
}

/// Makes known the result of a constructor that is collective over the new communicator only. Where other processes
/// than ours have part in it, it stays unknown: those would not take part in this either.
int enroll(int code, const MPI_Comm* result) {
  const bool known = code == MPI_SUCCESS && *result != MPI_COMM_NULL && runs() && all_are_ours(*result);
  return known ? Partita_Comm_register(*result) : code;
}

/// What MPI_Intercomm_create waits for: this group, and by its leader the other's.
int gather_for_intercomm(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag) {
  if (const int code = gather_all(local_comm); code != MPI_SUCCESS) return code;
  int rank = MPI_PROC_NULL;
  native().Comm_rank(local_comm, &rank);
  const int code = rank == local_leader ? meet_leader(peer_comm, remote_leader, tag) : MPI_SUCCESS;
  return code == MPI_SUCCESS ? gather_all(local_comm) : code;
}

}  // namespace

extern "C" {

INTERPOSE(Comm_dup)(MPI_Comm comm, MPI_Comm* newcomm) {
  const Calling calling(__func__);
  return derive(comm, newcomm, [&] { return native().Comm_dup(comm, newcomm); });
}

INTERPOSE(Comm_dup_with_info)(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm) {
  const Calling calling(__func__);
  const int code = derive(comm, newcomm, [&] { return native().Comm_dup_with_info(comm, info, newcomm); });
  return code == MPI_SUCCESS ? told(code, *newcomm, info) : code;
}

/// What it promises about messages decides whether these may be offers.
INTERPOSE(Comm_set_info)(MPI_Comm comm, MPI_Info info) {
  const Calling calling(__func__);
  if (const int code = native().Comm_set_info(comm, info); code != MPI_SUCCESS) return code;
  const int forgotten = takes_offers() ? Partita_Forget_promises(comm) : MPI_SUCCESS;
  return told(forgotten, comm, info);
}

INTERPOSE(Comm_get_info)(MPI_Comm comm, MPI_Info* info_used) {
  const Calling calling(__func__);
  const int code = native().Comm_get_info(comm, info_used);
  return code == MPI_SUCCESS && runs() ? Partita_Add_info(comm, *info_used) : code;
}

INTERPOSE(Comm_split)(MPI_Comm comm, int color, int key, MPI_Comm* newcomm) {
  const Calling calling(__func__);
  return derive(comm, newcomm, [&] { return native().Comm_split(comm, color, key, newcomm); });
}

INTERPOSE(Comm_split_type)(MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm* newcomm) {
  const Calling calling(__func__);
  return derive(comm, newcomm, [&] { return native().Comm_split_type(comm, split_type, key, info, newcomm); });
}

INTERPOSE(Comm_create)(MPI_Comm comm, MPI_Group group, MPI_Comm* newcomm) {
  const Calling calling(__func__);
  return derive(comm, newcomm, [&] { return native().Comm_create(comm, group, newcomm); });
}

INTERPOSE(Cart_create)(MPI_Comm comm_old, int ndims, const int dims[], const int periods[], int reorder,
                       MPI_Comm* comm_cart) {
  const Calling calling(__func__);
  return derive(comm_old, comm_cart,
                [&] { return native().Cart_create(comm_old, ndims, dims, periods, reorder, comm_cart); });
}

INTERPOSE(Cart_sub)(MPI_Comm comm, const int remain_dims[], MPI_Comm* newcomm) {
  const Calling calling(__func__);
  return derive(comm, newcomm, [&] { return native().Cart_sub(comm, remain_dims, newcomm); });
}

INTERPOSE(Graph_create)(MPI_Comm comm_old, int nnodes, const int index[], const int edges[], int reorder,
                        MPI_Comm* comm_graph) {
  const Calling calling(__func__);
  return derive(comm_old, comm_graph,
                [&] { return native().Graph_create(comm_old, nnodes, index, edges, reorder, comm_graph); });
}

INTERPOSE(Dist_graph_create)(MPI_Comm comm_old, int n, const int sources[], const int degrees[],
                             const int destinations[], const int weights[], MPI_Info info, int reorder,
                             MPI_Comm* comm_dist_graph) {
  const Calling calling(__func__);
  return derive(comm_old, comm_dist_graph, [&] {
    return native().Dist_graph_create(comm_old, n, sources, degrees, destinations, weights, info, reorder,
                                      comm_dist_graph);
  });
}

INTERPOSE(Dist_graph_create_adjacent)(MPI_Comm comm_old, int indegree, const int sources[], const int sourceweights[],
                                      int outdegree, const int destinations[], const int destweights[], MPI_Info info,
                                      int reorder, MPI_Comm* comm_dist_graph) {
  const Calling calling(__func__);
  return derive(comm_old, comm_dist_graph, [&] {
    return native().Dist_graph_create_adjacent(comm_old, indegree, sources, sourceweights, outdegree, destinations,
                                               destweights, info, reorder, comm_dist_graph);
  });
}

INTERPOSE(Intercomm_merge)(MPI_Comm intercomm, int high, MPI_Comm* newintracomm) {
  const Calling calling(__func__);
  return derive(intercomm, newintracomm, [&] { return native().Intercomm_merge(intercomm, high, newintracomm); });
}

/* Nonblocking: the MPIs return the new handle at once and let attributes be set on it before it is complete. */

INTERPOSE(Comm_idup)(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) {
  const Calling calling(__func__);
  Constructing constructing;
  const int code = native().Comm_idup(comm, newcomm, request);
  constructing.goes_on(code);
  return derived(code, comm, newcomm);
}

#if PARTITA_HAS_COMM_IDUP_WITH_INFO
INTERPOSE(Comm_idup_with_info)(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm, MPI_Request* request) {
  const Calling calling(__func__);
  Constructing constructing;
  const int begun = native().Comm_idup_with_info(comm, info, newcomm, request);
  constructing.goes_on(begun);
  const int code = derived(begun, comm, newcomm);
  return code == MPI_SUCCESS ? told(code, *newcomm, info) : code;
}
#endif

/* Not collective over the parent: the members of the new communicator agree on it. */

INTERPOSE(Comm_create_group)(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* newcomm) {
  const Calling calling(__func__);
  const Constructing constructing;
  if (const int code = gather_group(group, tag); code != MPI_SUCCESS) return code;
  return enroll(native().Comm_create_group(comm, group, tag, newcomm), newcomm);
}

INTERPOSE(Intercomm_create)(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag,
                            MPI_Comm* newintercomm) {
  const Calling calling(__func__);
  const Constructing constructing;
  if (const int code = gather_for_intercomm(local_comm, local_leader, peer_comm, remote_leader, tag);
      code != MPI_SUCCESS) {
    return code;
  }
  return enroll(native().Intercomm_create(local_comm, local_leader, peer_comm, remote_leader, tag, newintercomm),
                newintercomm);
}

INTERPOSE(Comm_disconnect)(MPI_Comm* comm) {
  if (const int code = comm == nullptr ? MPI_SUCCESS : gather_all(*comm); code != MPI_SUCCESS) return code;
  return native().Comm_disconnect(comm);
}

/* What these give stays unknown. Accept, connect and join wait for processes that nothing is known of. */

INTERPOSE(Comm_accept)(const char* port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm* newcomm) {
  const Constructing constructing;
  if (const int code = gather_all(comm); code != MPI_SUCCESS) return code;
  return call_aside([&] { return native().Comm_accept(port_name, info, root, comm, newcomm); });
}

INTERPOSE(Comm_connect)(const char* port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm* newcomm) {
  const Constructing constructing;
  if (const int code = gather_all(comm); code != MPI_SUCCESS) return code;
  return call_aside([&] { return native().Comm_connect(port_name, info, root, comm, newcomm); });
}

INTERPOSE(Comm_join)(int fd, MPI_Comm* intercomm) {
  const Constructing constructing;
  return call_aside([&] { return native().Comm_join(fd, intercomm); });
}

INTERPOSE(Comm_spawn)(const char* command, char* argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
                      MPI_Comm* intercomm, int array_of_errcodes[]) {
  const Constructing constructing;
  if (const int code = gather_all(comm); code != MPI_SUCCESS) return code;
  return native().Comm_spawn(command, argv, maxprocs, info, root, comm, intercomm, array_of_errcodes);
}

INTERPOSE(Comm_spawn_multiple)(int count, char* array_of_commands[], char** array_of_argv[],
                               const int array_of_maxprocs[], const MPI_Info array_of_info[], int root, MPI_Comm comm,
                               MPI_Comm* intercomm, int array_of_errcodes[]) {
  const Constructing constructing;
  if (const int code = gather_all(comm); code != MPI_SUCCESS) return code;
  return native().Comm_spawn_multiple(count, array_of_commands, array_of_argv, array_of_maxprocs, array_of_info, root,
                                      comm, intercomm, array_of_errcodes);
}

}  // extern "C"
