#include "dropin/records.hpp"

#include <atomic>
#include <exception>
#include <mutex>
#include <unordered_map>

#include "dropin/native.hpp"
#include "dropin/requests.hpp"

namespace partita::dropin {
namespace {

std::atomic<std::size_t> record_count{0};

struct Records {
  std::mutex mutex;
  std::unordered_map<RequestTable::Key, Record> by_handle;
};

/// Never destroyed, as the table of requests.
Records& records() {
  static Records& all = *new Records;
  return all;
}

}  // namespace

void note_record(MPI_Request request, Record record) {
  if (native().Type_dup(record.datatype, &record.datatype) != MPI_SUCCESS) return;
  Records& all = records();
  try {
    const std::lock_guard lock(all.mutex);
    const bool is_new = all.by_handle.insert_or_assign(key_of(request), record).second;
    if (is_new) record_count.fetch_add(1, std::memory_order_relaxed);
  } catch (const std::exception&) {
    native().Type_free(&record.datatype);
  }
}

std::optional<Record> find_record(MPI_Request request) {
  if (record_count.load(std::memory_order_relaxed) == 0) return {};
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_handle.find(key_of(request));
  return found == all.by_handle.end() ? std::nullopt : std::optional(found->second);
}

void drop_record(MPI_Request request) {
  if (record_count.load(std::memory_order_relaxed) == 0) return;
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  const auto dropped = all.by_handle.extract(key_of(request));
  if (dropped.empty()) return;
  record_count.fetch_sub(1, std::memory_order_relaxed);
  MPI_Datatype datatype = dropped.mapped().datatype;
  native().Type_free(&datatype);
}

}  // namespace partita::dropin
