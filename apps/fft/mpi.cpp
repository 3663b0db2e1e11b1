// The exchange in plain MPI; its twin in partitions is partita.cpp.
#include <algorithm>

#include "apps/fft/exchange.hpp"

namespace fft {
namespace {

/// Blocks padded to one size.
class Alltoall final : public Exchange {
 public:
  Alltoall(MPI_Comm peers, const Hop& hop, const Buffers& buffers)
      : peers_(peers), buffers_(buffers), count_(static_cast<int>(hop.route.largest_block)) {}

  void start() override {}
  void packed(int /*slice*/) override {}
  void await(int slice) override {
    if (slice != 0) return;
    MPI_Alltoall(buffers_.sent, count_, MPI_C_DOUBLE_COMPLEX, buffers_.received, count_, MPI_C_DOUBLE_COMPLEX, peers_);
  }
  void finish() override {}

 private:
  MPI_Comm peers_;
  Buffers buffers_;
  int count_;
};

/// Places as MPI takes them.
struct Ints {
  explicit Ints(const Places& places)
      : counts(places.counts.begin(), places.counts.end()),
        displacements(places.displacements.begin(), places.displacements.end()) {}

  std::vector<int> counts, displacements;
};

/// Blocks of the sizes that they have.
class Alltoallv final : public Exchange {
 public:
  Alltoallv(MPI_Comm peers, const Hop& hop, const Buffers& buffers)
      : peers_(peers), buffers_(buffers), sent_(hop.sent), received_(hop.received) {}

  void start() override {}
  void packed(int /*slice*/) override {}
  void await(int slice) override {
    if (slice != 0) return;
    MPI_Alltoallv(buffers_.sent, sent_.counts.data(), sent_.displacements.data(), MPI_C_DOUBLE_COMPLEX,
                  buffers_.received, received_.counts.data(), received_.displacements.data(), MPI_C_DOUBLE_COMPLEX,
                  peers_);
  }
  void finish() override {}

 private:
  MPI_Comm peers_;
  Buffers buffers_;
  Ints sent_, received_;
};

}  // namespace

std::unique_ptr<Exchange> exchange_by_alltoall(MPI_Comm peers, const Hop& hop, const Buffers& buffers) {
  return std::make_unique<Alltoall>(peers, hop, buffers);
}

std::unique_ptr<Exchange> exchange_by_alltoallv(MPI_Comm peers, const Hop& hop, const Buffers& buffers) {
  return std::make_unique<Alltoallv>(peers, hop, buffers);
}

}  // namespace fft
