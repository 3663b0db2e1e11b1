// The device API: kernels mark, move, await and restart the partitions of a request themselves.
//
// One source for nvcc and NVRTC (CUDA 12.4 and later, C++17 and later, sm_75 and later) and, as plain C++20, for CPU
// threads. A kernel gets its MPIX_Prequest by value, as a parameter, from
// MPIX_Prequest_create on the host. docs/design/device.md has the protocol, the drivers and what is ordered with what.
//
// Every call returns PARTITA_DEVICE_SUCCESS (0) or PARTITA_DEVICE_ERR_*. The first failure of a request is also
// recorded for its host, where the next Wait, Test or Start of the request, or the free of the request or of its device
// request, explains it. A refused mark is taken back, so that kernels can still complete the epoch. A Wait, Test or
// Start that explains a failure gives the request up, as after every error: its kernels are released, and it can only
// be freed. Every call may return
//   PARTITA_DEVICE_ERR_FREED      the request was freed, or the struct is cleared or was never made; of the latter two
//                                 no memory is touched (not recorded)
//   PARTITA_DEVICE_ERR_ABORTED    the host has released the request's kernels: a rank or the GPU is lost, or an
//                                 error gave the request up
// and those on one partition
//   PARTITA_DEVICE_ERR_PARTITION  it is out of range
//   PARTITA_DEVICE_ERR_SIDE       a call for sends on a receive or the other way round
//
// A request of a collective is a send where this rank has data to send, and a host-driven receive where data arrive, or
// both. Kernels that await what is reduced leave room for the library's on the same GPU. MPIX_Pbuffer is null.
//
// A request to or from MPI_PROC_NULL has calls that do nothing and succeed: MPIX_Parrived is true, MPIX_Pbuffer null.
// Several requests are passed as an array, in GPU memory or in a struct that is a __grid_constant__ parameter.
//
// A buffer that a kernel awaits is read through plain pointers in that kernel: through `const T* __restrict__`, __ldg
// or a texture the compiler may read it before the wait, and from a cache that no wait empties.
//
// A source whose kernels have few registers, such as 32 where two blocks of 1,024 threads share a multiprocessor,
// defines PARTITA_DEVICE_FEW_REGISTERS before it includes this file: MPIX_Pready_block then copies what lies behind the
// first 16 bytes of each thread with one load of each on its way instead of four, and kernels that would spill do not.
//
// A source whose kernels mark or await a collective whose marks push (info key partita_algorithm is push) defines
// PARTITA_DEVICE_PUSHED_COLLECTIVES before it includes this file. Without it these calls refuse such a request
// (PARTITA_DEVICE_ERR_SIDE, _DRIVER), and cost no register for it. All sources that are linked as one for the device
// (-rdc=true) do alike.
//
// CUDA threads need not be converged for any call that a single thread makes. CPU threads form a block by joining a
// partita::device::CpuBlock; one that has joined none is a block of its own, and a warp is one thread.
#ifndef PARTITA_DEVICE_CUH
#define PARTITA_DEVICE_CUH

#include <partita/device/completion.h>
#include <partita/device/prequest.h>
#include <partita/device/impl/collective.cuh>
#include <partita/device/impl/epochs.cuh>
#include <partita/device/impl/execution_space.hpp>
#include <partita/device/impl/message.cuh>
#include <partita/device/impl/pready.cuh>

// ---- Sends ---------------------------------------------------------------------------------------------------------
//
// A mark says that a partition is complete in the send buffer (MPI-4, 4.2.2), and moves it: the marking threads store
// the bytes into the receiver's memory, or hand them to the progress engine of their host where that memory is not
// mapped or not ready. The buffer is left alone until the epoch is complete. No mark waits for another rank. Each may
// return
//   PARTITA_DEVICE_ERR_TWICE       the partition was marked before in this epoch; device-driven: or no epoch is open
//   PARTITA_DEVICE_ERR_INACTIVE    host-driven: the host has not started the epoch (only recorded where kernels
//                                  hand all to the progress engine)
//   PARTITA_DEVICE_ERR_UNPREPARED  device-driven: before MPIX_Pbuf_prepare; in place: the receiver is not ready
// Where several threads have written a partition, they must have synchronised with the threads that mark it.

