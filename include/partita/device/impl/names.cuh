// The public names of the device API over the one implementation. Included by partita/device.cuh alone, after the
// declarations, which document them.
#pragma once

#include <partita/device/completion.h>
#include <partita/device/prequest.h>
#include <partita/device/impl/collective.cuh>
#include <partita/device/impl/epochs.cuh>
#include <partita/device/impl/execution_space.hpp>
#include <partita/device/impl/message.cuh>
#include <partita/device/impl/pready.cuh>

PARTITA_DEVICE_INLINE int Partita_Pready(int partition, Partita_Prequest prequest) {
  return partita::device::pready(partition, prequest);
}
PARTITA_DEVICE_INLINE int Partita_Pready_thread(int partition, Partita_Prequest prequest) {
  return partita::device::pready_thread(partition, prequest);
}
PARTITA_DEVICE_INLINE int Partita_Pready_warp(int partition, Partita_Prequest prequest) {
  return partita::device::pready_warp(partition, prequest);
}
PARTITA_DEVICE_INLINE int Partita_Pready_block(int partition, Partita_Prequest prequest) {
  return partita::device::pready_block(partition, prequest);
}
PARTITA_DEVICE_INLINE int Partita_Pready_range(int first, int last, Partita_Prequest prequest) {
  return partita::device::pready_range(first, last, prequest);
}
PARTITA_DEVICE_INLINE void* Partita_Pbuffer(int partition, Partita_Prequest prequest) {
  return partita::device::pbuffer(partition, prequest);
}
PARTITA_DEVICE_INLINE int Partita_Parrived(Partita_Prequest prequest, int partition, int* flag) {
  return partita::device::parrived(partition, prequest, flag);
}
PARTITA_DEVICE_INLINE int Partita_Pwait_partition(int partition, Partita_Prequest prequest) {
  return partita::device::pwait_partition(partition, prequest);
}
PARTITA_DEVICE_INLINE int Partita_Pstart(Partita_Prequest prequest) {
  return partita::device::pstart(prequest);
}
PARTITA_DEVICE_INLINE int Partita_Pbuf_prepare(Partita_Prequest prequest) {
  return partita::device::pbuf_prepare(prequest);
}
PARTITA_DEVICE_INLINE int Partita_Pwait(Partita_Prequest prequest) {
  return partita::device::pwait(prequest);
}
PARTITA_DEVICE_INLINE int Partita_Pnext(Partita_Prequest send) {
  return partita::device::pnext(send);
}
PARTITA_DEVICE_INLINE int Partita_Pnext(Partita_Prequest send, Partita_Prequest recv, Partita_Prequest next_send) {
  return partita::device::pnext(send, recv, next_send);
}
PARTITA_DEVICE_INLINE int Partita_Pallreduce(Partita_Prequest prequest) {
  return partita::device::pcollective<PARTITA_COLLECTIVE_ALLREDUCE>(prequest);
}
PARTITA_DEVICE_INLINE int Partita_Pallgather(Partita_Prequest prequest) {
  return partita::device::pcollective<PARTITA_COLLECTIVE_ALLGATHER>(prequest);
}
PARTITA_DEVICE_INLINE int Partita_Preduce_scatter(Partita_Prequest prequest) {
  return partita::device::pcollective<PARTITA_COLLECTIVE_REDUCE_SCATTER>(prequest);
}
PARTITA_DEVICE_INLINE int Partita_Palltoall(Partita_Prequest prequest) {
  return partita::device::pcollective<PARTITA_COLLECTIVE_ALLTOALL>(prequest);
}
PARTITA_DEVICE_INLINE int Partita_Pbcast(Partita_Prequest prequest) {
  return partita::device::pcollective<PARTITA_COLLECTIVE_BCAST>(prequest);
}
PARTITA_DEVICE_INLINE int Partita_Completed(Partita_Completion completion, int* flag) {
  return partita::device::completed(completion, flag);
}
PARTITA_DEVICE_INLINE int Partita_Completed_block(Partita_Completion completion, int* flag) {
  return partita::device::completed_block(completion, flag);
}

PARTITA_DEVICE_INLINE int MPIX_Pready(int partition, MPIX_Prequest prequest) {
  return partita::device::pready(partition, prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Pready_thread(int partition, MPIX_Prequest prequest) {
  return partita::device::pready_thread(partition, prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Pready_warp(int partition, MPIX_Prequest prequest) {
  return partita::device::pready_warp(partition, prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Pready_block(int partition, MPIX_Prequest prequest) {
  return partita::device::pready_block(partition, prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Pready_range(int first, int last, MPIX_Prequest prequest) {
  return partita::device::pready_range(first, last, prequest);
}
PARTITA_DEVICE_INLINE void* MPIX_Pbuffer(int partition, MPIX_Prequest prequest) {
  return partita::device::pbuffer(partition, prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Parrived(MPIX_Prequest prequest, int partition, int* flag) {
  return partita::device::parrived(partition, prequest, flag);
}
PARTITA_DEVICE_INLINE int MPIX_Pwait_partition(int partition, MPIX_Prequest prequest) {
  return partita::device::pwait_partition(partition, prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Pstart(MPIX_Prequest prequest) {
  return partita::device::pstart(prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Pwait(MPIX_Prequest prequest) {
  return partita::device::pwait(prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Pnext(MPIX_Prequest send) {
  return partita::device::pnext(send);
}
PARTITA_DEVICE_INLINE int MPIX_Pnext(MPIX_Prequest send, MPIX_Prequest recv, MPIX_Prequest next_send) {
  return partita::device::pnext(send, recv, next_send);
}
PARTITA_DEVICE_INLINE int MPIX_Pallreduce(MPIX_Prequest prequest) {
  return partita::device::pcollective<PARTITA_COLLECTIVE_ALLREDUCE>(prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Pallgather(MPIX_Prequest prequest) {
  return partita::device::pcollective<PARTITA_COLLECTIVE_ALLGATHER>(prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Preduce_scatter(MPIX_Prequest prequest) {
  return partita::device::pcollective<PARTITA_COLLECTIVE_REDUCE_SCATTER>(prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Palltoall(MPIX_Prequest prequest) {
  return partita::device::pcollective<PARTITA_COLLECTIVE_ALLTOALL>(prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Pbcast(MPIX_Prequest prequest) {
  return partita::device::pcollective<PARTITA_COLLECTIVE_BCAST>(prequest);
}
PARTITA_DEVICE_INLINE int MPIX_Completed(MPIX_Completion completion, int* flag) {
  return partita::device::completed(completion, flag);
}
PARTITA_DEVICE_INLINE int MPIX_Completed_block(MPIX_Completion completion, int* flag) {
  return partita::device::completed_block(completion, flag);
}

// partita/mpix.h has a host's call of this name on an MPI_Request; each is found by its argument.
PARTITA_DEVICE_INLINE int MPIX_Pbuf_prepare(MPIX_Prequest prequest) {
  return partita::device::pbuf_prepare(prequest);
}
