// Every call of the device API, only to be compiled: C++17, the oldest architecture of the toolkit.
#include <partita/device.cuh>

MPIX_Device int by_a_function_of_the_program(MPIX_Prequest send) {
  return MPIX_Pready_warp(0, send) + MPIX_Pready_thread(1, send) + MPIX_Pready_range(2, 3, send);
}

__global__ void every_call(MPIX_Prequest send, MPIX_Prequest recv, int* out) {
  int flag = 0;
  int codes = MPIX_Pstart(send) + MPIX_Pstart(recv) + MPIX_Pbuf_prepare(send);
  codes += by_a_function_of_the_program(send) + MPIX_Pready(4, send) + MPIX_Pready_block(5, send);
  codes += MPIX_Parrived(recv, 0, &flag) + MPIX_Pwait_partition(0, recv) + MPIX_Pwait(send) + MPIX_Pwait(recv);
  *out = codes + flag + (MPIX_Pbuffer(0, send) != nullptr);
}
