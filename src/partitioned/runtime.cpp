#include "partitioned/runtime.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "core/log.hpp"
#include "core/mpi_check.hpp"

namespace partita {
namespace {

constexpr std::uint8_t segment_freed_kind = 16;

void check_link(const std::string& wish) {
  const auto names = link::link_names();
  if (wish == "auto" || std::find(names.begin(), names.end(), wish) != names.end()) return;
  throw Error(ErrorClass::arg, "the environment sets PARTITA_LINK={}, but this build has only: auto, {}", wish,
              fmt::join(names, ", "));
}

/// Reads the settings; a rank with bad ones must not leave the others waiting.
Settings agreed_settings(MPI_Comm comm) {
  std::optional<Error> failure;
  Settings settings;
  try {
    settings = read_settings(environ);
    check_link(settings.link);
  } catch (const Error& error) {
    failure = error;
  }
  int good = failure ? 0 : 1;
  int all_good = 0;
  PARTITA_MPI(Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, comm));
  if (failure) throw Error(*failure);
  if (all_good == 0) throw Error(ErrorClass::other, "Init: another rank has a bad setting in its environment");
  return settings;
}

}  // namespace

Runtime::Runtime(MPI_Comm comm)
    : settings(agreed_settings(comm)),
      world(comm),
      trace(!settings.trace_file.empty()),
      progress(world.spare_cores()),
      mailbox(world, progress),
      host_memory(world),
      links(link::make_links({settings, world, host_memory})),
      communicators(world, comm),
      deferred(progress),
      matcher(*this, mailbox) {
  log_rank = world.rank();
  mailbox.on(segment_freed_kind,
             [this](int from, wire::Reader message) { host_memory.forget(from, message.get<std::uint64_t>()); });
  progress.add([this] { return mailbox.progress(); });
  progress.add([this] { return deferred.flush(); });
  for (const auto& link : links) {
    progress.add([&link = *link] { return link.progress(); });
  }
  if (settings.progress_thread && world.thread_level() == MPI_THREAD_MULTIPLE) progress.start_thread();
}

void Runtime::free_memory(void* base) {
  const auto freed = host_memory.free_segment(base);
  for (const int holder : freed.holders) {
    mailbox.post(holder, wire::Writer().put(segment_freed_kind).put(freed.segment).take());
  }
}

void Runtime::finalize() {
  mailbox.drain(settings.timeout_s);
  progress.stop_thread();
  if (trace.enabled()) trace.write(settings.trace_file, world);
}

}  // namespace partita
