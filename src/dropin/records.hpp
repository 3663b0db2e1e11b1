// The arguments of the MPI's persistent requests, which the MPI does not tell again.
#pragma once

#include <mpi.h>
#include <partita/partita.h>

#include <atomic>
#include <memory>

namespace partita::dropin {

/// What a persistent request was made for, with all that it needs of it: the program may free its datatypes and so on.
class Record {
 public:
  Record() = default;
  virtual ~Record() = default;
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  /// Makes the same request of the C API, or refuses it. Returns an MPI error code.
  virtual int make(Partita_Request* made) const = 0;
  /// A collective's request looks for its peers once it is made, and uses what the record holds until it is freed.
  virtual bool is_collective() const { return false; }

  /// Whether the MPI has started its request: MPICH 4.0 says of a collective that was not yet that it is incomplete.
  bool was_started() const { return was_started_.load(std::memory_order_relaxed); }
  void note_start() const { was_started_.store(true, std::memory_order_relaxed); }

 private:
  mutable std::atomic<bool> was_started_{false};
};

/// Notes what `request` was made for. Returns false where there is no memory for it. Any thread, as the others.
bool note_record(MPI_Request request, std::unique_ptr<const Record> record);
/// The record of a request that the MPI has, or null.
std::shared_ptr<const Record> find_record(MPI_Request request);
/// The MPI starts `request`, which may have a record. Costs one load while there are none.
void note_start(MPI_Request request);
/// Frees a request that the MPI has, and the record of it; a request that the MPI refuses to free keeps its record.
/// Costs one load while there are no records.
int free_with_record(MPI_Request* request);
/// `handle` stands for the request that the record of `request` has made: the record of a collective is that one's now,
/// until drop_record, another one ends. Before `request` is freed. Needs no memory.
void move_record(MPI_Request request, MPI_Request handle);
/// Ends the record of a request of ours, if it has one, once the request is gone. Costs one load while there are none.
void drop_record(MPI_Request handle);
/// Ends all records, whose datatypes would outlive the MPI.
void close_records();

}  // namespace partita::dropin