/// Marks `partition`. Any thread, each its own partition, from divergent code too; what the calling thread stored there
/// before will travel. Threads of a warp that call together copy together and count once.
/// (gpu-initiated-partitioned-mpi, section IV)
MPIX_Device inline int MPIX_Pready(int partition, MPIX_Prequest prequest);

/// Marks `partition` without help from other threads: the baseline of the paper's figure 3.
MPIX_Device inline int MPIX_Pready_thread(int partition, MPIX_Prequest prequest);

/// Marks `partition`. All threads of a warp (those that the block has of it) call with the same arguments; what they
/// all stored there before will travel. All get the same result.
MPIX_Device inline int MPIX_Pready_warp(int partition, MPIX_Prequest prequest);

/// Marks `partition`. All threads of a block call with the same arguments; what they all stored there before will
/// travel. A barrier of the block, and the cheapest way for partitions of more than a few hundred bytes. All get the
/// same result.
MPIX_Device inline int MPIX_Pready_block(int partition, MPIX_Prequest prequest);

/// Marks partitions `first` to `last`, both included and in this order, else nothing is marked
/// (PARTITA_DEVICE_ERR_PARTITION). One thread; what it stored there before will travel. Marks that do not count are
/// left out, and the code of the first of them comes back.
MPIX_Device inline int MPIX_Pready_range(int first, int last, MPIX_Prequest prequest);

/// On a send, where `partition` lies in the receiver's memory: if the send is in place, a kernel computes straight into
/// it, between MPIX_Pbuf_prepare and the mark, which then moves nothing. Null where kernels do not store there
/// themselves (a send that is not in place, or through the progress engine), and on an error: out of range,
/// PARTITA_DEVICE_ERR_UNPREPARED or _INACTIVE. On a receive, `partition` of the receive buffer. Any thread.
MPIX_Device inline void* MPIX_Pbuffer(int partition, MPIX_Prequest prequest);

// ---- Receives ------------------------------------------------------------------------------------------------------

/// Stores in `*flag` whether `partition` has arrived; then the calling thread may read its bytes. Any thread; does not
/// wait. True if no epoch is open (MPI-4, 4.2.4). Until the epoch is complete the buffer is read only. Not while
/// MPIX_Pwait runs on the request. Host-driven, the first call in an epoch and those that find the partition there
/// read a word of host memory: about a microsecond. A block that has nothing else to do calls MPIX_Pwait_partition.
MPIX_Device inline int MPIX_Parrived(MPIX_Prequest prequest, int partition, int* flag);

/// Waits until `partition` has arrived; then every thread of the block may read its bytes. All threads of one block
/// call with the same arguments, several blocks at once if they like; a barrier of the block. Returns at once if no
/// epoch is open. Not while MPIX_Pwait runs on the request. All threads get the same result; beside the codes above
///   PARTITA_DEVICE_ERR_TIMEOUT  the wait passed PARTITA_TIMEOUT
MPIX_Device inline int MPIX_Pwait_partition(int partition, MPIX_Prequest prequest);

// ---- Epochs of device-driven requests ------------------------------------------------------------------------------
//
// All threads of one block call, and all get the same result; each call is a barrier of the block. Other blocks see
// what a call promises once they have synchronised with the calling block (a grid barrier; or a barrier of that block,
// then a release by one of its threads, and an acquire, at device scope). All return PARTITA_DEVICE_ERR_DRIVER on a
// host-driven request, but for MPIX_Pwait of a receive. Those that wait also return
//   PARTITA_DEVICE_ERR_TIMEOUT  the wait passed PARTITA_TIMEOUT

/// Opens the next epoch. On a receive, it tells the sender that the buffer may be written: the kernel has done with
/// what it received before. Does not wait. PARTITA_DEVICE_ERR_ACTIVE: the epoch before is not complete.
MPIX_Device inline int MPIX_Pstart(MPIX_Prequest prequest);

/// Waits until the receiver has opened this epoch; marks come after it. On a receive, it returns at once.
/// PARTITA_DEVICE_ERR_INACTIVE: no epoch is open.
MPIX_Device inline int MPIX_Pbuf_prepare(MPIX_Prequest prequest);

/// Waits until the epoch is complete. A send is when all partitions are marked and moved, and every thread of the block
/// may write the buffer; a receive is when all have arrived, and every thread of the block may read it. Returns at once
/// if no epoch is open. On a host-driven receive it only waits for the arrivals: MPI_Wait on the host ends the epoch,
/// and this call and MPIX_Pwait_partition have returned when the host starts the next one.
MPIX_Device inline int MPIX_Pwait(MPIX_Prequest prequest);

