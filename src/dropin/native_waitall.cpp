#include "dropin/native_waitall.hpp"

#include <charconv>
#include <string_view>

#include "core/scratch.hpp"
#include "core/which_mpi.hpp"
#include "dropin/native.hpp"
#include "dropin/runtime.hpp"
#include "dropin/split.hpp"

namespace partita::dropin {
namespace {

bool may_have_the_defect(std::string_view library_version) {
  if (family_of(library_version) != MpiFamily::open_mpi) return false;
  constexpr std::string_view before_the_version = "Open MPI v";
  const std::size_t found = library_version.find(before_the_version);
  if (found == std::string_view::npos) return true;  // Spectrum MPI, which is made of an older Open MPI
  const std::string_view version = library_version.substr(found + before_the_version.size());
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major < 5;
}

/// Whether the MPI has the defect now.
bool spins_on_failed() {
  static const bool may = may_have_the_defect(library_version(native().Get_library_version));
  int level = MPI_THREAD_SINGLE;
  return may && native().Query_thread(&level) == MPI_SUCCESS && level == MPI_THREAD_MULTIPLE;
}

/// A call on requests of the MPI's alone. What completes is given to the caller and leaves the array.
class WaitBySome {
 public:
  static std::size_t need(std::size_t n) {
    return Scratch::need<MPI_Request>(n) + Scratch::need<MPI_Status>(n) + 2 * Scratch::need<int>(n);
  }

  WaitBySome(int count, MPI_Request* requests, MPI_Status* statuses, Scratch& scratch)
      : requests_(requests), statuses_(statuses) {
    const auto n = static_cast<std::size_t>(count);
    active_ = {scratch.take<MPI_Request>(n), scratch.take<int>(n), 0};
    found_ = scratch.take<MPI_Status>(n);
    indices_ = scratch.take<int>(n);
    for (int i = 0; i < count; ++i) {
      if (requests[i] != MPI_REQUEST_NULL) active_.add(requests[i], i);
      if (wanted()) statuses[i] = empty_status();
    }
  }

  int wait() {
    while (active_.count > 0) {
      int done = 0;
      const int code = native().Waitsome(active_.count, active_.requests, &done, indices_, found_);
      const bool failed = is_in_status(code);
      if (done == MPI_UNDEFINED || (code != MPI_SUCCESS && !failed)) return code;
      for (int i = 0; i < done; ++i) give(indices_[i], found_[i]);
      active_.remove_without_place(MPI_REQUEST_NULL);
      if (!failed) continue;
      settle_others();
      return code;
    }
    return MPI_SUCCESS;
  }

 private:
  bool wanted() const { return statuses_ != MPI_STATUSES_IGNORE; }
  void give(int i, const MPI_Status& status) {
    int& place = active_.places[i];
    requests_[place] = active_.requests[i];
    if (wanted()) statuses_[place] = status;
    place = -1;
  }
  /// Behind a failure: what has come meanwhile is given, too, and the statuses of the rest say that they are pending.
  void settle_others() {
    for (int i = 0; wanted() && i < active_.count; ++i) {
      MPI_Status status = empty_status();
      int complete = 0;
      const int code = native().Test(&active_.requests[i], &complete, &status);
      status.MPI_ERROR = code != MPI_SUCCESS ? code : complete != 0 ? MPI_SUCCESS : MPI_ERR_PENDING;
      give(i, status);
    }
  }

  MPI_Request* requests_;
  MPI_Status* statuses_;
  Part<MPI_Request> active_;
  MPI_Status* found_;
  int* indices_;
};

}  // namespace

int native_waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  const bool is_refused = count <= 0 || requests == nullptr || are_missing(statuses);
  if (is_refused || !spins_on_failed()) return native().Waitall(count, requests, statuses);
  Scratch scratch(WaitBySome::need(static_cast<std::size_t>(count)));
  return WaitBySome(count, requests, statuses, scratch).wait();
}

}  // namespace partita::dropin
