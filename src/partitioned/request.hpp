// What partitioned sends and receives have in common.
#pragma once

#include <mpi.h>

#include <atomic>
#include <compare>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/epoch.hpp"
#include "core/error.hpp"
#include "core/layout.hpp"
#include "core/trace.hpp"
#include "core/watch.hpp"
#include "link/link.hpp"
#include "partitioned/communicators.hpp"

namespace partita {

class Runtime;

enum class Side : std::uint8_t { send, recv };

/// What decides which send meets which receive (MPI-4, section 4.2.1); the same on both sides.
struct MatchKey {
  std::uint64_t comm_id = 0;
  int sender = -1;    ///< world rank
  int receiver = -1;  ///< world rank
  int tag = -1;
  std::uint32_t ordinal = 0;

  auto operator<=>(const MatchKey&) const = default;
};

/// The checked arguments of Psend_init and Precv_init.
struct RequestArguments {
  Side side{};
  std::byte* buffer = nullptr;
  int partitions = 1;
  std::int64_t count = 0;                     ///< elements in a partition
  MPI_Datatype datatype = MPI_DATATYPE_NULL;  ///< flattened at once; the program may free it
  int rank = MPI_PROC_NULL;                   ///< of the peer, in the communicator
  int tag = 0;
  int peer = -1;  ///< the peer's world rank; -1 for MPI_PROC_NULL
  std::shared_ptr<Communicator> communicator;
  std::string link = "auto";     ///< wished by the info key
  int transport_partitions = 0;  ///< wished by the info key; 0: no wish
};

/// How one side describes itself to the other during setup.
struct SideShape {
  std::int32_t partitions = 1;
  std::int64_t total_bytes = 0;
  std::int32_t wished_transport_partitions = 0;
};

/// Sets all of `status`, which may be MPI_STATUS_IGNORE, but its error field.
void set_status(MPI_Status* status, int source, int tag, std::int64_t size_bytes);

/// Life: made, matched (once, by the Matcher, on any thread), then epochs: start … done … complete. Unless said
/// otherwise a member is called by one thread at a time. Members throw Error.
class Request : public Waiting {
 public:
  Request(Runtime& runtime, RequestArguments arguments);
  ~Request() override = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  /// Opens the next epoch.
  virtual void start() = 0;
  /// Whether the open epoch is complete; makes progress.
  virtual bool done() = 0;
  /// Whether the peer has prepared for the open epoch, as Pbuf_prepare promises.
  virtual bool prepared() = 0;
  /// Closes the epoch; done() was true.
  void complete();
  /// The status of a request whose epoch is complete.
  void fill_status(MPI_Status* status) const;

  bool active() const { return active_.load(std::memory_order_acquire); }
  bool matched() const { return matched_.load(std::memory_order_acquire); }
  Side side() const { return arguments_.side; }
  const RequestArguments& arguments() const { return arguments_; }
  SideShape shape() const;
  link::Endpoint endpoint() const;
  const link::Plan& plan() const { return plan_; }  ///< once matched
  const std::string& link_name() const { return link_name_; }
  const std::string& link_reason() const { return link_reason_; }

  /// The request can never complete: every later start, done and prepared throws `error`. Any thread.
  void fail(const Error& error);
  /// After an error in a wait: the epoch is given up, so that the request can be freed.
  void abandon();

  std::string explain() const override;
  int waits_for() const override { return arguments_.peer; }

  /// Known to the Matcher alone.
  struct Matching {
    std::uint64_t id = 0;       ///< names this request in messages to this rank
    std::uint64_t peer_id = 0;  ///< names the peer's request; 0 while unknown
    MatchKey key;
    std::atomic<bool> peer_freed{false};
  } matching;

 protected:
  void check_startable() const;
  void throw_if_failed() const;
  /// Traces an event of the open epoch.
  void record(Trace::Event event, std::int64_t partition = -1) const;
  /// " (1, 2, 5, …)": the first few of `numbers`, for explain().
  static std::string listed(const std::vector<std::int64_t>& numbers);
  /// How far the open epoch has come, for explain().
  virtual std::string describe_epoch() const = 0;
  bool null_peer() const { return arguments_.peer < 0; }
  /// Elements before user partition `partition`.
  std::int64_t first_element(std::int64_t partition) const { return partition * arguments_.count; }

  Runtime& runtime_;
  RequestArguments arguments_;
  Layout layout_;
  std::byte* staging_ = nullptr;  ///< packed bytes of a buffer with gaps, else null

  std::mutex setup_mutex_;  ///< taken until matched, never after
  std::atomic<bool> matched_{false};
  std::atomic<bool> active_{false};
  Epoch epoch_;
  link::Plan plan_;
  std::string link_name_;
  std::string link_reason_;
  bool wants_progress_ = false;  ///< an open epoch needs host steps all along

 private:
  mutable std::mutex failure_mutex_;
  std::atomic<bool> failed_{false};
  std::optional<Error> failure_;
};

}  // namespace partita
