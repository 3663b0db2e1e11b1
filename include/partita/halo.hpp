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
#include <partita/halo_messages.hpp>
#include <partita/halo_scatter.hpp>
#include <partita/queue.hpp>
#include <partita/request.hpp>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace partita {

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
      : halo(other.block(), std::move(fields),
             detail::checked_neighbours(other.comm_->get(), other.block(), fields, other.neighbours()),
             other.comm_->get(), other.comm_, sends) {}

  /// Collective: frees the requests, waits until all ranks have freed theirs, since only then no neighbour reaches the
  /// fields any more, and frees the communicator. Not collective behind leave(), where an exchange has thrown, or where
  /// an exception ends the halo: then the communicator stays, and so does the memory of scatter. No exchange is under
  /// way.
  ~halo() {
    if (!sound_) comm_->leave();
    gathers_.clear();
    if (scatter_ != nullptr) scatter_->free_requests();
    if (!comm_->meet() && scatter_ != nullptr) scatter_->leave_memory();
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

  /// Adds the ghost cells of all fields, whose elements have a sum, to the cells of their owners. Ghost cells stay as
  /// they are, and so does what there is no neighbour for. The contributions to a cell are added in the order of
  /// directions, whenever they arrive, so that sums are the same each time. Hosts add: what cells of fields in GPU
  /// memory take part travels by host memory. Blocks until this rank's cells have all of theirs; collective among
  /// neighbours. The first call makes and matches its requests.
  void scatter() {
    watch([&] {
      if (scatter_ == nullptr) scatter_ = std::make_unique<detail::halo_scatter<Dims>>(messages_);
      scatter_->run();
    });
  }

  [[nodiscard]] const halo_block<Dims>& block() const noexcept { return messages_.block(); }
  [[nodiscard]] const halo_neighbours<Dims>& neighbours() const noexcept { return messages_.neighbours(); }

 private:
  /// `neighbours` are checked, which reads `fields`. Where `shared` is null, on a copy of `original`.
  halo(const halo_block<Dims>& block, std::vector<halo_field>&& fields, const halo_neighbours<Dims>& neighbours,
       communicator original, std::shared_ptr<detail::halo_comm> shared, halo_sends sends)
      : sends_(sends),
        comm_(shared != nullptr ? std::move(shared) : std::make_shared<detail::halo_comm>(original)),
        messages_(*comm_, block, std::move(fields), neighbours) {
    using detail::halo_part;
    using detail::halo_purpose;
    messages_.for_each([&](std::size_t direction, const halo_offset<Dims>& offset, std::size_t field) {
      const halo_part ghosts(block, ghost_region(block, offset), messages_.fields()[field]);
      gathers_.push_back(messages_.receive(ghosts, halo_purpose::gather, direction, field));
    });
    messages_.for_each([&](std::size_t direction, const halo_offset<Dims>& offset, std::size_t field) {
      const halo_part own(block, own_region(block, offset), messages_.fields()[field]);
      gathers_.push_back(messages_.send(own, halo_purpose::gather, direction, field, sends_));
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

  bool sound_ = true;  ///< no exchange has thrown
  halo_sends sends_;
  std::shared_ptr<detail::halo_comm> comm_;  ///< ends behind all requests
  detail::halo_messages<Dims> messages_;
  std::vector<request> gathers_;                         ///< receives, then sends
  std::unique_ptr<detail::halo_scatter<Dims>> scatter_;  ///< null before the first scatter
};

}  // namespace partita
#endif
