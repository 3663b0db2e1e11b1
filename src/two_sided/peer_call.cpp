#include "two_sided/peer_call.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "core/current_error.hpp"
#include "core/element_block.hpp"
#include "core/mpi_check.hpp"
#include "two_sided/buffer_place.hpp"
#include "two_sided/message.hpp"

namespace partita {
namespace {

/// An MPI refuses to send an element of a datatype that is not committed. Nothing is read from the buffer of a send to
/// MPI_PROC_NULL.
bool is_committed(const World& world, MPI_Datatype type) {
  static const char unread = 0;
  return native::Send(&unread, 1, type, MPI_PROC_NULL, 0, world.control()) == MPI_SUCCESS;
}

}  // namespace

std::byte* PeerBuffer::at(std::int64_t element) const {
  return shifted(address, element * layout.extent_bytes() + layout.first_byte());
}

PeerCall::~PeerCall() {
  if (used_ != nullptr && used_->event != nullptr) lane_->give_back(std::move(used_->event));
}

template <class Step>
bool PeerCall::succeeds(const Step& step) noexcept {
  try {
    return step();
  } catch (const std::exception&) {
    try {
      return refuse(current_error().sentence());
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
}

bool PeerCall::describe() {
  wish_.yes = succeeds([&] {
    used_ = std::make_unique<Used>();
    return is_fit() && may_map();
  });
  wish_.much = wish_.yes && moves_enough();
  wish_.reduces = reduces();
  return wish_.yes;
}

bool PeerCall::make() {
  describe();
  try {
    if (!step()) context_.services.wait_until(*this, [this] { return step(); });
  } catch (const std::exception&) {
    give_up();
    throw;
  }
  return is_made();
}

bool PeerCall::step() {
  while (gets_on()) {
  }
  return is_over();
}

bool PeerCall::gets_on() {
  switch (stage()) {
    case Stage::described:
      number_ = context_.board->call();
      answer(Question::wants, wish_, Stage::wanted);
      return true;
    case Stage::wanted: {
      if (!has_answers(Question::wants)) return is_over();
      laps_.end(&PeerTimes::agreement_ns);
      const bool named = succeeds([&] { return names_memory(); });
      if (!named) context_.mappings.could_not_name();
      answer(Question::named, {named}, Stage::named);
      return true;
    }
    case Stage::named:
      if (!has_answers(Question::named)) return is_over();
      laps_.end(&PeerTimes::naming_ns);
      enter(Stage::offered);
      return true;
    case Stage::offered: {  // behind its answer its peers read and write its buffers
      if (!is_behind_stream() || !has_mapped()) return false;
      answer(Question::mapped, {mapping_.load(std::memory_order_relaxed) == Mapping::done}, Stage::mapped);
      return true;
    }
    case Stage::mapped:
      if (!has_answers(Question::mapped)) return is_over();
      laps_.end(&PeerTimes::mapping_ns);
      begin_part();
      enter(Stage::at_work);
      return true;
    case Stage::at_work:
      if (!part_has_ended()) return false;
      laps_.end(&PeerTimes::work_ns);
      answer(Question::ended, {!failure_}, Stage::ended);
      return true;
    case Stage::ended:
      return has_answers(Question::ended);
    default:
      return false;
  }
}

/// Maps what it uses of its peers' memory.
bool PeerCall::maps() {
  return succeeds([this] {
    context_.mappings.begin_call();
    return maps_peers() && prepares();
  });
}

/// What is mapped already needs no driver, which may wait for kernels: nothing is done aside then.
bool PeerCall::finds_mapped() noexcept {
  context_.mappings.count_call();
  only_finds_ = true;
  const bool has_found = succeeds([this] { return maps_peers() && needs().scratch_bytes == 0 && prepares(); });
  only_finds_ = false;
  if (!has_found) used_->mapped.clear();
  return has_found;
}

/// Whether that has ended, well or not. It begins here. A nonblocking call is taken steps of under the engine's lock,
/// for which other requests would wait with it.
bool PeerCall::has_mapped() {
  const auto end = [this](bool is_mapped) {
    mapping_.store(is_mapped ? Mapping::done : Mapping::failed, std::memory_order_release);
  };
  const Mapping before = mapping_.load(std::memory_order_acquire);
  if (before != Mapping::none) return before != Mapping::under_way;
  if (!context_.aside) {
    end(maps());
    return true;
  }
  const bool is_there = succeeds([this] {
    check_memory();
    return true;
  });
  if (!is_there || finds_mapped()) {
    end(is_there);
    return true;
  }
  mapping_.store(Mapping::under_way, std::memory_order_relaxed);
  const bool has_begun = succeeds([&] {
    context_.aside([this, end] { end(maps()); });
    return true;
  });
  if (!has_begun) end(false);
  return !has_begun;
}

/// Who says no to one of the first questions has left.
void PeerCall::answer(Question question, PeerBoard::Answer answer, Stage next) {
  context_.board->answer(number_, question, answer);
  awaited_.store(-1, std::memory_order_relaxed);
  enter(answer.yes || question == Question::ended ? next : Stage::left);
}

/// Whether all have answered, and the call goes on; it may be over instead. Who gives the call up says so: the others
/// wait for this rank in turn. Where calls have ended a rank may be out of step, and its answer never come: that is a
/// no.
bool PeerCall::has_answers(Question question) {
  PeerBoard& board = *context_.board;
  const PeerBoard::Answers answers = board.answers(number_, question);
  if (answers.outcome == PeerBoard::Outcome::open) {
    awaited_.store(answers.rank, std::memory_order_relaxed);
    if (const int rank = board.who_gave_up(); rank >= 0) {
      throw Error(ErrorClass::other, "rank {} of the communicator has given up the call, after an error", rank);
    }
    if (question != Question::ended && board.have_calls_ended(number_)) enter(Stage::left);
    return false;
  }
  if (question == Question::ended) {
    end(answers);
    return true;
  }
  const bool goes_on =
      answers.outcome == PeerBoard::Outcome::all_yes && (question != Question::wants || answers.any_much);
  if (!goes_on) enter(Stage::left);
  return goes_on;
}

/// What the GPU may still come to stays.
void PeerCall::give_up() noexcept {
  if (is_over()) return;
  if (stage() == Stage::at_work) leave_to_gpu();
  if (context_.board != nullptr) context_.board->give_up();
}

void PeerCall::mark_stream(int device) {
  const auto is_its = [device](const auto& place) { return place.first == device; };
  if (std::ranges::any_of(places_in_stream_, is_its)) return;
  auto place = StreamPlace::mark(context_.services.lanes, &context_.communicator, device);
  if (place != nullptr) places_in_stream_.emplace_back(device, std::move(place));
}

void PeerCall::check_memory() const {
  for (const auto& [first_byte, device] : looked_at_) check_still_in_gpu(requests().device_memory, first_byte, device);
}

bool PeerCall::is_behind_stream() {
  return std::ranges::all_of(places_in_stream_, [](const auto& place) { return place.second->passed(); });
}

bool PeerCall::refuse(std::string why) {
  if (why_not_.empty()) why_not_ = std::move(why);
  return false;
}

bool PeerCall::looks_at(PeerBuffer& buffer, const void* address, MPI_Datatype type, std::int64_t first,
                        std::int64_t count) {
  MPI_Count lower_bound = 0;
  MPI_Count extent_bytes = 0;
  if (native::Type_get_extent_x(type, &lower_bound, &extent_bytes) != MPI_SUCCESS) return false;
  const memory::Place place =
      place_of_elements(requests().device_memory, shifted(address, first * extent_bytes), count, type);
  MPI_Count type_bytes = 0;
  if (native::Type_size_x(type, &type_bytes) != MPI_SUCCESS) return false;
  if (type_bytes > 0 && place.kind != memory::Kind::device) return false;
  if (!is_committed(requests().world, type)) return false;
  if (type_bytes == 0) return true;
  buffer.layout = Layout::of(type);
  buffer.address = static_cast<std::byte*>(const_cast<void*>(address));
  buffer.device = place.device;
  looked_at_.emplace_back(buffer.at(first), place.device);
  mark_stream(place.device);
  return buffer.layout.contiguous() || refuse("its datatype has gaps");
}

/// Whether this rank may map what peers show. Nobody asks for host memory.
bool PeerCall::may_map() {
  if (!context_.mappings.may_name()) return refuse("this rank could not name memory to its peers several times");
  const int device = needs().device;
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank() || !uses(peer) || context_.mappings.may_map(world_rank(peer), device)) continue;
    return refuse(fmt::format("memory of rank {} could not be mapped for GPU {} several times in a row",
                              world_rank(peer), device));
  }
  return true;
}

bool PeerCall::are_mappable(const Shown& shown) {
  if (shown.first == shown.end) return true;
  std::string why = requests().device_memory.why_not_exported(shown.first, shown.size_bytes());
  return why.empty() || refuse(std::move(why));
}

int PeerCall::waits_for() const {
  const int awaited = awaited_.load(std::memory_order_relaxed);
  return awaited < 0 ? -1 : world_rank(awaited);
}

std::string PeerCall::explain() const {
  const int awaited = waits_for();
  const std::string peer = awaited < 0 ? "its ranks" : fmt::format("rank {}", awaited);
  switch (stage()) {
    case Stage::offered:
      return fmt::format("{} on GPU memory waits for the stream of this rank's program that it comes behind", name_);
    case Stage::at_work:
      return fmt::format(
          "{} on GPU memory waits for GPU {} of this rank to {}; does a kernel fill that GPU, or a stream wait before "
          "it? "
          "CUDA_DEVICE_MAX_CONNECTIONS=32 keeps streams apart",
          name_, needs_.device, reduces() ? "reduce its share" : "copy what it sends");
    case Stage::named:
      return fmt::format("{} on GPU memory waits for {} to name its memory", name_, peer);
    case Stage::mapped:
      return fmt::format("{} on GPU memory waits for {} to map the memory of its peers", name_, peer);
    case Stage::ended:
      return fmt::format("{} on GPU memory waits for the GPU of {}", name_, peer);
    default:
      return fmt::format("{} on GPU memory waits for {} to enter it", name_, peer);
  }
}

/// A handle is good for all peers; descriptors are passed to each.
bool PeerCall::offers(Side side, int peer, Shown& shown, const std::byte* place, std::int64_t size_bytes) {
  PeerBoard::Offer& offer = context_.board->offer(rank(), peer, side);
  offer.size_bytes = size_bytes;
  if (place == nullptr) return true;
  if (shown.named.way != memory::DevicePiece::Way::ipc) {
    auto exported = requests().device_memory.export_to(world_rank(peer), shown.first, shown.size_bytes());
    if (auto* const not_mappable = std::get_if<memory::NotMappable>(&exported))
      return refuse(std::move(not_mappable->reason));
    const auto& pieces = std::get<memory::DeviceExport>(exported);
    if (pieces.size() > 1) return refuse("the buffer spans several allocations");
    shown.named = pieces.front();
  }
  offer.piece = shown.named;
  offer.offset_bytes = place - shown.first;
  return true;
}

bool PeerCall::offers_as_many(Side side, int peer, std::int64_t size_bytes) const {
  return context_.board->offer(peer, rank(), side).size_bytes == size_bytes;
}

std::byte* PeerCall::map(Side side, int peer, int device) {
  const PeerBoard::Offer& offer = context_.board->offer(peer, rank(), side);
  if (only_finds_) {
    auto found = context_.mappings.find(world_rank(peer), offer.piece, device);
    if (found == nullptr) return nullptr;
    used_->mapped.push_back(std::move(found));
    return used_->mapped.back().get() + offer.offset_bytes;
  }
  if (has_failed_to_map_) {
    context_.mappings.decline(world_rank(peer), offer.piece);
    return nullptr;
  }
  std::string why;
  try {
    auto mapping = context_.mappings.map(world_rank(peer), offer.piece, device);
    if (auto* const mapped = std::get_if<std::shared_ptr<std::byte>>(&mapping)) {
      used_->mapped.push_back(std::move(*mapped));
      return used_->mapped.back().get() + offer.offset_bytes;
    }
    why = std::get<memory::NotMappable>(mapping).reason;
  } catch (const std::exception&) {
    why = current_error().sentence();
  }
  has_failed_to_map_ = true;
  refuse(fmt::format("memory of rank {} cannot be mapped: {}", world_rank(peer), why));
  return nullptr;
}

/// Once all have agreed, want of memory would be an error on all ranks.
bool PeerCall::prepares() {
  needs_ = needs();
  if (needs_.device < 0) return true;
  lane_ = &context_.services.lanes.of(needs_.device);
  used_->event = lane_->take_event();
  if (needs_.scratch_bytes > 0) {
    used_->scratch = std::make_unique<memory::DeviceBlock>(requests().device_memory, needs_.device,
                                                           static_cast<std::size_t>(needs_.scratch_bytes),
                                                           memory::DeviceBlock::Contents::anything);
  }
  return true;
}

/// What was asked for before something failed may still be under way: the event stands for it, too. Where it cannot,
/// nobody knows when that ends.
void PeerCall::begin_part() {
  if (needs_.device < 0) return;
  try {
    lane_->ask(needs_.work, *used_->event, [&](memory::Stream& stream) {
      ask_for_part(stream, used_->scratch ? used_->scratch->address() : nullptr);
    });
  } catch (const std::exception&) {
    failure_ = current_error();
  }
  if (!failure_) return;
  try {
    lane_->ask(needs_.work, *used_->event, [](memory::Stream&) {});
  } catch (const std::exception&) {
    leave_to_gpu();
  }
}

/// A GPU that works no longer has nothing under way.
bool PeerCall::part_has_ended() noexcept {
  if (needs_.device < 0 || used_ == nullptr) return true;
  try {
    return used_->event->passed();
  } catch (const std::exception&) {
    if (!failure_) failure_ = current_error();
    return true;
  }
}

/// The GPU may still come to what it was asked for: what that needs stays to the end of the process.
void PeerCall::leave_to_gpu() noexcept {
  static std::atomic<Used*> left{nullptr};
  Used* const used = used_.release();
  if (used != nullptr) used->next = left.exchange(used);
}

/// Nobody returns before what is written to it has landed, nor while a peer may still need what it shows.
void PeerCall::end(const PeerBoard::Answers& answers) {
  laps_.end(&PeerTimes::ending_ns);
  if (!failure_ && answers.outcome == PeerBoard::Outcome::all_yes) {
    enter(Stage::made);
    laps_.count();
    return;
  }
  enter(Stage::failed);
  if (failure_) throw Error(*failure_);
  throw Error(ErrorClass::other, "rank {} could not do its part in the memory of its peers", world_rank(answers.rank));
}

}  // namespace partita
