#include "partitioned/gpu/stream_epochs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace partita {
namespace {

/// As many as unpack, or ask for, what comes, each a piece at a time; a send's wait is one thread's.
unsigned threads_of_wait(const Partita_Prequest& request) {
  if ((request.flags & PARTITA_PREQUEST_SEND) != 0) return 1;
  constexpr std::int64_t bytes_of_a_packet = 8;
  const std::int64_t pieces = (request.flags & PARTITA_PREQUEST_PACKETS) != 0 ? request.total_bytes / bytes_of_a_packet
                                                                              : request.transport_partitions;
  constexpr std::int64_t warp = 32;
  return static_cast<unsigned>(
      std::min<std::int64_t>((pieces + warp - 1) / warp * warp, memory::RunEpochs::most_threads));
}

}  // namespace

/// The start tells of one that has failed. A captured stream takes no memory for a device request.
std::string StreamEpochs::why_not_on(const memory::Stream& stream, bool captured) const {
  if (owner_.is_to_nobody() || owner_.failed() || owner_.given_up()) return {};
  if (const int device = owner_.place().device; stream.device() != device) {
    return fmt::format("its buffer is memory of GPU {}, and the stream is one of GPU {}", device, stream.device());
  }
  if (device_.exists()) return {};
  if (is_sent()) return "it has no device request, by which kernels mark it (Prequest_create)";
  if (const std::string why = owner_.why_no_kernels(); !why.empty()) return why;
  return captured ? "it has no device request, and in a capture none is made (Match, Prequest_create)" : "";
}

void StreamEpochs::enqueue_start(memory::Stream&, bool, memory::MessageRun& together) {
  owner_.throw_if_over();
  if (!owner_.is_to_nobody()) together.add(device_.for_own_kernels(), 1);
}

void StreamEpochs::enqueue_wait(memory::Stream&, memory::MessageRun& together) {
  if (!device_.exists()) return;
  const Partita_Prequest& request = device_.for_own_kernels();
  together.add(request, threads_of_wait(request));
}

/// Whoever gave the request up has told why.
void StreamEpochs::pass_wait() {
  if (owner_.given_up()) return;
  owner_.throw_if_over();
  if (device_.exists()) device_.check();
}

}  // namespace partita
