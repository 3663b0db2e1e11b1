// Persistent collectives (MPI-4, sections 6.13 and 8.8). Where the MPI has them it makes and moves them, until the
// program has them matched, and each start on GPU memory is staged (docs/design/gpu-aware.md); where it has none they
// are Partita's from the beginning.
#include <mpi.h>
#include <partita/partita.h>

#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "dropin/calling.hpp"
#include "dropin/comm_shape.hpp"
#include "dropin/gpu_aware.hpp"
#include "dropin/interpose.hpp"
#include "dropin/kept.hpp"
#include "dropin/native.hpp"
#include "dropin/records.hpp"
#include "dropin/refuse.hpp"
#include "dropin/requests.hpp"
#include "dropin/staging.hpp"

using namespace partita::dropin;

namespace {

/// A datatype of what is only moved. In a reduction a KeptType stands for itself.
struct Moved {
  KeptType type;
};

struct MovedTypes {
  std::vector<KeptType> kept;
  std::vector<MPI_Datatype> types;
};

bool is_given(const void* buffer) {
  return buffer != MPI_IN_PLACE;
}

/// A datatype that the call does not look at may be anything.
Moved moved(MPI_Datatype type, bool is_significant = true) {
  return {KeptType(is_significant ? type : MPI_DATATYPE_NULL)};
}

/// Counts are converted to MPI_Count, displacements to MPI_Aint. A null array is left for the C API to refuse.
template <class To, class From>
std::vector<To> converted(const From array[], int length) {
  return array == nullptr ? std::vector<To>() : std::vector<To>(array, array + length);
}
template <class Count>
std::vector<MPI_Count> counts(const Count array[], int length) {
  return converted<MPI_Count>(array, length);
}
template <class Displacement>
std::vector<MPI_Aint> places(const Displacement array[], int length) {
  return converted<MPI_Aint>(array, length);
}

/// The datatype of an empty block may be anything.
template <class Count>
MovedTypes types(const MPI_Datatype array[], const Count counts[], int length) {
  MovedTypes all;
  if (array == nullptr || counts == nullptr) return all;
  for (int i = 0; i < length; ++i) {
    all.kept.emplace_back(counts[i] == 0 ? MPI_BYTE : array[i]);
    all.types.push_back(all.kept.back().moved());
  }
  return all;
}

// What the C API is given of what was kept.
template <class Kept>
Kept given(Kept kept) {
  return kept;
}
template <class Entry>
const Entry* given(const std::vector<Entry>& kept) {
  return kept.empty() ? nullptr : kept.data();
}
const MPI_Datatype* given(const MovedTypes& kept) {
  return given(kept.types);
}
MPI_Datatype given(const Moved& kept) {
  return kept.type.moved();
}
MPI_Datatype given(const KeptType& kept) {
  return kept.given();
}
MPI_Op given(const HeldOp& kept) {
  return kept.get();
}

template <class Init, class... Kept>
class Collective final : public Record {
 public:
  Collective(Init init, MPI_Comm comm, MPI_Info info, Kept... kept)
      : init_(init), kept_(std::move(kept)...), comm_(comm), info_(info) {}

  int make(Partita_Request* made) const override {
    return std::apply([&](const Kept&... each) { return init_(given(each)..., comm_, info_.get(), made); }, kept_);
  }
  bool is_collective() const override { return true; }

 private:
  Init init_;
  std::tuple<Kept...> kept_;
  MPI_Comm comm_;
  KeptInfo info_;
};

class BetweenGroups final : public Record {
 public:
  explicit BetweenGroups(MPI_Comm comm) : comm_(comm) {}

  int make(Partita_Request*) const override {
    const std::string sentence = std::string(Calling::current()) +
                                 ": the communicator of a collective is an intercommunicator, for which Partita has no "
                                 "collectives; expected is an intracommunicator";
    return Partita_Raise(comm_, MPI_ERR_COMM, sentence.c_str());
  }

