#include "partitioned/gpu/device_side.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "partita/device/impl/pushes.hpp"
#include "partita/device/impl/words.hpp"

namespace partita {
namespace {

using Word = std::atomic_ref<partita_u32>;

std::size_t state_bytes(const PrequestTerms& terms) {
  const link::Plan& plan = terms.plan;
  if (const auto& collective = terms.collective; collective && terms.pushes()) {
    const auto partition_bytes = static_cast<partita_u64>(plan.send().partition_bytes());
    const partita_u64 bytes = device::bytes_by_inbox(collective->collective, partition_bytes);
    return device::pushed_state_bytes(plan.send_partitions(), device::pieces_of(plan.send_partitions(), bytes).count);
  }
  return device::state_bytes(prequest_flags(terms), plan.send_partitions(), plan.recv_partitions(),
                             plan.transport_partitions());
}

std::size_t host_bytes(const PrequestTerms& terms) {
  if (terms.pushes()) return device::pushed_host_bytes(terms.plan.send_partitions());
  return device::host_bytes(prequest_flags(terms), terms.plan.transport_partitions());
}

std::size_t flag_bytes(const PrequestTerms& terms) {
  return static_cast<std::size_t>(terms.plan.transport_partitions()) * sizeof(Epoch);
}

/// Where marks push; null where it says the same as of other requests.
const char* meaning_of_pushed(partita_u32 failure, const Partita_Prequest& request, partita_i32 partition) {
  const bool is_bcast = request.collective == PARTITA_COLLECTIVE_BCAST;
  switch (failure) {
    case PARTITA_DEVICE_ERR_TWICE:
      return "marked a partition twice in an epoch";
    case PARTITA_DEVICE_ERR_INACTIVE:
      return partition < 0 ? "called Pbuf_prepare before Start or Pstart had opened the epoch"
                           : "marked a partition before Start or Pstart had opened the epoch";
    case PARTITA_DEVICE_ERR_UNPREPARED:
      return "marked a partition without Pbuf_prepare, when not all other ranks had started the epoch";
    case PARTITA_DEVICE_ERR_SIDE:
      if (is_bcast && request.rank != request.root && partition >= 0) {
        return "marked a partition of a bcast, which the root alone does";
      }
      [[fallthrough]];
    case PARTITA_DEVICE_ERR_DRIVER:
      return "made a call that is not for a collective whose marks push, or was compiled without "
             "PARTITA_DEVICE_PUSHED_COLLECTIVES";
    case PARTITA_DEVICE_ERR_COLLECTIVE:
      return "called for all of a collective whose partitions kernels mark (info key partita_algorithm)";
    default:
      return nullptr;
  }
}

/// Where a kernel does the collective by itself; null where it says the same as of other requests.
const char* meaning_of_collective(partita_u32 failure) {
  switch (failure) {
    case PARTITA_DEVICE_ERR_TIMEOUT:
    case PARTITA_DEVICE_ERR_ABORTED:
      return nullptr;
    case PARTITA_DEVICE_ERR_LAUNCH:
      return "made a collective call with several blocks that were not launched cooperatively";
    default:
      return "made a call that is not for this collective, whose epochs kernels open";
  }
}

const char* meaning(partita_u32 failure, const Partita_Prequest& request, partita_i32 partition) {
  const bool device_driven = (request.flags & PARTITA_PREQUEST_DEVICE_DRIVEN) != 0;
  if ((request.flags & PARTITA_PREQUEST_COLLECTIVE) != 0) {
    if (const char* const said = meaning_of_collective(failure)) return said;
  }
  const bool pushed = (request.flags & PARTITA_PREQUEST_PUSHED) != 0;
  if (pushed) {
    if (const char* const said = meaning_of_pushed(failure, request, partition)) return said;
  }
  const bool sends = pushed || (request.flags & PARTITA_PREQUEST_SEND) != 0;
  const partita_i32 partitions = sends ? request.send_partitions : request.recv_partitions;
  switch (failure) {
    case PARTITA_DEVICE_ERR_PARTITION:
      return partition >= 0 && partition < partitions ? "named a range of partitions that does not ascend"
                                                      : "named a partition that the request does not have";
    case PARTITA_DEVICE_ERR_TWICE:
      return "marked a partition twice in an epoch, or in no epoch";
    case PARTITA_DEVICE_ERR_INACTIVE:
      return device_driven ? "called Pbuf_prepare before Pstart had opened an epoch"
                           : "marked a partition before the host had started the epoch";
    case PARTITA_DEVICE_ERR_ACTIVE:
      return "started an epoch before the one before was complete";
    case PARTITA_DEVICE_ERR_UNPREPARED:
      return "went on without Pbuf_prepare, when the receiver was not ready";
    case PARTITA_DEVICE_ERR_SIDE:
      return "made a call for sends on a receive, or one for receives on a send";
    case PARTITA_DEVICE_ERR_DRIVER:
      return "made a call for device-driven requests on a host-driven one";
    case PARTITA_DEVICE_ERR_COLLECTIVE:
      return "made a collective call on a request whose epochs kernels do not open, or that is no collective";
    case PARTITA_DEVICE_ERR_TIMEOUT:
      return "waited longer than PARTITA_TIMEOUT";
    case PARTITA_DEVICE_ERR_ABORTED:
      return "was released from a wait by the host";
    default:
      return "failed in a way that this library does not know";
  }
}

partita_u32 sides_of(const Partita_Prequest& request) {
  return request.flags & (PARTITA_PREQUEST_SEND | PARTITA_PREQUEST_RECV);
}

/// How the words of one whose marks push start, in GPU memory, of which `initial` will be copied there, and, behind
/// `host`, in the host's.
void begin_pushes(std::span<std::byte> initial, Partita_Prequest_host& host, const Partita_Prequest& view,
                  Epoch before) {
  auto* const state = reinterpret_cast<Partita_Prequest_state*>(initial.data());
  std::memcpy(device::copy_of_request(state), &view, sizeof(view));
  partita_u32* const words = device::push_words_of(state, {}, view.send_partitions);
  auto* const end = reinterpret_cast<partita_u32*>(initial.data() + initial.size());
  std::fill(words, end, before);
  std::fill_n(device::push_words_of(state, device::push_pieces, view.send_partitions), view.send_partitions, 0);
  state->decided = 1;  // the host has heard of the epoch before
  host.completed = host.newest_marked = before;
  std::fill_n(device::told_marked(&host), view.send_partitions, before);
  std::fill_n(device::told_reduced(&host, view.send_partitions), view.send_partitions, before);
}

/// Behind the state and its words lies what kernels need of the peers whose memory they reach, so that one copy brings
/// all: that many bytes from the state.
std::size_t place_of_peers(const PrequestTerms& terms) {
  constexpr std::size_t alignment = alignof(Partita_Peer);
  return (state_bytes(terms) + alignment - 1) / alignment * alignment;
}

}  // namespace

DeviceSide::DeviceSide(memory::HostMemory& host_memory, memory::DeviceMemory& device_memory, const PrequestTerms& terms,
                       Epoch before)
    : device_memory_(device_memory),
      host_block_(host_memory, offsetof(HostWords, host) + host_bytes(terms)),
      state_block_(device_memory, terms.place.device,
                   place_of_peers(terms) + peers_of(terms).size() * sizeof(Partita_Peer),
                   memory::DeviceBlock::Contents::anything),
      flags_(terms.host_raises_flags()
                 ? std::make_unique<memory::DeviceBlock>(device_memory, state_block_.device(), flag_bytes(terms))
                 : nullptr),
      view_(make_prequest(terms, words_for_gpu(terms))),
      before_(before) {
  if (raises_flags()) {
    const std::vector<Epoch> flags(static_cast<std::size_t>(view_.transport_partitions), before);
    device_memory.copy(flags_->address(), flags.data(), flags.size() * sizeof(Epoch));
  }
  // Before kernels wait: what is made later may have to wait for them.
  if (raises_flags() || terms.driver == link::Driver::device) queue();
  start(before);
  const std::vector<Partita_Peer> peers = peers_of(terms);
  const std::span peer_bytes = std::as_bytes(std::span(peers));
  std::vector<std::byte> initial(place_of_peers(terms) + peer_bytes.size());
  Partita_Prequest_state state = device::first_state(view_.flags, before, view_.life);
  state.peers = static_cast<partita_u32>(peers.size());
  if (terms.collective) state.round = terms.collective->newest_flag;
  std::memcpy(initial.data(), &state, sizeof(state));
  std::ranges::copy(peer_bytes, initial.end() - static_cast<std::ptrdiff_t>(peer_bytes.size()));
  if (terms.pushes()) begin_pushes(std::span(initial).first(state_bytes(terms)), words().host, view_, before);
  device_memory.copy(state_block_.address(), initial.data(), initial.size());
  if (terms.driver != link::Driver::device) return;
  last_told_ = std::make_unique<memory::HostBlock>(host_memory, bytes_that_tell());
  device_memory.device_pointer(state_block_.device(), last_told_->address());  // page-locks it
  // The first copy of a stream may take long beside kernels that wait, and those that come later may release them.
  queue().copy(last_told_->address(), &view_.state->reserved, sizeof(view_.state->reserved));
}

PrequestWords DeviceSide::words_for_gpu(const PrequestTerms& terms) const {
  auto* host =
      reinterpret_cast<HostWords*>(device_memory_.device_pointer(state_block_.device(), host_block_.address()));
  PrequestWords words;
  words.state = reinterpret_cast<Partita_Prequest_state*>(state_block_.address());
  words.host = &host->host;
  words.epochs = &host->promise;
  if (raises_flags()) words.flags = reinterpret_cast<partita_u32*>(flags_->address());
  if (!peers_of(terms).empty()) {
    words.peers = reinterpret_cast<const Partita_Peer*>(state_block_.address() + place_of_peers(terms));
  }
  words.life = new_prequest_life();
  return words;
}

/// Under its lock.
memory::CopyQueue& DeviceSide::queue() {
  if (flag_queue_ == nullptr) flag_queue_ = device_memory_.make_copy_queue(state_block_.device());
  return *flag_queue_;
}

DeviceSide::~DeviceSide() {
  static constexpr partita_u32 freed = device::life_freed;
  try {
    if (flag_queue_ != nullptr) flag_queue_->drain();  // what is on its way to the blocks that others get next
    device_memory_.copy(&view_.state->live, &freed, sizeof(freed));
  } catch (const Error&) {
    // The GPU is gone or broken: no kernel can use the request any more.
  }
}

void DeviceSide::start(Epoch epoch) {
  // Pairs with the kernel's load of the promise.
  std::atomic_ref(words().promise).store(std::uint64_t{epoch} << 32 | epoch, std::memory_order_release);
}

DeviceSide::LastEpoch DeviceSide::last_epoch() const {
  std::vector<std::byte> told(bytes_that_tell());
  const auto state = state_that_tells(), flags = flags_that_tell();
  device_memory_.copy(told.data(), state.data(), state.size());
  if (!flags.empty()) device_memory_.copy(told.data() + state.size(), flags.data(), flags.size());
  return judge(told.data());
}

void DeviceSide::ask_last_epoch() {
  const auto state = state_that_tells(), flags = flags_that_tell();
  const std::lock_guard lock(queue_mutex_);
  queue().copy(last_told_->address(), state.data(), state.size());
  if (!flags.empty()) queue().copy(last_told_->address() + state.size(), flags.data(), flags.size());
  owes_last_epoch_ = true;
}

bool DeviceSide::owes_last_epoch() {
  const std::lock_guard lock(queue_mutex_);
  return owes_last_epoch_;
}

std::optional<DeviceSide::LastEpoch> DeviceSide::take_last_epoch() {
  const std::lock_guard lock(queue_mutex_);
  if (!owes_last_epoch_ || !queue().idle()) return {};
  owes_last_epoch_ = false;
  return judge(last_told_->address());
}

DeviceSide::LastEpoch DeviceSide::await_last_epoch() {
  {
    const std::lock_guard lock(queue_mutex_);
    if (std::exchange(owes_last_epoch_, false)) {
      queue().drain();
      return judge(last_told_->address());
    }
  }
  return last_epoch();
}

/// In GPU memory: the state, and of a receive in packets the words behind it that say what was unpacked.
std::span<const std::byte> DeviceSide::state_that_tells() const {
  const bool has_unpacked = in_packets() && sides_of(view_) == PARTITA_PREQUEST_RECV;
  const std::size_t words = has_unpacked ? static_cast<std::size_t>(view_.recv_partitions) : 0;
  return {reinterpret_cast<const std::byte*>(view_.state),
          sizeof(Partita_Prequest_state) + words * sizeof(partita_u64)};
}

/// In GPU memory: the arrival flags of a receive that has them.
std::span<const std::byte> DeviceSide::flags_that_tell() const {
  if (sides_of(view_) != PARTITA_PREQUEST_RECV || in_packets()) return {};
  const bool has_front = (view_.flags & PARTITA_PREQUEST_FRONT) != 0;
  const std::int64_t words =
      has_front ? device::words_with_front(view_.transport_partitions) : view_.transport_partitions;
  return std::as_bytes(std::span(view_.arrival_device, static_cast<std::size_t>(words)));
}

/// `told`: the two, one behind the other, as the GPU had them while kernels may have stored there: each word whole, but
/// not all of the same time.
DeviceSide::LastEpoch DeviceSide::judge(const std::byte* told) const {
  Partita_Prequest_state state{};
  std::memcpy(&state, told, sizeof state);
  const Epoch epoch = device::low_half(state.head);
  if ((view_.flags & (PARTITA_PREQUEST_COLLECTIVE | PARTITA_PREQUEST_PUSHED)) != 0) {
    // Where marks push, kernels may have ended one that the host has opened and nobody has noted in `head`.
    const bool is_complete = reached(state.completed, epoch);
    // A grid that was released may have sent what belongs to an epoch that it has not told of yet.
    return {.epoch = is_complete ? state.completed : epoch,
            .is_over = is_complete && state.live == view_.life,
            .flag = state.round};
  }
  if (sides_of(view_) == PARTITA_PREQUEST_RECV) {
    return {epoch, state.completed == epoch || has_arrived(told + sizeof state, epoch)};
  }
  return {epoch, is_over(state, epoch)};
}

/// Whether all of `epoch` of a send is decided. The start of one stores two words, `head` and `round`: who reads them
/// meanwhile may find one of before. Both count by one, epochs too where they go round, so that they are odd and even
/// together, or never. Where they are not, less than a round is decided since the round before `round` if `epoch` is
/// the older one, which is over; if that opens, a round or more.
bool DeviceSide::is_over(const Partita_Prequest_state& state, Epoch epoch) const {
  const partita_i32 transports = view_.transport_partitions;
  const bool is_opening = ((epoch ^ before_ ^ state.round) & 1) != 0;
  if (!is_opening) return state.decided == device::all_decided(state.round, transports);
  return state.decided - device::all_decided(state.round - 1, transports) < static_cast<partita_u32>(transports);
}

/// Whether all of `epoch` of a receive has come, though no kernel has waited for that: by words that name the epoch.
/// `told`: in packets, what MPIX_Parrived has unpacked of each partition; else the flags.
bool DeviceSide::has_arrived(const std::byte* told, Epoch epoch) const {
  if (in_packets()) {
    std::vector<partita_u64> unpacked(static_cast<std::size_t>(view_.recv_partitions));
    std::memcpy(unpacked.data(), told, unpacked.size() * sizeof(partita_u64));
    return std::ranges::all_of(unpacked, [epoch](partita_u64 word) { return device::high_half(word) == epoch; });
  }
  std::vector<Epoch> flags(static_cast<std::size_t>(view_.transport_partitions));
  std::memcpy(flags.data(), told, flags.size() * sizeof(Epoch));
  partita_u32 in_front = 0;
  if ((view_.flags & PARTITA_PREQUEST_FRONT) != 0) {
    partita_u64 front = 0;
    std::memcpy(&front, told + device::place_of_front(view_.transport_partitions) * sizeof(Epoch), sizeof front);
    in_front = device::arrived_in_front(front, epoch);
  }
  return std::all_of(flags.begin() + in_front, flags.end(), [epoch](Epoch flag) { return flag == epoch; });
}

bool DeviceSide::completed(Epoch epoch) const {
  // Pairs with the last decider's store.
  return Word(words().host.completed).load(std::memory_order_acquire) == epoch;
}

bool DeviceSide::hands_over(Epoch epoch) const {
  // Stored before what handed_over() loads; that orders.
  return !kernel_copies() || Word(words().host.newest_hand_over).load(std::memory_order_relaxed) == epoch;
}

std::uint32_t DeviceSide::handed_over(std::int32_t first, std::int32_t count, Epoch epoch) const {
  partita_u32* const words_of_run = device::handed_over(&words().host) + first;
  std::uint32_t shown = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    // Pairs with the decider's store.
    shown |= std::uint32_t{Word(words_of_run[i]).load(std::memory_order_acquire) == epoch} << i;
  }
  return shown;
}

