// A partitioned request on GPU memory with its device request.
#pragma once

#include <partita/partita.h>

#include <cstdint>
#include <memory>
#include <string>

#include "bench/gpu/kernel_report.hpp"
#include "bench/job.hpp"
#include "bench/owned.hpp"
#include "bench/subject.hpp"

namespace partita::bench::gpu {

using bench::check;

/// What a request is made with. Empty strings and 0: the library's choice.
struct RequestShape {
  bool sends = true;
  std::byte* buffer = nullptr;
  std::int64_t size_bytes = 0;
  int partitions = 1;
  int tag = 0;
  int transport_partitions = 0;
  const char* driver = "";  ///< host or device
  std::string algorithm{};  ///< of a collective
  std::string link{};
  const char* copy = "";  ///< kernel or engine
  bool in_place = false;
};

/// The info object that asks for what `shape` says.
OwnedInfo info_of(const RequestShape& shape);

/// The partitioned init call of `shape` with the peer of `job`.
int init(const Job& job, const RequestShape& shape, MPI_Info info, Partita_Request* request);

/// On MPI_COMM_WORLD, with the other rank of the job. Frees what it made.
class Request {
 public:
  Request(const Job& job, const RequestShape& shape);
  ~Request();
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  /// Blocks until the request is matched: after all requests of both ranks are made.
  void create_device_request();
  const MPIX_Prequest& for_kernels() const { return prequest_; }

  void start() { check(Partita_Start(&request_), "Partita_Start"); }
  /// Blocks until the receiver has started.
  void prepare() { check(Partita_Pbuf_prepare(request_), "Partita_Pbuf_prepare"); }
  void ready_all() { check(Partita_Pready_range(0, partitions_ - 1, request_), "Partita_Pready_range"); }
  /// Whether the host may read `partition` of this receive.
  bool arrived(int partition) const {
    int flag = 0;
    check(Partita_Parrived(request_, partition, &flag), "Partita_Parrived");
    return flag != 0;
  }
  void wait() { check(Partita_Wait(&request_, MPI_STATUS_IGNORE), "Partita_Wait"); }
  LinkUsed link_used() const;

 private:
  Partita_Request request_ = PARTITA_REQUEST_NULL;
  MPIX_Prequest prequest_{};
  bool has_device_request_ = false;
  int partitions_;
};

/// Failure where a device call has failed.
void check(const KernelReport& report, const char* kernel);

}  // namespace partita::bench::gpu
