#include "collective/deeds.hpp"

#include <algorithm>
#include <functional>

namespace partita::collective {
namespace {

/// How often a partition reads what the result of another one lies over: the shares of a reduce_scatter in place whose
/// blocks differ.
std::int64_t reads_under_results(const CollectiveArguments& arguments, const Schedule& schedule) {
  const std::vector<std::int64_t>& blocks = arguments.problem.scattered;
  const bool differ = std::ranges::adjacent_find(blocks, std::ranges::not_equal_to()) != blocks.end();
  if (!arguments.problem.in_place || !differ || arguments.partitions == 1) return 0;
  return std::ranges::count_if(schedule.actions, [](const Action& action) {
    return (action.deed == Deed::copy || action.deed == Deed::reduce) && action.from.buffer == Buffer::sent;
  });
}

}  // namespace

Deeds::Deeds(const CollectiveArguments& arguments, const Schedule& schedule, const CollectiveMemory& memory,
             GpuWork* gpu, const LegsByAction& legs)
    : arguments_(arguments),
      schedule_(schedule),
      memory_(memory),
      gpu_(gpu),
      legs_(legs),
      reads_under_results_(reads_under_results(arguments, schedule)) {
  for (const Action& action : schedule.actions) is_one_piece_.push_back(is_one_piece(action));
}

void Deeds::restart() {
  unread_.store(reads_under_results_ * arguments_.partitions, std::memory_order_relaxed);
}

bool Deeds::is_on_stream(int place) const {
  if (gpu_ == nullptr) return false;
  const Deed deed = action(place).deed;
  const SendLeg* const leg = send_leg(place);
  return deed == Deed::copy || deed == Deed::reduce || (leg != nullptr && leg->packs());
}

/// No partition will read any more what is now to be written over.
bool Deeds::may_begin(int place) const {
  const Action& action = this->action(place);
  if (action.deed != Deed::copy || action.to.buffer != Buffer::received) return true;
  return unread_.load(std::memory_order_acquire) == 0;
}

std::int64_t Deeds::first_missing(int place, link::Range partitions) const {
  return receive_leg(place)->first_missing(partitions);
}

std::optional<Deeds::Ticket> Deeds::act(int place, link::Range run) {
  if (gpu_ != nullptr) return begin_on_gpu(place, run);
  act_at_once(place, run);
  return {};
}

void Deeds::finish(int place, link::Range run) {
  if (SendLeg* const leg = send_leg(place)) leg->leave(run);
}

void Deeds::act_at_once(int place, link::Range run) {
  const Action& action = this->action(place);
  switch (action.deed) {
    case Deed::mark:
      break;
    case Deed::receive:
      receive_leg(place)->take(run);
      break;
    case Deed::send:
      send_leg(place)->send(run);
      break;
    case Deed::copy:
      for_each_piece(place, run, [this](const Region& from, const Region& to, int partition) {
        memory_.copy(from, to, partition);
      });
      count_reads(action.from, run.size());
      break;
    case Deed::reduce:
      for_each_piece(place, run, [this](const Region& from, const Region& to, int partition) {
        arguments_.reduction.apply(memory_.operand(from, partition), memory_.operand(to, partition), from.bytes,
                                   arguments_.problem.unit_bytes);
      });
      count_reads(action.from, run.size());
      break;
  }
}

/// The ticket of what was begun; none where there was nothing, so that the action is done.
std::optional<Deeds::Ticket> Deeds::begin_on_gpu(int place, link::Range run) {
  const Action& action = this->action(place);
  std::optional<Ticket> ticket;
  const auto copy = [&](const Move& move) { ticket = gpu_->copy(move); };
  switch (action.deed) {
    case Deed::mark:
      break;
    case Deed::receive:
      receive_leg(place)->note(run);
      if (receive_leg(place)->unpacks()) receive_leg(place)->unpacking(run, copy);
      break;
    case Deed::send:
      if (!send_leg(place)->packs()) {
        send_leg(place)->leave(run);
      } else {
        send_leg(place)->packing(run, copy);
      }
      break;
    case Deed::copy:
      for_each_piece(place, run, [&](const Region& from, const Region& to, int partition) {
        copy({memory_.spot(to, partition), memory_.spot(from, partition), from.bytes});
      });
      count_reads(action.from, run.size());  // what writes there comes behind it on the stream
      break;
    case Deed::reduce:
      for_each_piece(place, run, [&](const Region& from, const Region& to, int partition) {
        ticket = gpu_->reduce(memory_.gapless(from, partition), memory_.gapless(to, partition), from.bytes);
      });
      count_reads(action.from, run.size());
      break;
  }
  return ticket;
}

/// Calls `use` with the regions of a copy or a reduction that can be done at once, and the first partition of these:
/// all of `run`, or one after the other.
template <class Use>
void Deeds::for_each_piece(int place, link::Range run, Use use) const {
  const Action& action = this->action(place);
  const std::int64_t length = is_one_piece_[static_cast<std::size_t>(place)] ? run.size() : 1;
  for (std::int64_t p = run.begin; p < run.end; p += length) {
    use(action.from.times(length), action.to.times(length), static_cast<int>(p));
  }
}

/// Whether a copy or reduction is one of all bytes of a run. The MPI's reductions are made by partitions: it may
/// compute the first and the last elements of a call otherwise than those between, so that their bits differ (of zeros
/// with different signs, of what is no number, of integers that overflow), and which they are must not depend on what
/// happens to go together. Operations of the program's may do so, too. The kernel of the library's computes each
/// element alike. A GPU that moves from gaps to gaps has room between for one partition.
bool Deeds::is_one_piece(const Action& action) const {
  if (action.deed != Deed::copy && action.deed != Deed::reduce) return false;
  if (action.deed == Deed::reduce && gpu_ == nullptr) return false;
  const auto has_gaps = [this](const Region& region) { return memory_.gapless(region, 0) == nullptr; };
  return memory_.is_whole(action.from) && memory_.is_whole(action.to) &&
         (gpu_ == nullptr || !has_gaps(action.from) || !has_gaps(action.to));
}

void Deeds::count_reads(const Region& region, std::int64_t partitions) {
  if (reads_under_results_ > 0 && region.buffer == Buffer::sent) {
    unread_.fetch_sub(partitions, std::memory_order_release);
  }
}

}  // namespace partita::collective
