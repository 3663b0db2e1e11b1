#include "contract/gpu_job.hpp"

#include <mpi.h>

#include <string>
#include <thread>
#include <variant>

#include "contract/gpu_program.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr int exchange_tag = 11;

struct SharedJob {
  World world{MPI_COMM_WORLD};
  memory::HostMemory host_memory{world};
  std::unique_ptr<memory::DeviceMemory> device_memory = memory::make_device_memory(world, host_memory);
};
std::unique_ptr<SharedJob> shared_job;

/// Ends the world after the last case, while MPI still runs. Collective.
class SharedJobEnd final : public testing::Environment {
  void TearDown() override { shared_job.reset(); }
};
[[maybe_unused]] const testing::Environment* const shared_job_end = testing::AddGlobalTestEnvironment(new SharedJobEnd);

}  // namespace

void GpuJob::SetUp() {
  if (shared_job == nullptr) shared_job = std::make_unique<SharedJob>();
  choose_gpu();
}

World& GpuJob::world() {
  return shared_job->world;
}
memory::HostMemory& GpuJob::host_memory() {
  return shared_job->host_memory;
}
memory::DeviceMemory& GpuJob::device_memory() {
  return *shared_job->device_memory;
}
int GpuJob::peer() const {
  return rank() ^ 1;
}

memory::DeviceExport GpuJob::exported(const std::byte* address, std::size_t size_bytes) {
  auto result = device_memory().export_to(peer(), address, size_bytes);
  if (auto* pieces = std::get_if<memory::DeviceExport>(&result)) return *pieces;
  ADD_FAILURE() << "not exported: " << std::get<memory::NotMappable>(result).reason;
  return {};
}

std::string GpuJob::refusal(const std::byte* address, std::size_t size_bytes) {
  auto result = device_memory().export_to(peer(), address, size_bytes);
  auto* reason = std::get_if<memory::NotMappable>(&result);
  return reason == nullptr ? "" : reason->reason;
}

memory::DeviceExport GpuJob::exchange(const memory::DeviceExport& ours) {
  // As the mailbox does: no name goes out before the descriptors that it stands for.
  while (!world().socket().flush(peer())) std::this_thread::yield();
  const auto our_bytes = static_cast<int>(ours.size() * sizeof(memory::DevicePiece));
  int their_bytes = 0;
  PMPI_Sendrecv(&our_bytes, 1, MPI_INT, peer(), exchange_tag, &their_bytes, 1, MPI_INT, peer(), exchange_tag,
                harness_comm(), MPI_STATUS_IGNORE);
  memory::DeviceExport theirs(static_cast<std::size_t>(their_bytes) / sizeof(memory::DevicePiece));
  PMPI_Sendrecv(ours.data(), our_bytes, MPI_BYTE, peer(), exchange_tag, theirs.data(), their_bytes, MPI_BYTE, peer(),
                exchange_tag, harness_comm(), MPI_STATUS_IGNORE);
  return theirs;
}

memory::HostAddress GpuJob::exchange_host(memory::HostAddress ours) {
  while (!world().socket().flush(peer())) std::this_thread::yield();
  memory::HostAddress theirs;
  PMPI_Sendrecv(&ours, sizeof ours, MPI_BYTE, peer(), exchange_tag, &theirs, sizeof theirs, MPI_BYTE, peer(),
                exchange_tag, harness_comm(), MPI_STATUS_IGNORE);
  return theirs;
}

std::shared_ptr<std::byte> GpuJob::imported(const memory::DeviceExport& theirs) {
  auto result = device_memory().import(peer(), theirs, gpu());
  if (auto* mapped = std::get_if<std::shared_ptr<std::byte>>(&result)) return *mapped;
  ADD_FAILURE() << "not mapped: " << std::get<memory::NotMappable>(result).reason;
  return nullptr;
}

std::vector<std::byte> GpuJob::pattern(std::size_t size_bytes, std::uint64_t seed) {
  std::vector<std::byte> bytes(size_bytes);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (auto& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

void GpuJob::write(std::byte* to, const std::vector<std::byte>& bytes) {
  device_memory().copy(to, bytes.data(), bytes.size());
}

std::vector<std::byte> GpuJob::read(const std::byte* from, std::size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  device_memory().copy(bytes.data(), from, size_bytes);
  return bytes;
}

}  // namespace partita::test
