#include "transfer/communicators.hpp"

#include "core/mpi_check.hpp"

namespace partita {
namespace {

/// Mixes two numbers into one; a finaliser in the style of SplitMix64, so that neighbouring inputs give unrelated ids.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t world_id = 1;
constexpr std::uint64_t self_id = 2;
constexpr std::uint64_t given_id = 3;

}  // namespace

Communicators::Communicators(World& world, MPI_Comm given) : world_(world) {
  PARTITA_MPI(Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &Communicators::forget, &keyval_, this));
  add(MPI_COMM_WORLD, world_id);
  add(MPI_COMM_SELF, self_id);
  if (lookup(given) == nullptr) add(given, given_id);
}

Communicators::~Communicators() {
  std::set<std::shared_ptr<Communicator>*> records;
  {
    const std::lock_guard lock(mutex_);
    records = records_;
  }
  for (auto* record : records) native::Comm_delete_attr((*record)->handle, keyval_);
  native::Comm_free_keyval(&keyval_);
}

int Communicators::forget(MPI_Comm, int, void* record, void* communicators) {
  auto* self = static_cast<Communicators*>(communicators);
  auto* shared = static_cast<std::shared_ptr<Communicator>*>(record);
  {
    const std::lock_guard lock(self->mutex_);
    self->records_.erase(shared);
  }
  (*shared)->alive.store(false, std::memory_order_release);
  delete shared;
  return MPI_SUCCESS;
}

std::shared_ptr<Communicator> Communicators::lookup(MPI_Comm comm) const {
  if (comm == MPI_COMM_NULL) {
    throw Error(ErrorClass::comm, "argument comm is MPI_COMM_NULL; expected is a communicator");
  }
  void* record = nullptr;
  int found = 0;
  if (const int code = native::Comm_get_attr(comm, keyval_, &record, &found); code != MPI_SUCCESS) {
    throw Error(ErrorClass::comm, "argument comm is no communicator; the MPI says: {}", mpi_text(code));
  }
  return found != 0 ? *static_cast<std::shared_ptr<Communicator>*>(record) : nullptr;
}

std::shared_ptr<Communicator> Communicators::find(MPI_Comm comm) const {
  auto record = lookup(comm);
  if (record == nullptr) {
    throw Error(ErrorClass::comm,
                "argument comm is a communicator that Partita does not know. Communicators of the usual constructors "
                "are known with the drop-in library; without it call Partita_Comm_register on them first. Those of "
                "spawned, connected and session processes cannot be used");
  }
  return record;
}

void Communicators::add(MPI_Comm comm, std::uint64_t id) {
  auto record = std::make_unique<std::shared_ptr<Communicator>>(std::make_shared<Communicator>());
  (*record)->handle = comm;
  (*record)->id = id;
  PARTITA_MPI(Comm_set_attr(comm, keyval_, record.get()));
  auto* const attached = record.release();
  const std::lock_guard lock(mutex_);
  records_.insert(attached);
}

void Communicators::add_collectively(MPI_Comm comm) {
  if (lookup(comm) != nullptr) return;
  int rank = 0;
  int inter = 0;
  PARTITA_MPI(Comm_rank(comm, &rank));
  PARTITA_MPI(Comm_test_inter(comm, &inter));
  std::uint64_t id = mixed(mixed(world_.job_id(), static_cast<std::uint64_t>(world_.rank())), ++drawn_);
  if (inter == 0) {
    PARTITA_MPI(Bcast(&id, 1, MPI_UINT64_T, 0, comm));
  } else {
    // Both groups hear the other's leader; the sum is the same on both sides.
    std::uint64_t mine = rank == 0 ? id : 0;
    std::uint64_t theirs = 0;
    PARTITA_MPI(Allreduce(&mine, &theirs, 1, MPI_UINT64_T, MPI_SUM, comm));
    std::uint64_t own_leader = 0;
    PARTITA_MPI(Allreduce(&theirs, &own_leader, 1, MPI_UINT64_T, MPI_MAX, comm));
    id = mixed(theirs + own_leader, 0);
  }
  add(comm, id);
}

void Communicators::add_derived(MPI_Comm parent, MPI_Comm comm) {
  const auto record = lookup(parent);
  if (record == nullptr) return;
  const std::uint64_t ordinal = record->children.fetch_add(1);
  if (comm != MPI_COMM_NULL) add(comm, mixed(record->id, ordinal));
}

}  // namespace partita
