#include "bench/gpu/benchmarks.hpp"
#include "bench/benchmarks/all.hpp"

namespace partita::bench {

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> table = [] {
    std::vector<Benchmark> all{
        latency_benchmark(),         bw_benchmark(),
        overhead_benchmark(),        perceived_bandwidth_benchmark(),
        availability_benchmark(),    early_bird_benchmark(),
        late_neighbours_benchmark(), first_contact_benchmark(),
        foreign_benchmark(),         start_pready_wait_benchmark(),
        progress_benchmark(),
    };
    for (Benchmark& benchmark : two_sided_benchmarks()) all.push_back(std::move(benchmark));
    for (Benchmark& benchmark : collective_benchmarks()) all.push_back(std::move(benchmark));
    all.insert(all.end(), gpu::benchmarks().begin(), gpu::benchmarks().end());
    return all;
  }();
  return table;
}

}  // namespace partita::bench
