#include "runtime/runtime.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/agreement.hpp"
#include "core/log.hpp"
#include "core/mpi_check.hpp"
#include "core/native.hpp"
#include "link/names.hpp"
#include "runtime/agreed_tuning.hpp"
#include "runtime/start_report.hpp"

namespace partita {
namespace {

/// So much of peers' GPU memory stays mapped for requests to come.
constexpr std::size_t unused_mapped_bytes = std::size_t{256} << 20;

void check_link(const std::string& wish) {
  if (link::is_choice(wish)) return;
  throw malformed_setting("PARTITA_LINK", wish, "one of " + link::choices());
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

/// What is wrong with the settings on this rank only.
std::optional<Error> fault_of(const LocalSettings& local, int rank) {
  if (local.failure) return local.failure;
  try {
    check_link(local.settings.link);
    if (rank == 0) check_trace_file(local.settings.trace_file);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// One rank warns, since most often all have the same environment.
void warn_of_unknown(const Settings& settings, const World& world) {
  int first = settings.unknown.empty() ? world.size() : world.rank();
  PARTITA_MPI(Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, world.control()));
  if (first == world.rank()) log("{}", describe_unknown(settings.unknown));
}

/// What one rank takes for its node the others of it must, too.
void divide_node_together(World& world, int parts) {
  int most = parts;
  PARTITA_MPI(Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT, MPI_MAX, world.control()));
  do_together(world.control(), "divide its node", [&] {
    if (parts != most) {
      throw Error(ErrorClass::arg, "PARTITA_NODES is {} here and {} on another rank; expected is the same on all ranks",
                  parts, most);
    }
    world.divide_node(parts);
  });
}

/// A rank with bad settings must not leave the others waiting.
Settings agreed_settings(const LocalSettings& local, World& world) {
  std::optional<Error> failure = fault_of(local, world.rank());
  if (failure) failure = Error(failure->error_class(), ": {}", failure->sentence());
  fail_together(world.control(), failure);
  warn_of_unknown(local.settings, world);
  divide_node_together(world, local.settings.nodes);
  return local.settings;
}

/// Writing the trace is collective, so rank 0's environment decides whether there is one.
bool trace_is_wanted(const Settings& settings, const World& world) {
  int wanted = settings.trace_file.empty() ? 0 : 1;
  PARTITA_MPI(Bcast(&wanted, 1, MPI_INT, 0, world.control()));
  return wanted != 0;
}

/// What `make` gives on each rank; throws SharedError on all ranks where it throws on one.
template <class Make>
auto made_together(const char* what, const World& world, Make make) {
  decltype(make()) made;
  do_together(world.control(), what, [&] { made = make(); });
  return made;
}

}  // namespace

LocalSettings::LocalSettings() {
  try {
    settings = read_settings(environ);
  } catch (const Error& error) {
    failure = error;
  }
}

Runtime::Runtime(MPI_Comm comm, const LocalSettings& local)
    : world(comm, local.settings.timeout_s),
      settings(agreed_settings(local, world)),
      tuning(agreed_tuning(settings, world)),
      trace(trace_is_wanted(settings, world)),
      progress(world.spare_cores()),
      mailbox(world, progress),
      host_memory(world),
      device_memory(
          made_together("reach its GPUs", world, [this] { return memory::make_device_memory(world, host_memory); })),
      gpu_awareness(agree_on_gpu_awareness(settings, world, *device_memory)),
      links(
          made_together("open its links", world,
                        [this] { return link::make_links({settings, world, host_memory, *device_memory, progress}); })),
      communicators(world, comm),
      link_report(settings),
      holds(progress),
      services{{settings, world.rank(), trace, progress, mailbox, host_memory, *device_memory, links, holds},
               world,
               host_memory,
               matcher,
               device_watch,
               ready_notes},
      offers({services, gpu_lanes, gpu_awareness.offers_from_bytes, gpu_awareness.offer_mark, offer_counts}),
      matcher(services, link_report),
      operations(matcher, progress),
      queue_services{&services,
                     [this](const Waiting& waiting, const std::function<bool()>& done) { wait_until(waiting, done); },
                     [this](Operation& operation) { complete(operation); }},
      peer_collectives({services, gpu_lanes, left_boards, own_comms, constructors, gpu_awareness.peer_sizes,
                        queue_services.wait_until}) {
  mailbox.on(static_cast<std::uint8_t>(SetupKind::segment_freed),
             [this](int from, wire::Reader message) { host_memory.forget(from, read_segment_freed(message).segment); });
  progress.add([this] { return mailbox.progress(); });
  for (const auto& link : links) {
    progress.add([&link = *link] { return link.progress(); });
  }
  progress.add([this] { return operations.free_what_lingered(); });
  device_memory->set_closing([this] { return closing(); });
  report_start(settings, world);
  start_thread();
}

/// No step runs on members that go.
void Runtime::start_thread() {
  try {
    do_together(world.control(), "start its progress thread", [this] {
      if (settings.progress_thread && world.thread_level() == MPI_THREAD_MULTIPLE) progress.start_thread();
    });
  } catch (...) {
    progress.stop_thread();
    throw;
  }
}

/// Where finalize has failed the thread still runs, and takes steps of what is destroyed next.
Runtime::~Runtime() {
  progress.stop_thread();
}

void Runtime::complete(Operation& operation) {
  try {
    wait_until(operation, [&] { return operation.done(); });
  } catch (const Error& error) {
    operation.abandon(error);
    throw;
  }
  operation.close();
}

void Runtime::free(Operation& operation) {
  const bool in_gpu_memory = operation.in_gpu_memory();
  operations.free(operation);
  if (in_gpu_memory) let_go_of_peers_memory();
}

/// Peers' GPU memory is kept mapped for requests and calls to come, but not without bound, since that keeps memory
/// which its owner has freed from being used.
void Runtime::let_go_of_peers_memory() {
  device_memory->trim(unused_mapped_bytes, closing());
}

/// Some cannot be unmapped beside a kernel: no request may have an epoch that kernels mark then, none may be driven by
/// them, whose epochs the host does not see, and no stream may stand at a wait of a queue. These go with a later
/// request.
memory::Closing Runtime::closing() {
  const bool nothing_waits = device_watch.idle() && !queues.may_be_under_way();
  return nothing_waits ? memory::Closing::all : memory::Closing::without_blocking;
}

void* Runtime::allocate_memory(std::size_t size_bytes) {
  try {
    return host_memory.allocate(size_bytes);
  } catch (const Error&) {
    void* base = nullptr;
    if (size_bytes > memory::HostMemory::own_segment_bytes ||
        native::Alloc_mem(static_cast<MPI_Aint>(size_bytes), MPI_INFO_NULL, &base) != MPI_SUCCESS) {
      throw;
    }
    const std::lock_guard lock(of_mpi_mutex_);
    of_mpi_.insert(base);
    return base;
  }
}

bool Runtime::is_allocated(const void* base) const {
  const std::lock_guard lock(of_mpi_mutex_);
  return of_mpi_.contains(base) || host_memory.is_allocated(base);
}

void Runtime::free_memory(void* base) {
  {
    const std::lock_guard lock(of_mpi_mutex_);
    if (of_mpi_.erase(base) > 0) {
      PARTITA_MPI(Free_mem(base));
      return;
    }
  }
  const auto freed = host_memory.free(base);
  for (const int holder : freed.holders) {
    mailbox.post(holder, write(SegmentFreed{freed.segment}));
  }
}

void Runtime::finalize() {
  mailbox.drain(settings.timeout_s, [this] { operations.end_lingering(); });
  progress.stop_thread();
  if (trace.enabled()) trace.write(settings.trace_file, world);
}

}  // namespace partita
