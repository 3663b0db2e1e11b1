/* What a kernel holds of a partitioned request or collective: the struct behind MPIX_Prequest. Plain C, so that host
 * programs pass it to their kernels by value: a kernel's parameters stay in its constant bank, while what lies in
 * memory is read again after every acquire. The fields are Partita's own; programs go through partita/device.cuh.
 * docs/design/device.md has the picture. */
#ifndef PARTITA_DEVICE_PREQUEST_H
#define PARTITA_DEVICE_PREQUEST_H

#if defined(__CUDACC_RTC__)
#include <cuda/std/cstdint>
typedef cuda::std::int32_t partita_i32;
typedef cuda::std::int64_t partita_i64;
typedef cuda::std::uint32_t partita_u32;
typedef cuda::std::uint64_t partita_u64;
#else
#include <stdint.h>
typedef int32_t partita_i32;
typedef int64_t partita_i64;
typedef uint32_t partita_u32;
typedef uint64_t partita_u64;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What changes from epoch to epoch, in the memory of the request's own GPU. Behind it lie, of a send,
 *   partita_u64 counters[transport_partitions]   low half: marks so far in this epoch, high half: of these, deferred
 *   partita_u32 marks[send_partitions]           marks of each partition since the request was made, modulo 2^32
 *   partita_u64 groups[]                         with PARTITA_PREQUEST_TOGETHER, from a multiple of 8 bytes on, a
 *                                                word for 24 neighbouring transport partitions each: which are
 *                                                complete and not announced (bits 0 to 23: put; 24 to 47: for the
 *                                                engine), and from bit 48 on how many marks are inside, modulo 2^16
 * and of a receive with packets
 *   partita_u64 unpacked[recv_partitions]        low half: newest epoch in which MPIX_Parrived began to unpack it,
 *                                                high half: in which it had
 *   partita_u32 awaited[recv_partitions]         newest epoch in which MPIX_Pwait_partition waited for it, not in vain
 * A collective that kernels do (PARTITA_PREQUEST_COLLECTIVE) uses these words, whose meaning is its own there:
 *   head (low half)   the epoch that was opened last
 *   round             the newest flag that its packets and flags carried
 *   decided           counts blocks in barriers of the grid, whose highest bit changes with each, and those that have
 *                     ended of a launch
 *   completed         the newest epoch that is complete
 * And so does one whose marks push (PARTITA_PREQUEST_PUSHED), behind whose state further words lie (impl/pushes.hpp):
 *   head (low half)   the epoch that was opened last, as far as kernels have seen; both halves, but of a bcast's root
 *        (high half)  there the newest one that all other ranks have opened, as far as kernels have seen
 *   decided           partitions that are through in this epoch, and 1 once the host was told of the one before
 *   completed         the newest epoch in which all are
 *   started           the newest epoch of whose end the host was told
 * impl/words.hpp has the sizes and how the words of a new request start. */
typedef struct Partita_Prequest_state {
  partita_u64 head;      /* low half: the epoch that marks belong to, or, of a device-driven receive, the one that was
                            opened last; high half: newest epoch in which the receiver was seen ready, by a kernel or by
                            the host of a host-driven send, whose word may come late: then it names an older epoch, and
                            kernels look once more */
  partita_u32 round;     /* epochs opened so far, modulo 2^32 */
  partita_u32 decided;   /* of a send: transport partitions that were put or handed over since the request was made,
                            modulo 2^32 (of a host-driven one with a single one: not counted); of a receive with packets:
                            not 0 once a call began to unpack one */
  partita_u32 completed; /* of a device-driven receive: newest epoch that is complete */
  partita_u32 failed;    /* not 0: a failure was claimed; the first one counts */
  partita_u32 live;     /* Partita_Prequest.life; 0 once the request was freed (the block stays the library's); life | 1
                           once the host released its kernels */
  partita_u32 looking;  /* of a send: the epoch in which a thread is looking at the promise, else 0 */
  partita_u32 refusals; /* of a send: looks that did not find the receiver ready; lowest bit: the epoch not started */
  partita_u32 peers;    /* entries of Partita_Prequest.peers */
  partita_u32 started;  /* of a host-driven receive: an epoch that some kernel has seen started by the host, perhaps not
                           the newest */
  partita_u32 reserved;
} Partita_Prequest_state;

/* Words in host memory that the GPU reads and writes. Behind it lie, of a send,
 *   partita_u32 handed_over[transport_partitions]   newest epoch in which the kernel gave it to the progress engine */
