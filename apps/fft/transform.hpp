// A rank's part in transforms of the whole grid.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/fft/exchange.hpp"

namespace fft {

/// Makes a rank's Work for its hops.
using WorkMaker = std::function<std::unique_ptr<Work>(const std::vector<Hop>& hops)>;

/// The names in a list such as "direct, mpi", each once, ascending.
std::vector<std::string> names_in(std::string_view text);

/// Transforms of the ranks of a communicator, to and fro. In the spectrum the cells lie in the order of the last stage.
class Transform {
 public:
  /// Collective over `comm`. Throws std::bad_alloc, or std::runtime_error where a GPU fails.
  Transform(MPI_Comm comm, const Problem& problem, Spacing spacing, const WorkMaker& make_work,
            const ExchangeMaker& make_exchange);
  /// Collective, unless an exception is on its way: then peers may be anywhere, and the job has to end. What an
  /// exchange that is under way uses is left to it until then.
  ~Transform();
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;

  const Hops& hops() const { return hops_; }
  Work& work() { return *work_; }

  /// Collective; the work has the input, and then the spectrum.
  void forward();
  /// Collective; the work has the spectrum, and then the input.
  void inverse();

  /// Seconds that this rank has been in calls of the exchange since the last question.
  double exchange_s();
  /// Over which this rank's exchanges go, ascending; behind the first transforms there and back. None where Partita
  /// does not tell.
  std::vector<std::string> links() const;

 private:
  void hop(std::size_t which);

  MPI_Comm comm_;
  Hops hops_;
  std::unique_ptr<Work> work_;
  MPI_Comm row_ = MPI_COMM_NULL, column_ = MPI_COMM_NULL;
  std::vector<std::unique_ptr<Exchange>> exchanges_;  ///< by hop
  double exchange_s_ = 0;
};

}  // namespace fft
