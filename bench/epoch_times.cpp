#include "bench/epoch_times.hpp"

#include <algorithm>

namespace partita::bench {

namespace {

constexpr int arrivals_tag = 2;

}  // namespace

std::vector<Interval> EpochTimes::transfers() const {
  std::vector<Interval> transfers;
  transfers.reserve(handed.size());
  for (std::size_t partition = 0; partition < handed.size(); ++partition) {
    transfers.push_back({handed[partition], arrived[partition]});
  }
  return transfers;
}

EpochMeasurement::EpochMeasurement(Job& job, Subject& subject, const Case& c, Watching watching)
    : LaneMeasurement(job, subject, c), watching_(watching), lane_(add_lane(0)), offset_(measure_offset(job.comm)) {
  const auto partitions = static_cast<std::size_t>(c.partitions);
  times_.handed.resize(partitions);
  times_.arrived.resize(partitions);
}

double EpochMeasurement::sample(const Round& round) {
  const std::vector<double> delays_us =
      draw_delays(job_.options.delay, job_.team.size(), job_.options.seed, round.epoch);
  if (lane_.receiving) lane_.receiving->start();
  job_.barrier();
  if (lane_.sending) {
    send(delays_us);
  } else {
    receive();
  }
  gather();
  return job_.is_first() ? figure(times_) : 0;
}

void EpochMeasurement::send(const std::vector<double>& delays_us) {
  Sending& sending = *lane_.sending;
  sending.start();
  job_.team.run([&](int member) {
    const Share share = share_of(case_.partitions, member, job_.team.size());
    const double delay_us = delays_us[static_cast<std::size_t>(member)];
    if (share.begin == share.end) job_.work.compute(delay_us);
    for (int partition = share.begin; partition < share.end; ++partition) {
      job_.work.compute(delay_us / (share.end - share.begin));
      times_.handed[static_cast<std::size_t>(partition)] = now_ns();
      sending.mark(partition, partition + 1);
    }
  });
  const std::int64_t released = now_ns();
  sending.release();
  sending.wait();
  times_.complete = now_ns();
  times_.computed = *std::max_element(times_.handed.begin(), times_.handed.end());
  if (sending.sends_at_release()) std::fill(times_.handed.begin(), times_.handed.end(), released);
}

void EpochMeasurement::receive() {
  if (watching_ == Watching::partitions) watch_partitions();
  lane_.receiving->wait();
  times_.complete = now_ns();
  if (watching_ == Watching::whole) std::fill(times_.arrived.begin(), times_.arrived.end(), times_.complete);
}

/// Asks for each missing partition in turn, so that an early one is seen whatever its place.
void EpochMeasurement::watch_partitions() {
  std::fill(times_.arrived.begin(), times_.arrived.end(), 0);
  for (int missing = case_.partitions; missing > 0;) {
    for (int partition = 0; partition < case_.partitions; ++partition) {
      std::int64_t& arrived = times_.arrived[static_cast<std::size_t>(partition)];
      if (arrived != 0 || !lane_.receiving->arrived(partition)) continue;
      arrived = now_ns();
      --missing;
    }
  }
}

/// Brings the receiver's times to rank 0 and onto its clock.
void EpochMeasurement::gather() {
  const int partitions = case_.partitions;
  if (!job_.is_first()) {
    check(PMPI_Send(times_.arrived.data(), partitions, MPI_INT64_T, 0, arrivals_tag, job_.comm), "MPI_Send");
    check(PMPI_Send(&times_.complete, 1, MPI_INT64_T, 0, arrivals_tag, job_.comm), "MPI_Send");
    return;
  }
  std::int64_t received = 0;
  check(PMPI_Recv(times_.arrived.data(), partitions, MPI_INT64_T, 1, arrivals_tag, job_.comm, MPI_STATUS_IGNORE),
        "MPI_Recv");
  check(PMPI_Recv(&received, 1, MPI_INT64_T, 1, arrivals_tag, job_.comm, MPI_STATUS_IGNORE), "MPI_Recv");
  for (std::int64_t& arrived : times_.arrived) arrived += offset_.peer_to_here_ns;
  times_.complete = std::max(times_.complete, received + offset_.peer_to_here_ns);
}

void compute_unevenly(Options& options) {
  options.delay = {DelayKind::uniform, 1000, 40};
  options.iterations = 100;
  options.warmup = 5;
}

}  // namespace partita::bench
