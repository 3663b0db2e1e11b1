/* What a kernel holds of an ordinary message that streams move: the struct behind MPIX_Completion. Plain C, so that
 * host programs pass it to their kernels by value.
 * docs/api/Partita_Queue_completion.md says what it is for, partita/device.cuh has the calls. */
#ifndef PARTITA_DEVICE_COMPLETION_H
#define PARTITA_DEVICE_COMPLETION_H

#include <partita/device/prequest.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Partita_Completion {
  /* Both lie in the memory of the request's own GPU, and are only read; null: of a message to or from MPI_PROC_NULL,
   * which is always complete. The epoch that was started last is complete once *word == *epoch, unless an error gave
   * the request up: only the calls tell that. */
  const partita_u32*
      word; /* the newest epoch that is complete, modulo 2^32; stored with release order at system scope */
  const partita_u32* epoch; /* that was started last: it counts on as each start runs, those of graphs too */
  void* message;            /* Partita's own */
  partita_u32 origin;       /* PARTITA_PREQUEST_MADE or PARTITA_PREQUEST_NOBODY; else it was cleared, or never made */
  partita_u32 reserved;
} Partita_Completion;

typedef Partita_Completion MPIX_Completion;

#ifdef __cplusplus
}
#endif
#endif