 private:
  MPI_Comm comm_;
};

template <class Init, class... Kept>
std::unique_ptr<const Record> recorded(Init init, MPI_Comm comm, MPI_Info info, Kept... kept) {
  return std::make_unique<Collective<Init, Kept...>>(init, comm, info, std::move(kept)...);
}

/// What a collective on `comm` was made for, by `record(shape)`.
template <class MakeRecord>
std::unique_ptr<const Record> record_on(MPI_Comm comm, MakeRecord record) {
  const CommShape shape(comm);
  if (shape.is_between_groups()) return std::make_unique<BetweenGroups>(comm);
  return record(shape);
}

#if PARTITA_HAS_PERSISTENT_COLLECTIVES
/// Where there is no memory for a record the request cannot be matched.
template <class MakeRecord>
int noted(int code, MPI_Comm comm, const MPI_Request* request, MakeRecord record) {
  if (code != MPI_SUCCESS) return code;
  try {
    note_record(*request, record_on(comm, record));
  } catch (const std::bad_alloc&) {
  }
  return MPI_SUCCESS;
}
#define MADE(NAME, RECORD, ...) return noted(native().NAME(__VA_ARGS__, info, request), comm, request, RECORD)
/// The record names the buffers of the program; copies of their addresses become those of mirrors.
#define STAGED(NAME, BUFFERS, RECORD, ...)                                                                           \
  if (takes_gpu_memory()) {                                                                                          \
    return guarded(__func__, [=](const char* call) mutable {                                                         \
      Staging stage(comm);                                                                                           \
      BUFFERS;                                                                                                       \
      const auto make = [&](MPI_Request* made) { return native().NAME(__VA_ARGS__, info, made); };                   \
      return noted(stage.request(call, Staging::Kind::persistent_collective, request, make), comm, request, RECORD); \
    });                                                                                                              \
  }
#else
/// The record lives as long as the request, whose operation and datatype it holds.
template <class MakeRecord>
int provided(const char* call, MPI_Comm comm, MPI_Request* request, MakeRecord record) {
  return guarded(call, [&](const char*) {
    if (request == nullptr) return refuse_null_pointer(call, "request");
    std::unique_ptr<const Record> kept = record_on(comm, record);
    Partita_Request made = PARTITA_REQUEST_NULL;
    if (const int code = kept->make(&made); code != MPI_SUCCESS) return code;
    MPI_Request handle = MPI_REQUEST_NULL;
    if (const int code = adopt(made, &handle); code != MPI_SUCCESS) return code;
    if (!note_record(handle, std::move(kept))) {
      release(made, &handle);
      return refuse_for_memory(call);
    }
    *request = handle;
    return MPI_SUCCESS;
  });
}
#define MADE(NAME, RECORD, ...) return provided(__func__, comm, request, RECORD)
#define STAGED(...)
#endif

}  // namespace

extern "C" {

#define LIST(...) __VA_ARGS__
/// NAMED is expanded first.
#define INTERPOSE_EXPANDED(NAME) INTERPOSE(NAME)
#define CALL(NAME, TWIN, PEERS, BUFFERS, KEPT, PARAMETERS, ...)                            \
  INTERPOSE_EXPANDED(NAMED(NAME))(LIST PARAMETERS, MPI_Info info, MPI_Request * request) { \
    const auto record = [&]([[maybe_unused]] const CommShape& of) {                        \
      return recorded(&Partita_##NAME##_init, comm, info, LIST KEPT);                      \
    };                                                                                     \
    STAGED(NAMED(NAME), BUFFERS, record, __VA_ARGS__)                                      \
    MADE(NAMED(NAME), record, __VA_ARGS__);                                                \
  }

#define NAMED(NAME) NAME##_init
#define COUNT int
#define DISPL int
#include "dropin/mpi_collective_calls.inc"
#undef NAMED
#undef COUNT
#undef DISPL

#if PARTITA_HAS_PERSISTENT_COLLECTIVES && PARTITA_HAS_LARGE_COUNTS
#define NAMED(NAME) NAME##_init_c
#define COUNT MPI_Count
#define DISPL MPI_Aint
#include "dropin/mpi_collective_calls.inc"
#undef NAMED
#undef COUNT
#undef DISPL
#endif
#undef CALL
#undef INTERPOSE_EXPANDED

INTERPOSE(Barrier_init)(MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  const auto record = [&](const CommShape&) { return recorded(&Partita_Barrier_init, comm, info); };
  MADE(Barrier_init, record, comm);
}

}  // extern "C"
