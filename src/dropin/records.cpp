#include "dropin/records.hpp"

#include <atomic>
#include <exception>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "dropin/native.hpp"
#include "dropin/request_key.hpp"

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

/// A type of the record's own with the map of `of`, which the program may free. Not a duplicate: that would have the
/// attributes, whose callbacks are the program's. MPI_DATATYPE_NULL where the MPI makes none.
MPI_Datatype kept_type(MPI_Datatype of) {
  MPI_Datatype kept = MPI_DATATYPE_NULL;
  if (native().Type_contiguous(1, of, &kept) != MPI_SUCCESS) return MPI_DATATYPE_NULL;
  if (native().Type_commit(&kept) != MPI_SUCCESS) native().Type_free(&kept);
  return kept;
}

}  // namespace

void note_record(MPI_Request request, Record record) {
  record.datatype = kept_type(record.datatype);
  if (record.datatype == MPI_DATATYPE_NULL) return;
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

int free_with_record(MPI_Request* request) {
  if (record_count.load(std::memory_order_relaxed) == 0 || request == nullptr) return native().Request_free(request);
  Records& all = records();
  decltype(all.by_handle)::node_type record;
  {
    const std::lock_guard lock(all.mutex);
    record = all.by_handle.extract(key_of(*request));  // before the handle can be another request's
  }
  const int code = native().Request_free(request);
  if (record.empty()) return code;
  if (code != MPI_SUCCESS) {
    try {
      const std::lock_guard lock(all.mutex);
      all.by_handle.insert(std::move(record));
      return code;
    } catch (const std::exception&) {  // no memory: the request cannot be matched any more
    }
  }
  record_count.fetch_sub(1, std::memory_order_relaxed);
  native().Type_free(&record.mapped().datatype);
  return code;
}

void close_records() {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  for (auto& [key, record] : all.by_handle) native().Type_free(&record.datatype);
  all.by_handle.clear();
  record_count.store(0, std::memory_order_relaxed);
}

}  // namespace partita::dropin
