// What a collective is made of.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collective/memory.hpp"
#include "collective/problem.hpp"
#include "collective/reduction.hpp"
#include "collective/tuning.hpp"
#include "link/device_route.hpp"
#include "transfer/communicator.hpp"

namespace partita::collective {

/// The checked arguments of an init call.
struct CollectiveArguments {
  Problem problem;
  int partitions = 1;
  /// Else there is one, of which the program knows nothing: a start hands over all of the data.
  bool is_partitioned = true;
  Form form{};
  /// Those that are not empty lie in host memory all, or in that of one GPU.
  std::vector<Block> sent;
  std::vector<Block> received;
  Reduction reduction;
  std::shared_ptr<Communicator> communicator;
  std::vector<int> world_ranks;  ///< of the communicator's members
  std::string link = "auto";
  std::string algorithm = "auto";
  const Tuning* tuning = nullptr;  ///< outlives the collective; of it auto takes rules before the built-in ones
  link::Driver driver{};           ///< who opens the epochs
};

}  // namespace partita::collective
