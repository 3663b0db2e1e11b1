// The method of conjugate gradients (M. R. Hestenes, E. Stiefel: Methods of conjugate gradients for solving linear
// systems, Journal of Research of the National Bureau of Standards 49(6), 1952), as what a rank computes and what it
// tells the others.
#pragma once

#include <vector>

#include "apps/cg/vectors.hpp"

namespace cg {

/// What a rank computes, on its own rows. On GPUs each puts a kernel into a stream and returns.
class Work {
 public:
  virtual ~Work() = default;
  /// x = 0, r = p = the right-hand side; own r · r.
  virtual void start() = 0;
  /// q = A p; own p · q. What the iteration before has left of r · r is from here on the number before.
  virtual void apply() = 0;
  /// x += α p, r -= α q with α = r · r before / p · q; own r · r.
  virtual void advance() = 0;
  /// p = r + β p with β = r · r / r · r before.
  virtual void turn() = 0;
  /// Blocks until all that was asked for is done.
  virtual void finish() = 0;
  /// The sum r · r of all ranks, and this rank's part of x; behind finish().
  virtual double residual_square() const = 0;
  virtual std::vector<double> solution() const = 0;
};

/// What a rank tells the others. In a queue each call puts its communication there and returns.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// The rows of p beside this rank's come from its neighbours.
  virtual void halo() = 0;
  /// The sum of all ranks' own products.
  virtual void sum(Product product) = 0;
  /// Blocks until all that was asked for is done. Throws where something has failed.
  virtual void finish() = 0;
};

inline void start(Work& work, Exchange& exchange) {
  work.start();
  exchange.sum(Product::residual);
}

inline void iterate(Work& work, Exchange& exchange) {
  exchange.halo();
  work.apply();
  exchange.sum(Product::direction);
  work.advance();
  exchange.sum(Product::residual);
  work.turn();
}

}  // namespace cg
