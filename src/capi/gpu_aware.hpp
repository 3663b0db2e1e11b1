// For libpartita_mpi and the program partita alone.
#pragma once

#include "core/element_block.hpp"
#include "partita/partita.h"
#include "two_sided/call_to_stage.hpp"
#include "two_sided/message_call.hpp"
#include "two_sided/peer_parts.hpp"
#include "two_sided/peer_sizes.hpp"
#include "two_sided/peer_times.hpp"

extern "C" {

/// Whether the MPI's own calls give GPU memory to Partita, on all ranks alike; `*why`, where `why` is not null, says
/// this rank's reason and lives as long as the runtime. 0 outside Partita_Init … Partita_Finalize.
PARTITA_EXPORT int Partita_is_gpu_aware(const char** why);

/// As Partita_Comm_set_info, where the program has told the MPI: a stream is an error if the MPI's own calls do not
/// give GPU memory to Partita.
PARTITA_EXPORT int Partita_Take_info(MPI_Comm comm, MPI_Info info);
/// Adds the keys of Partita's that `comm` has to `info`.
PARTITA_EXPORT int Partita_Add_info(MPI_Comm comm, MPI_Info info);

/// The program makes the MPI's calls through the drop-in, on all ranks: messages in GPU memory may be offers from here
/// on, and all receives are Partita's, if the job wants that: `*taken` says so. Where it fails on one rank the others
/// must not go on, whose offers that rank would take for messages.
PARTITA_EXPORT int Partita_Take_offers(int* taken);

/// MPI_Iprobe and MPI_Improbe where messages may be offers. No pointer but `status` may be null.
PARTITA_EXPORT int Partita_Look(int source, int tag, MPI_Comm comm, int* found, MPI_Status* status);
PARTITA_EXPORT int Partita_Look_and_match(int source, int tag, MPI_Comm comm, int* found, MPI_Message* message,
                                          MPI_Status* status);
/// The MPI's own MPI_Mprobe or MPI_Improbe has found `*message` on `comm`.
PARTITA_EXPORT int Partita_Note_match(MPI_Comm comm, const MPI_Message* message);
/// The program has told the MPI what it promises about messages on `comm`.
PARTITA_EXPORT int Partita_Forget_promises(MPI_Comm comm);

/// Whether all of `requests` are complete, in a call that completes none of them: `*flag`. Where one of them has failed
/// the call does, and `*flag` is set; it is not where the call is refused.
PARTITA_EXPORT int Partita_Are_complete(int count, Partita_Request requests[], int* flag);

/// Whether `request`, which may be null, is that of a nonblocking call of the MPI's that has failed: only a free is
/// left.
PARTITA_EXPORT int Partita_is_spent(Partita_Request request);

/// The number of the GPU in whose memory the elements of a buffer lie; -1 where they lie elsewhere, or are none. Any
/// thread.
PARTITA_EXPORT int Partita_gpu_of(const void* buffer, MPI_Count count, MPI_Datatype datatype);

/// As Partita_Raise, to the error handler of a window, or of a file.
PARTITA_EXPORT int Partita_Raise_on_window(MPI_Win window, int error_class, const char* sentence);
PARTITA_EXPORT int Partita_Raise_on_file(MPI_File file, int error_class, const char* sentence);

/// MPI_Isendrecv where messages may be offers; and MPI_Isendrecv_replace, whose bytes are taken at the call.
PARTITA_EXPORT int Partita_Isendrecv(const void* out, MPI_Count out_count, MPI_Datatype out_type, int dest, int out_tag,
                                     void* in, MPI_Count in_count, MPI_Datatype in_type, int source, int in_tag,
                                     MPI_Comm comm, Partita_Request* request);
PARTITA_EXPORT int Partita_Isendrecv_replace(void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int out_tag,
                                             int source, int in_tag, MPI_Comm comm, Partita_Request* request);
/// A persistent message of the MPI's, each start of which is staged where its buffer lies in the memory of a GPU.
PARTITA_EXPORT int Partita_Staged_init(partita::MessageCall call, const void* buf, MPI_Count count,
                                       MPI_Datatype datatype, int rank, int tag, MPI_Comm comm,
                                       Partita_Request* request);
/// Whether `request`, which may be null, is a persistent one of the MPI's that is staged: nobody has matched it.
PARTITA_EXPORT int Partita_is_staged(Partita_Request request);
/// Whether it has been started and not completed.
PARTITA_EXPORT int Partita_is_active(Partita_Request request);

/// The ranks of a communicator whose blocking collectives of the MPI's may go by peer memory. It lives as long as the
/// communicator.
typedef struct Partita_PeersImpl* Partita_Peers;

/// Begins a call. `*peers` becomes null where none goes so, on all ranks alike. Else `*ranks` are the communicator's,
/// and `*may_ask` is 0 where this rank has no GPU memory, and has told the others: the MPI makes the call. Where it is
/// 1 one of the next three follows. Each collective that can go so begins, whatever its memory: the first time is
/// collective over `comm`. An error is raised on `comm`, as those of the next ones.
PARTITA_EXPORT int Partita_Begin_by_peers(MPI_Comm comm, partita::PeerCollective collective, Partita_Peers* peers,
                                          partita::PeerRanks* ranks, int* may_ask);
/// From how many bytes of a rank's larger buffer on that collective goes so on `ranks` ranks of one node; -1 where none
/// does, for the reason that `*why` says, a clause that lives as long as the runtime. `why` may be null. -1 outside
/// Partita_Init … Partita_Finalize, too.
PARTITA_EXPORT int64_t Partita_Peers_from_bytes(partita::PeerCollective collective, int ranks, const char** why);
/// Tells the others that the MPI makes the call.
PARTITA_EXPORT void Partita_Leave_peers(Partita_Peers peers);
/// Makes the call that `parts` describes, and `*moved` is 1; or it is 0, and the MPI has to make it. Collective, on all
/// ranks alike.
PARTITA_EXPORT int Partita_Move_by_peers(Partita_Peers peers, const partita::PeerParts* parts, MPI_Comm comm,
                                         int* moved);
/// Likewise. `shares` becomes invalid where its operation does not go with its datatype.
PARTITA_EXPORT int Partita_Reduce_by_peers(Partita_Peers peers, partita::PeerShares* shares, MPI_Comm comm,
                                           int* reduced);
/// The call that this rank began last was not made by peers, and has failed, or was not made at all. Only the MPI knows
/// whether the others have made it: it makes all calls from now on, on all ranks.
PARTITA_EXPORT void Partita_End_peers(Partita_Peers peers);
/// Calls of this process that are made so from now on add where their time goes to `*times`, which one thread at a time
/// may make meanwhile. Null ends that; so does Partita_Finalize. Without it they read no clock.
PARTITA_EXPORT void Partita_Time_peers(partita::PeerTimes* times);

/// The program begins to make a communicator, or what has one inside: see Constructors::begin. Null: nobody waits to
/// hear of it.
typedef void* Partita_Constructors;
PARTITA_EXPORT Partita_Constructors Partita_Begin_constructor();
/// It has ended.
PARTITA_EXPORT void Partita_End_constructor(Partita_Constructors constructors);
/// Nonblocking ones. `*peers` becomes null where none goes so, on all ranks alike; else `*ranks` are the
/// communicator's, and `*is_first` is 1 where no other call waits before this one: the MPI may make it at once. Local.
/// An error is raised on `comm`, as those of the next ones.
PARTITA_EXPORT int Partita_Begin_in_order(MPI_Comm comm, partita::PeerCollective collective, Partita_Peers* peers,
                                          partita::PeerRanks* ranks, int* is_first);
/// Whether the MPI refuses `count` elements of that in any call; or that operation on them. Local; nothing is read or
/// written, and no error handler hears of it.
PARTITA_EXPORT int Partita_Are_refused(const void* buffer, MPI_Count count, MPI_Datatype datatype);
PARTITA_EXPORT int Partita_is_refused(MPI_Op op, MPI_Datatype datatype);
/// A call on this rank that may go so.
typedef struct Partita_QueuedImpl* Partita_Queued;
/// Looks at the buffers of one. `*queued` becomes null where this rank does not want it.
PARTITA_EXPORT int Partita_Describe_move(MPI_Comm comm, const partita::PeerParts* parts, Partita_Queued* queued);
PARTITA_EXPORT int Partita_Describe_reduction(MPI_Comm comm, const partita::PeerShares* shares, Partita_Queued* queued);
/// It is not queued. Null is none.
PARTITA_EXPORT void Partita_Queued_free(Partita_Queued queued);
/// This rank makes a call that may go so, and does not want it by peers. The MPI makes it on `*on`; MPI_COMM_NULL where
/// others have to be made before. Such a call is apart.
PARTITA_EXPORT int Partita_Comm_in_order(MPI_Comm comm, MPI_Comm* on);
/// The MPI has made it there.
PARTITA_EXPORT void Partita_Count_in_order(Partita_Peers peers);

/// Host memory that stands for the buffers in GPU memory of one call of the MPI's; null where there are none.
typedef struct Partita_StageImpl* Partita_Stage;

/// Where `count` blocks of `buffer` lie in the memory of a GPU, as the first that has elements does, `*host` stands for
/// `buffer` from now on, and `*stage` is made if it was null. Elsewhere it stores nothing. An error is raised on
/// `comm`, as those of the next ones. Any thread.
PARTITA_EXPORT int Partita_Stage_add(Partita_Stage* stage, const void* buffer, int count,
                                     const partita::ElementBlock blocks[], partita::BufferUse use, MPI_Comm comm,
                                     void** host);
/// Takes from the GPU what the call reads, before it. Blocks.
PARTITA_EXPORT int Partita_Stage_fetch(Partita_Stage stage, MPI_Comm comm);
/// Puts what it has written to its places on the GPU, behind it. Blocks.
PARTITA_EXPORT int Partita_Stage_deliver(Partita_Stage stage, MPI_Comm comm);
/// Makes a call that makes a request, which has the host memory from then on, also where that fails. `stage` may be
/// null for a call that is apart.
PARTITA_EXPORT int Partita_Stage_request(Partita_Stage stage, const partita::CallToStage* call, MPI_Comm comm,
                                         Partita_Request* made);
/// How the MPI makes a queued call. Members return codes of the MPI's.
struct CallToQueue {
  const char* name;  ///< MPI_Iallreduce; a text that stays
  void* context;
  /// Replaces its buffers in GPU memory, in `*stage`. `comm` has the ranks of the call's.
  int (*stage)(void* context, MPI_Comm comm, Partita_Stage* stage);
  int (*make)(void* context, MPI_Comm comm, MPI_Request* request);
  void (*drop)(void* context);  ///< once
};
/// Makes the request of a call on `comm`: `queued`, or, where this is null, one that this rank does not want by peers,
/// whose `stage` has been fetched, or is null. It has all of them from then on, also where that fails.
PARTITA_EXPORT int Partita_Make_in_order(Partita_Queued queued, Partita_Stage stage, const CallToQueue* call,
                                         MPI_Comm comm, Partita_Request* made);
/// Frees it; with `is_the_mpis`, that may still use the host memory, this stays.
PARTITA_EXPORT void Partita_Stage_free(Partita_Stage stage, int is_the_mpis);
}
