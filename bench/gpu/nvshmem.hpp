// NVSHMEM's put and signal from kernels beside Partita, loaded at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "bench/gpu/memory.hpp"
#include "bench/gpu/memory_copy.hpp"
#include "bench/gpu/nvshmem_peer.h"
#include "bench/measurement.hpp"

namespace partita::bench::gpu {

/// The library of nvshmem_peer.h and the job of the two ranks in it. Collective to make and to end.
class Nvshmem {
 public:
  explicit Nvshmem(Job& job);
  ~Nvshmem() { end_(); }
  Nvshmem(const Nvshmem&) = delete;
  Nvshmem& operator=(const Nvshmem&) = delete;

  /// One for all cases of a run; null with --nvshmem none. Collective.
  static std::shared_ptr<Nvshmem> find(Job& job);

  decltype(&partita_nvshmem_allocate) allocate{};
  decltype(&partita_nvshmem_free) free{};
  decltype(&partita_nvshmem_ping_pong) ping_pong{};
  decltype(&partita_nvshmem_put) put{};
  decltype(&partita_nvshmem_add_and_put) add_and_put{};
  decltype(&partita_nvshmem_mark) mark{};
  decltype(&partita_nvshmem_await) await{};

 private:
  void start(const Job& job) const;

  decltype(&partita_nvshmem_id_bytes) id_bytes_{};
  decltype(&partita_nvshmem_make_id) make_id_{};
  decltype(&partita_nvshmem_start) start_{};
  decltype(&partita_nvshmem_end) end_{};
};

/// Zeroed symmetric memory of both ranks. Collective to make and to end.
class SymmetricBuffer {
 public:
  SymmetricBuffer(std::shared_ptr<Nvshmem> nvshmem, std::size_t size_bytes);
  ~SymmetricBuffer() { nvshmem_->free(base_); }
  SymmetricBuffer(const SymmetricBuffer&) = delete;
  SymmetricBuffer& operator=(const SymmetricBuffer&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(base_); }
  std::uint64_t* signals() const { return static_cast<std::uint64_t*>(base_); }

 private:
  std::shared_ptr<Nvshmem> nvshmem_;
  void* base_;
};

/// Failure where a kernel of the `measurement` waited in vain for the peer's signal.
void check(const partita_nvshmem_report& report, const char* measurement);

/// Half a ping-pong of put + signal in a kernel of one block, one thread where the message is small; null with
/// --nvshmem none.
std::unique_ptr<Measurement> nvshmem_ping_pong(Job& job, const Case& c, int threads);

/// Microseconds in which the blocks of a running kernel put a message, completed at the target; null with --nvshmem
/// none.
std::unique_ptr<Measurement> nvshmem_put(Job& job, const Case& c, const GridShape& grid);

}  // namespace partita::bench::gpu
