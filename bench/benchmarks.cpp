#include "bench/benchmarks/all.hpp"

namespace partita::bench {

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> table{
      latency_benchmark(),      bw_benchmark(),         overhead_benchmark(), perceived_bandwidth_benchmark(),
      availability_benchmark(), early_bird_benchmark(), foreign_benchmark(),  start_pready_wait_benchmark(),
  };
  return table;
}

}  // namespace partita::bench
