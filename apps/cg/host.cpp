// The ranks compute on their hosts. In a queue of the host everything runs when it is enqueued.
#include <fmt/format.h>

#include <stdexcept>

#include "apps/cg/host_work.hpp"
#include "apps/cg/machine.hpp"

namespace cg {
namespace {

class Host final : public Machine {
 public:
  explicit Host(const Share& share) : share_(share), work_(share.problem, share.first_row, share.rows) {}

  std::string describe() const override { return "one thread a rank"; }
  std::optional<std::string> problem_with(std::string_view /*mode*/) const override { return std::nullopt; }
  Work& work() override { return work_; }

  std::unique_ptr<Exchange> make_exchange(std::string_view mode) override {
    if (mode == "traditional") return exchange_by_mpi(share_.comm, work_.vectors(), share_.neighbours);
    if (mode == "queue") {
      return exchange_in_queue(share_.comm, work_.vectors(), share_.neighbours, partita::queue::host(), Sums::engine);
    }
    throw std::logic_error(fmt::format("cg: there is no mode {} on the CPU.", mode));
  }
  std::function<void()> make_batch(std::string_view /*mode*/, Exchange& exchange, int count) override {
    return one_by_one(work_, exchange, count);
  }

 private:
  const Share share_;
  HostWork work_;
};

}  // namespace

std::unique_ptr<Machine> make_host(const Share& share) {
  return std::make_unique<Host>(share);
}

}  // namespace cg
