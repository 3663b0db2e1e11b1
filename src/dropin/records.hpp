// The arguments of the MPI's persistent requests, which the MPI does not tell again.
#pragma once

#include <mpi.h>

#include <optional>

namespace partita::dropin {

/// What a persistent request was made for. The call is that of MPI_Send_init, MPI_Recv_init …
struct Record {
  enum class Call : unsigned char { send, bsend, rsend, ssend, recv };
  Call call{};
  void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype datatype = MPI_DATATYPE_NULL;  ///< as the program's, but the record's own
  int rank = MPI_PROC_NULL;
  int tag = 0;
  MPI_Comm comm = MPI_COMM_NULL;
};

/// Notes what the MPI has made `request` for, with a datatype of its own that has the map of the program's and none of
/// its attributes. Where there is no memory for it nothing is noted. Any thread, as the next.
void note_record(MPI_Request request, Record record);
/// The record of a request that the MPI has, if there is one.
std::optional<Record> find_record(MPI_Request request);
/// Frees a request that the MPI has, and the record of it; a request that the MPI refuses to free keeps its record.
/// Costs one load while there are no records.
int free_with_record(MPI_Request* request);
/// Ends all records, whose datatypes would outlive the MPI.
void close_records();

}  // namespace partita::dropin
