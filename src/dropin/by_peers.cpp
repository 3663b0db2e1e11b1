#include "dropin/by_peers.hpp"

#include <algorithm>
#include <utility>

#include "dropin/native.hpp"

namespace partita::dropin {

bool ByPeers::begins_in_order(PeerCollective collective) {
  PeerRanks ranks{};
  code_ = Partita_Begin_in_order(comm_, collective, &peers_, &ranks, &is_first_);
  if (code_ != MPI_SUCCESS || peers_ == nullptr) return false;
  size_ = ranks.size;
  rank_ = ranks.rank;
  parts_.from_bytes = ranks.from_bytes;
  return true;
}

bool ByPeers::begins(PeerCollective collective) {
  if (form_ == Form::nonblocking) return begins_in_order(collective);
  PeerRanks ranks{};
  int may_ask = 0;
  code_ = Partita_Begin_by_peers(comm_, collective, &peers_, &ranks, &may_ask);
  if (code_ != MPI_SUCCESS || peers_ == nullptr) return false;
  if (is_within_another()) {  // whose number the others may not have come to, or be behind
    Partita_End_peers(peers_);
    return false;
  }
  if (may_ask == 0) return false;
  size_ = ranks.size;
  rank_ = ranks.rank;
  parts_.from_bytes = ranks.from_bytes;
  return true;
}

bool ByPeers::is_within_another() const {
  const ByPeers* outer = outer_;
  while (outer != nullptr && outer->peers_ != peers_) outer = outer->outer_;
  return outer != nullptr;
}

ByPeers::Parts ByPeers::in_a_row(MPI_Count count) const {
  Parts parts = none();
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    parts[rank] = {static_cast<std::int64_t>(rank) * count, static_cast<std::int64_t>(count)};
  return parts;
}

bool ByPeers::is_worth_it(MPI_Count blocks, MPI_Count count, MPI_Datatype type) {
  MPI_Count element_bytes = 0;
  is_valid_ &= type != MPI_DATATYPE_NULL && native().Type_size_x(type, &element_bytes) == MPI_SUCCESS;
  if (is_valid_ && blocks * count * element_bytes >= parts_.from_bytes) {
    parts_.is_enough = true;
    return true;
  }
  leave();
  if (form_ == Form::nonblocking) leave_order();
  return false;
}

bool ByPeers::lies_on_host(const void* buffer, MPI_Count count, MPI_Datatype type) {
  const bool is_open = buffer == MPI_IN_PLACE || count <= 0 || type == MPI_DATATYPE_NULL;
  if (is_open || Partita_gpu_of(buffer, count, type) >= 0) return false;
  leave();
  lies_on_host_ = true;
  return is_done_with_host();
}

bool ByPeers::are_valid(const Parts& parts, const void* buffer, MPI_Datatype type) {
  return type != MPI_DATATYPE_NULL && buffer != MPI_IN_PLACE &&
         std::ranges::all_of(parts, [](const PeerPart& part) { return part.count >= 0; });
}

/// Where the MPI makes the call at once it says so itself.
void ByPeers::check_elements(const void* buffer, MPI_Datatype type, const Parts& parts) {
  if (is_done_with_host()) return;
  MPI_Count least = 0;
  MPI_Count most = 0;
  for (const PeerPart& part : parts) {
    least = std::min<MPI_Count>(least, part.count);
    most = std::max<MPI_Count>(most, part.count);
  }
  check_operands(buffer, type, least < 0 ? least : most);
}

void ByPeers::check_operands(const void* buffer, MPI_Datatype type, MPI_Count count) {
  if (buffer != MPI_IN_PLACE && !is_refused_) refuse_if(Partita_Are_refused(buffer, count, type) != 0);
}

void ByPeers::check_reduction(const PeerShares& described, const Parts& shares) {
  if (is_done_with_host()) return;
  MPI_Count all = 0;
  for (const PeerPart& share : shares) all += share.count;
  check_operands(described.in, described.type, all);
  const bool gets_own = described.to == PeerShares::To::owner && described.in != described.out;
  if (described.to != PeerShares::To::root || is(described.root))
    check_operands(described.out, described.type, gets_own ? shares[static_cast<std::size_t>(rank_)].count : all);
  if (!is_refused_) refuse_if(described.op == MPI_OP_NULL || Partita_is_refused(described.op, described.type) != 0);
}

void ByPeers::reads(const void* in, MPI_Datatype type, Parts parts) {
  check_elements(in, type, parts);
  is_valid_ &= are_valid(parts, in, type);
  parts_.in = in;
  parts_.in_type = type;
  sent_ = std::move(parts);
}

void ByPeers::writes(void* out, MPI_Datatype type, Parts parts) {
  check_elements(out, type, parts);
  is_valid_ &= are_valid(parts, out, type);
  parts_.out = out;
  parts_.out_type = type;
  received_ = std::move(parts);
}

void ByPeers::make() {
  if (sent_.empty()) sent_ = none();
  if (received_.empty()) received_ = none();
  parts_.call = call_;
  parts_.is_valid = is_valid_;
  parts_.sent = sent_.data();
  parts_.received = received_.data();
  if (form_ == Form::nonblocking) return describe([&] { return Partita_Describe_move(comm_, &parts_, &queued_); });
  is_asking_ = true;
  code_ = Partita_Move_by_peers(peers_, &parts_, comm_, &moved_);
}

/// A call that the MPI refuses is none: the program may make another in its place. So the MPI has to say it now. Where
/// nothing waits before it that is so; behind others it makes on the program's communicator what it refuses there. What
/// it takes never leaves the order, for the other ranks do not know this rank's arguments.
template <class Describe>
void ByPeers::describe(const Describe& describe) {
  if (is_refused_ && is_first_ == 0) return leave_order();
  if (is_valid_ && !lies_on_host_) code_ = describe();
}

/// In whole lines of the GPU's memory, whatever the element.
ByPeers::Parts ByPeers::shares_of(MPI_Count count) const {
  constexpr MPI_Count elements_of_lines = 128;
  const MPI_Count even = (count + size_ - 1) / size_;
  const MPI_Count share = (even + elements_of_lines - 1) / elements_of_lines * elements_of_lines;
  Parts parts = none();
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const MPI_Count first = std::min(static_cast<MPI_Count>(rank) * share, count);
    parts[rank] = {first, std::min(share, count - first)};
  }
  return parts;
}