/// MPIX_Pwait, MPIX_Pstart and MPIX_Pbuf_prepare of a send in one pass, with one barrier of the block. On return the
/// next epoch is open, and its partitions may be written and marked.
MPIX_Device inline int MPIX_Pnext(MPIX_Prequest send);

/// Goes on in an exchange: MPIX_Pwait of `recv` and `send`, MPIX_Pstart and MPIX_Pbuf_prepare of `next_send`.
/// Different threads wait for the two sides. The next epoch of a receive is opened by MPIX_Pstart, when what came has
/// been read, and the peer's call waits for it: so exchanges alternate between sets of requests, and `next_send` is
/// another one than `send`, whose peer has opened its receive before. A request to or from MPI_PROC_NULL is left out.
/// The code is that of the receive's wait, or else of the sends; what belongs to the other side may have been done.
/// PARTITA_DEVICE_ERR_SIDE: `recv` is a send, or another one is a receive.
MPIX_Device inline int MPIX_Pnext(MPIX_Prequest send, MPIX_Prequest recv, MPIX_Prequest next_send);

// ---- Collectives in kernels ----------------------------------------------------------------------------------------
//
// These take a device-driven partitioned collective (info key partita_driver) of 1 to 8 ranks of a node. All threads
// of all blocks of a grid call, on each rank the same collectives of a communicator in the same order; each call opens
// the next epoch, moves it and completes it. It is a barrier of the grid at both ends: what any thread of the grid
// stored to the send buffer before travels, and on return every thread of the grid may read what came and write the
// send buffer. Blocks and threads may be as many as they like, and differ from rank to rank; a grid of several blocks
// is launched cooperatively. Two such calls on the same request never overlap, whatever streams they are in. Results
// are the same bits on all ranks, in all runs and grids of a GPU's: reductions go in the order of the ranks, and those
// of 16-bit floats are computed in 32 bits and rounded once. (gpu-initiated-partitioned-mpi, section IV-B; MPI-4, 6.13)
//
// A call waits for the other ranks. Beside FREED and ABORTED each may return, in all threads of a block the same,
//   PARTITA_DEVICE_ERR_COLLECTIVE  the request is of another collective, or no device-driven one
//   PARTITA_DEVICE_ERR_LAUNCH      the grid has several blocks and was not launched cooperatively
//   PARTITA_DEVICE_ERR_TIMEOUT     a wait passed PARTITA_TIMEOUT
// After the last of these, and after ABORTED, the request moves nothing any more: the ranks no longer agree how far
// they are. Other blocks may return another code.

// Blocks call none of these for a collective whose marks push (info key partita_algorithm), but MPIX_Pready in any of
// its forms, MPIX_Pwait, MPIX_Pwait_partition, MPIX_Parrived and MPIX_Pstart. A mark moves its partition to all ranks
// and waits for nobody. The blocks that wait reduce, several at the same time if they like; those of MPIX_Pwait return
// when all partitions are reduced. MPIX_Parrived reduces nothing. Where no kernel waits, or one waits long, the host's
// Wait or Test, or the thread of the progress engine, launches the reduction of what has come, which takes room on the
// GPU and a work queue beside kernels that loop over MPIX_Parrived; such a loop has no limit but its own. MPIX_Pstart
// opens an epoch where the host has not, and the engine serves it, too. An epoch is awaited before the next one is
// opened: by MPIX_Pwait, or Wait or Test. MPIX_Pbuf_prepare returns at once. In a bcast the root alone marks, in
// buffers of the others: behind MPIX_Pbuf_prepare, or the host's, which waits until all others have opened the epoch;
// else a mark may be refused (PARTITA_DEVICE_ERR_UNPREPARED). At the others MPIX_Parrived needs nobody to reduce.

/// The elements of all ranks' send buffers, reduced, on every rank.
MPIX_Device inline int MPIX_Pallreduce(MPIX_Prequest prequest);

/// The send buffers of all ranks, in their order, on every rank.
MPIX_Device inline int MPIX_Pallgather(MPIX_Prequest prequest);

/// Block r of all ranks' send buffers, reduced, on rank r. The request is from Preduce_scatter_block, or from
/// Preduce_scatter with equal blocks.
MPIX_Device inline int MPIX_Preduce_scatter(MPIX_Prequest prequest);

