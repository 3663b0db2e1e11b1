#include "partitioned/runtime.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/log.hpp"
#include "core/mpi_check.hpp"
#include "partitioned/request.hpp"

namespace partita {
namespace {

/// Of peers' GPU memory, kept mapped for requests to come.
constexpr std::size_t unused_mapped_bytes = std::size_t{256} << 20;

void check_link(const std::string& wish) {
  const auto names = link::link_names();
  if (wish == "auto" || std::find(names.begin(), names.end(), wish) != names.end()) return;
  throw Error(ErrorClass::arg, "the environment sets PARTITA_LINK={}, but this build has only: auto, {}", wish,
              fmt::join(names, ", "));
}

/// Better at the start of a job than at its end.
void check_trace_file(const std::string& file) {
  if (file.empty()) return;
  std::FILE* out = std::fopen(file.c_str(), "w");
  if (out == nullptr) {
    throw Error(ErrorClass::arg, "the environment sets PARTITA_TRACE={}, a file that cannot be written: {}", file,
                std::strerror(errno));
  }
  std::fclose(out);
}

/// Reads the settings; a rank with bad ones must not leave the others waiting.
Settings agreed_settings(MPI_Comm comm) {
  int rank = 0;
  PARTITA_MPI(Comm_rank(comm, &rank));
  log_rank = rank;
  std::optional<Error> failure;
  Settings settings;
  try {
    settings = read_settings(environ);
    check_link(settings.link);
    if (rank == 0) check_trace_file(settings.trace_file);
  } catch (const Error& error) {
    failure = error;
  }
  int good = failure ? 0 : 1;
  int all_good = 0;
  PARTITA_MPI(Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, comm));
  if (failure) throw Error(*failure);
  if (all_good == 0) throw Error(ErrorClass::other, "another rank has a bad setting in its environment");
  return settings;
}

/// Writing the trace is collective, so rank 0's environment decides whether there is one.
bool trace_is_wanted(const Settings& settings, const World& world) {
  int wanted = settings.trace_file.empty() ? 0 : 1;
  PARTITA_MPI(Bcast(&wanted, 1, MPI_INT, 0, world.control()));
  return wanted != 0;
}

}  // namespace

Runtime::Runtime(MPI_Comm comm)
    : settings(agreed_settings(comm)),
      world(comm),
      trace(trace_is_wanted(settings, world)),
      progress(world.spare_cores()),
      mailbox(world, progress),
      host_memory(world),
      device_memory(memory::make_device_memory(world, host_memory)),
      links(link::make_links({settings, world, host_memory, *device_memory, progress})),
      communicators(world, comm),
      deferred(progress),
      matcher(*this, mailbox) {
  mailbox.on(static_cast<std::uint8_t>(SetupKind::segment_freed),
             [this](int from, wire::Reader message) { host_memory.forget(from, read_segment_freed(message).segment); });
  progress.add([this] { return mailbox.progress(); });
  progress.add([this] { return deferred.flush(); });
  progress.add([this] { return engine.step(); });
  for (const auto& link : links) {
    progress.add([&link = *link] { return link.progress(); });
  }
  if (settings.progress_thread && world.thread_level() == MPI_THREAD_MULTIPLE) progress.start_thread();
}

/// Where finalize has failed the thread still runs, and takes steps of what is destroyed next.
Runtime::~Runtime() {
  progress.stop_thread();
}

void Runtime::free(Request& request) {
  const bool in_gpu_memory = request.in_gpu_memory();
  matcher.free(request);
  // Peers' GPU memory is kept mapped for requests to come, but not without bound, since that keeps memory which its
  // owner has freed from being used. Unmapping blocks behind kernels: no request may have an epoch that kernels mark,
  // and none may be driven by them, whose epochs the host does not see. What is left now goes with a later request.
  if (in_gpu_memory && engine.idle() && device_watch.idle()) device_memory->trim(unused_mapped_bytes);
}

void Runtime::free_memory(void* base) {
  const auto freed = host_memory.free_segment(base);
  for (const int holder : freed.holders) {
    mailbox.post(holder, write(SegmentFreed{freed.segment}));
  }
}

void Runtime::finalize() {
  mailbox.drain(settings.timeout_s);
  progress.stop_thread();
  if (trace.enabled()) trace.write(settings.trace_file, world);
}

}  // namespace partita
