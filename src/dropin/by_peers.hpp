// Collectives of the MPI's that the ranks of a node make by writing to one another's GPU memory
// (docs/design/gpu-aware.md).
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "capi/gpu_aware.hpp"
#include "dropin/native.hpp"

namespace partita::dropin {

/// One call on this rank. The member of its collective makes it, if the ranks agree on that; one of them is called.
/// What is wrong with the arguments, the MPI finds.
class ByPeers {
 public:
  enum class Form : std::uint8_t { blocking, nonblocking };
  ByPeers(const char* call, MPI_Comm comm, Form form) : call_(call), comm_(comm), form_(form), outer_(innermost) {
    if (form == Form::blocking) innermost = this;
  }
  ~ByPeers() {
    if (form_ == Form::nonblocking) {
      Partita_Queued_free(queued_);
      return;
    }
    innermost = outer_;
    if (peers_ != nullptr && !has_ended_) Partita_End_peers(peers_);
  }
  ByPeers(const ByPeers&) = delete;
  ByPeers& operator=(const ByPeers&) = delete;

  /// This collective does not go so.
  void never() {}
  void broadcasts(void* buffer, MPI_Count count, MPI_Datatype type, int root);
  void gathers(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, MPI_Count out_count,
               MPI_Datatype out_type, int root) {
    if (begins(PeerCollective::Gather) &&
        (is(root) ? is_worth_it(size_, out_count, out_type) : is_worth_it(size_, in_count, in_type)) &&
        !lies_on_host(in, in_count, in_type))
      gather(in, in_count, in_type, out, is(root) ? in_a_row(out_count) : none(), out_type, root);
  }
  template <class Count, class Displacement>
  void gathers(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, const Count counts[],
               const Displacement displacements[], MPI_Datatype out_type, int root) {
    if (begins(PeerCollective::Gatherv) && !lies_on_host(in, in_count, in_type))
      gather(in, in_count, in_type, out, is(root) ? spread(counts, displacements) : none(), out_type, root);
  }
  void scatters(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, MPI_Count out_count,
                MPI_Datatype out_type, int root) {
    if (begins(PeerCollective::Scatter) &&
        (is(root) ? is_worth_it(size_, in_count, in_type) : is_worth_it(size_, out_count, out_type)) &&
        !lies_on_host(out, out_count, out_type))
      scatter(in, is(root) ? in_a_row(in_count) : none(), in_type, out, out_count, out_type, root);
  }
  template <class Count, class Displacement>
  void scatters(const void* in, const Count counts[], const Displacement displacements[], MPI_Datatype in_type,
                void* out, MPI_Count out_count, MPI_Datatype out_type, int root) {
    if (begins(PeerCollective::Scatterv) && !lies_on_host(out, out_count, out_type))
      scatter(in, is(root) ? spread(counts, displacements) : none(), in_type, out, out_count, out_type, root);
  }
  void gathers_at_all(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, MPI_Count out_count,
                      MPI_Datatype out_type) {
    if (begins(PeerCollective::Allgather) && is_worth_it(size_, out_count, out_type) &&
        !lies_on_host(in, in_count, in_type))
      gather_at_all(in, in_count, in_type, out, in_a_row(out_count), out_type);
  }
  template <class Count, class Displacement>
  void gathers_at_all(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, const Count counts[],
                      const Displacement displacements[], MPI_Datatype out_type) {
    if (begins(PeerCollective::Allgatherv) && is_worth_it(1, total(counts), out_type) &&
        !lies_on_host(in, in_count, in_type))
      gather_at_all(in, in_count, in_type, out, spread(counts, displacements), out_type);
  }
  void exchanges(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, MPI_Count out_count,
                 MPI_Datatype out_type) {
    if (begins(PeerCollective::Alltoall) && is_worth_it(size_, out_count, out_type) &&
        !lies_on_host(in, in_count, in_type))
      exchange(in, in_a_row(in_count), in_type, out, in_a_row(out_count), out_type);
  }
  /// Counts differ between ranks, which learn only from each other how much it is.
  template <class Count, class Displacement>
  void exchanges(const void* in, const Count in_counts[], const Displacement in_displacements[], MPI_Datatype in_type,
                 void* out, const Count out_counts[], const Displacement out_displacements[], MPI_Datatype out_type) {
    if (!begins(PeerCollective::Alltoallv) || lies_on_host(in, in_counts, in_displacements, in_type)) return;
    exchange(in, in == MPI_IN_PLACE ? none() : spread(in_counts, in_displacements), in_type, out,
             spread(out_counts, out_displacements), out_type);
  }

