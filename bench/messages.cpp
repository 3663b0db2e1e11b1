#include "bench/messages.hpp"

#include <algorithm>

#include "apps/support/own_mpi.hpp"

namespace partita::bench {

namespace {

constexpr std::int64_t most_bytes_in_flight = std::int64_t{128} << 20;

Buffer allocate(Where where, std::size_t size_bytes, const StagingMemory* gpu) {
  if (where == Where::gpu) return gpu->on_gpu(size_bytes);
  return where == Where::page_locked ? gpu->page_locked(size_bytes) : plain_buffer(size_bytes);
}

}  // namespace

MessageCalls standard_calls() {
  return {MPI_Send, MPI_Recv, MPI_Isend, MPI_Irecv, MPI_Test, MPI_Wait};
}

MessageCalls own_calls() {
  static const MessageCalls calls{PARTITA_OF_MPI(Send),  PARTITA_OF_MPI(Recv), PARTITA_OF_MPI(Isend),
                                  PARTITA_OF_MPI(Irecv), PARTITA_OF_MPI(Test), PARTITA_OF_MPI(Wait)};
  return calls;
}

MessageMemory::MessageMemory(Where where, std::size_t message_bytes, int messages, const StagingMemory* gpu)
    : copy_(where == Where::gpu ? gpu->copy : nullptr),
      messages_(messages),
      buffer_(allocate(where, message_bytes * static_cast<std::size_t>(messages), gpu)) {}

void MessageMemory::make(void (*contents)(std::span<std::byte>, int, std::uint64_t), std::uint64_t epoch) const {
  if (copy_ == nullptr) return contents(bytes(), messages_, epoch);
  std::vector<std::byte> made(bytes().size());
  contents(made, messages_, epoch);
  copy_(bytes().data(), made.data(), made.size());
}

std::optional<Mismatch> MessageMemory::find_mismatch(std::uint64_t epoch) const {
  if (copy_ == nullptr) return bench::find_mismatch(bytes(), messages_, epoch);
  std::vector<std::byte> found(bytes().size());
  copy_(found.data(), bytes().data(), found.size());
  return bench::find_mismatch(found, messages_, epoch);
}

int messages_in_flight(const Case& c, const Options& options) {
  return static_cast<int>(
      std::clamp(most_bytes_in_flight / c.size_bytes, std::int64_t{1}, static_cast<std::int64_t>(options.window)));
}

}  // namespace partita::bench
