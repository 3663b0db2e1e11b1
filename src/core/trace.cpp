#include "core/trace.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "core/mpi_check.hpp"

namespace partita {
namespace {

std::string_view text_of(Trace::Event event) {
  switch (event) {
    case Trace::Event::started:
      return "started";
    case Trace::Event::marked:
      return "marked";
    case Trace::Event::issued:
      return "issued";
    case Trace::Event::deferred:
      return "deferred";
    case Trace::Event::arrived:
      return "arrived";
    case Trace::Event::completed:
      return "completed";
  }
  return "";
}

/// An epoch is a bar from its start to its completion; all else is an instant on it.
char phase_of(Trace::Event event) {
  if (event == Trace::Event::started) return 'B';
  return event == Trace::Event::completed ? 'E' : 'i';
}

constexpr int trace_tag = 2;
constexpr std::int64_t chunk_bytes = std::int64_t{1} << 30;  // a count is an int

/// Calls `transfer(bytes, count)` for pieces of `text` in order.
template <class Transfer>
void in_chunks(char* text, std::int64_t size_bytes, Transfer transfer) {
  for (std::int64_t done = 0; done < size_bytes; done += chunk_bytes) {
    transfer(text + done, static_cast<int>(std::min(chunk_bytes, size_bytes - done)));
  }
}

/// The texts of all ranks, one after another, on rank 0; empty elsewhere.
std::string gathered(std::string mine, const World& world) {
  const MPI_Comm comm = world.control();
  const auto size = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(world.size()));
  PARTITA_MPI(Gather(&size, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, 0, comm));
  if (world.rank() != 0) {
    in_chunks(mine.data(), size,
              [&](char* bytes, int count) { PARTITA_MPI(Send(bytes, count, MPI_CHAR, 0, trace_tag, comm)); });
    return {};
  }
  for (int rank = 1; rank < world.size(); ++rank) {
    std::string theirs(static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]), '\0');
    in_chunks(theirs.data(), sizes[static_cast<std::size_t>(rank)], [&](char* bytes, int count) {
      PARTITA_MPI(Recv(bytes, count, MPI_CHAR, rank, trace_tag, comm, MPI_STATUS_IGNORE));
    });
    mine += theirs;
  }
  return mine;
}

void write_file(const std::string& file, const std::string& text) {
  std::FILE* out = std::fopen(file.c_str(), "w");
  const bool written = out != nullptr && std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const bool closed = out != nullptr && std::fclose(out) == 0;
  if (!written || !closed) {
    throw Error(ErrorClass::other, "cannot write the trace {} (PARTITA_TRACE): {}", file, std::strerror(errno));
  }
}

}  // namespace

void Trace::append(Event event, std::uint64_t request, Epoch epoch, std::int64_t partition) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  entries_.push_back(
      {std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(), request, partition, epoch, event});
}

void Trace::name(std::uint64_t request, std::string text) {
  if (!enabled_) return;
  const std::lock_guard lock(mutex_);
  names_.emplace_back(request, std::move(text));
}

std::string Trace::serialised(int rank) const {
  const std::lock_guard lock(mutex_);
  std::string text = fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}},)"
                                 "\n",
                                 rank, rank);
  for (const auto& [request, name] : names_) {
    text += fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}},)"
                        "\n",
                        rank, request, name);
  }
  for (const Entry& entry : entries_) {
    const char phase = phase_of(entry.event);
    const std::string name = phase == 'i'   ? fmt::format("{} {}", text_of(entry.event), entry.partition)
                             : phase == 'B' ? fmt::format("epoch {}", entry.epoch)
                                            : std::string();
    text += fmt::format(R"({{"ph":"{}","name":"{}","pid":{},"tid":{},"ts":{}.{:03}{}}},)"
                        "\n",
                        phase, name, rank, entry.request, entry.time_ns / 1000, entry.time_ns % 1000,
                        phase == 'i' ? R"(,"s":"t")" : "");
  }
  return text;
}

void Trace::write(const std::string& file, const World& world) const {
  std::string all = gathered(serialised(world.rank()), world);
  if (world.rank() != 0) return;
  all.resize(all.find_last_not_of(",\n") + 1);
  write_file(file, "[\n" + all + "\n]\n");
}

}  // namespace partita
