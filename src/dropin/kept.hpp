// What a request keeps of its arguments, so that the program may free them before it.
#pragma once

#include <mpi.h>

namespace partita::dropin {

/// A datatype that lives as long as this. Making one throws std::bad_alloc where the MPI has no memory for it.
class KeptType {
 public:
  explicit KeptType(MPI_Datatype of);
  ~KeptType();
  KeptType(KeptType&& other) noexcept;
  KeptType(const KeptType&) = delete;
  KeptType& operator=(const KeptType&) = delete;

  /// The same map of bytes, for what only moves data: the program's own handle may be void by now.
  MPI_Datatype moved() const { return own_ == MPI_DATATYPE_NULL ? given_ : own_; }
  /// The program's own handle, which its operation is called with. MPICH and Open MPI keep it valid for the sake of the
  /// types that are made from it, of which this has one.
  MPI_Datatype given() const { return given_; }

 private:
  MPI_Datatype given_;
  MPI_Datatype own_ = MPI_DATATYPE_NULL;  ///< none where the given one is predefined
};

/// An operation that lives as long as this: where the program frees it before, it is freed behind the last of these.
/// Any thread.
class HeldOp {
 public:
  explicit HeldOp(MPI_Op op);
  ~HeldOp();
  HeldOp(HeldOp&& other) noexcept;
  HeldOp(const HeldOp&) = delete;
  HeldOp& operator=(const HeldOp&) = delete;

  MPI_Op get() const { return op_; }

 private:
  MPI_Op op_;
};

/// MPI_Op_free, which waits for those who hold the operation.
int free_op(MPI_Op* op);

/// An info object of its own with the keys of the program's.
class KeptInfo {
 public:
  explicit KeptInfo(MPI_Info of);
  ~KeptInfo();
  KeptInfo(KeptInfo&& other) noexcept;
  KeptInfo(const KeptInfo&) = delete;
  KeptInfo& operator=(const KeptInfo&) = delete;

  MPI_Info get() const { return own_; }

 private:
  MPI_Info own_ = MPI_INFO_NULL;
};

}  // namespace partita::dropin
