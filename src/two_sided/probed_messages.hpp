// Messages that probes have taken from the MPI, since they may be offers, whose length is not the message's.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "transfer/communicator.hpp"
#include "two_sided/offer_record.hpp"

namespace partita {

/// A probe that finds a message as long as an offer receives it here, and takes the handles of all that came from the
/// same rank in front of it, so that later receives and probes, which look here first, find them in their order. One
/// lock makes a step of looking here and asking the MPI: without it a receive could be posted for what a probe is
/// taking. Any thread. Members that return a code return the MPI's, which has called the error handler; they throw
/// Error.
class ProbedMessages {
 public:
  explicit ProbedMessages(const OfferMark& mark) : mark_(mark) {}
  ~ProbedMessages();
  ProbedMessages(const ProbedMessages&) = delete;
  ProbedMessages& operator=(const ProbedMessages&) = delete;

  struct Message {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Message handle = MPI_MESSAGE_NULL;         ///< of one that the MPI still has
    std::optional<OfferRecord::Bytes> content{};   ///< of another one
    MPI_Status status{};                           ///< as the program sees it
    std::shared_ptr<Communicator> communicator{};  ///< null only where it is the program's at once, with its handle
  };

  /// Before any of the next ones.
  void open();

  using Find = std::function<std::shared_ptr<Communicator>()>;
  /// MPI_Iprobe. `find` gives the record of `comm`, on which nothing is offered where it has none.
  int probe(int source, int tag, MPI_Comm comm, int* found, MPI_Status* status, const Find& find);
  /// MPI_Improbe.
  int match(int source, int tag, MPI_Comm comm, int* found, MPI_Message* message, MPI_Status* status, const Find& find);

  /// While a receive looks with take(), and asks the MPI where it finds nothing.
  std::unique_lock<std::recursive_mutex> lock() { return std::unique_lock(mutex_); }
  /// The first message that such a receive gets before any that the MPI has. Under the lock.
  std::optional<Message> take(int source, int tag, MPI_Comm comm);
  /// What `handle` stands for, if it is one that match() has made; then it is gone. Null is none.
  std::optional<Message> take(const MPI_Message* handle);
  /// Whose error handler hears of what is wrong with it; null where that is not such a handle.
  std::shared_ptr<Communicator> communicator_of(const MPI_Message* handle);

 private:
  using Key = std::uint64_t;
  using Kept = std::list<Message>;

  static Key key_of(MPI_Message handle);
  Kept::iterator find(int source, int tag, MPI_Comm comm);
  int keep_up_to(const MPI_Status& last, MPI_Comm comm, const std::shared_ptr<Communicator>& communicator);
  int receive(Message& message);
  int hand_out(Message message, MPI_Message* handle);

  const OfferMark mark_;
  MPI_Comm self_ = MPI_COMM_NULL;  ///< where handles are made
  std::recursive_mutex mutex_;     ///< an error handler may come here again
  Kept kept_;                      ///< in the order in which they came, of each rank
  std::map<Key, Message> handed_out_;
  std::atomic<std::size_t> handed_out_count_{0};
};

}  // namespace partita
