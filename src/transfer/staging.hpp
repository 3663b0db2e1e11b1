// Transfers of GPU memory over a link that does not move it: staged in host memory, piece by piece, so that the GPU's
// copies and the link's work overlap.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/active_steps.hpp"
#include "memory/copies.hpp"
#include "transfer/pieces.hpp"
#include "transfer/services.hpp"

namespace partita {

/// The memory of a half that is staged itself.
struct Stage {
  std::byte* on_gpu;   ///< the program's buffer
  std::byte* in_host;  ///< what the link was given instead
  int device;
};

/// The sending half's puts. Their way: pieces that are neighbours are copied into host memory together, up to 1 MiB →
/// once they lie there a step of the progress engine puts them. Where only the receiver is staged they are put at once.
class StagedPuts final : private ActiveStep {
 public:
  class Owner {
   public:
    /// The pieces lie where the link takes them from: it puts them. Throws Error.
    virtual void put_pieces(link::Range pieces, Epoch epoch) = 0;
    /// So many transport partitions were put whole.
    virtual void count_put(std::int32_t transports) = 0;
    /// Within a catch: what was to be put is put by nobody else.
    virtual void could_not_put() noexcept = 0;

   protected:
    ~Owner() = default;
  };

  /// Throws Error.
  StagedPuts(const Services& services, Owner& owner, const Pieces& pieces, const std::optional<Stage>& stage);
  ~StagedPuts();

  /// Never waits for a copy. Any thread, with different transport partitions. Throws Error.
  void put(link::Range transports, Epoch epoch);
  /// Nothing more is put, and no copy is under way. Blocks until then. No step of the progress engine runs meanwhile.
  void close();

 private:
  struct Copy {
    link::Range pieces;
    std::int32_t transports;  ///< so many end with it
    Epoch epoch;
  };

  Copy next_copy(link::Range pieces, link::Range& transports, Epoch epoch) const;
  Outcome step() noexcept override;
  Outcome put_copied();
  void check_copies();
  void put_no_more();

  Progress& progress_;
  Owner& owner_;
  const Pieces pieces_;
  const std::optional<Stage> stage_;
  std::mutex mutex_;  ///< of the next two
  std::unique_ptr<memory::Copies> copies_;
  bool is_closed_ = false;

  std::vector<Copy> begun_;               ///< a ring with room for an epoch
  std::atomic<std::uint64_t> begins_{0};  ///< so many copies ever
  std::uint64_t puts_ = 0;                ///< so many of them were put; the steps'
};

/// What of a receiving half has arrived. A piece's way: it has arrived in host memory → its copy begins, by a step of
/// the progress engine or by whoever asks → it has ended, and the piece counts as arrived. Where only the sender is
/// staged it counts at once.
class StagedArrivals final : private ActiveStep {
 public:
  class Owner {
   public:
    /// Within a catch: what has arrived is copied by nobody else.
    virtual void could_not_take() noexcept = 0;

   protected:
    ~Owner() = default;
  };

  /// `landings`: as the link's ReceiverFacts have them. Throws Error.
  StagedArrivals(const Services& services, Owner& owner, link::Receiver& link,
                 const std::array<std::byte*, 2>& landings, const Pieces& pieces, const std::optional<Stage>& stage);
  ~StagedArrivals();

  /// The link has opened `epoch`.
  void open(Epoch epoch);
  /// Whether `transports` of the open epoch have arrived. Any thread; makes progress. Throws Error.
  bool arrived(link::Range transports, Epoch epoch);
  /// As of StagedPuts.
  void close();

 private:
  Outcome step() noexcept override;
  Outcome copy_arrived();
  bool begin_copies(link::Range pieces);
  bool begin_next_copies();
  void add_arrived(link::Range& run);
  void begin_copy(link::Range pieces);
  bool filled(link::Range pieces, Epoch epoch) const;

  Progress& progress_;
  Owner& owner_;
  link::Receiver& link_;
  const std::array<std::byte*, 2> landings_;
  const Pieces pieces_;
  std::byte* const on_gpu_;
  std::unique_ptr<memory::Copies> copies_;  ///< where this side is staged
  std::mutex mutex_;                        ///< of the copies that begin, and the next ones
  std::vector<Epoch> begun_;                ///< per piece
  Epoch epoch_ = no_epoch;                  ///< the open one
  std::int64_t next_ = 0;                   ///< the copies of all pieces before it have begun
  std::int64_t arrived_ = 0;                ///< those of all before it have ended
  bool is_closed_ = false;
};

}  // namespace partita
