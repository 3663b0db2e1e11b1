// The mean of repeated runs, and how well it is known.
#pragma once

#include <optional>
#include <span>

namespace partita::apps {

struct Mean {
  double mean = 0;
  /// The true mean lies this far from it at most, by 95 % (Student's t-distribution); nothing where there is one value.
  std::optional<double> half_width;
};

/// The runs behind `values` do not depend on each other; `values` is not empty.
Mean mean_of(std::span<const double> values);

}  // namespace partita::apps
