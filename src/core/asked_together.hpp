// Requests of the MPI's for which a call asks at once, rather than one by one.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include "core/scratch.hpp"
#include "core/which_mpi.hpp"

namespace partita {

/// Belongs to one completion call, and to its thread. Each time that the MPI is asked it looks at all of them and makes
/// progress once; where each were asked for by itself it would make progress for each.
class AskedTogether {
 public:
  /// Who has such a request. While it is a member nobody else gives the request to the MPI.
  class Member {
   public:
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    /// Whether there are several in this process: else there is nothing to ask for together.
    static bool are_several() { return alive.load(std::memory_order_relaxed) > 1; }

   protected:
    Member() { alive.fetch_add(1, std::memory_order_relaxed); }
    ~Member() { alive.fetch_sub(1, std::memory_order_relaxed); }

   private:
    friend class AskedTogether;
    /// The MPI has completed `request`, which is as it has left it, or has failed to, with `code`, of which the error
    /// handler has heard. It is no member any more.
    virtual void answered(MPI_Request request, int code, const MPI_Status& status) noexcept = 0;
    /// Nobody asks for it any more. It is no member any more.
    virtual void let_go() noexcept = 0;
    /// Asks the MPI to take the request back, where the program wants that.
    virtual void cancel_if_wanted() noexcept = 0;

    inline static constinit std::atomic<int> alive{0};
    std::size_t place_ = 0;
  };

  /// For so many members at most. Throws std::bad_alloc.
  explicit AskedTogether(std::size_t most);
  ~AskedTogether() { let_go_of_all(); }
  AskedTogether(const AskedTogether&) = delete;
  AskedTogether& operator=(const AskedTogether&) = delete;

  /// Whether a persistent request may be a member's. Open MPI 4 and 5 say nothing of its failure in MPI_Testany.
  static constexpr bool takes_persistent = built_for != MpiFamily::open_mpi;
  /// `member` is one from here on, with `request`, which is active. Returns false where there is no room.
  bool add(Member& member, MPI_Request request);
  /// It is none any more; it has not been answered. Returns its request as the MPI has left it: null where it is gone.
  MPI_Request remove(const Member& member);
  std::size_t count() const { return count_; }

  enum class Wanted { one, all };
  /// Asks the MPI once which are complete; all of those, or one of them, are answered. Does not block.
  void ask(Wanted wanted);
  /// Whether it belongs to a call of this thread. Any thread.
  bool is_of_this_thread() const { return thread_ == std::this_thread::get_id(); }
  /// Whether this thread is asking the MPI: then an error handler of the program's runs, and a request may be gone. Any
  /// thread.
  bool is_asking() const { return is_of_this_thread() && is_asking_; }
  /// Before the MPI is asked again those are cancelled that want it. Any thread.
  void cancel_some() { cancels_.store(true, std::memory_order_release); }

 private:
  std::size_t ask_from(std::size_t first, std::size_t most);
  void answer(std::size_t place, int code, const MPI_Status& status);
  void answer_freed(std::size_t first, std::size_t most, int code);
  void close_up();
  void let_go_of_all();

  const std::thread::id thread_ = std::this_thread::get_id();
  Scratch scratch_;
  const std::size_t most_;
  MPI_Request* const requests_;
  Member** const members_;  ///< null: has left
  std::size_t count_ = 0;   ///< with those that have left
  bool has_holes_ = false;
  bool is_asking_ = false;
  std::atomic<bool> cancels_{false};
};

}  // namespace partita