Epoch DeviceSide::newest_complete() const {
  // Pairs with the store in count_towards_end.
  return Word(words().host.completed).load(std::memory_order_acquire);
}

/// Where hosts open epochs in which kernels mark nothing the word keeps an older number, however old.
bool DeviceSide::any_marked(Epoch epoch) const {
  const Epoch newest = Word(words().host.newest_marked).load(std::memory_order_relaxed);  // as below
  return newest == epoch || newest == next(epoch);
}

bool DeviceSide::marked(std::int32_t partition, Epoch epoch) const {
  // Nothing hangs on it: the mark may still be under way.
  return reached(Word(device::told_marked(&words().host)[partition]).load(std::memory_order_relaxed), epoch);
}

bool DeviceSide::reduced(std::int32_t partition, Epoch epoch) const {
  partita_u32* const told = device::told_reduced(&words().host, view_.send_partitions);
  // Pairs with the store in end_piece.
  return reached(Word(told[partition]).load(std::memory_order_acquire), epoch);
}

bool DeviceSide::kernel_waits(Epoch epoch) const {
  return Word(words().host.awaited).load(std::memory_order_relaxed) == epoch;
}

void DeviceSide::raise(link::Range run, Epoch epoch) {
  std::vector<memory::WordWrite> writes;
  for (std::int64_t t = run.begin; t < run.end; ++t) writes.push_back({view_.arrival_device + t, epoch});
  const std::lock_guard lock(queue_mutex_);
  flag_queue_->write(writes);
}

