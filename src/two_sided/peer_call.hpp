// One collective by peer memory, from the agreement of its ranks to their common end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/layout.hpp"
#include "core/watch.hpp"
#include "memory/blocks.hpp"
#include "two_sided/peer_board.hpp"
#include "two_sided/peer_mappings.hpp"
#include "two_sided/peer_services.hpp"
#include "two_sided/peer_times.hpp"
#include "two_sided/stream_place.hpp"

namespace partita {

/// What the calls of a communicator have in common.
struct PeerContext {
  const PeerServices& services;
  PeerMappings& mappings;
  const Communicator& communicator;
  const std::vector<int>& world_ranks;  ///< by rank
  int rank;
  PeerBoard* board;  ///< null until this rank begins the call
  PeerTimes* times;  ///< null: nobody measures
  /// Runs what may take long beside the progress engine, and keeps the call for it. The call is a nonblocking one,
  /// where the program may free memory meanwhile, by mistake. Null: it is a blocking one. Throws std::exception.
  std::function<void(std::function<void()> job)> aside;
};

/// A buffer of a call on this rank.
struct PeerBuffer {
  std::byte* address = nullptr;
  Layout layout;  ///< without gaps; of no bytes where the buffer means nothing
  int device = -1;

  std::byte* at(std::int64_t element) const;
  std::int64_t bytes(std::int64_t count) const { return count * layout.size_bytes(); }
};

/// On one rank. The ranks ask each other the questions of PeerBoard; who has all answers does its part on its GPU, in
/// the memory of the others, in one batch, and ends when all have ended. It is described, and gets on in steps, of a
/// blocking call in a wait for them. One thread at a time, but for what a wait says about itself; what a nonblocking
/// one does aside no other thread looks at before it has ended.
class PeerCall : public Waiting {
 public:
  ~PeerCall() override;
  PeerCall(const PeerCall&) = delete;
  PeerCall& operator=(const PeerCall&) = delete;

  /// Looks at this rank's buffers, and marks how far the program's stream is. Once, by the thread that makes the call.
  /// Returns whether this rank wants it.
  bool describe();
  /// Takes the steps that can be taken, and returns whether the call is over. It is the one that this rank has begun
  /// last on the board. Throws Error.
  bool step();
  bool is_over() const { return stage() >= Stage::made; }
  /// Behind that: whether it was made, on all ranks; else on none.
  bool is_made() const { return stage() == Stage::made; }
  /// See PeerCollectives::make. Once: it is described and begun.
  bool make();
  /// Nobody takes its steps any more: the others hear of it.
  void give_up() noexcept;
  /// Whether the program's stream has come to where it stood at the call. Throws Error.
  bool is_behind_stream();
  /// Throws Error (buffer) where a buffer does not lie any more where it lay at the call.
  void check_memory() const;
  /// Why this rank has said no; empty where it has not, or where its buffers are in host memory.
  const std::string& why_not() const { return why_not_; }

  std::string explain() const override;
  int waits_for() const override;

 protected:
  PeerCall(const PeerContext& context, const char* name) : context_(context), name_(name), laps_(context.times) {}

  // What calls differ in, in the order in which they are asked. What one throws, up to needs(), is a no.
  /// Whether this rank's arguments and memory are fit.
  virtual bool is_fit() = 0;
  virtual bool reduces() const = 0;
  /// Whether this rank's larger buffer moves as much as is worth it, of a call that is fit. Throws nothing.
  virtual bool moves_enough() const = 0;
  /// Makes the offers to all peers.
  virtual bool names_memory() = 0;
  /// Calls map() for what is needed of what they offer; also after one that fails, which takes what was passed.
  virtual bool maps_peers() = 0;
  /// Whether it maps memory of `peer`; of a call that is fit.
  virtual bool uses(int peer) const = 0;
  /// What this rank's part takes of its GPU; of none where it has nothing to do.
  struct Needs {
    int device = -1;
    GpuLane::Work work = GpuLane::Work::copies;
    std::int64_t scratch_bytes = 0;
  };
  virtual Needs needs() const = 0;
  /// Asks a stream of that GPU for this rank's part. `scratch`: the bytes that it needs, null for none. Throws Error.
  virtual void ask_for_part(memory::Stream& stream, std::byte* scratch) = 0;

