#include "two_sided/known_layouts.hpp"

#include "core/mpi_check.hpp"

namespace partita {
namespace {

using Kept = std::shared_ptr<const Layout>;

extern "C" int drop_layout(MPI_Datatype, int, void* kept, void*) {
  delete static_cast<Kept*>(kept);
  return MPI_SUCCESS;
}

bool is_named(MPI_Datatype datatype) {
  int combiner = MPI_COMBINER_NAMED;
#if MPI_VERSION >= 4
  MPI_Count counts[4] = {};  // the query without large counts is an error on a datatype made with them
  PARTITA_MPI(Type_get_envelope_c(datatype, &counts[0], &counts[1], &counts[2], &counts[3], &combiner));
#else
  int counts[3] = {};
  PARTITA_MPI(Type_get_envelope(datatype, &counts[0], &counts[1], &counts[2], &combiner));
#endif
  return combiner == MPI_COMBINER_NAMED;
}

}  // namespace

KnownLayouts::~KnownLayouts() {
  if (key_ != MPI_KEYVAL_INVALID) native::Type_free_keyval(&key_);
}

/// One of MPI's own is flattened at once.
std::shared_ptr<const Layout> KnownLayouts::of(MPI_Datatype datatype) {
  if (datatype == MPI_DATATYPE_NULL || is_named(datatype)) return std::make_shared<const Layout>(Layout::of(datatype));
  const std::lock_guard lock(mutex_);
  if (key_ == MPI_KEYVAL_INVALID) PARTITA_MPI(Type_create_keyval(MPI_TYPE_NULL_COPY_FN, drop_layout, &key_, nullptr));
  void* kept = nullptr;
  int found = 0;
  PARTITA_MPI(Type_get_attr(datatype, key_, static_cast<void*>(&kept), &found));
  if (found != 0) return *static_cast<Kept*>(kept);
  auto made = std::make_unique<Kept>(std::make_shared<const Layout>(Layout::of(datatype)));
  PARTITA_MPI(Type_set_attr(datatype, key_, made.get()));
  return *made.release();
}

}  // namespace partita