void DeviceSide::forget_hand_overs() {
  Word(words().host.newest_hand_over).store(no_epoch, std::memory_order_relaxed);
  for (std::int32_t t = 0; t < view_.transport_partitions; ++t) {
    Word(device::handed_over(&words().host)[t]).store(no_epoch, std::memory_order_relaxed);
  }
}

bool DeviceSide::told_kernels() {
  const std::lock_guard lock(queue_mutex_);
  return flag_queue_->idle();
}

bool DeviceSide::has_failed() const {
  return Word(words().host.failure).load(std::memory_order_acquire) != PARTITA_DEVICE_SUCCESS;
}

bool DeviceSide::has_news() const {
  return has_failed() && !told_.load(std::memory_order_relaxed);
}

std::optional<std::string> DeviceSide::mistake() {
  const partita_u32 failure = Word(words().host.failure).load(std::memory_order_acquire);
  if (failure == PARTITA_DEVICE_SUCCESS) return {};
  told_.store(true, std::memory_order_relaxed);
  const partita_i32 partition = words().host.failure_partition;
  return fmt::format("a kernel {}{}, in epoch {}", meaning(failure, view_, partition),
                     partition < 0 ? std::string() : fmt::format(" (partition {})", partition),
                     words().host.failure_epoch);
}

void DeviceSide::abort() {
  // For kernels that wait, should the next word come late: it may stand behind the program's own work on the GPU.
  Word(words().host.abort).store(1, std::memory_order_release);
  const std::lock_guard lock(queue_mutex_);
  try {
    queue().write(&view_.state->live, view_.life | device::life_released);
  } catch (const Error&) {
    // The GPU no longer works: no kernel is left.
  }
}

}  // namespace partita
