#include "core/asked_together.hpp"

#include <algorithm>
#include <utility>

#include "core/native.hpp"

namespace partita {
namespace {

/// Requests that the MPI is asked for at once where the next answer is expected to be close.
constexpr std::size_t few = 16;

}  // namespace

AskedTogether::AskedTogether(std::size_t most)
    : scratch_(Scratch::need<MPI_Request>(most) + Scratch::need<Member*>(most)),
      most_(most),
      requests_(scratch_.take<MPI_Request>(most)),
      members_(scratch_.take<Member*>(most)) {}

bool AskedTogether::add(Member& member, MPI_Request request) {
  if (count_ == most_) return false;
  requests_[count_] = request;
  members_[count_] = &member;
  member.place_ = count_++;
  return true;
}

MPI_Request AskedTogether::remove(const Member& member) {
  members_[member.place_] = nullptr;
  has_holes_ = true;
  return std::exchange(requests_[member.place_], MPI_REQUEST_NULL);
}

/// By MPI_Testany, again and again where all are wanted: MPICH 5.0.2 loses the error of a persistent request in
/// MPI_Testsome, and error handlers hear the code of the request that has failed. Answers often come in a row: so
/// behind one the MPI is asked for few more, and for ever more of them where it finds none.
void AskedTogether::ask(Wanted wanted) {
  if (is_asking_) return;
  close_up();
  if (cancels_.load(std::memory_order_relaxed) && cancels_.exchange(false, std::memory_order_acquire)) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (members_[i] != nullptr) members_[i]->cancel_if_wanted();  // an error handler may have had one leave
    }
  }
  std::size_t most = count_;
  for (std::size_t first = 0; first < count_;) {
    const std::size_t asked = std::min(most, count_ - first);
    const std::size_t found = ask_from(first, asked);
    if (found < asked && wanted == Wanted::one) return;
    most = 4 * (found < asked ? found : asked) + few;
    first += found < asked ? found + 1 : asked;
  }
}

/// Asks for `most` of them, from the one at `first` on. Returns how many lie in front of the one that was answered, or
/// `most`.
std::size_t AskedTogether::ask_from(std::size_t first, std::size_t most) {
  int index = MPI_UNDEFINED;
  int flag = 0;
  MPI_Status status{};
  is_asking_ = true;
  const int code = native::Testany(static_cast<int>(most), requests_ + first, &index, &flag, &status);
  is_asking_ = false;
  const bool is_named = index >= 0 && static_cast<std::size_t>(index) < most;
  if (code == MPI_SUCCESS && (flag == 0 || !is_named)) return most;
  if (!is_named) {  // each that is asked for alone tells what is wrong with it
    let_go_of_all();
    return most;
  }
  answer(first + static_cast<std::size_t>(index), code, status);
  answer_freed(first, most, code);
  return static_cast<std::size_t>(index);
}

/// Open MPI frees all that have failed, and tells of the first. Its code is success where the program's error handler
/// has made it that.
void AskedTogether::answer_freed(std::size_t first, std::size_t most, int code) {
  MPI_Status unknown{};
  unknown.MPI_SOURCE = MPI_ANY_SOURCE;
  unknown.MPI_TAG = MPI_ANY_TAG;
  for (std::size_t i = first; i < first + most; ++i) {
    if (members_[i] != nullptr && requests_[i] == MPI_REQUEST_NULL) answer(i, code, unknown);
  }
}

void AskedTogether::answer(std::size_t place, int code, const MPI_Status& status) {
  Member* const member = members_[place];
  if (member == nullptr) return;  // it has left within an error handler of the program's
  member->answered(remove(*member), code, status);
}

void AskedTogether::close_up() {
  if (!has_holes_) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (members_[i] == nullptr) continue;
    requests_[kept] = requests_[i];
    members_[kept] = members_[i];
    members_[kept]->place_ = kept;
    ++kept;
  }
  count_ = kept;
  has_holes_ = false;
}

void AskedTogether::let_go_of_all() {
  for (std::size_t i = 0; i < count_; ++i) {
    Member* const member = members_[i];
    if (member == nullptr) continue;
    remove(*member);
    member->let_go();
  }
  count_ = 0;
}

}  // namespace partita