/// Block r of each rank's send buffer, in the order of those ranks, on rank r.
MPIX_Device inline int MPIX_Palltoall(MPIX_Prequest prequest);

/// The root's buffer, on every rank. The root does not wait until it is there.
MPIX_Device inline int MPIX_Pbcast(MPIX_Prequest prequest);

// ---- The end of ordinary messages ----------------------------------------------------------------------------------
//
// A message that streams move (MPIX_Queue_completion; cpu-free-stream-triggered-mpi, section V-A). Both calls store
// in `*flag` whether the epoch that was started last is complete, and do not wait: then the calling threads may read
// what was received, or write again what was sent. They come behind an MPIX_Enqueue_start in a queue whose stream is of
// the request's GPU, in that stream or ordered with it by events. Nothing orders them behind any other start: there
// they may tell of the epoch before. Where no epoch was started yet, the flag is 1, and so it is behind a start that
// has failed, which MPIX_Queue_wait tells and which starts none. A kernel that asks in a loop has no limit of its own:
// PARTITA_TIMEOUT does not end it while the peer lives but never starts. Each may return
//   PARTITA_DEVICE_ERR_FREED    the struct is cleared or was never made
//   PARTITA_DEVICE_ERR_TIMEOUT  a wait of the request passed PARTITA_TIMEOUT, in this epoch or an earlier one
//   PARTITA_DEVICE_ERR_ABORTED  the epoch will never be complete: the peer or the GPU is lost, or an error gave the
//                               request up
// and the flag is 0 then. Nothing is recorded: the wait of the epoch, which comes all the same, tells its host.

/// Any thread of any kernels, in divergent code too. It moves nothing. A ready send and its receive need no more. The
/// flag of any other message may stay 0 until one of the two waits, or an MPIX_Completed_block, comes and moves it.
MPIX_Device inline int MPIX_Completed(MPIX_Completion completion, int* flag);

/// All threads of one block call, one block at a time, and before the wait of the epoch in stream order; a barrier of
/// the block. Moves the message if that falls to this side, so that kernels which call this again and again need no
/// wait of the peer's, of any message. One block moves all: best for up to some 64 KiB. All threads get the same
/// result.
MPIX_Device inline int MPIX_Completed_block(MPIX_Completion completion, int* flag);

// ---- The same under Partita's own prefix ---------------------------------------------------------------------------

MPIX_Device inline int Partita_Pready(int partition, Partita_Prequest prequest);
MPIX_Device inline int Partita_Pready_thread(int partition, Partita_Prequest prequest);
MPIX_Device inline int Partita_Pready_warp(int partition, Partita_Prequest prequest);
MPIX_Device inline int Partita_Pready_block(int partition, Partita_Prequest prequest);
MPIX_Device inline int Partita_Pready_range(int first, int last, Partita_Prequest prequest);
MPIX_Device inline void* Partita_Pbuffer(int partition, Partita_Prequest prequest);
MPIX_Device inline int Partita_Parrived(Partita_Prequest prequest, int partition, int* flag);
MPIX_Device inline int Partita_Pwait_partition(int partition, Partita_Prequest prequest);
MPIX_Device inline int Partita_Pstart(Partita_Prequest prequest);
MPIX_Device inline int Partita_Pbuf_prepare(Partita_Prequest prequest);
MPIX_Device inline int Partita_Pwait(Partita_Prequest prequest);
MPIX_Device inline int Partita_Pnext(Partita_Prequest send);
MPIX_Device inline int Partita_Pnext(Partita_Prequest send, Partita_Prequest recv, Partita_Prequest next_send);
MPIX_Device inline int Partita_Pallreduce(Partita_Prequest prequest);
MPIX_Device inline int Partita_Pallgather(Partita_Prequest prequest);
MPIX_Device inline int Partita_Preduce_scatter(Partita_Prequest prequest);
MPIX_Device inline int Partita_Palltoall(Partita_Prequest prequest);
MPIX_Device inline int Partita_Pbcast(Partita_Prequest prequest);
MPIX_Device inline int Partita_Completed(Partita_Completion completion, int* flag);
MPIX_Device inline int Partita_Completed_block(Partita_Completion completion, int* flag);

#include <partita/device/impl/names.cuh>

#endif
