#include "dropin/gathering.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "dropin/native.hpp"
#include "dropin/polling.hpp"

namespace partita::dropin {
namespace {

/// On the communicator of meetings, by tag. A pair of ranks that meets in two ways at once must not mix them.
enum class Meeting { of_group, of_leaders };

struct Meetings {
  MPI_Comm comm = MPI_COMM_NULL;  ///< where only callers make progress
  MPI_Group world = MPI_GROUP_NULL;
  int keyval = MPI_KEYVAL_INVALID;  ///< of the answers of all_are_ours
  int tag_bound = 0;
  std::mutex mutex;
  std::map<std::string, MPI_Comm> kept;
};

/// Never destroyed: the MPI may be called while the process exits.
Meetings& meetings() {
  static auto& instance = *new Meetings;
  return instance;
}

int private_tag(Meeting kind, int tag) {
  const int kinds = 2;
  const int free_of_kind = std::max(meetings().tag_bound / kinds - 1, 1);
  return kinds * (std::max(tag, 0) % free_of_kind) + static_cast<int>(kind);
}

/// The processes of `group` as ranks of `within`; empty where one is not of that.
std::vector<int> ranks_within(MPI_Group within, MPI_Group group) {
  int size = 0;
  if (native().Group_size(group, &size) != MPI_SUCCESS || size == 0) return {};
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::vector<int> translated(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (native().Group_translate_ranks(group, size, ranks.data(), within, translated.data()) != MPI_SUCCESS) return {};
  const bool foreign = std::find(translated.begin(), translated.end(), MPI_UNDEFINED) != translated.end();
  return foreign ? std::vector<int>() : translated;
}

std::vector<int> world_ranks(MPI_Group group) {
  return ranks_within(meetings().world, group);
}

using GroupOf = int (*)(MPI_Comm, MPI_Group*);

/// The world ranks of the group of `comm` that `group_of` tells.
std::vector<int> world_ranks(MPI_Comm comm, GroupOf group_of) {
  MPI_Group group = MPI_GROUP_NULL;
  if (group_of(comm, &group) != MPI_SUCCESS) return {};
  std::vector<int> ranks = world_ranks(group);
  native().Group_free(&group);
  return ranks;
}

bool is_inter(MPI_Comm comm) {
  int inter = 0;
  return native().Comm_test_inter(comm, &inter) == MPI_SUCCESS && inter != 0;
}

bool compare_all(MPI_Comm comm) {
  return !world_ranks(comm, native().Comm_group).empty() &&
         (!is_inter(comm) || !world_ranks(comm, native().Comm_remote_group).empty());
}

/// A word to `to` and one from `from`; returns when both have gone.
int exchange_words(int to, int from, int tag) {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  char none = 0;
  int code = native().Irecv(&none, 0, MPI_CHAR, from, tag, meetings().comm, &requests[0]);
  if (code != MPI_SUCCESS) return code;
  code = native().Isend(&none, 0, MPI_CHAR, to, tag, meetings().comm, &requests[1]);
  for (MPI_Request& request : requests) {
    const int one_code = wait_polling(&request, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS) code = one_code;
  }
  return code;
}

/// Calls `body` with each process of `group` as a rank of `comm`, until one call fails.
template <class Body>
int for_each_rank(MPI_Comm comm, MPI_Group group, Body body) {
  if (comm == MPI_COMM_NULL) return MPI_SUCCESS;
  MPI_Group whole = MPI_GROUP_NULL;
  if (const int code = native().Comm_group(comm, &whole); code != MPI_SUCCESS) return code;
  const std::vector<int> ranks = ranks_within(whole, group);
  native().Group_free(&whole);
  for (const int rank : ranks) {
    if (const int code = body(rank); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

std::string name_of(const void* handle, std::size_t handle_bytes) {
  return {static_cast<const char*>(handle), handle_bytes};
}

}  // namespace

int open_meetings() {
  Meetings& all = meetings();
  int code = native().Comm_group(MPI_COMM_WORLD, &all.world);
  if (code != MPI_SUCCESS) return code;
  code = native().Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &all.keyval, nullptr);
  if (code != MPI_SUCCESS || !progress_by_caller()) return code;
  code = native().Comm_dup(MPI_COMM_WORLD, &all.comm);
  if (code != MPI_SUCCESS) return code;
  int* bound = nullptr;
  int found = 0;
  code = native().Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
  all.tag_bound = found != 0 ? *bound : 32767;
  return code;
}

void close_meetings() {
  Meetings& all = meetings();
  all.kept.clear();
  if (all.comm != MPI_COMM_NULL) native().Comm_free(&all.comm);
  if (all.world != MPI_GROUP_NULL) native().Group_free(&all.world);
  if (all.keyval != MPI_KEYVAL_INVALID) native().Comm_free_keyval(&all.keyval);
}

bool all_are_ours(MPI_Comm comm) {
  static char yes = 1;
  static char no = 0;
  const Meetings& all = meetings();
  if (comm == MPI_COMM_NULL || all.world == MPI_GROUP_NULL) return false;
  if (comm == MPI_COMM_WORLD) return true;
  char* answer = nullptr;
  int found = 0;
  // The call that asks complains itself of a handle that is no communicator, and has no use for the answer.
  if (native().Comm_get_attr(comm, all.keyval, &answer, &found) != MPI_SUCCESS) return false;
  if (found != 0) return *answer != 0;
  const bool ours = compare_all(comm);
  native().Comm_set_attr(comm, all.keyval, ours ? &yes : &no);
  return ours;
}

int gather_all(MPI_Comm comm) {
  if (!progress_by_caller() || !all_are_ours(comm)) return MPI_SUCCESS;
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = native().Ibarrier(comm, &request);
  return code == MPI_SUCCESS ? wait_polling(&request, MPI_STATUS_IGNORE) : code;
}

/// A dissemination barrier: after the round with `step`, each has heard of the 2·step ranks up to itself.
int gather_group(MPI_Group group, int tag) {
  int place = MPI_UNDEFINED;
  if (!progress_by_caller() || native().Group_rank(group, &place) != MPI_SUCCESS || place == MPI_UNDEFINED) {
    return MPI_SUCCESS;
  }
  const std::vector<int> ranks = world_ranks(group);
  const std::size_t size = ranks.size();
  const auto self = static_cast<std::size_t>(place);
  for (std::size_t step = 1; step < size; step *= 2) {
    const int code = exchange_words(ranks[(self + step) % size], ranks[(self + size - step) % size],
                                    private_tag(Meeting::of_group, tag));
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int meet_leader(MPI_Comm peer_comm, int peer, int tag) {
  if (!progress_by_caller() || peer_comm == MPI_COMM_NULL) return MPI_SUCCESS;
  MPI_Group group = MPI_GROUP_NULL;
  const int code =
      is_inter(peer_comm) ? native().Comm_remote_group(peer_comm, &group) : native().Comm_group(peer_comm, &group);
  if (code != MPI_SUCCESS) return code;
  int other = MPI_UNDEFINED;
  const int translated = native().Group_translate_ranks(group, 1, &peer, meetings().world, &other);
  native().Group_free(&group);
  if (translated != MPI_SUCCESS || other == MPI_UNDEFINED) return translated;
  return exchange_words(other, other, private_tag(Meeting::of_leaders, tag));
}

int keep_for(const void* handle, std::size_t handle_bytes, MPI_Comm comm) {
  if (!progress_by_caller() || !all_are_ours(comm)) return MPI_SUCCESS;
  MPI_Comm duplicate = MPI_COMM_NULL;
  const int code = native().Comm_dup(comm, &duplicate);
  if (code != MPI_SUCCESS) return code;
  const std::lock_guard lock(meetings().mutex);
  meetings().kept[name_of(handle, handle_bytes)] = duplicate;
  return MPI_SUCCESS;
}

MPI_Comm kept_for(const void* handle, std::size_t handle_bytes) {
  if (!progress_by_caller()) return MPI_COMM_NULL;
  const std::lock_guard lock(meetings().mutex);
  const auto found = meetings().kept.find(name_of(handle, handle_bytes));
  return found != meetings().kept.end() ? found->second : MPI_COMM_NULL;
}

MPI_Comm take_kept(const void* handle, std::size_t handle_bytes) {
  const MPI_Comm comm = kept_for(handle, handle_bytes);
  if (comm == MPI_COMM_NULL) return comm;
  const std::lock_guard lock(meetings().mutex);
  meetings().kept.erase(name_of(handle, handle_bytes));
  return comm;
}

int tell_group(MPI_Comm comm, MPI_Group group) {
  return for_each_rank(comm, group, [&](int rank) {
    static const char none = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = native().Isend(&none, 0, MPI_CHAR, rank, 0, comm, &request);
    return code == MPI_SUCCESS ? native().Request_free(&request) : code;
  });
}

int hear_group(MPI_Comm comm, MPI_Group group) {
  return for_each_rank(comm, group, [&](int rank) {
    char none = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = native().Irecv(&none, 0, MPI_CHAR, rank, 0, comm, &request);
    return code == MPI_SUCCESS ? wait_polling(&request, MPI_STATUS_IGNORE) : code;
  });
}

}  // namespace partita::dropin
