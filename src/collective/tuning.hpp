// Which algorithm a collective takes where the program has chosen none: a table of rules, the built-in one or a file's.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collective/problem.hpp"

namespace partita::collective {

/// Who moves the data, by the info key partita_driver: schedules, which the host runs, or kernels. All ranks know it
/// alike, which is not so of the memory that their buffers lie in.
enum class MovedBy : std::uint8_t { host, device };

inline constexpr int any_ranks = 0;

/// From `from_bytes` on, up to the next rule of the same collective, mover and ranks, `algorithm` is taken.
struct Rule {
  Kind kind{};
  MovedBy by{};
  int ranks = any_ranks;        ///< of the communicator
  std::int64_t from_bytes = 0;  ///< of a block; of schedules, of one partition of it: see tuned_bytes()
  std::string algorithm;        ///< a value of the info key partita_algorithm

  friend bool operator==(const Rule&, const Rule&) = default;
};

/// What is to be moved, in what rules go by.
struct Need {
  Kind kind{};
  MovedBy by{};
  int ranks = 1;
  std::int64_t bytes = 0;
};

class Tuning {
 public:
  Tuning() = default;
  explicit Tuning(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  /// The rule with the most `from_bytes` that `need` reaches, of those for this number of ranks, or if there are none,
  /// of those for any. Null where there is none.
  const Rule* find(const Need& need) const;

  const std::vector<Rule>& rules() const { return rules_; }

 private:
  std::vector<Rule> rules_;
};

/// As many ranks as may take part.
int most_ranks_of(MovedBy by);

/// Has an algorithm for every collective that moves data of any number of bytes among any number of ranks, and that
/// always serves.
const Tuning& built_in_tuning();

/// What `auto` takes from `from_bytes` on, up to the next one.
struct RuleInForce {
  std::int64_t from_bytes = 0;
  std::string algorithm;
  bool is_built_in = true;

  friend bool operator==(const RuleInForce&, const RuleInForce&) = default;
};

/// The rules for this number of ranks, by ascending bytes: those of `tuning` where they reach, else the built-in ones.
/// Empty where nobody moves it so. An algorithm that does not serve a problem, as a ring of an operation that does not
/// commute, gives way to the built-in one.
std::vector<RuleInForce> rules_in_force(Kind kind, MovedBy by, int ranks, const Tuning& tuning);

/// Whether all ranks know the size of a block, so that it may decide: not so of gatherv, scatterv, alltoallv, alltoallw
/// and the collectives of neighbourhoods, whose blocks have the sizes that one rank, or two, know.
bool size_may_decide(Kind kind);

/// The bytes by which schedules are chosen, alike on all ranks: those of a block of one partition; of an allgatherv or
/// a reduce_scatter, of an average one. 0 where the size does not decide.
std::int64_t tuned_bytes(const Problem& problem);

}  // namespace partita::collective
