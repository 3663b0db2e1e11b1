#include "support/fake_gpu.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>

#include "core/call_stream.hpp"
#include "core/error.hpp"
#include "core/node_socket.hpp"
#include "support/fake_stream.hpp"

namespace partita::test {
namespace {

using memory::DeviceExport;
using memory::DevicePiece;
using memory::NotMappable;

FakeGpu* the_one = nullptr;
/// What is called before this thread allocates its next block; null: nothing.
thread_local std::function<void()> before_next;

bool exports_buffers(int gpu) {
  return gpu == buffers_only || gpu == unreached_peer || gpu == mapped || gpu == many_handles || gpu == mapped_too;
}
bool exports_blocks(int gpu) {
  return gpu == blocks_only || gpu == unreached_peer || gpu == mapped || gpu == blocks_mapped || gpu == mapped_too;
}

}  // namespace

FakeGpu::FakeGpu(World& world, memory::HostMemory& host_memory) : world_(world), host_memory_(host_memory) {
  the_one = this;
}
FakeGpu::~FakeGpu() {
  the_one = nullptr;
}

FakeGpu& FakeGpu::instance() {
  return *the_one;
}

void FakeGpu::may_fail(Step step) {
  if (failing_.compare_exchange_strong(step, Step::none)) throw Error(ErrorClass::no_mem, "the fake GPU is to fail");
}

void FakeGpu::before_next_block(std::function<void()> body) {
  before_next = std::move(body);
}

std::byte* FakeGpu::allocate_block(int gpu, std::size_t size_bytes) {
  if (const auto before = std::exchange(before_next, nullptr)) before();
  may_fail(Step::allocate_block);
  return remember(gpu, false, size_bytes);
}

/// Full of what an owner that counts on zeros trips over.
std::byte* FakeGpu::allocate_unzeroed_block(int gpu, std::size_t size_bytes) {
  std::byte* const memory = allocate_block(gpu, size_bytes);
  std::memset(memory, 0xa5, size_bytes);
  return memory;
}

void FakeGpu::check_limit() const {
  if (copies_left_ == 0) throw Error(ErrorClass::other, "the fake GPU takes no more copies");
}

std::byte* FakeGpu::remember(int gpu, bool of_program, std::size_t size_bytes) {
  std::byte* memory = host_memory_.allocate_block(size_bytes);
  const std::lock_guard lock(mutex_);
  allocations_[memory] = {gpu, of_program, size_bytes, ++allocated_};
  return memory;
}

void FakeGpu::free(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.extract(memory);
  if (found.empty()) return;  // of a FakeGpu that has ended
  host_memory_.free_block(memory, found.mapped().size_bytes);
}

void FakeGpu::replace(const std::byte* memory) {
  const std::lock_guard lock(mutex_);
  allocations_.at(memory).id = ++allocated_;
}

void FakeGpu::free_block(int, std::byte* block, std::size_t) {
  free(block);
}

void FakeGpu::fail(Gpu gpu) {
  const std::lock_guard lock(mutex_);
  failed_.insert(gpu);
}

void FakeGpu::mend(Gpu gpu) {
  const std::lock_guard lock(mutex_);
  failed_.erase(gpu);
}

const FakeGpu::Allocation* FakeGpu::allocation_of(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto* byte = static_cast<const std::byte*>(address);
  const auto after = allocations_.upper_bound(byte);
  if (after == allocations_.begin()) return nullptr;
  const auto& [first, allocation] = *std::prev(after);
  return byte < first + allocation.size_bytes ? &allocation : nullptr;
}

bool FakeGpu::is_imported(const void* address) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(imported_, [&](const auto& entry) {
    const std::byte* const first = entry.second->memory;
    return address >= first && address < first + entry.second->size_bytes;
  });
}

void FakeGpu::pass_descriptor(int peer) {
  static std::atomic<std::uint64_t> segment{std::uint64_t{1} << 62};
  constexpr std::size_t size_bytes = 4096;
  const UniqueFd file(::memfd_create("passed", MFD_CLOEXEC));
  if (::ftruncate(file.get(), size_bytes) != 0) throw std::runtime_error("cannot make memory to pass");
  world_.socket().pass(peer, DescriptorKind::host_segment, ++segment, size_bytes, file.get());
}

void FakeGpu::count_copy(const void* to, const void* from) {
  ++operations_;
  ++copies_;
  for (const void* end : {to, from}) {
    if (allocation_of(end) != nullptr || is_imported(end)) continue;
    ++copies_with_host_;
    break;
  }
}