void ByPeers::reduces(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op, int root) {
  if (!begins(PeerCollective::Reduce) || !is_worth_it(1, count, type) || lies_on_host(in, count, type)) return;
  check_root(root);
  is_valid_ &= count >= 0 && (is(root) || in != MPI_IN_PLACE);
  reduce(in, is(root) ? out : nullptr, is_valid_ ? shares_of(count) : none(), type, op, PeerShares::To::root, root);
}

void ByPeers::reduces_for_all(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op) {
  if (!begins(PeerCollective::Allreduce) || !is_worth_it(1, count, type)) return;
  if (lies_on_host(in == MPI_IN_PLACE ? out : in, count, type)) return;
  is_valid_ &= count >= 0;
  reduce(in, out, is_valid_ ? shares_of(count) : none(), type, op, PeerShares::To::all, 0);
}

/// All ranks give the same counts.
void ByPeers::reduce(const void* in, void* out, const Parts& shares, MPI_Datatype type, MPI_Op op, PeerShares::To to,
                     int root) {
  is_valid_ &= are_valid(shares, out, type) && op != MPI_OP_NULL;
  PeerShares described{};
  described.call = call_;
  described.is_valid = is_valid_ && in != out;
  described.in = in == MPI_IN_PLACE ? out : in;
  described.out = out;
  described.type = type;
  described.op = op;
  described.shares = shares.data();
  described.to = to;
  described.root = root;
  check_reduction(described, shares);
  if (form_ == Form::nonblocking)
    return describe([&] { return Partita_Describe_reduction(comm_, &described, &queued_); });
  is_asking_ = true;
  code_ = Partita_Reduce_by_peers(peers_, &described, comm_, &moved_);
}

void ByPeers::broadcasts(void* buffer, MPI_Count count, MPI_Datatype type, int root) {
  if (!begins(PeerCollective::Bcast) || !is_worth_it(1, count, type) || lies_on_host(buffer, count, type)) return;
  check_root(root);
  if (is(root)) {
    Parts parts = none();
    std::ranges::fill(parts, PeerPart{0, count});
    parts[static_cast<std::size_t>(rank_)] = {};
    reads(buffer, type, std::move(parts));
  } else if (is_valid_) {
    writes(buffer, type, only(root, count));
  }
  make();
}

void ByPeers::gather(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, Parts out_parts,
                     MPI_Datatype out_type, int root) {
  check_root(root);
  const bool is_in_place = is(root) && in == MPI_IN_PLACE;
  if (is_in_place) out_parts[static_cast<std::size_t>(rank_)] = {};
  if (is(root)) writes(out, out_type, std::move(out_parts));
  if (is_valid_ && !is_in_place) reads(in, in_type, only(root, in_count));
  make();
}

void ByPeers::scatter(const void* in, Parts in_parts, MPI_Datatype in_type, void* out, MPI_Count out_count,
                      MPI_Datatype out_type, int root) {
  check_root(root);
  const bool is_in_place = is(root) && out == MPI_IN_PLACE;
  if (is_in_place) in_parts[static_cast<std::size_t>(rank_)] = {};
  if (is(root)) reads(in, in_type, std::move(in_parts));
  if (is_valid_ && !is_in_place) writes(out, out_type, only(root, out_count));
  make();
}

/// All ranks give the same counts.
void ByPeers::gather_at_all(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, Parts out_parts,
                            MPI_Datatype out_type) {
  PeerPart& own = out_parts[static_cast<std::size_t>(rank_)];
  if (in == MPI_IN_PLACE) {
    Parts in_parts = none();
    std::ranges::fill(in_parts, std::exchange(own, {}));
    in_parts[static_cast<std::size_t>(rank_)] = {};
    reads(out, out_type, std::move(in_parts));
  } else {
    Parts in_parts = none();
    std::ranges::fill(in_parts, PeerPart{0, in_count});
    reads(in, in_type, std::move(in_parts));
  }
  writes(out, out_type, std::move(out_parts));
  make();
}

void ByPeers::exchange(const void* in, Parts in_parts, MPI_Datatype in_type, void* out, Parts out_parts,
                       MPI_Datatype out_type) {
  parts_.swaps = in == MPI_IN_PLACE;
  if (parts_.swaps) {
    out_parts[static_cast<std::size_t>(rank_)] = {};
    reads(out, out_type, out_parts);
  } else {
    reads(in, in_type, std::move(in_parts));
  }
  writes(out, out_type, std::move(out_parts));
  make();
}

}  // namespace partita::dropin
