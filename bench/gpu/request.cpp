#include "bench/gpu/request.hpp"

#include "bench/partita_calls.hpp"

namespace partita::bench::gpu {

OwnedInfo info_of(const RequestShape& shape) {
  OwnedInfo info(MPI_INFO_NULL);
  check(PMPI_Info_create(info.out()), "MPI_Info_create");
  const auto set = [&](const char* key, const std::string& value) {
    if (!value.empty()) check(PMPI_Info_set(info.get(), key, value.c_str()), "MPI_Info_set");
  };
  set("partita_driver", shape.driver);
  set("partita_algorithm", shape.algorithm.c_str());
  set("partita_link", shape.link);
  set("partita_gpu_copy", shape.copy);
  set("partita_in_place", shape.in_place ? "true" : "");
  set("partita_transport_partitions",
      shape.transport_partitions > 0 ? std::to_string(shape.transport_partitions) : std::string());
  return info;
}

int init(const Job& job, const RequestShape& shape, MPI_Info info, Partita_Request* request) {
  const MPI_Count count = shape.size_bytes / shape.partitions;
  return shape.sends ? Partita_Psend_init(shape.buffer, shape.partitions, count, MPI_BYTE, job.peer(), shape.tag,
                                          MPI_COMM_WORLD, info, request)
                     : Partita_Precv_init(shape.buffer, shape.partitions, count, MPI_BYTE, job.peer(), shape.tag,
                                          MPI_COMM_WORLD, info, request);
}

Request::Request(const Job& job, const RequestShape& shape) : partitions_(shape.partitions) {
  const OwnedInfo info = info_of(shape);
  check(init(job, shape, info.get(), &request_), shape.sends ? "Partita_Psend_init" : "Partita_Precv_init");
}

Request::~Request() {
  if (has_device_request_) Partita_Prequest_free(&prequest_);
  Partita_Request_free(&request_);
}

void Request::create_device_request() {
  check(Partita_Prequest_create(&prequest_, request_), "Partita_Prequest_create");
  has_device_request_ = true;
}

LinkUsed Request::link_used() const {
  return PartitaCalls::link_used(request_);
}

void check(const KernelReport& report, const char* kernel) {
  if (report.error == 0) return;
  throw Failure("A device call in the {} kernel returned the error {} (PARTITA_DEVICE_* in partita/device/prequest.h).",
                kernel, report.error);
}

}  // namespace partita::bench::gpu
