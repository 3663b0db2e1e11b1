#include "bench/gpu/measurement.hpp"

#include <algorithm>

namespace partita::bench::gpu {

std::vector<std::string_view> without(std::initializer_list<std::string_view> more) {
  std::vector<std::string_view> lacks{"--window",     "--partitions",    "--threads",       "--delay",
                                      "--compute-us", "--noise-percent", "--memory",        "--face",
                                      "--peer",       "placement",       "--gpu-aware-mpi", "--algorithms"};
  lacks.insert(lacks.end(), more.begin(), more.end());
  return lacks;
}

std::vector<std::string_view> unused_by_ipc() {
  return without({"--link", "--transport-partitions", "--nvshmem", "--nccl", "--blocks", "--block-threads"});
}

double epoch_us(const Job& job, std::int64_t begin_ns, std::int64_t end_ns, const ClockOffset& offset) {
  std::int64_t ends[2] = {0, 0};
  check(PMPI_Gather(&end_ns, 1, MPI_INT64_T, ends, 1, MPI_INT64_T, 0, job.comm), "MPI_Gather");
  if (!job.is_first()) return 0;
  return static_cast<double>(std::max(ends[0], ends[1] + offset.peer_to_here_ns) - begin_ns) / 1000;
}

double gigabytes_per_second(double us, const Case& c, const Options&) {
  return us > 0 ? static_cast<double>(c.size_bytes) / 1000 / us : 0;
}

}  // namespace partita::bench::gpu