typedef struct Partita_Prequest_host {
  partita_u32 abort;     /* host: not 0 releases kernels that wait, should `live` come late */
  partita_u32 completed; /* kernel: newest epoch in which every transport partition of a host-driven send was decided,
                            or all partitions of a collective whose marks push were reduced */
  partita_u32 failure;   /* kernel: what went wrong (PARTITA_DEVICE_*), written after the next two */
  partita_i32 failure_partition; /* -1: of no partition */
  partita_u32 failure_epoch;
  partita_u32 newest_hand_over; /* kernel: of a send whose kernels copy, the newest epoch in which one handed over */
  /* kernel: of a collective whose marks push, */
  partita_u32 awaited;       /* the newest epoch whose end a kernel waits for */
  partita_u32 newest_marked; /* the newest epoch in which one has marked a partition, or, where this rank marks none,
                                that one has opened */
} Partita_Prequest_host;

/* What can go wrong in a kernel; what the device calls return. The host's next Wait, Test, Start or free of the request
 * explains it. */
enum {
  PARTITA_DEVICE_SUCCESS = 0,
  PARTITA_DEVICE_ERR_PARTITION = 1,   /* out of range */
  PARTITA_DEVICE_ERR_TWICE = 2,       /* marked twice in an epoch, or in no epoch of a device-driven request */
  PARTITA_DEVICE_ERR_INACTIVE = 3,    /* the host has not started the epoch; Pbuf_prepare before Pstart */
  PARTITA_DEVICE_ERR_ACTIVE = 4,      /* Pstart before the epoch before was complete */
  PARTITA_DEVICE_ERR_UNPREPARED = 5,  /* device-driven: Pready before Pbuf_prepare; in place: Pready or Pbuffer before
                                         the receiver is ready */
  PARTITA_DEVICE_ERR_SIDE = 6,        /* a call for sends on a receive or the other way round */
  PARTITA_DEVICE_ERR_DRIVER = 7,      /* a call for device-driven requests on a host-driven one */
  PARTITA_DEVICE_ERR_FREED = 8,       /* freed, cleared, or never made */
  PARTITA_DEVICE_ERR_TIMEOUT = 9,     /* a wait passed PARTITA_TIMEOUT */
  PARTITA_DEVICE_ERR_ABORTED = 10,    /* the host released the kernels of the request */
  PARTITA_DEVICE_ERR_COLLECTIVE = 11, /* a call for a collective on another one, or on what is none */
  PARTITA_DEVICE_ERR_LAUNCH = 12      /* a collective by several blocks that were not launched cooperatively */
};

/* Partita_Prequest.flags. The upper half tells where it came from: of one that was cleared, or never made, kernels look
 * at nothing else. */
enum {
  PARTITA_PREQUEST_ORIGIN = 0x7fff0000, /* these bits */
  PARTITA_PREQUEST_MADE = 0x50720000,   /* MPIX_Prequest_create */
  PARTITA_PREQUEST_NOBODY = 0x4e6f0000, /* the same, of a request to or from MPI_PROC_NULL: calls do nothing */
  PARTITA_PREQUEST_RECV = 1,            /* kernels may ask for arrivals: of a receive, or a collective */
  PARTITA_PREQUEST_DEVICE_DRIVEN = 2,   /* kernels open the epochs; else the host does */
  PARTITA_PREQUEST_PACKETS = 4,         /* the bytes travel as {data, epoch} packets; both sides are device-driven */
  PARTITA_PREQUEST_IN_PLACE = 8,        /* the kernel stores through MPIX_Pbuffer itself; Pready only raises flags */
  PARTITA_PREQUEST_SEND = 16,           /* kernels may mark: of a send, or a collective, which can be both */
  PARTITA_PREQUEST_TOGETHER = 32,       /* marks of neighbours that come together are announced together, by the last */
  PARTITA_PREQUEST_COLLECTIVE = 64, /* a collective whose epochs kernels open and move: nothing else may be called */
  PARTITA_PREQUEST_FRONT = 128, /* of a receive: the first ones may arrive by a count, behind arrival_device's flags */
  PARTITA_PREQUEST_PUSHED = 256 /* a collective whose marks push partitions to all ranks, which reduce them */
};

/* Partita_Prequest.collective, of one that kernels do. */
enum {
  PARTITA_COLLECTIVE_ALLREDUCE = 0,
  PARTITA_COLLECTIVE_ALLGATHER = 1,
  PARTITA_COLLECTIVE_REDUCE_SCATTER = 2,
  PARTITA_COLLECTIVE_ALLTOALL = 3,
  PARTITA_COLLECTIVE_BCAST = 4
};

