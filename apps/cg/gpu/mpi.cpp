#include "apps/cg/gpu/mpi.hpp"

#include "apps/cg/mpi.hpp"

namespace cg::gpu {
namespace {

using partita::apps::PinnedMemory;

class ThroughHost final : public Exchange {
 public:
  ThroughHost(const Share& share, const Vectors& v, const partita::apps::Stream& stream)
      : neighbours_(share.neighbours),
        vectors_(v),
        stream_(stream),
        rows_(4 * static_cast<std::size_t>(v.columns)),
        numbers_(2),
        mpi_(share.comm, {v.columns, row(first), row(last), row(before), row(behind)}, share.neighbours) {}

  void halo() override {
    copy_rows(row(first), vectors_.first_row(), neighbours_.before);
    copy_rows(row(last), vectors_.last_row(), neighbours_.behind);
    stream_.synchronise();
    mpi_.exchange_rows();
    copy_rows(vectors_.row_before(), row(before), neighbours_.before);
    copy_rows(vectors_.row_behind(), row(behind), neighbours_.behind);
  }

  void sum(Product product) override {
    const auto which = static_cast<std::size_t>(product);
    Numbers& on_gpu = *vectors_.numbers;
    copy(&numbers_.data()[0], &on_gpu.own[which], sizeof(double));
    stream_.synchronise();
    mpi_.sum(&numbers_.data()[0], &numbers_.data()[1]);
    copy(&on_gpu.all[which], &numbers_.data()[1], sizeof(double));
  }

  void finish() override { stream_.synchronise(); }

 private:
  enum Row { first, last, before, behind };
  double* row(Row which) const { return rows_.data() + static_cast<std::ptrdiff_t>(which) * vectors_.columns; }

  void copy(void* to, const void* from, std::size_t size_bytes) const {
    PARTITA_APPS_CUDA(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream_.get()));
  }
  /// Beyond the rim p is 0 for good.
  void copy_rows(double* to, const double* from, int neighbour) const {
    if (neighbour != MPI_PROC_NULL) copy(to, from, sizeof(double) * static_cast<std::size_t>(vectors_.columns));
  }

  const Neighbours neighbours_;
  const Vectors vectors_;
  const partita::apps::Stream& stream_;
  PinnedMemory<double> rows_;     ///< by Row
  PinnedMemory<double> numbers_;  ///< a rank's, and that of all
  OwnMpi mpi_;
};

}  // namespace

std::unique_ptr<Exchange> exchange_through_host(const Share& share, const Vectors& vectors,
                                                const partita::apps::Stream& stream) {
  return std::make_unique<ThroughHost>(share, vectors, stream);
}

}  // namespace cg::gpu
