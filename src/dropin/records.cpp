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
  using Map = std::unordered_map<RequestTable::Key, std::shared_ptr<const Record>>;
  std::mutex mutex;
  Map by_handle;
};

/// Never destroyed, as the table of requests.
Records& records() {
  static Records& all = *new Records;
  return all;
}

Records::Map::node_type take(MPI_Request request) {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  return all.by_handle.extract(key_of(request));
}

}  // namespace

bool note_record(MPI_Request request, std::unique_ptr<const Record> record) {
  Records& all = records();
  std::shared_ptr<const Record> noted;
  try {
    noted = std::move(record);
    const std::lock_guard lock(all.mutex);
    const auto [found, is_new] = all.by_handle.try_emplace(key_of(request));
    found->second.swap(noted);  // what it was may call the MPI as it goes, without the lock
    if (is_new) record_count.fetch_add(1, std::memory_order_relaxed);
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

std::shared_ptr<const Record> find_record(MPI_Request request) {
  if (record_count.load(std::memory_order_relaxed) == 0) return {};
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_handle.find(key_of(request));
  return found == all.by_handle.end() ? nullptr : found->second;
}

void note_start(MPI_Request request) {
  if (const std::shared_ptr<const Record> found = find_record(request)) found->note_start();
}

int free_with_record(MPI_Request* request) {
  if (record_count.load(std::memory_order_relaxed) == 0 || request == nullptr) return native().Request_free(request);
  Records::Map::node_type record = take(*request);  // before the handle can be another request's
  const int code = native().Request_free(request);
  if (record.empty()) return code;
  if (code != MPI_SUCCESS) {
    try {
      Records& all = records();
      const std::lock_guard lock(all.mutex);
      all.by_handle.insert(std::move(record));
      return code;
    } catch (const std::exception&) {  // no memory: the request cannot be matched any more
    }
  }
  record_count.fetch_sub(1, std::memory_order_relaxed);
  return code;
}

void move_record(MPI_Request request, MPI_Request handle) {
  Records::Map::node_type ended;  // behind the lock
  {
    Records& all = records();
    const std::lock_guard lock(all.mutex);
    Records::Map::node_type record = all.by_handle.extract(key_of(request));
    if (!record.empty() && record.mapped()->is_collective()) {
      record.key() = key_of(handle);
      all.by_handle.insert(std::move(record));  // as many entries as before, so it needs no memory
    } else {
      ended = std::move(record);
    }
  }
  if (!ended.empty()) record_count.fetch_sub(1, std::memory_order_relaxed);
}

void drop_record(MPI_Request handle) {
  if (record_count.load(std::memory_order_relaxed) == 0) return;
  if (!take(handle).empty()) record_count.fetch_sub(1, std::memory_order_relaxed);
}

void close_records() {
  Records& all = records();
  decltype(all.by_handle) ended;  // outside the lock: the last user of a datatype may run the program's callbacks
  const std::lock_guard lock(all.mutex);
  ended.swap(all.by_handle);
  record_count.store(0, std::memory_order_relaxed);
}

}  // namespace partita::dropin
