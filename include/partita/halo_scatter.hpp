// The C++ API: how a halo adds ghost cells to the cells of their owners. <partita/halo.hpp> includes this.
//
//   field in host memory          field in GPU memory
//                                                    fetch                          put back
//   ghost cells of neighbours      rim of the block ───────► the same cells of an ────────► rim of the block
//        │ scatter                                           image in host memory
//        ▼                         ghost cells of neighbours         ▲
//   message ── add ──► own cells        └─ scatter ─► message ─ add ─┘
#ifndef PARTITA_HALO_SCATTER_HPP
#define PARTITA_HALO_SCATTER_HPP

#include <mpi.h>
#include <partita/partita.h>
#include <partita/communicator.hpp>
#include <partita/completion.hpp>
#include <partita/error.hpp>
#include <partita/halo_block.hpp>
#include <partita/halo_field.hpp>
#include <partita/halo_messages.hpp>
#include <partita/request.hpp>
#include <partita/runtime.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace partita::detail {

/// Memory of Partita_Alloc.
class halo_memory final {
 public:
  explicit halo_memory(long long size_bytes) {
    if (size_bytes > 0) check(Partita_Alloc(static_cast<MPI_Aint>(size_bytes), MPI_INFO_NULL, &base_));
  }
  halo_memory(const halo_memory&) = delete;
  halo_memory& operator=(const halo_memory&) = delete;
  ~halo_memory() {
    if (base_ != nullptr && is_running()) Partita_Free(base_);
  }
  [[nodiscard]] std::byte* base() const noexcept { return static_cast<std::byte*>(base_); }
  /// Leaves the memory to Partita_Finalize.
  void leave() noexcept { base_ = nullptr; }

 private:
  void* base_ = nullptr;
};

/// Whether the host can add to a field's cells where they are: asked of a request on them, which never starts.
inline bool is_in_host_memory(communicator comm, const halo_field& field) {
  const request probe = comm.send_init(field.cells(), 1, MPI_BYTE, comm.rank(), 0);
  MPI_Info info = MPI_INFO_NULL;
  check(Partita_Request_get_info(probe.handle(), &info));
  std::array<char, MPI_MAX_INFO_VAL + 1> memory{};
  int found = 0;
  const int code = MPI_Info_get(info, "partita_memory", MPI_MAX_INFO_VAL, memory.data(), &found);
  MPI_Info_free(&info);
  check(code);
  return std::string(memory.data()) == "host";
}

/// The own cells that neighbours have as ghost cells, as boxes that do not overlap.
template <std::size_t Dims>
std::vector<halo_region<Dims>> rim_of(const halo_block<Dims>& block) {
  std::vector<halo_region<Dims>> boxes;
  halo_region<Dims> rest;
  for (std::size_t d = 0; d < Dims; ++d) {
    rest.first[d] = block.width;
    rest.cells[d] = block.cells[d];
  }
  for (std::size_t d = 0; d < Dims; ++d) {
    halo_region<Dims> low = rest;
    if (rest.cells[d] <= 2 * block.width) {
      boxes.push_back(rest);
      break;
    }
    low.cells[d] = block.width;
    halo_region<Dims> high = low;
    high.first[d] = block.cells[d];
    boxes.push_back(low);
    boxes.push_back(high);
    rest.first[d] += block.width;
    rest.cells[d] -= 2 * block.width;
  }
  return boxes;
}

/// Host memory in which the cells of a field in GPU memory have the places that they have there. Only those of the rim
/// are used: what nobody touches takes no memory.
template <std::size_t Dims>
class halo_image final {
 public:
  halo_image(const halo_block<Dims>& block, const halo_field& field)
      : span_(block, field.cell_bytes()), memory_(span_.bytes), field_(field.at(memory_.base() + span_.before)) {}

  [[nodiscard]] const halo_field& field() const noexcept { return field_; }
  void leave() noexcept { memory_.leave(); }

 private:
  struct span {
    span(const halo_block<Dims>& block, long long cell_bytes) : bytes(cell_bytes) {
      const auto strides = block.true_strides();
      for (std::size_t d = 0; d < Dims; ++d) {
        const long long cells = block.cells[d] + 2LL * block.width - 1;
        const long long length = cells * strides[d] * cell_bytes;
        before -= std::min(length, 0LL);
        bytes += std::max(length, -length);
      }
    }
    long long before = 0;  ///< the first ghost cell
    long long bytes;
  };

