// Collectives of the MPI's on GPU memory, and a send with a receive, which get it in host memory
// (docs/design/gpu-aware.md).
#pragma once

#include <mpi.h>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "capi/gpu_aware.hpp"
#include "dropin/comm_shape.hpp"
#include "dropin/native.hpp"

namespace partita::dropin {

/// The elements that an argument of a collective names. Empty where it means nothing on this rank.
using Blocks = std::vector<ElementBlock>;

/// The elements of `blocks` blocks that follow one another.
inline Blocks in_a_row(MPI_Count blocks, MPI_Count count, MPI_Datatype datatype) {
  return blocks > 0 ? Blocks{{0, blocks * count, datatype}} : Blocks{};
}

/// `blocks` blocks with a count and a displacement each, in elements. None where an array is null, which the MPI
/// refuses.
template <class Count, class Displacement>
Blocks at_displacements(int blocks, const Count counts[], const Displacement displacements[], MPI_Datatype datatype) {
  Blocks elements;
  MPI_Count lower_bound = 0;
  MPI_Count extent = 0;
  if (blocks == 0 || counts == nullptr || displacements == nullptr || datatype == MPI_DATATYPE_NULL ||
      native().Type_get_extent_x(datatype, &lower_bound, &extent) != MPI_SUCCESS)
    return elements;
  for (int i = 0; i < blocks; ++i) {
    const auto offset = static_cast<std::int64_t>(displacements[i]) * extent;
    if (counts[i] > 0) elements.push_back({offset, static_cast<std::int64_t>(counts[i]), datatype});
  }
  return elements;
}

/// `blocks` blocks with a count, a displacement in bytes and a datatype each. None where an array is null.
template <class Count, class Displacement>
Blocks at_displacements(int blocks, const Count counts[], const Displacement displacements[],
                        const MPI_Datatype datatypes[]) {
  Blocks elements;
  if (blocks == 0 || counts == nullptr || displacements == nullptr || datatypes == nullptr) return elements;
  for (int i = 0; i < blocks; ++i) {
    if (counts[i] > 0)
      elements.push_back(
          {static_cast<std::int64_t>(displacements[i]), static_cast<std::int64_t>(counts[i]), datatypes[i]});
  }
  return elements;
}

/// The buffers of one call. Those in GPU memory are replaced by mirrors in host memory.
class Staging : public CommShape {
 public:
  explicit Staging(MPI_Comm comm) : CommShape(comm), comm_(comm) {}
  ~Staging() { Partita_Stage_free(stage_, is_the_mpis_ ? 1 : 0); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// A buffer that the MPI reads.
  void sends(const void*& buffer, const Blocks& blocks) { buffer = staged(buffer, blocks, BufferUse::reads); }
  /// One that it writes; `holds_data` where it may leave some as it is, or reads it first: the call is in place, not
  /// every block has a peer, or a message may be shorter than its buffer.
  void receives(void*& buffer, const Blocks& blocks, bool holds_data) {
    buffer = staged(buffer, blocks, holds_data ? BufferUse::reads_and_writes : BufferUse::writes);
  }
  /// The one buffer of MPI_Bcast: the root's is read, the others' are written.
  void broadcasts(void*& buffer, int root, const Blocks& blocks);

  /// The counts of all ranks together.
  template <class Count>
  MPI_Count total(const Count counts[]) const {
    return counts == nullptr ? 0 : std::accumulate(counts, counts + size(), MPI_Count{0});
  }
  template <class Count>
  MPI_Count own(const Count counts[]) const {
    return counts == nullptr || size() == 0 ? 0 : static_cast<MPI_Count>(counts[rank()]);
  }

  /// Makes the MPI's call, and returns its code, or that of an error of the staging, which has been raised.
  template <class Call>
  int run(Call call) {
    if (code_ != MPI_SUCCESS) return code_;
    if (stage_ == nullptr) return call();
    if (const int code = Partita_Stage_fetch(stage_, comm_); code != MPI_SUCCESS) return code;
    is_the_mpis_ = true;
    if (const int code = call(); code != MPI_SUCCESS) return code;
    is_the_mpis_ = false;
    return Partita_Stage_deliver(stage_, comm_);
  }

  /// What there was wrong with the buffers.
  int code() const { return code_; }
  /// Takes from the GPU what the call reads.
  int fetch() { return stage_ == nullptr ? MPI_SUCCESS : Partita_Stage_fetch(stage_, comm_); }
  /// It frees nothing: somebody else does.
  Partita_Stage take() { return std::exchange(stage_, nullptr); }

  /// What a call is that makes a request.
  enum class Kind { collective, persistent_collective, exchange };
  /// The same for such a call, `call(request)`, which the program knows as `name`, a text that stays. Buffers in GPU
  /// memory make it a request of ours.
  template <class Call>
  int request(const char* name, Kind kind, MPI_Request* handle, Call call) {
    if (code_ != MPI_SUCCESS) return code_;
    if (stage_ == nullptr) return call(handle);
    return staged_request(
        {name, kind != Kind::exchange, kind == Kind::persistent_collective,
         [](void* context, MPI_Request* made) { return (*static_cast<Call*>(context))(made); }, &call},
        handle);
  }

  /// Likewise for a nonblocking collective that the MPI makes on a communicator of Partita's. It is always a request of
  /// ours, from which the program's error handler hears of errors.
  template <class Call>
  int request_apart(const char* name, MPI_Request* handle, Call call) {
    if (code_ != MPI_SUCCESS) return code_;
    return staged_request(
        {name, true, false, [](void* context, MPI_Request* made) { return (*static_cast<Call*>(context))(made); },
         &call, true},
        handle);
  }

 private:
  int staged_request(const CallToStage& call, MPI_Request* handle);
  /// What stands for `buffer`.
  void* staged(const void* buffer, const Blocks& blocks, BufferUse use);

  MPI_Comm comm_;
  Partita_Stage stage_ = nullptr;
  int code_ = MPI_SUCCESS;
  bool is_the_mpis_ = false;  ///< what it has failed to move it may still have in its hands
};

}  // namespace partita::dropin