memory::Place FakeGpu::place_of(const void* address, std::size_t) {
  may_fail(Step::place_of);
  const Allocation* found = allocation_of(address);
  if (found != nullptr) return {memory::Kind::device, found->gpu};
  return is_imported(address) ? memory::Place{memory::Kind::device, mapped} : memory::Place{};
}

std::variant<DeviceExport, NotMappable> FakeGpu::export_to(int peer, const void* address, std::size_t size_bytes) {
  may_fail(Step::export_to);
  DevicePiece piece;
  piece.address = reinterpret_cast<std::uint64_t>(address);
  piece.size_bytes = piece.allocation_bytes = size_bytes;
  piece.way = DevicePiece::Way::same_process;
  if (peer == world_.rank()) return DeviceExport{piece};
  if (std::string obstacle = why_not_exported(address, size_bytes); !obstacle.empty())
    return NotMappable{std::move(obstacle)};
  ++exports_;
  const Allocation& allocation = *allocation_of(address);
  if (allocation.of_program) piece.buffer_id = allocation.id;
  piece.way = DevicePiece::Way::ipc;
  if (allocation.gpu == mapped || allocation.gpu == mapped_too || allocation.gpu == blocks_mapped ||
      allocation.gpu == many_handles) {
    const memory::HostAddress name = host_memory_.export_to(peer, address);
    piece.way = DevicePiece::Way::file_descriptor;
    piece.segment = name.segment;
    std::memcpy(piece.handle.data(), &name.file, sizeof name.file);
    piece.offset_bytes = name.offset_bytes;
    piece.allocation_bytes = name.offset_bytes + size_bytes;
  }
  return DeviceExport{piece};
}

/// Its descriptors are named as files, and not passed, wherever peers can open them.
std::variant<DevicePiece, NotMappable> FakeGpu::name_to(int peer, const void* address, std::size_t size_bytes) {
  auto exported = export_to(peer, address, size_bytes);
  if (auto* const not_mappable = std::get_if<NotMappable>(&exported)) return std::move(*not_mappable);
  return std::get<DeviceExport>(exported).front();
}

std::string FakeGpu::why_not_exported(const void* address, std::size_t size_bytes) {
  may_fail(Step::why_not_exported);
  if (is_imported(address)) return "cuIpcGetMemHandle fails: invalid argument";
  const Allocation* const found = allocation_of(address);
  if (found == nullptr) throw Error(ErrorClass::internal, "{} is not in the fake GPU's memory", address);
  const Allocation& allocation = *found;
  if (allocation.gpu == many_handles && size_bytes > allocation.size_bytes / 4) return "it spans several handles";
  const bool able = allocation.of_program ? exports_buffers(allocation.gpu) : exports_blocks(allocation.gpu);
  return able ? "" : "cuIpcGetMemHandle fails: operation not supported";
}

FakeGpu::Imported::Imported(int peer, const DevicePiece& piece, std::byte* host)
    : peer(peer), address(piece.address), id(piece.buffer_id), memory(host), size_bytes(piece.size_bytes) {
  if (id == 0) return;
  static const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(host) % page_bytes;
  pages_bytes = (offset + piece.size_bytes + page_bytes - 1) / page_bytes * page_bytes;
  // With size 0, an old mapping that is shared gets a second one beside it.
  void* const made = mremap(host - offset, 0, pages_bytes, MREMAP_MAYMOVE);
  if (made == MAP_FAILED) throw Error(ErrorClass::no_mem, "the fake GPU cannot map memory of rank {}", peer);
  pages = static_cast<std::byte*>(made);
  memory = pages + offset;
}

/// The place stays taken, so that nothing else is ever mapped there.
FakeGpu::Imported::~Imported() {
  if (pages != nullptr) mprotect(pages, pages_bytes, PROT_NONE);
}

/// As a driver, which maps an allocation of a process once, and no other one at the same place beside it. What the
/// library allocates lies in slabs that are never freed.
bool FakeGpu::is_occupied(int peer, const DevicePiece& piece, memory::Closing closing) {
  if (!tells_places_apart_ || piece.buffer_id == 0) return false;
  if (closing == memory::Closing::all) {
    std::erase_if(imported_, [&](const auto& entry) {
      return entry.second.use_count() == 1 && overlaps(*entry.second, peer, piece);
    });
  }
  bool is_mapped = false;
  for (const auto& [key, imported] : imported_) {
    if (!overlaps(*imported, peer, piece)) continue;
    if (imported.use_count() > 1) ++held_in_the_way_;
    is_mapped = true;
  }
  return is_mapped;
}

bool FakeGpu::is_unused(int peer, const DevicePiece& piece) const {
  return std::ranges::none_of(imported_, [&](const auto& entry) {
    return entry.second.use_count() > 1 && overlaps(*entry.second, peer, piece);
  });
}

