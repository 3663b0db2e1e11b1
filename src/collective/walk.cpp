#include "collective/walk.hpp"

namespace partita::collective {

Walk::Walk(const Schedule& schedule)
    : schedule_(schedule), begun_(schedule.actions.size()), ended_(schedule.actions.size()) {}

/// No walk comes to empty actions, for which nobody waits.
void Walk::restart(Bits partitions) {
  all_ = partitions;
  for (std::size_t a = 0; a < begun_.size(); ++a) {
    begun_[a] = ended_[a] = schedule_.actions[a].is_empty() ? partitions : 0;
  }
}

Bits Walk::over() const {
  Bits over = all_;
  for (const Bits ended : ended_) over &= ended;
  return over;
}

}  // namespace partita::collective
