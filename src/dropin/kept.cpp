#include "dropin/kept.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/refuse.hpp"

namespace partita::dropin {
namespace {

/// Nobody can free it. What the MPI does not know is left for others to complain about.
bool is_predefined_type(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return true;
  int combiner = MPI_COMBINER_NAMED;
#if PARTITA_HAS_LARGE_COUNTS
  // The other query is an error for a type made with large counts.
  MPI_Count integers = 0, addresses = 0, large_counts = 0, types = 0;
  native().Type_get_envelope_c(type, &integers, &addresses, &large_counts, &types, &combiner);
#else
  int integers = 0, addresses = 0, types = 0;
  native().Type_get_envelope(type, &integers, &addresses, &types, &combiner);
#endif
  return combiner == MPI_COMBINER_NAMED;
}

bool is_predefined_op(MPI_Op op) {
  for (const MPI_Op each : {MPI_OP_NULL, MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_BAND, MPI_LOR, MPI_BOR,
                            MPI_LXOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC, MPI_REPLACE, MPI_NO_OP
#ifdef MPIX_EQUAL
                            ,
                            MPIX_EQUAL
#endif
       }) {
    if (op == each) return true;
  }
  return false;
}

/// Operations of the program's that are held: few, so a list.
struct HeldOps {
  struct Each {
    MPI_Op op;
    int holders = 0;
    bool is_freed = false;  ///< by the program
  };

  std::vector<Each>::iterator find(MPI_Op op) {
    return std::find_if(list.begin(), list.end(), [op](const Each& each) { return each.op == op; });
  }

  std::mutex mutex;
  std::vector<Each> list;
};

/// Never destroyed: the MPI may be called while the process exits.
HeldOps& held_ops() {
  static HeldOps& all = *new HeldOps;
  return all;
}

enum class Held { no, yes, freed_before };

/// The program has freed `op`: where it is held the last holder does so.
Held mark_freed(MPI_Op op) {
  HeldOps& all = held_ops();
  const std::lock_guard lock(all.mutex);
  const auto found = all.find(op);
  if (found == all.list.end()) return Held::no;
  return std::exchange(found->is_freed, true) ? Held::freed_before : Held::yes;
}

}  // namespace

/// Not a duplicate: that would have the attributes, whose callbacks are the program's.
KeptType::KeptType(MPI_Datatype of) : given_(of) {
  if (is_predefined_type(of)) return;
  if (native().Type_contiguous(1, of, &own_) != MPI_SUCCESS) throw std::bad_alloc();
  if (native().Type_commit(&own_) == MPI_SUCCESS) return;
  native().Type_free(&own_);
  throw std::bad_alloc();
}

KeptType::~KeptType() {
  if (own_ != MPI_DATATYPE_NULL) native().Type_free(&own_);
}

KeptType::KeptType(KeptType&& other) noexcept
    : given_(other.given_), own_(std::exchange(other.own_, MPI_DATATYPE_NULL)) {}

HeldOp::HeldOp(MPI_Op op) : op_(op) {
  if (is_predefined_op(op)) return;
  HeldOps& all = held_ops();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.find(op); found != all.list.end()) {
    ++found->holders;
  } else {
    all.list.push_back({op, 1});
  }
}

HeldOp::HeldOp(HeldOp&& other) noexcept : op_(std::exchange(other.op_, MPI_OP_NULL)) {}

HeldOp::~HeldOp() {
  if (is_predefined_op(op_)) return;
  HeldOps& all = held_ops();
  const std::lock_guard lock(all.mutex);
  const auto found = all.find(op_);
  if (--found->holders > 0) return;
  if (found->is_freed) native().Op_free(&op_);
  all.list.erase(found);
}

int free_op(MPI_Op* op) {
  switch (op == nullptr ? Held::no : mark_freed(*op)) {
    case Held::no:
      return native().Op_free(op);
    case Held::freed_before:
      return refuse(MPI_ERR_OP, "MPI_Op_free: the operation has been freed before");
    case Held::yes:
      break;
  }
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

KeptInfo::KeptInfo(MPI_Info of) {
  if (of != MPI_INFO_NULL && native().Info_dup(of, &own_) != MPI_SUCCESS) throw std::bad_alloc();
}

KeptInfo::~KeptInfo() {
  if (own_ != MPI_INFO_NULL) native().Info_free(&own_);
}

KeptInfo::KeptInfo(KeptInfo&& other) noexcept : own_(std::exchange(other.own_, MPI_INFO_NULL)) {}

}  // namespace partita::dropin

extern "C" {

INTERPOSE(Op_free)(MPI_Op* op) {
  return partita::dropin::free_op(op);
}

}  // extern "C"
