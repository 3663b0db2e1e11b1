#include "link/ucx/region.hpp"

#include <iterator>

#include "link/ucx/check.hpp"
#include "link/ucx/library.hpp"

namespace partita::link::ucx {

/// In a thread that has a CUDA context UCX would page-lock host memory with CUDA. CUDA then refuses the program's own
/// copies from and to memory that lies half in it, and to page-lock what shares a page with it, as a neighbouring
/// buffer does. UCX moves host memory as well without.
Region::Region(Worker& worker, std::span<std::byte> memory, std::size_t size_bytes, memory::Kind kind)
    : worker_(worker), memory_(memory) {
  const Worker::Hold hold(worker_);
  if (memory::is_host(kind)) {
    hold.without_gpu([&] { create(size_bytes); });
  } else {
    create(size_bytes);
  }
}

void Region::create(std::size_t size_bytes) {
  map(size_bytes);
  try {
    query(size_bytes);
    pack_key();
  } catch (...) {
    ucp_mem_unmap(worker_.context().handle(), handle_);
    throw;
  }
}

Region::~Region() {
  const Worker::Hold hold(worker_);
  ucp_mem_unmap(worker_.context().handle(), handle_);
}

void Region::map(std::size_t size_bytes) {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.address = memory_.data();
  params.length = memory_.empty() ? size_bytes : memory_.size();
  params.flags = memory_.empty() ? UCP_MEM_MAP_ALLOCATE : 0;
  PARTITA_UCX(ucp_mem_map(worker_.context().handle(), &params, &handle_));
}

void Region::query(std::size_t size_bytes) {
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_MEM_TYPE;
  PARTITA_UCX(ucp_mem_query(handle_, &attributes));
  type_ = attributes.mem_type;
  if (memory_.empty()) memory_ = {static_cast<std::byte*>(attributes.address), size_bytes};
}

void Region::pack_key() {
  void* packed = nullptr;
  std::size_t size_bytes = 0;
  PARTITA_UCX(ucp_rkey_pack(worker_.context().handle(), handle_, &packed, &size_bytes));
  const std::unique_ptr<void, void (*)(void*)> owner(packed, &ucp_rkey_buffer_release);
  const auto* first = static_cast<const std::byte*>(packed);
  packed_key_.assign(first, first + size_bytes);
}

std::shared_ptr<Region> RegionCache::region(std::span<std::byte> memory, memory::Kind kind) {
  const std::lock_guard lock(mutex_);
  std::erase_if(regions_, [](const auto& entry) { return entry.second.expired(); });
  const auto after = regions_.upper_bound(memory.data());
  if (after != regions_.begin()) {
    const auto found = std::prev(after)->second.lock();
    const std::byte* const end = memory.data() + memory.size();
    if (found != nullptr && !found->stale() && end <= found->memory().data() + found->memory().size()) return found;
  }
  const auto made = std::make_shared<Region>(worker_, watch_, memory, kind);
  regions_[memory.data()] = made;
  return made;
}

std::shared_ptr<Region> RegionCache::renewed(const Region& stale, std::span<std::byte> memory, memory::Kind kind) {
  auto made = region(memory, kind);
  if (made->type() == stale.type()) return made;
  throw Error(ErrorClass::buffer,
              "the buffer was freed while its request was inactive, and {} memory lies at its address now; expected is "
              "{} memory, as at init",
              ucs_memory_type_names[made->type()], ucs_memory_type_names[stale.type()]);
}

void RegionCache::forget(const Region& region) {
  const std::lock_guard lock(mutex_);
  std::erase_if(regions_, [&](const auto& entry) { return entry.second.lock().get() == &region; });
}

Key::Key(Worker& worker, Peer& peer, std::span<const std::byte> packed) : worker_(worker) {
  const Worker::Hold hold(worker_);
  if (peer.failed()) peer.throw_failure();
  PARTITA_UCX_TOWARDS(peer.rank(), ucp_ep_rkey_unpack(peer.endpoint(), packed.data(), &handle_));
}

ucs_status_t Key::replace(Peer& peer, std::span<const std::byte> packed) noexcept {
  ucp_rkey_h made = nullptr;
  const ucs_status_t status = ucp_ep_rkey_unpack(peer.endpoint(), packed.data(), &made);
  if (status == UCS_OK) ucp_rkey_destroy(std::exchange(handle_, made));
  return status;
}

/// Asks for an address here, for which cuda_ipc makes its mapping and keeps it. Other transports have none. Versions
/// before 1.21 have none either, and what later ones do with a key that was asked is not known yet.
void Key::map(std::uint64_t address) const noexcept {
  const Version version = loaded_version();
  if (version < Version{1, 21} || version > Version{1, 22}) return;
  void* here = nullptr;
  ucp_rkey_ptr(handle_, address, &here);
}

Key::~Key() {
  const Worker::Hold hold(worker_);
  ucp_rkey_destroy(handle_);
}

}  // namespace partita::link::ucx
