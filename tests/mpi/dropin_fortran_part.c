/* What dropin_fortran.f90 leaves to C: Fortran interfaces of older MPIs have no partitioned calls. */
#include <mpi.h>
#include <partita/mpix.h>
#include <time.h>

enum { partitions = 4, size_bytes = 40000 };

char dropin_fortran_data[size_bytes];
static char* const data = dropin_fortran_data;
static int own_rank;

static char expected(int epoch, int i) {
  return (char)((epoch * 31 + i * 7 + 1) & 0x7f);
}

int make_request(int fortran_comm) {
  MPI_Comm comm = MPI_Comm_f2c(fortran_comm);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_rank(comm, &own_rank);
  if (own_rank == 0) {
    MPI_Psend_init(data, partitions, size_bytes / partitions, MPI_CHAR, 1, 5, comm, MPI_INFO_NULL, &request);
  } else {
    MPI_Precv_init(data, partitions, size_bytes / partitions, MPI_CHAR, 0, 5, comm, MPI_INFO_NULL, &request);
  }
  return MPI_Request_c2f(request);
}

void fill(int epoch) {
  for (int i = 0; i < size_bytes; ++i) data[i] = own_rank == 0 ? expected(epoch, i) : -1;
}

int matched_request(int request) {
  MPI_Request matched = MPI_Request_f2c(request);
  MPIX_Match(&matched);
  return MPI_Request_c2f(matched);
}

void pause_long(void) {
  const struct timespec time = {0, 10000000};
  nanosleep(&time, NULL);
}

void mark_late(int request) {
  pause_long();
  MPI_Pready_range(0, partitions - 1, MPI_Request_f2c(request));
}

int wrong_bytes(int epoch) {
  int wrong = 0;
  for (int i = 0; i < size_bytes; ++i) wrong += data[i] != expected(epoch, i);
  return wrong;
}
