// The yardstick of peer memory: an exchange whose collectives the drop-in cannot take to the peers' memory.
#include "apps/fft/exchange.hpp"
#include "apps/support/own_mpi.hpp"

namespace fft {
namespace {

/// A copy of `peers` that Partita does not know. It is freed where making the exchange throws, too: to free one is
/// collective, but local in the MPIs (MPI-4, section 7.4.3, advice to implementors).
class UnknownPeers {
 public:
  explicit UnknownPeers(MPI_Comm peers) {
    PARTITA_OF_MPI(Comm_dup)(peers, &own_);  // the drop-in may stand behind the MPI's PMPI names, too
  }
  ~UnknownPeers() { MPI_Comm_free(&own_); }
  UnknownPeers(const UnknownPeers&) = delete;
  UnknownPeers& operator=(const UnknownPeers&) = delete;

  MPI_Comm get() const { return own_; }

 private:
  MPI_Comm own_ = MPI_COMM_NULL;
};

class OnUnknownPeers final : public Exchange {
 public:
  OnUnknownPeers(MPI_Comm peers, const std::function<std::unique_ptr<Exchange>(MPI_Comm unknown_peers)>& make)
      : own_(peers), exchange_(make(own_.get())) {}

  void start() override { exchange_->start(); }
  void packed(int slice) override { exchange_->packed(slice); }
  void await(int slice) override { exchange_->await(slice); }
  void finish() override { exchange_->finish(); }
  std::string links() const override { return exchange_->links(); }

 private:
  UnknownPeers own_;  // ends behind the exchange on it
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace

std::unique_ptr<Exchange> exchange_on_unknown_peers(
    MPI_Comm peers, const std::function<std::unique_ptr<Exchange>(MPI_Comm unknown_peers)>& make) {
  return std::make_unique<OnUnknownPeers>(peers, make);
}

}  // namespace fft