/* Partita_Prequest.algorithm: how a collective that kernels do moves its data. */
enum {
  PARTITA_ALGORITHM_PACKETS = 0,  /* through slots of its own */
  PARTITA_ALGORITHM_BUFFERS = 1,  /* by loads and stores in the peers' buffers */
  PARTITA_ALGORITHM_TWO_SHOT = 2, /* an allreduce: through slots, each rank reduces a part and sends the result */
  PARTITA_ALGORITHM_PUSH = 3      /* each mark to all ranks by itself (PARTITA_PREQUEST_PUSHED) */
};

struct Partita_Peer;

typedef struct Partita_Prequest {
  Partita_Prequest_state* state;
  Partita_Prequest_host* host;
  const partita_u64* promise;  /* send: low half: newest epoch that the receiver has opened; high half: that this side's
                                  host has started. In host memory, or, both sides device-driven, in GPU memory.
                                  Host-driven receive: high half: that this side's host has started; host memory */
  partita_u32* credit;         /* receive: the low half of the sender's promise */
  unsigned char* buffer;       /* the program's; null: of a collective, whose partitions have no bytes here */
  unsigned char* remote;       /* send: the receive buffer, or its packet slots, as mapped here; null: every transfer is
                                  handed to the progress engine. Receive with packets: its slots */
  partita_u32* arrival_device; /* arrival flags, one a transport partition, in the receiver's GPU memory; null: none.
                                  With PARTITA_PREQUEST_FRONT the front lies behind them, at a multiple of 8 bytes: a
                                  word of 8, low half: so many transport partitions have arrived, the first ones; high
                                  half: in this epoch */
  partita_u32* arrival_host;   /* the same in the receiver's host memory; null: none (of a receive, always) */
  const struct Partita_Peer* peers; /* state->peers of them (device/peer.h), in the memory of the request's own GPU */
  partita_i64 total_bytes;
  partita_i64 send_partition_bytes; /* a GPU divides in a tenth of a microsecond */
  partita_i64 recv_partition_bytes;
  partita_i32 send_partitions;
  partita_i32 recv_partitions;
  partita_i32 transport_partitions;
  partita_u32 flags;
  partita_u64 limit_ns;   /* of a wait in a kernel; 0: none */
  partita_u32 unit_bytes; /* the largest of 16, 8, 4, 2, 1 that divides the addresses of `buffer` and `remote` and the
                             size of this side's partitions: in such pieces it is moved */
  partita_u32 life;       /* even, not 0, of this request alone: what state->live reads while it may be used */
  partita_u32 marks_each; /* send: marks that each transport partition takes; 0: not all take as many */
  /* From here on, of a collective that kernels do. `buffer` is its receive buffer, `total_bytes` are those of a block,
   * `peers` has an entry for each rank, whose `device_words` are this rank's area there; `remote` are the areas of
   * all ranks in this GPU, one behind the other (impl/areas.hpp). In the peers' buffers, the `buffer` of an entry is
   * that rank's receive buffer, and as many entries follow, whose `buffer` is its send buffer, the own ones among both;
   * `unit_bytes` divides all of these addresses, and where a buffer has several blocks, their length. */
  partita_u32 collective;    /* PARTITA_COLLECTIVE_* */
  const unsigned char* sent; /* the send buffer; in place, that part of the receive buffer; of a bcast the one */
  partita_i32 rank;
  partita_i32 ranks;
  partita_i32 root;
  partita_u32 reduction;     /* element and operation: impl/elements.hpp */
  partita_u32 algorithm;     /* PARTITA_ALGORITHM_* */
  partita_u32 strips;        /* in packets: the data are cut into so many, ... */
  partita_u32 rounds;        /* ... each of which moves in so many rounds; 0: there are no bytes */
  partita_u32 longer_shares; /* of the shares, one a strip and round, so many have a unit more ... */
  partita_u64 share_units;   /* ... than this */
  /* With PARTITA_PREQUEST_PUSHED areas are inboxes (impl/pushes.hpp), `rounds` are the pieces of a partition, and
   * `share_units` the units of a piece. In a bcast the `buffer` of the root's entries is that rank's buffer; and
   * `host_words`, of these and of the root's entry at another rank, are where that rank's newest epoch stands in the
   * root's host memory. */
} Partita_Prequest;

typedef Partita_Prequest MPIX_Prequest;

#ifdef __cplusplus
}
#endif
#endif
