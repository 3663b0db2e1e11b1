/* What a kernel knows of one peer: that side's memory as this GPU addresses it. Tables of them lie in GPU memory, so
 * that a kernel's parameter does not grow with the number of peers. Plain C. */
#ifndef PARTITA_DEVICE_PEER_H
#define PARTITA_DEVICE_PEER_H

#include <partita/device/prequest.h>

struct Partita_Peer {
  unsigned char* buffer;     /* the peer's; null: it shows none */
  partita_u32* device_words; /* flags, counters, slots in the peer's GPU; null: none */
  partita_u32* host_words;   /* the same in the peer's host memory; null: none */
};
typedef struct Partita_Peer Partita_Peer;

#endif
