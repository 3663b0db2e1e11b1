// The C++ API: the halo of a grid of 2 or 3 dimensions. C++17, headers only; beside <partita/partita.hpp>, which does
// not include this. docs/api/halo.md tells it with a picture.
//
// gather() fills the ghost cells of each block with the cells of their owners; scatter() adds what stands in ghost
// cells to the cells of their owners. Each is the transpose of the other (after Cabana's Gather and Scatter). All
// neighbours are served at once, those beyond edges and corners too: an exchange is one message for each neighbour and
// field, over persistent requests that are matched once. A gather may be taken in three steps, receives, sends and the
// wait, on the host or in a queue, so that what needs no ghost cells is computed between them.
#ifndef PARTITA_HALO_HPP
#define PARTITA_HALO_HPP

#include <mpi.h>
#include <partita/partita.h>
#include <partita/communicator.hpp>
#include <partita/completion.hpp>
#include <partita/error.hpp>
#include <partita/halo_block.hpp>
#include <partita/halo_check.hpp>
#include <partita/halo_field.hpp>
#include <partita/queue.hpp>
#include <partita/request.hpp>
#include <partita/runtime.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace partita {

namespace detail {

/// A copy of a communicator, known to Partita. Collective at both ends, but where an exception ends it: then it stays.
class halo_comm final {
 public:
  explicit halo_comm(communicator original) : exceptions_before_(std::uncaught_exceptions()) {
    check(MPI_Comm_dup(original.handle(), &handle_));
    check(Partita_Comm_register(handle_));
  }
  halo_comm(const halo_comm&) = delete;
  halo_comm& operator=(const halo_comm&) = delete;
  ~halo_comm() {
    if (ends_together()) MPI_Comm_free(&handle_);
  }

  [[nodiscard]] communicator get() const noexcept { return communicator(handle_); }
  /// Leaves the communicator to the end of the job: for who cannot come to the end with the others.
  void leave() noexcept { is_left_ = true; }
  /// The first of `count` tags that no other halo has.
  [[nodiscard]] int take_tags(std::size_t count) noexcept {
    return std::exchange(next_tag_, next_tag_ + static_cast<int>(count));
  }
  /// Waits at the end until all ranks have come here; whether they have.
  [[nodiscard]] bool meet() const noexcept { return ends_together() && MPI_Barrier(handle_) == MPI_SUCCESS; }

 private:
  [[nodiscard]] bool ends_together() const noexcept {
    return !is_left_ && std::uncaught_exceptions() <= exceptions_before_ && is_running();
  }

  MPI_Comm handle_ = MPI_COMM_NULL;
  int next_tag_ = 0;
  bool is_left_ = false;
  int exceptions_before_;  ///< under way when this was made
};

/// Memory of Partita_Alloc.
class halo_memory final {
 public:
  explicit halo_memory(long long size_bytes) {
    if (size_bytes > 0) check(Partita_Alloc(static_cast<MPI_Aint>(size_bytes), MPI_INFO_NULL, &base_));
  }
  halo_memory(const halo_memory&) = delete;
  halo_memory& operator=(const halo_memory&) = delete;
  ~halo_memory() {
    if (base_ != nullptr && is_running()) Partita_Free(base_);
  }
  [[nodiscard]] std::byte* base() const noexcept { return static_cast<std::byte*>(base_); }
  /// Leaves the memory to Partita_Finalize.
  void leave() noexcept { base_ = nullptr; }

 private:
  void* base_ = nullptr;
};

}  // namespace detail

/// How the messages of a gather are sent (MPI-4, section 3.4).
enum class halo_sends {
  regular,
  ready,  ///< the receives have started before: they look at nothing, and nothing of them is awaited
};

/// Exchanges the ghost cells of several fields on blocks of a grid of Dims dimensions. Holds the fields' addresses, not
/// the fields, which outlive it. One thread at a time. Errors are partita::error where the communicator's error handler
/// returns.
template <std::size_t Dims>
class halo final {
 public:
  /// With the neighbours that `cart` gives, a communicator with a Cartesian topology of the grid's dimensions.
  halo(communicator cart, const halo_block<Dims>& block, std::vector<halo_field> fields)
      : halo(cart, block, std::move(fields), cartesian_neighbours<Dims>(cart)) {}

  /// Collective over `comm`, of which the halo makes a copy; blocks until all requests are matched. On all ranks the
  /// fields are as many, of the same sizes in the same order, and the widths alike. Two neighbours have each other in
  /// opposite directions, and as many cells along the face between them. Where a block has a neighbour it has at least
  /// `width` cells in that dimension. What is wrong with one rank's arguments is thrown on all of them (MPI_ERR_ARG).
  halo(communicator comm, const halo_block<Dims>& block, std::vector<halo_field> fields,
       const halo_neighbours<Dims>& neighbours)
      : halo(block, std::move(fields), detail::checked_neighbours(comm, block, fields, neighbours), comm, nullptr,
             halo_sends::regular) {}

