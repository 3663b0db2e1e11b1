#include "partitioned/gpu/device_side.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "partita/device/impl/words.hpp"

namespace partita {
namespace {

using Word = std::atomic_ref<partita_u32>;

std::size_t state_bytes(const PrequestTerms& terms) {
  const link::Plan& plan = terms.plan;
  return device::state_bytes(prequest_flags(terms), plan.send_partitions(), plan.recv_partitions(),
                             plan.transport_partitions());
}

std::size_t host_bytes(const PrequestTerms& terms) {
  return device::host_bytes(prequest_flags(terms), terms.plan.transport_partitions());
}

std::size_t flag_bytes(const PrequestTerms& terms) {
  return static_cast<std::size_t>(terms.plan.transport_partitions()) * sizeof(Epoch);
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
  const bool sends = (request.flags & PARTITA_PREQUEST_SEND) != 0;
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

/// None where kernels reach no peer's memory.
std::unique_ptr<memory::PeerTable> make_peers(memory::DeviceMemory& device_memory, int device,
                                              const PrequestTerms& terms) {
  const std::vector<Partita_Peer> peers = peers_of(terms);
  if (peers.empty()) return nullptr;
  return std::make_unique<memory::PeerTable>(device_memory, device, peers);
}

}  // namespace

DeviceSide::DeviceSide(memory::HostMemory& host_memory, memory::DeviceMemory& device_memory, const PrequestTerms& terms,
                       Epoch before)
    : device_memory_(device_memory),
      host_block_(host_memory, offsetof(HostWords, host) + host_bytes(terms)),
      state_block_(device_memory, terms.place.device, state_bytes(terms)),
      flags_(terms.host_raises_flags()
                 ? std::make_unique<memory::DeviceBlock>(device_memory, state_block_.device(), flag_bytes(terms))
                 : nullptr),
      peers_(make_peers(device_memory, state_block_.device(), terms)),
      view_(make_prequest(terms, words_for_gpu())) {
  if (raises_flags()) {
    const std::vector<Epoch> flags(static_cast<std::size_t>(view_.transport_partitions), before);
    device_memory.copy(flags_->address(), flags.data(), flags.size() * sizeof(Epoch));
    flag_queue_ = device_memory.make_copy_queue(state_block_.device());
  }
  start(before);
  std::vector<std::byte> initial(state_bytes(terms));
  Partita_Prequest_state state = device::first_state(view_.flags, before, view_.life);
  if (peers_) state.peers = static_cast<partita_u32>(peers_->size());
  if (terms.collective) state.round = terms.collective->newest_flag;
  std::memcpy(initial.data(), &state, sizeof(state));
  device_memory.copy(state_block_.address(), initial.data(), initial.size());
}

PrequestWords DeviceSide::words_for_gpu() const {
  auto* host =
      reinterpret_cast<HostWords*>(device_memory_.device_pointer(state_block_.device(), host_block_.address()));
  PrequestWords words;
  words.state = reinterpret_cast<Partita_Prequest_state*>(state_block_.address());
  words.host = &host->host;
  words.epochs = &host->promise;
  if (raises_flags()) words.flags = reinterpret_cast<partita_u32*>(flags_->address());
  if (peers_) words.peers = peers_->device();
  words.life = new_prequest_life();
  return words;
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
  Partita_Prequest_state state{};
  device_memory_.copy(&state, view_.state, sizeof(state));
  const Epoch epoch = device::low_half(state.head);
  if ((view_.flags & PARTITA_PREQUEST_COLLECTIVE) != 0) {
    // A grid that was released may have sent what belongs to an epoch that it has not told of yet.
    return {.epoch = epoch, .is_over = state.completed == epoch && state.live == view_.life, .flag = state.round};
  }
  if ((view_.flags & PARTITA_PREQUEST_SEND) == 0) {
    return {epoch, state.completed == epoch || has_arrived(state, epoch)};
  }
  return {epoch, state.decided == device::all_decided(state.round, view_.transport_partitions)};
}

/// Whether all of `epoch` of a receive has come, though no kernel has waited for that: what its kernels have seen by
/// MPIX_Parrived, of packets; else what the flags say.
bool DeviceSide::has_arrived(const Partita_Prequest_state& state, Epoch epoch) const {
  if (in_packets()) return state.decided == static_cast<partita_u32>(view_.recv_partitions);
  const bool has_common = (view_.flags & PARTITA_PREQUEST_COMMON_FLAG) != 0;
  std::vector<Epoch> flags(static_cast<std::size_t>(view_.transport_partitions) + (has_common ? 1 : 0));
  device_memory_.copy(flags.data(), view_.arrival_device, flags.size() * sizeof(Epoch));
  if (has_common) {
    if (flags.back() == epoch) return true;
    flags.pop_back();
  }
  return std::ranges::all_of(flags, [epoch](Epoch flag) { return flag == epoch; });
}

bool DeviceSide::completed(Epoch epoch) const {
  // Pairs with the last decider's store.
  return Word(words().host.completed).load(std::memory_order_acquire) == epoch;
}

bool DeviceSide::hands_over(Epoch epoch) const {
  // Stored before what handed_over() loads; that orders.
  return !kernel_copies() || Word(words().host.newest_hand_over).load(std::memory_order_relaxed) == epoch;
}

bool DeviceSide::handed_over(std::int32_t t, Epoch epoch) const {
  // Pairs with the decider's store.
  return Word(device::handed_over(&words().host)[t]).load(std::memory_order_acquire) == epoch;
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

bool DeviceSide::has_news() const {
  return Word(words().host.failure).load(std::memory_order_acquire) != PARTITA_DEVICE_SUCCESS &&
         !told_.load(std::memory_order_relaxed);
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
    if (flag_queue_ == nullptr) flag_queue_ = device_memory_.make_copy_queue(state_block_.device());
    flag_queue_->write(&view_.state->live, view_.life | device::life_released);
  } catch (const Error&) {
    // The GPU no longer works: no kernel is left.
  }
}

}  // namespace partita