  span span_;
  halo_memory memory_;
  halo_field field_;
};

/// The requests of scatter, and the memory for what arrives.
template <std::size_t Dims>
class halo_scatter final {
 public:
  /// Throws (MPI_ERR_TYPE) unless the elements of all fields have a sum. Collective: matches its requests.
  explicit halo_scatter(const halo_messages<Dims>& messages)
      : arrived_(arriving_bytes(messages)), sums_(add_images(messages)) {
    const halo_block<Dims>& block = messages.block();
    std::byte* next = arrived_.base();
    messages.for_each([&](std::size_t direction, const halo_offset<Dims>& offset, std::size_t field) {
      const halo_field& sum = sums_[field];
      const halo_part own(block, own_region(block, offset), sum);
      additions_.push_back({sum.add(), own.first(), next, own.cells(), sum.components()});
      requests_.push_back(messages.receive_packed(next, own.bytes(), halo_purpose::scatter, direction, field));
      next += aligned(own.bytes());
    });
    messages.for_each([&](std::size_t direction, const halo_offset<Dims>& offset, std::size_t field) {
      const halo_part ghosts(block, ghost_region(block, offset), messages.fields()[field]);
      requests_.push_back(messages.send(ghosts, halo_purpose::scatter, direction, field, halo_sends::regular));
    });
    matchall(requests_);
    matchall(put_backs_);
  }

  void run() {
    startall(requests_);
    waitall(requests_);
    for (const addition& each : additions_) each.add(each.to, each.message, each.cells, each.components);
    startall(put_backs_);
    waitall(put_backs_);
  }

  void free_requests() noexcept {
    requests_.clear();
    put_backs_.clear();
  }
  /// Leaves the memory, into which neighbours may write, to Partita_Finalize.
  void leave_memory() noexcept {
    arrived_.leave();
    for (const auto& each : images_) each->leave();
  }

 private:
  /// A message that has arrived, and the cells that it is added to.
  struct addition {
    halo_field::adder add;
    std::byte *to, *message;
    halo_cells cells;
    int components;
  };

  static long long aligned(long long bytes) noexcept { return (bytes + 63) / 64 * 64; }
  static long long arriving_bytes(const halo_messages<Dims>& messages) {
    long long bytes = 0;
    messages.for_each([&](std::size_t, const halo_offset<Dims>& offset, std::size_t field) {
      const halo_region<Dims> region = own_region(messages.block(), offset);
      long long cells = 1;
      for (const int each : region.cells) cells *= each;
      bytes += aligned(cells * messages.fields()[field].cell_bytes());
    });
    return bytes;
  }

  /// The fields as the host adds to them; those in GPU memory have images.
  std::vector<halo_field> add_images(const halo_messages<Dims>& messages) {
    std::vector<halo_field> sums = messages.fields();
    for (std::size_t f = 0; f < sums.size(); ++f) {
      if (sums[f].add() == nullptr) {
        const std::string sentence =
            "partita::halo: field " + std::to_string(f) + " cannot be scattered: its elements have no sum";
        check(Partita_Raise(messages.comm().handle(), MPI_ERR_TYPE, sentence.c_str()));
      }
    }
    for (std::size_t f = 0; f < sums.size(); ++f) {
      if (is_in_host_memory(messages.comm(), sums[f])) continue;
      images_.push_back(std::make_unique<halo_image<Dims>>(messages.block(), sums[f]));
      std::size_t number = 0;
      for (const halo_region<Dims>& box : rim_of(messages.block())) {
        const halo_part on_gpu(messages.block(), box, sums[f]);
        const halo_part in_image(messages.block(), box, images_.back()->field());
        messages.carry(on_gpu, in_image, halo_purpose::fetch, number, f, requests_);
        messages.carry(in_image, on_gpu, halo_purpose::put_back, number++, f, put_backs_);
      }
      sums[f] = images_.back()->field();
    }
    return sums;
  }

  halo_memory arrived_;
  std::vector<std::unique_ptr<halo_image<Dims>>> images_;
  std::vector<request> requests_, put_backs_;  ///< freed before the memory
  std::vector<halo_field> sums_;
  std::vector<addition> additions_;
};

}  // namespace partita::detail
#endif
