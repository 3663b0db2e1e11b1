// Logistic regression, which binary cross-entropy trains: the samples, and what one step computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bce {

/// Everything that a training follows from.
struct Problem {
  std::int64_t samples = 0;
  int features = 0;  ///< the first one is 1 in all samples, so that its weight is the bias
  std::uint64_t seed = 0;
  double rate = 0;  ///< by which the weights follow the gradient
};

/// Whole samples, in the order of the whole set.
struct Range {
  std::int64_t first = 0, count = 0;
};
/// The samples of `rank`: neighbours, as many as those of the others, or one more.
Range samples_of(const Problem& problem, int rank, int ranks);

/// Some of the samples. A sample does not depend on who holds it.
class Samples {
 public:
  /// Computed by `threads` threads.
  Samples(const Problem& problem, const Range& range, int threads);

  std::int64_t count() const { return static_cast<std::int64_t>(labels_.size()); }
  const double* row(std::int64_t i) const { return values_.data() + i * features_; }
  const double* labels() const { return labels_.data(); }
  /// 0 or 1.
  double label(std::int64_t i) const { return labels_[static_cast<std::size_t>(i)]; }

 private:
  std::ptrdiff_t features_;
  std::vector<double> values_, labels_;
};

/// The forward pass on `samples`: puts the derivative of the mean loss over all of `problem` by each sample's logit
/// into `slopes`, and returns the sum of these samples' losses.
double forward(const Problem& problem, const Samples& samples, std::span<const double> weights,
               std::span<double> slopes, int threads);

/// The backward pass for the weights from `first` on, as many as `gradient` has. Any thread.
void backward(const Samples& samples, std::span<const double> slopes, int first, std::span<double> gradient);

/// How many of `samples` `weights` put on the right side.
std::int64_t correct_of(const Samples& samples, std::span<const double> weights, int threads);

/// Trains on the whole set without messages.
struct Trained {
  std::vector<double> weights;
  std::vector<double> losses;  ///< the mean over the set before each step
};
Trained train_alone(const Problem& problem, int steps, int threads);

}  // namespace bce
