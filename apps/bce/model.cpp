#include "apps/bce/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/support/mixed.hpp"
#include "apps/support/progress.hpp"

namespace bce {
namespace {

using partita::apps::mixed;
using partita::apps::Progress;

/// From -1 up to 1, by seed and place alone.
double uniform(std::uint64_t seed, std::uint64_t row, std::uint64_t column) {
  const std::uint64_t bits = mixed(mixed(mixed(seed) ^ row) ^ column);
  return static_cast<double>(bits >> 11U) * 0x1p-52 - 1.0;
}

/// Rows of `uniform` that are no sample.
constexpr std::uint64_t row_of_weights = ~std::uint64_t{0};
constexpr std::uint64_t column_of_labels = ~std::uint64_t{0};

/// The weights by which the labels are drawn: the spread of a logit does not depend on their number.
double true_weight(const Problem& problem, int feature) {
  return 4.0 * uniform(problem.seed, row_of_weights, static_cast<std::uint64_t>(feature)) /
         std::sqrt(static_cast<double>(problem.features));
}

double sigmoid(double logit) {
  return logit >= 0 ? 1.0 / (1.0 + std::exp(-logit)) : 1.0 - 1.0 / (1.0 + std::exp(logit));
}

/// -log of the probability of `label`, without a logarithm of 0.
double cross_entropy(double logit, double label) {
  return std::max(logit, 0.0) - logit * label + std::log1p(std::exp(-std::abs(logit)));
}

double logit_of(const double* row, std::span<const double> weights) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t f = 0; f < weights.size(); ++f) sum += row[f] * weights[f];
  return sum;
}

/// The backward pass for all weights, in as many runs as there are threads.
void backward_by_threads(const Samples& samples, std::span<const double> slopes, std::span<double> gradient,
                         int threads) {
  const auto size = static_cast<std::int64_t>(gradient.size());
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int run = 0; run < threads; ++run) {
    const std::int64_t first = size * run / threads, end = size * (run + 1) / threads;
    backward(samples, slopes, static_cast<int>(first),
             gradient.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first)));
  }
}

}  // namespace

Range samples_of(const Problem& problem, int rank, int ranks) {
  const std::int64_t each = problem.samples / ranks, left = problem.samples % ranks;
  return {rank * each + std::min<std::int64_t>(rank, left), each + (rank < left ? 1 : 0)};
}

Samples::Samples(const Problem& problem, const Range& range, int threads)
    : features_(problem.features),
      values_(static_cast<std::size_t>(range.count) * static_cast<std::size_t>(problem.features)),
      labels_(static_cast<std::size_t>(range.count)) {
  std::vector<double> truth(static_cast<std::size_t>(problem.features));
  for (int f = 0; f < problem.features; ++f) truth[static_cast<std::size_t>(f)] = true_weight(problem, f);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t i = 0; i < range.count; ++i) {
    const auto number = static_cast<std::uint64_t>(range.first + i);
    double* const row = values_.data() + i * features_;
    row[0] = 1.0;
    for (int f = 1; f < problem.features; ++f) row[f] = uniform(problem.seed, number, static_cast<std::uint64_t>(f));
    const double chance = 0.5 + 0.5 * uniform(problem.seed, number, column_of_labels);
    labels_[static_cast<std::size_t>(i)] = chance < sigmoid(logit_of(row, truth)) ? 1.0 : 0.0;
  }
}

double forward(const Problem& problem, const Samples& samples, std::span<const double> weights,
               std::span<double> slopes, int threads) {
  double loss = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : loss)
  for (std::int64_t i = 0; i < samples.count(); ++i) {
    const double logit = logit_of(samples.row(i), weights), label = samples.label(i);
    slopes[static_cast<std::size_t>(i)] = (sigmoid(logit) - label) / static_cast<double>(problem.samples);
    loss += cross_entropy(logit, label);
  }
  return loss;
}

void backward(const Samples& samples, std::span<const double> slopes, int first, std::span<double> gradient) {
  std::ranges::fill(gradient, 0.0);
  for (std::int64_t i = 0; i < samples.count(); ++i) {
    const double* const row = samples.row(i) + first;
    const double slope = slopes[static_cast<std::size_t>(i)];
#pragma omp simd
    for (std::size_t f = 0; f < gradient.size(); ++f) gradient[f] += slope * row[f];
  }
}

std::int64_t correct_of(const Samples& samples, std::span<const double> weights, int threads) {
  std::int64_t right = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : right)
  for (std::int64_t i = 0; i < samples.count(); ++i) {
    right += (logit_of(samples.row(i), weights) > 0) == (samples.label(i) > 0.5) ? 1 : 0;
  }
  return right;
}

Trained train_alone(const Problem& problem, int steps, int threads) {
  const Samples samples(problem, {0, problem.samples}, threads);
  Trained trained{std::vector<double>(static_cast<std::size_t>(problem.features)), {}};
  std::vector<double> slopes(static_cast<std::size_t>(samples.count())), gradient(trained.weights.size());
  Progress progress(true);
  for (int step = 0; step < steps; ++step) {
    const double loss = forward(problem, samples, trained.weights, slopes, threads);
    trained.losses.push_back(loss / static_cast<double>(problem.samples));
    backward_by_threads(samples, slopes, gradient, threads);
    for (std::size_t f = 0; f < gradient.size(); ++f) trained.weights[f] -= problem.rate * gradient[f];
    if (progress.due()) Progress::say("one rank", fmt::format("step {} of {}", step, steps));
  }
  return trained;
}

}  // namespace bce
