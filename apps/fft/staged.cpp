// The yardstick of peer memory: an exchange whose collectives the drop-in cannot take to the peers' memory.
#include <utility>

#include "apps/fft/exchange.hpp"
#include "apps/support/own_mpi.hpp"

namespace fft {
namespace {

class OnUnknownPeers final : public Exchange {
 public:
  /// `own` is freed with this.
  OnUnknownPeers(MPI_Comm own, std::unique_ptr<Exchange> exchange) : own_(own), exchange_(std::move(exchange)) {}
  ~OnUnknownPeers() override {
    exchange_.reset();
    MPI_Comm_free(&own_);
  }
  OnUnknownPeers(const OnUnknownPeers&) = delete;
  OnUnknownPeers& operator=(const OnUnknownPeers&) = delete;

  void start() override { exchange_->start(); }
  void packed(int slice) override { exchange_->packed(slice); }
  void await(int slice) override { exchange_->await(slice); }
  void finish() override { exchange_->finish(); }

 private:
  MPI_Comm own_;
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace

std::unique_ptr<Exchange> exchange_on_unknown_peers(
    MPI_Comm peers, const std::function<std::unique_ptr<Exchange>(MPI_Comm unknown_peers)>& make) {
  MPI_Comm own = MPI_COMM_NULL;
  PARTITA_OF_MPI(Comm_dup)(peers, &own);  // the drop-in may stand behind the MPI's PMPI names, too
  return std::make_unique<OnUnknownPeers>(own, make(own));
}

}  // namespace fft
