// The C++ API: the messages of a halo, and the communicator on which they travel. <partita/halo.hpp> includes this.
#ifndef PARTITA_HALO_MESSAGES_HPP
#define PARTITA_HALO_MESSAGES_HPP

#include <mpi.h>
#include <partita/partita.h>
#include <partita/communicator.hpp>
#include <partita/error.hpp>
#include <partita/halo_block.hpp>
#include <partita/halo_field.hpp>
#include <partita/request.hpp>
#include <partita/runtime.hpp>

#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

namespace partita {

/// How the messages of a gather are sent (MPI-4, section 3.4).
enum class halo_sends {
  regular,
  ready,  ///< the receives have started before: they look at nothing, and nothing of them is awaited
};

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

/// What a message is for.
enum class halo_purpose { gather, scatter, fetch, put_back };
inline constexpr std::size_t halo_purposes = 4;

/// Makes the messages of some fields on a block. Holds neither the fields nor the communicator.
template <std::size_t Dims>
class halo_messages final {
 public:
  /// Takes as many tags as there can be messages.
  halo_messages(halo_comm& comm, const halo_block<Dims>& block, std::vector<halo_field>&& fields,
                const halo_neighbours<Dims>& neighbours)
      : comm_(comm.get()),
        block_(block),
        fields_(std::move(fields)),
        neighbours_(neighbours),
        first_tag_(comm.take_tags(halo_purposes * fields_.size() * neighbours.size())) {}

  [[nodiscard]] communicator comm() const noexcept { return comm_; }
  [[nodiscard]] const halo_block<Dims>& block() const noexcept { return block_; }
  [[nodiscard]] const std::vector<halo_field>& fields() const noexcept { return fields_; }
  [[nodiscard]] const halo_neighbours<Dims>& neighbours() const noexcept { return neighbours_; }

  /// Calls each(direction, its offset, field) for each neighbour and field, in the order of directions.
  template <class Each>
  void for_each(Each each) const {
    for (std::size_t direction = 0; direction < neighbours_.size(); ++direction) {
      if (neighbours_[direction] == MPI_PROC_NULL) continue;
      for (std::size_t field = 0; field < fields_.size(); ++field)
        each(direction, halo_offset_of<Dims>(direction), field);
    }
  }

  /// To the neighbour in a direction, and from there; what travels has the same number of bytes on both sides.
  [[nodiscard]] request send(const halo_part& part, halo_purpose purpose, std::size_t direction, std::size_t field,
                             halo_sends how) const {
    const int to = neighbours_[direction], with = tag(purpose, direction, field);
    return how == halo_sends::ready ? comm_.rsend_init(part.first(), 1, part.type(), to, with)
                                    : comm_.send_init(part.first(), 1, part.type(), to, with);
  }
  [[nodiscard]] request receive(const halo_part& part, halo_purpose purpose, std::size_t direction,
                                std::size_t field) const {
    const int with = tag(purpose, opposite(direction), field);
    return comm_.recv_init(part.first(), 1, part.type(), neighbours_[direction], with);
  }
  [[nodiscard]] request receive_packed(std::byte* to, long long bytes, halo_purpose purpose, std::size_t direction,
                                       std::size_t field) const {
    const int with = tag(purpose, opposite(direction), field);
    return comm_.recv_init(to, static_cast<MPI_Count>(bytes), MPI_BYTE, neighbours_[direction], with);
  }
  /// From this rank to itself, the `number`-th for that purpose; adds both requests to `requests`.
  void carry(const halo_part& from, const halo_part& to, halo_purpose purpose, std::size_t number, std::size_t field,
             std::vector<request>& requests) const {
    const int self = comm_.rank(), with = tag(purpose, number, field);
    requests.push_back(comm_.recv_init(to.first(), 1, to.type(), self, with));
    requests.push_back(comm_.send_init(from.first(), 1, from.type(), self, with));
  }

 private:
  [[nodiscard]] std::size_t opposite(std::size_t direction) const noexcept {
    return neighbours_.size() - 1 - direction;
  }
  /// A message is known by its purpose, its field, and the direction in which it travels: so a rank may be its own
  /// neighbour, or another's in several directions.
  [[nodiscard]] int tag(halo_purpose purpose, std::size_t travels, std::size_t field) const noexcept {
    const std::size_t row = static_cast<std::size_t>(purpose) * fields_.size() + field;
    return first_tag_ + static_cast<int>(row * neighbours_.size() + travels);
  }

  communicator comm_;
  halo_block<Dims> block_;
  std::vector<halo_field> fields_;
  halo_neighbours<Dims> neighbours_;
  int first_tag_;
};

}  // namespace detail
}  // namespace partita
#endif