  void reduces(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op, int root);
  void reduces_for_all(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op);
  void reduces_and_scatters(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op) {
    if (begins(PeerCollective::Reduce_scatter_block) && is_worth_it(size_, count, type) &&
        !lies_on_host(in, count, type))
      reduce(in, out, in_a_row(count), type, op, PeerShares::To::owner, 0);
  }
  template <class Count>
  void reduces_and_scatters(const void* in, void* out, const Count counts[], MPI_Datatype type, MPI_Op op) {
    if (begins(PeerCollective::Reduce_scatter) && is_worth_it(1, total(counts), type) && !lies_on_host(in, 1, type))
      reduce(in, out, behind_each_other(counts), type, op, PeerShares::To::owner, 0);
  }

  /// Runs `describe`, which calls one of these. A rank that finds no memory to describe its call says no, and stays in
  /// step with the others: the MPI makes it.
  template <class Describe>
  void tries(const Describe& describe) {
    try {
      describe();
    } catch (const std::bad_alloc&) {
      if (peers_ == nullptr || is_asking_) throw;  // a handler of the program's has
      leave();
    }
  }

  // A nonblocking one:
  /// Whether it may go so: all ranks make it in the order of such calls. Otherwise it is the MPI's own.
  bool is_in_order() const { return peers_ != nullptr; }
  /// Whether this rank wants it by peers.
  bool is_wanted() const { return queued_ != nullptr; }
  Partita_Queued take() { return std::exchange(queued_, nullptr); }
  /// The MPI has made it.
  void count() { Partita_Count_in_order(peers_); }

  // A blocking one:

  /// Whether nothing is left to do: it was made, or has failed, which was raised.
  bool is_made() {
    has_ended_ = moved_ != 0 || code_ != MPI_SUCCESS;
    return has_ended_;
  }
  int code() const { return code_; }
  /// Otherwise the MPI makes it: how that ended, or the staging for it.
  void by_mpi(int code) { has_ended_ = code == MPI_SUCCESS; }

 private:
  /// An entry for each rank.
  using Parts = std::vector<PeerPart>;

  /// Whether this call may go so.
  bool begins(PeerCollective collective);
  bool begins_in_order(PeerCollective collective);
  /// This rank does not want it by peers. A nonblocking one need not tell the others yet.
  void leave() {
    if (form_ == Form::blocking) Partita_Leave_peers(peers_);
  }
  /// A nonblocking call is the MPI's own.
  void leave_order() { peers_ = nullptr; }
  /// Whether nothing has to be known of a call whose buffers are host memory. Behind others the MPI makes a nonblocking
  /// one later: what is wrong with it has to be found at the call.
  bool is_done_with_host() const { return form_ == Form::blocking || is_first_ != 0; }
  /// Any MPI refuses the call for it.
  void refuse_if(bool is_wrong) { is_refused_ |= is_wrong; }
  bool is(int root) const { return rank_ == root; }
  Parts none() const { return Parts(static_cast<std::size_t>(size_)); }
  /// `count` elements from the buffer's begin for `rank`, none for others.
  Parts only(int rank, MPI_Count count) const {
    Parts parts = none();
    parts[static_cast<std::size_t>(rank)] = {0, count};
    return parts;
  }
  Parts in_a_row(MPI_Count count) const;
  template <class Count, class Displacement>
  Parts spread(const Count counts[], const Displacement displacements[]) {
    Parts parts = none();
    const bool are_missing = counts == nullptr || displacements == nullptr;
    is_valid_ &= !are_missing;
    refuse_if(are_missing);
    for (std::size_t rank = 0; is_valid_ && rank < parts.size(); ++rank)
      parts[rank] = {static_cast<std::int64_t>(displacements[rank]), static_cast<std::int64_t>(counts[rank])};
    return parts;
  }

  void gather(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, Parts out_parts,
              MPI_Datatype out_type, int root);
  void scatter(const void* in, Parts in_parts, MPI_Datatype in_type, void* out, MPI_Count out_count,
               MPI_Datatype out_type, int root);
  void gather_at_all(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, Parts out_parts,
                     MPI_Datatype out_type);
  void exchange(const void* in, Parts in_parts, MPI_Datatype in_type, void* out, Parts out_parts,
                MPI_Datatype out_type);