  /// For other fields on the blocks of `other`, such as those that take turns with its own, or for the same ones by
  /// other sends. Collective likewise over the copy of the communicator, which the two share from now on; either may
  /// end first, and all ranks end such halos in the same order.
  halo(const halo& other, std::vector<halo_field> fields, halo_sends sends = halo_sends::regular)
      : halo(other.block_, std::move(fields),
             detail::checked_neighbours(other.comm_->get(), other.block_, fields, other.neighbours_),
             other.comm_->get(), other.comm_, sends) {}

  /// Collective: frees the requests, waits until all ranks have freed theirs, since only then no neighbour reaches the
  /// fields any more, and frees the communicator. Not collective behind leave(), where an exchange has thrown, or where
  /// an exception ends the halo: then the communicator stays, and so does the memory of scatter. No exchange is under
  /// way.
  ~halo() {
    if (!sound_) comm_->leave();
    gathers_.clear();
    if (scatter_ != nullptr) scatter_->requests.clear();
    if (!comm_->meet() && scatter_ != nullptr) scatter_->memory.leave();
  }
  halo(const halo&) = delete;
  halo& operator=(const halo&) = delete;

  /// Fills the ghost cells of all fields. Where there is no neighbour they stay as they are. Blocks until this rank's
  /// ghost cells are filled and its own cells may be written; collective among neighbours. Not with ready sends.
  void gather() {
    check_regular();
    watch([&] {
      startall(gathers_);
      waitall(gathers_);
    });
  }

  /// gather() in three steps, each once and in this order. From start_receives() on the ghost cells are the halo's, and
  /// from start_sends() on the own cells that it sends may only be read, until wait() returns. Ready sends start when
  /// all neighbours have called start_receives(), which the caller knows by other messages.
  void start_receives() {
    watch([&] { startall(receives()); });
  }
  void start_sends() {
    watch([&] { startall(sends()); });
  }
  void wait() {
    watch([&] { waitall(gathers_); });
  }

  /// gather() in `order`, behind what is enqueued there: whatever comes behind it sees the ghost cells and may write
  /// the cells. Fields of GPU memory are exchanged in the order of a CUDA stream so, between the kernels that compute
  /// them. What goes wrong comes out of order.wait(), or, of a stream that is being captured into a graph, out of
  /// check_graphs().
  void enqueue_gather(queue& order) {
    check_regular();
    watch([&] {
      order.enqueue_startall(gathers_);
      order.enqueue_waitall(gathers_);
    });
  }

  /// The same in three steps, as those of the host, in one queue. A ready send of a rank comes behind its neighbours'
  /// receives where each rank enqueues the receives of the next halo before the sends of this one: whoever has a
  /// neighbour's message then knows that the neighbour's next receive has started.
  void enqueue_receives(queue& order) {
    watch([&] { order.enqueue_startall(receives()); });
  }
  void enqueue_sends(queue& order) {
    watch([&] { order.enqueue_startall(sends()); });
  }
  void enqueue_wait(queue& order) {
    watch([&] { order.enqueue_waitall(gathers_); });
  }

  /// Throws what has gone wrong in gathers that were captured into graphs, of which no queue hears. To be called behind
  /// the queue's wait(), when the stream has run the graphs.
  void check_graphs() {
    watch([&] {
      for (request& each : gathers_) static_cast<void>(each.test());
    });
  }

  /// The halo's end is not collective any more: for who has heard from a queue that an exchange has failed.
  void leave() noexcept { sound_ = false; }

  /// Adds the ghost cells of all fields to the cells of their owners, which are in host memory and whose elements have
  /// a sum. Ghost cells stay as they are, and so does what there is no neighbour for. The contributions to a cell are
  /// added in the order of directions, whenever they arrive, so that sums are the same each time. Blocks until this
  /// rank's cells have all of theirs; collective among neighbours. The first call makes and matches its requests.
  void scatter() {
    watch([&] {
      if (scatter_ == nullptr) scatter_ = prepared_scatter();
      startall(scatter_->requests);
      waitall(scatter_->requests);
      for (const addition& each : scatter_->additions) {
        each.add(each.part->first(), each.message, each.part->cells(), each.components);
      }
    });
  }

  [[nodiscard]] const halo_block<Dims>& block() const noexcept { return block_; }
  [[nodiscard]] const halo_neighbours<Dims>& neighbours() const noexcept { return neighbours_; }

 private:
  /// A message that has arrived beside the field, and the cells that it is added to.
  struct addition {
    halo_field::adder add;
    const detail::halo_part* part;
    std::byte* message;
    int components;
  };
  struct scatter_requests {
    explicit scatter_requests(long long size_bytes) : memory(size_bytes) {}
    detail::halo_memory memory;
    std::vector<addition> additions;
    std::vector<request> requests;  // freed before the memory
  };

