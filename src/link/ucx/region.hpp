// Memory that other ranks may write, and the keys to it.
#pragma once

#include <ucp/api/ucp.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "core/wire.hpp"
#include "link/ucx/transfer.hpp"
#include "link/ucx/unmapped.hpp"
#include "link/ucx/worker.hpp"
#include "memory/memory.hpp"

namespace partita::link::ucx {

/// Memory registered with UCX. Takes the gate when made and when destroyed.
class Region {
 public:
  /// Registers `memory`, which is of `kind` and stays under `watch`; UCX finds out itself whether it is a GPU's.
  Region(Worker& worker, UnmapWatch& watch, std::span<std::byte> memory, memory::Kind kind)
      : Region(worker, memory, memory.size(), kind) {
    watched_.emplace(watch, memory);
  }
  /// Allocates `size_bytes` of host memory that ranks of the node can store into themselves.
  Region(Worker& worker, std::size_t size_bytes) : Region(worker, {}, size_bytes, memory::Kind::host) {}
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::span<std::byte> memory() const { return memory_; }
  ucp_mem_h handle() const { return handle_; }
  /// What UCX took the memory for.
  ucs_memory_type_t type() const { return type_; }
  /// Whether other memory lies under the address by now, or none, which this registration does not reach.
  bool stale() const { return watched_ && watched_->unmapped(); }
  /// What another rank unpacks to write here.
  const wire::Bytes& packed_key() const { return packed_key_; }

 private:
  Region(Worker& worker, std::span<std::byte> memory, std::size_t size_bytes, memory::Kind kind);
  void create(std::size_t size_bytes);
  void map(std::size_t size_bytes);
  void query(std::size_t size_bytes);
  void pack_key();

  Worker& worker_;
  std::span<std::byte> memory_;
  ucp_mem_h handle_ = nullptr;
  ucs_memory_type_t type_ = UCS_MEMORY_TYPE_HOST;
  wire::Bytes packed_key_;
  std::optional<Watched> watched_;  ///< none of memory that UCX has allocated
};

/// Shares a region among all requests whose buffers lie in it. It is kept no longer than the requests that use it, and
/// given to none once it is stale. Any thread.
class RegionCache {
 public:
  RegionCache(Worker& worker, UnmapWatch& watch) : worker_(worker), watch_(watch) {}

  /// `kind`: what the memory is.
  std::shared_ptr<Region> region(std::span<std::byte> memory, memory::Kind kind);
  /// What `stale` was, of the memory that lies there now. Throws Error if that is of another type.
  std::shared_ptr<Region> renewed(const Region& stale, std::span<std::byte> memory, memory::Kind kind);
  /// Requests from here on get another one: the program may free the memory while `region` lives.
  void forget(const Region& region);

 private:
  Worker& worker_;
  UnmapWatch& watch_;
  std::mutex mutex_;
  std::map<const std::byte*, std::weak_ptr<Region>> regions_;  ///< by first byte
};

/// A key unpacked for one peer. Takes the gate when made and when destroyed.
class Key {
 public:
  Key(Worker& worker, Peer& peer, std::span<const std::byte> packed);
  ~Key();
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;

  ucp_rkey_h handle() const { return handle_; }
  /// Takes the one in `packed` instead. With the gate held, while nothing is under way with this key.
  ucs_status_t replace(Peer& peer, std::span<const std::byte> packed) noexcept;
  /// Where puts from the current GPU map the peer's memory, which begins at `address`, and UCX can be asked for that,
  /// it happens now and not in the first of them: what UCX closes for it, or opens, may have to wait for kernels that
  /// wait for the put. With the gate held.
  void map(std::uint64_t address) const noexcept;

 private:
  Worker& worker_;
  ucp_rkey_h handle_ = nullptr;
};

}  // namespace partita::link::ucx