  template <class Count>
  Parts behind_each_other(const Count counts[]) {
    Parts parts = none();
    is_valid_ &= counts != nullptr;
    std::int64_t first = 0;
    for (std::size_t rank = 0; is_valid_ && rank < parts.size(); ++rank) {
      parts[rank] = {first, static_cast<std::int64_t>(counts[rank])};
      first += parts[rank].count;
    }
    return parts;
  }
  /// A share for each rank.
  Parts shares_of(MPI_Count count) const;
  void reduce(const void* in, void* out, const Parts& shares, MPI_Datatype type, MPI_Op op, PeerShares::To to,
              int root);

  /// All ranks know by their own arguments that so many blocks fill the larger buffer of a rank. Where that is too
  /// little the others are told that the MPI makes the call: they may have other arguments, by mistake.
  bool is_worth_it(MPI_Count blocks, MPI_Count count, MPI_Datatype type);
  /// Whether one of this rank's buffers, with so many elements from its begin on, is none of GPU memory: the others are
  /// told that the MPI makes the call, before anything of it is described. False where the call leaves that open.
  bool lies_on_host(const void* buffer, MPI_Count count, MPI_Datatype type);
  template <class Count, class Displacement>
  bool lies_on_host(const void* buffer, const Count counts[], const Displacement displacements[], MPI_Datatype type) {
    if (buffer == MPI_IN_PLACE || counts == nullptr || displacements == nullptr || type == MPI_DATATYPE_NULL)
      return false;
    const int block =
        static_cast<int>(std::find_if(counts, counts + size_, [](Count count) { return count > 0; }) - counts);
    MPI_Count lower_bound = 0;
    MPI_Count extent_bytes = 0;
    if (block == size_ || native().Type_get_extent_x(type, &lower_bound, &extent_bytes) != MPI_SUCCESS) return false;
    return lies_on_host(shifted(buffer, displacements[block] * extent_bytes), counts[block], type);
  }
  template <class Count>
  MPI_Count total(const Count counts[]) {
    is_valid_ &= counts != nullptr;
    MPI_Count sum = 0;
    for (int rank = 0; is_valid_ && rank < size_; ++rank) sum += counts[rank];
    return sum;
  }
  void reads(const void* in, MPI_Datatype type, Parts parts);
  void writes(void* out, MPI_Datatype type, Parts parts);
  void check_root(int root) {
    const bool is_none = root < 0 || root >= size_;
    is_valid_ &= !is_none;
    refuse_if(is_none);
  }
  /// Asks the MPI about the elements of a buffer, and about an operation, of a call that it makes later.
  void check_elements(const void* buffer, MPI_Datatype type, const Parts& parts);
  void check_operands(const void* buffer, MPI_Datatype type, MPI_Count count);
  void check_reduction(const PeerShares& described, const Parts& shares);
  /// Whether the MPI may take them for elements of that buffer.
  static bool are_valid(const Parts& parts, const void* buffer, MPI_Datatype type);
  /// Agrees with the other ranks, and moves.
  void make();
  /// Calls `describe()`, which describes a nonblocking one.
  template <class Describe>
  void describe(const Describe& describe);

  /// Whether a call that has not returned is of this communicator, too: a handler of the program's makes this one,
  /// which that call's error has called.
  bool is_within_another() const;

  const char* call_;
  MPI_Comm comm_;
  const Form form_;
  const ByPeers* outer_;
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local const ByPeers* innermost = nullptr;
  Partita_Peers peers_ = nullptr;
  int size_ = 0;
  int rank_ = 0;
  bool is_valid_ = true;
  bool is_asking_ = false;     ///< the other ranks, whether they want the call
  int is_first_ = 1;           ///< of nonblocking ones, none waits before it
  bool is_refused_ = false;    ///< of a nonblocking one, by the MPI
  bool lies_on_host_ = false;  ///< of a nonblocking one, as far as it was asked
  bool has_ended_ = false;     ///< the call was made, or has failed by peers
  Parts sent_;
  Parts received_;
  PeerParts parts_{};
  Partita_Queued queued_ = nullptr;
  int moved_ = 0;
  int code_ = MPI_SUCCESS;
};

}  // namespace partita::dropin