  int ranks() const { return static_cast<int>(context_.world_ranks.size()); }
  int rank() const { return context_.rank; }
  const RequestServices& requests() const { return context_.services.requests; }
  /// False, for a reason that is worth telling.
  bool refuse(std::string why);

  /// Whether `count` elements from `first` on lie in GPU memory, as the first byte of the data does, without gaps.
  /// Fills `buffer`, which the call uses behind the program's stream. It asks no more about host memory.
  bool looks_at(PeerBuffer& buffer, const void* address, MPI_Datatype type, std::int64_t first, std::int64_t count);
  /// The bytes of a buffer that are shown to peers; each of them may use a part.
  struct Shown {
    std::byte* first = nullptr;
    std::byte* end = nullptr;
    memory::DevicePiece named{};  ///< as the last peer has heard it

    std::size_t size_bytes() const { return static_cast<std::size_t>(end - first); }
  };
  /// Whether peers can map them, if there are any.
  bool are_mappable(const Shown& shown);
  using Side = PeerBoard::Side;
  /// Offers `peer` the bytes from `place` on. `place` null: it is told how many there are, and does not use them.
  bool offers(Side side, int peer, Shown& shown, const std::byte* place, std::int64_t size_bytes);
  /// Whether `peer` has as many as this rank expects. Where the counts of two ranks differ the MPI has to say so.
  bool offers_as_many(Side side, int peer, std::int64_t size_bytes) const;
  /// Where the offer of `peer` is mapped for `device`; null where it cannot be. Behind one that cannot be mapped
  /// nothing is: what was passed is taken.
  std::byte* map(Side side, int peer, int device);

 private:
  using Question = PeerBoard::Question;
  /// What this rank has done last.
  enum class Stage : std::uint8_t {
    described,
    wanted,
    named,
    offered,  ///< all have named what they offer, and this rank waits for the program's stream
    mapped,
    at_work,  ///< its GPU is at its part
    ended,
    made,
    left,    ///< the ranks have not agreed: the MPI makes the call
    failed,  ///< with all others
  };

  Stage stage() const { return stage_.load(std::memory_order_acquire); }
  /// Pairs with stage(), in a thread that says what is waited for.
  void enter(Stage stage) { stage_.store(stage, std::memory_order_release); }
  /// Whether it has come further.
  bool gets_on();
  void answer(Question question, PeerBoard::Answer answer, Stage next);
  bool has_answers(Question question);
  /// What `step` says; where it fails, no, for that reason.
  template <class Step>
  bool succeeds(const Step& step) noexcept;
  bool may_map();
  bool maps();
  bool finds_mapped() noexcept;
  bool has_mapped();
  void mark_stream(int device);
  bool prepares();
  void begin_part();
  bool part_has_ended() noexcept;
  void leave_to_gpu() noexcept;
  void end(const PeerBoard::Answers& answers);
  int world_rank(int peer) const { return context_.world_ranks[static_cast<std::size_t>(peer)]; }

  const PeerContext& context_;
  const char* const name_;
  std::uint64_t number_ = 0;
  PeerLaps laps_;
  PeerBoard::Answer wish_;
  /// What this rank's part uses on the GPU.
  struct Used {
    std::vector<std::shared_ptr<std::byte>> mapped;
    std::unique_ptr<memory::Event> event;
    std::unique_ptr<memory::DeviceBlock> scratch;
    Used* next = nullptr;  ///< of those that were left to GPUs
  };
  std::unique_ptr<Used> used_;
  /// Where the program's stream stood when the call was made: in each GPU that has a buffer of it, for that may be the
  /// GPU's default stream.
  std::vector<std::pair<int, std::unique_ptr<StreamPlace>>> places_in_stream_;
  std::vector<std::pair<const std::byte*, int>> looked_at_;  ///< the first byte of each buffer, and its GPU
  bool has_failed_to_map_ = false;
  bool only_finds_ = false;  ///< what is mapped already
  /// How far mapping has come, of a nonblocking call.
  enum class Mapping : std::uint8_t { none, under_way, done, failed };
  std::atomic<Mapping> mapping_{Mapping::none};
  Needs needs_;
  GpuLane* lane_ = nullptr;  ///< of that GPU
  std::string why_not_;
  std::optional<Error> failure_;  ///< of its part, whose end all others have to hear of
  std::atomic<Stage> stage_{Stage::described};
  std::atomic<int> awaited_{-1};  ///< the rank whose answer is missing
};

}  // namespace partita