bool FakeGpu::overlaps(const Imported& imported, int peer, const DevicePiece& piece) {
  return imported.peer == peer && imported.id != 0 && imported.id != piece.buffer_id &&
         imported.address < piece.address + piece.size_bytes && piece.address < imported.address + imported.size_bytes;
}

std::variant<std::shared_ptr<std::byte>, NotMappable> FakeGpu::import(int peer, const DeviceExport& pieces, int,
                                                                      memory::Closing closing) {
  ++imports_;
  while (imports_held_) std::this_thread::yield();
  may_fail(Step::import);
  if (closing == memory::Closing::all) is_occupied_ = false;
  if (is_occupied_) return NotMappable{"memory that the peer has freed is mapped there", true, true};
  const DevicePiece& piece = pieces.front();
  switch (piece.way) {
    case DevicePiece::Way::same_process:
      return std::shared_ptr<std::byte>(reinterpret_cast<std::byte*>(piece.address), [](std::byte*) {});
    case DevicePiece::Way::file_descriptor: {
      memory::HostAddress name{.segment = piece.segment, .offset_bytes = piece.offset_bytes, .file = {}};
      std::memcpy(&name.file, piece.handle.data(), sizeof name.file);
      std::byte* const memory = host_memory_.import(peer, name, piece.size_bytes);
      const std::lock_guard lock(mutex_);
      if (is_occupied(peer, piece, closing)) {
        return NotMappable{"cuIpcOpenMemHandle fails: resource already mapped", true, is_unused(peer, piece)};
      }
      std::shared_ptr<Imported>& imported = imported_[{memory, piece.buffer_id, piece.size_bytes}];
      if (imported == nullptr) imported = std::make_shared<Imported>(peer, piece, memory);
      return std::shared_ptr<std::byte>(imported, imported->memory);
    }
    default:
      return NotMappable{"cuIpcOpenMemHandle fails: peer access is not supported between these two devices"};
  }
}

std::shared_ptr<std::byte> FakeGpu::find_mapping(int peer, const DeviceExport& pieces, int) {
  const DevicePiece& piece = pieces.front();
  const std::lock_guard lock(mutex_);
  for (const auto& [key, imported] : imported_) {
    if (imported->peer == peer && imported->id == piece.buffer_id && imported->address == piece.address &&
        imported->size_bytes == piece.size_bytes)
      return {imported, imported->memory};
  }
  return nullptr;
}

std::byte* FakeGpu::device_pointer(int, std::byte* host) {
  return host;
}

std::unique_ptr<memory::Stream> FakeGpu::make_stream(int gpu) {
  check(gpu);
  ++streams_made_;
  if (FakeWorker* const shared = shared_) return fake_stream_beside(gpu, *shared);
  return make_fake_stream(gpu);
}

std::unique_ptr<memory::Stream> FakeGpu::stream_of_program(void* native) {
  return fake_stream_of(mapped, worker_of(native));
}

FakeWorker& FakeGpu::worker_of(void* native) {
  const auto which = static_cast<CallStream>(reinterpret_cast<std::uintptr_t>(native));
  if (which != CallStream::legacy && which != CallStream::per_thread) return *static_cast<FakeWorker*>(native);
  const std::lock_guard lock(default_streams_mutex_);
  auto& worker = default_streams_[which == CallStream::legacy ? std::thread::id() : std::this_thread::get_id()];
  if (worker == nullptr) worker = std::make_unique<FakeWorker>();
  return *worker;
}

std::unique_ptr<memory::Event> FakeGpu::make_event(int) {
  return make_fake_event();
}

void FakeGpu::copy(void* to, const void* from, std::size_t size_bytes) {
  if (allocation_of(to) != nullptr || allocation_of(from) != nullptr) ++awaited_copies_;
  for (const void* end : {static_cast<const void*>(to), from}) {
    if (const Allocation* found = allocation_of(end)) check(found->gpu);
  }
  copy_as_an_engine(to, from, size_bytes);
}

void FakeGpu::check(int gpu) {
  const std::lock_guard lock(mutex_);
  if (failed_.contains(gpu)) throw Error(ErrorClass::other, "a kernel of GPU {} has made an illegal access", gpu);
}

}  // namespace partita::test

/// In place of the library's, which lies in an archive.
std::unique_ptr<partita::memory::DeviceMemory> partita::memory::make_device_memory(World& world,
                                                                                   HostMemory& host_memory) {
  return std::make_unique<partita::test::FakeGpu>(world, host_memory);
}
