// Partitioned point-to-point communication on MPI_Request (MPI-4, section 4.2).
#include <mpi.h>
#include <partita/mpix.h>
#include <partita/partita.h>

#include <vector>

#include "dropin/calling.hpp"
#include "dropin/interpose.hpp"
#include "dropin/refuse.hpp"
#include "dropin/requests.hpp"

using namespace partita::dropin;

namespace {

template <class Result, class First, class Second, class Third>
Second second_argument(Result (*)(First, Second, Third));

}  // namespace

extern "C" {

/// Open MPI 5.0's header leaves the const out.
using PartitionList = decltype(second_argument(&MPI_Pready_list));

INTERPOSE(Psend_init)(const void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                      MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  const Calling calling(__func__);
  if (request == nullptr) return refuse_null_pointer("MPI_Psend_init", "request");
  Partita_Request made = PARTITA_REQUEST_NULL;
  const int code = Partita_Psend_init(buf, partitions, count, datatype, dest, tag, comm, info, &made);
  return code == MPI_SUCCESS ? adopt(made, request) : code;
}

INTERPOSE(Precv_init)(void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                      MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  const Calling calling(__func__);
  if (request == nullptr) return refuse_null_pointer("MPI_Precv_init", "request");
  Partita_Request made = PARTITA_REQUEST_NULL;
  const int code = Partita_Precv_init(buf, partitions, count, datatype, source, tag, comm, info, &made);
  return code == MPI_SUCCESS ? adopt(made, request) : code;
}

INTERPOSE(Pready)(int partition, MPI_Request request) {
  const Calling calling(__func__);
  const Partita_Request found = ours(request);
  return found == PARTITA_REQUEST_NULL ? refuse_foreign("MPI_Pready", request) : Partita_Pready(partition, found);
}

INTERPOSE(Pready_range)(int partition_low, int partition_high, MPI_Request request) {
  const Calling calling(__func__);
  const Partita_Request found = ours(request);
  return found == PARTITA_REQUEST_NULL ? refuse_foreign("MPI_Pready_range", request)
                                       : Partita_Pready_range(partition_low, partition_high, found);
}

INTERPOSE(Pready_list)(int length, PartitionList array_of_partitions, MPI_Request request) {
  const Calling calling(__func__);
  const Partita_Request found = ours(request);
  return found == PARTITA_REQUEST_NULL ? refuse_foreign("MPI_Pready_list", request)
                                       : Partita_Pready_list(length, array_of_partitions, found);
}

INTERPOSE(Parrived)(MPI_Request request, int partition, int* flag) {
  const Calling calling(__func__);
  if (request == MPI_REQUEST_NULL && flag != nullptr) {
    *flag = 1;
    return MPI_SUCCESS;
  }
  const Partita_Request found = ours(request);
  return found == PARTITA_REQUEST_NULL ? refuse_foreign("MPI_Parrived", request)
                                       : Partita_Parrived(found, partition, flag);
}

int Partita_mpi_Pbuf_prepare(MPI_Request request) {
  const Calling calling("MPIX_Pbuf_prepare");
  const Partita_Request found = ours(request);
  return found == PARTITA_REQUEST_NULL ? refuse_foreign("MPIX_Pbuf_prepare", request) : Partita_Pbuf_prepare(found);
}

int Partita_mpi_Pbuf_prepareall(int count, MPI_Request requests[]) {
  return guarded("MPIX_Pbuf_prepareall", [=](const char* call) {
    if (count < 0) return refuse(MPI_ERR_COUNT, "MPIX_Pbuf_prepareall: the count is negative");
    if (count > 0 && requests == nullptr) return refuse_null_pointer(call, "requests");
    std::vector<Partita_Request> found;
    for (int i = 0; i < count; ++i) {
      found.push_back(ours(requests[i]));
      if (found.back() == PARTITA_REQUEST_NULL) return refuse_foreign(call, requests[i]);
    }
    return Partita_Pbuf_prepareall(count, found.data());
  });
}

int Partita_mpi_Prequest_create(Partita_Prequest* prequest, MPI_Request request) {
  const Calling calling("MPIX_Prequest_create");
  const Partita_Request found = ours(request);
  return found == PARTITA_REQUEST_NULL ? refuse_foreign("MPIX_Prequest_create", request)
                                       : Partita_Prequest_create(prequest, found);
}

int Partita_mpi_Prequest_free(Partita_Prequest* prequest) {
  const Calling calling("MPIX_Prequest_free");
  return Partita_Prequest_free(prequest);
}

int Partita_mpi_Request_get_info(MPI_Request request, MPI_Info* info) {
  const Calling calling(__func__);
  const Partita_Request found = ours(request);
  return found == PARTITA_REQUEST_NULL ? refuse_foreign("Partita_mpi_Request_get_info", request)
                                       : Partita_Request_get_info(found, info);
}

}  // extern "C"