  /// `neighbours` are checked, which reads `fields`. Where `shared` is null, on a copy of `original`.
  halo(const halo_block<Dims>& block, std::vector<halo_field>&& fields, const halo_neighbours<Dims>& neighbours,
       communicator original, std::shared_ptr<detail::halo_comm> shared, halo_sends sends)
      : block_(block),
        fields_(std::move(fields)),
        neighbours_(neighbours),
        sends_(sends),
        comm_(shared != nullptr ? std::move(shared) : std::make_shared<detail::halo_comm>(original)),
        first_tag_(comm_->take_tags(2 * fields_.size() * neighbours_.size())) {
    for_each_message([&](std::size_t direction, const halo_offset<Dims>& offset, std::size_t field) {
      const detail::halo_part& ghosts = part(ghost_region(block_, offset), field);
      gathers_.push_back(receive(ghosts.first(), 1, ghosts.type(), 0, direction, field));
    });
    for_each_message([&](std::size_t direction, const halo_offset<Dims>& offset, std::size_t field) {
      gathers_.push_back(send(part(own_region(block_, offset), field), sends_, 0, direction, field));
    });
    matchall(gathers_);
  }

  /// What throws in an exchange is not known to the other ranks.
  template <class Step>
  void watch(Step step) {
    const bool sound = std::exchange(sound_, false);
    step();
    sound_ = sound;
  }
  void check_regular() const {
    if (sends_ == halo_sends::regular) return;
    check(Partita_Raise(comm_->get().handle(), MPI_ERR_REQUEST,
                        "partita::halo: its sends are ready ones, which start when the neighbours' receives have; "
                        "expected are the steps of a gather, one by one"));
  }

  [[nodiscard]] request_span receives() noexcept { return {gathers_.data(), gathers_.size() / 2}; }
  [[nodiscard]] request_span sends() noexcept { return {gathers_.data() + gathers_.size() / 2, gathers_.size() / 2}; }

  template <class Each>
  void for_each_message(Each each) const {
    for (std::size_t direction = 0; direction < neighbours_.size(); ++direction) {
      if (neighbours_[direction] == MPI_PROC_NULL) continue;
      for (std::size_t field = 0; field < fields_.size(); ++field)
        each(direction, halo_offset_of<Dims>(direction), field);
    }
  }

  const detail::halo_part& part(const halo_region<Dims>& region, std::size_t field) {
    return *parts_.emplace_back(std::make_unique<detail::halo_part>(block_, region, fields_[field]));
  }

  /// A message is known by its kind (0: gather, 1: scatter), its field, and the direction in which it travels: so a
  /// rank may be its own neighbour, or another's in several directions.
  [[nodiscard]] int tag(int kind, std::size_t travels, std::size_t field) const {
    const std::size_t row = static_cast<std::size_t>(kind) * fields_.size() + field;
    return first_tag_ + static_cast<int>(row * neighbours_.size() + travels);
  }
  [[nodiscard]] request send(const detail::halo_part& sent, halo_sends how, int kind, std::size_t direction,
                             std::size_t field) const {
    const communicator comm = comm_->get();
    const int to = neighbours_[direction], with = tag(kind, direction, field);
    return how == halo_sends::ready ? comm.rsend_init(sent.first(), 1, sent.type(), to, with)
                                    : comm.send_init(sent.first(), 1, sent.type(), to, with);
  }
  [[nodiscard]] request receive(void* to, MPI_Count count, MPI_Datatype type, int kind, std::size_t direction,
                                std::size_t field) const {
    const std::size_t travels = neighbours_.size() - 1 - direction;
    return comm_->get().recv_init(to, count, type, neighbours_[direction], tag(kind, travels, field));
  }

  [[nodiscard]] std::unique_ptr<scatter_requests> prepared_scatter() {
    detail::check_addable(comm_->get(), fields_);
    std::vector<const detail::halo_part*> owns;
    long long size_bytes = 0;
    const auto aligned = [](long long bytes) { return (bytes + 63) / 64 * 64; };
    for_each_message([&](std::size_t, const halo_offset<Dims>& offset, std::size_t field) {
      owns.push_back(&part(own_region(block_, offset), field));
      size_bytes += aligned(owns.back()->bytes());
    });
    auto made = std::make_unique<scatter_requests>(size_bytes);
    std::byte* next = made->memory.base();
    auto own = owns.begin();
    for_each_message([&](std::size_t direction, const halo_offset<Dims>&, std::size_t field) {
      made->additions.push_back({fields_[field].add(), *own, next, fields_[field].components()});
      made->requests.push_back(receive(next, (*own)->bytes(), MPI_BYTE, 1, direction, field));
      next += aligned((*own++)->bytes());
    });
    for_each_message([&](std::size_t direction, const halo_offset<Dims>& offset, std::size_t field) {
      made->requests.push_back(
          send(part(ghost_region(block_, offset), field), halo_sends::regular, 1, direction, field));
    });
    matchall(made->requests);
    return made;
  }

  bool sound_ = true;  ///< no exchange has thrown
  halo_block<Dims> block_;
  std::vector<halo_field> fields_;
  halo_neighbours<Dims> neighbours_;
  halo_sends sends_;
  std::shared_ptr<detail::halo_comm> comm_;  ///< ends behind all requests
  int first_tag_;
  std::vector<std::unique_ptr<detail::halo_part>> parts_;
  std::vector<request> gathers_;               ///< receives, then sends
  std::unique_ptr<scatter_requests> scatter_;  ///< null before the first scatter
};

}  // namespace partita
#endif
