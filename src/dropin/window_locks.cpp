#include "dropin/window_locks.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "dropin/native.hpp"
#include "dropin/polling.hpp"

namespace partita::dropin {
namespace {

/// A lock is a word in its rank's memory: how many hold it shared, and `exclusive` more where one holds it alone.
constexpr std::int64_t exclusive = std::int64_t{1} << 40;

class Locks {
 public:
  int open(MPI_Comm comm);
  int close();

  int take(int type, int target);
  int give(int target);
  int take_all();
  int give_all() { return give_first(size_); }

 private:
  int try_to_take(int type, int target, int* taken);
  int try_to_take_all(int* taken);
  int give_first(int count);
  int add(std::int64_t value, int target, std::int64_t* before);
  bool is_rank(int target) const { return target >= 0 && target < size_; }

  MPI_Win words_ = MPI_WIN_NULL;
  int size_ = 0;
};

int Locks::open(MPI_Comm comm) {
  native().Comm_size(comm, &size_);
  std::int64_t* word = nullptr;
  int code = native().Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, comm, static_cast<void*>(&word), &words_);
  if (code != MPI_SUCCESS) return code;
  code = native().Win_lock_all(MPI_MODE_NOCHECK, words_);
  if (code != MPI_SUCCESS) return code;
  *word = 0;
  native().Win_sync(words_);
  return native().Barrier(comm);
}

int Locks::close() {
  const int code = native().Win_unlock_all(words_);
  return code == MPI_SUCCESS ? native().Win_free(&words_) : code;
}

int Locks::add(std::int64_t value, int target, std::int64_t* before) {
  const int code = native().Fetch_and_op(&value, before, MPI_INT64_T, target, 0, MPI_SUM, words_);
  return code == MPI_SUCCESS ? native().Win_flush(target, words_) : code;
}

int Locks::try_to_take(int type, int target, int* taken) {
  std::int64_t before = 0;
  int code = MPI_SUCCESS;
  if (type == MPI_LOCK_EXCLUSIVE) {
    const std::int64_t free = 0;
    code = native().Compare_and_swap(&exclusive, &free, &before, MPI_INT64_T, target, 0, words_);
    if (code == MPI_SUCCESS) code = native().Win_flush(target, words_);
    *taken = before == free ? 1 : 0;
    return code;
  }
  code = add(1, target, &before);
  *taken = before < exclusive ? 1 : 0;
  return code == MPI_SUCCESS && *taken == 0 ? add(-1, target, &before) : code;
}

/// All or none: who kept some while it waits for others could be waited for by those who hold them.
int Locks::try_to_take_all(int* taken) {
  for (int target = 0; target < size_; ++target) {
    if (const int code = try_to_take(MPI_LOCK_SHARED, target, taken); code != MPI_SUCCESS) return code;
    if (*taken == 0) return give_first(target);
  }
  return MPI_SUCCESS;
}

int Locks::give_first(int count) {
  std::int64_t before = 0;
  for (int target = 0; target < count; ++target) {
    if (const int code = add(-1, target, &before); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int Locks::take(int type, int target) {
  if (!is_rank(target)) return MPI_SUCCESS;  // the MPI's own call says what is wrong
  return look_until_found([&](int* taken) { return try_to_take(type, target, taken); });
}

int Locks::take_all() {
  return look_until_found([&](int* taken) { return try_to_take_all(taken); });
}

int Locks::give(int target) {
  if (!is_rank(target)) return MPI_SUCCESS;
  std::int64_t word = 0;
  // While this rank holds it, nobody who comes or goes changes which kind it is.
  if (const int code = add(0, target, &word); code != MPI_SUCCESS) return code;
  return add(word < exclusive ? -1 : -exclusive, target, &word);
}

struct AllLocks {
  std::mutex mutex;
  std::map<MPI_Win, std::unique_ptr<Locks>> of_window;
};

/// Never destroyed: the MPI may be called while the process exits.
AllLocks& all_locks() {
  static auto& instance = *new AllLocks;
  return instance;
}

/// Null where it has none. They stay until the window is freed.
Locks* locks_of(MPI_Win window) {
  if (!progress_by_caller()) return nullptr;
  const std::lock_guard lock(all_locks().mutex);
  const auto found = all_locks().of_window.find(window);
  return found != all_locks().of_window.end() ? found->second.get() : nullptr;
}

}  // namespace

int open_locks(MPI_Win window, MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return MPI_SUCCESS;
  auto locks = std::make_unique<Locks>();
  if (const int code = locks->open(comm); code != MPI_SUCCESS) return code;
  const std::lock_guard lock(all_locks().mutex);
  all_locks().of_window[window] = std::move(locks);
  return MPI_SUCCESS;
}

int close_locks(MPI_Win window) {
  Locks* const locks = locks_of(window);
  if (locks == nullptr) return MPI_SUCCESS;
  const int code = locks->close();
  const std::lock_guard lock(all_locks().mutex);
  all_locks().of_window.erase(window);
  return code;
}

int take_lock(MPI_Win window, int type, int target) {
  Locks* const locks = locks_of(window);
  return locks != nullptr ? locks->take(type, target) : MPI_SUCCESS;
}

int give_lock(MPI_Win window, int target) {
  Locks* const locks = locks_of(window);
  return locks != nullptr ? locks->give(target) : MPI_SUCCESS;
}

int take_all_locks(MPI_Win window) {
  Locks* const locks = locks_of(window);
  return locks != nullptr ? locks->take_all() : MPI_SUCCESS;
}

int give_all_locks(MPI_Win window) {
  Locks* const locks = locks_of(window);
  return locks != nullptr ? locks->give_all() : MPI_SUCCESS;
}

}  // namespace partita::dropin
