#include "bench/lane.hpp"

#include <algorithm>
#include <cstdio>

#include "bench/contents.hpp"

namespace partita::bench {

namespace {

/// Tags of lanes that only tell which link a subject uses.
constexpr int teller_tag = 1000;

LinkUsed link_of(const Lane& lane) {
  return lane.sending ? lane.sending->link_used() : lane.receiving->link_used();
}

/// One epoch over a lane of `subject`, to see which link it takes.
LinkUsed try_link(Job& job, Subject& subject, const Case& c) {
  Lane lane = make_lane(job, subject, c, 0, teller_tag);
  if (lane.receiving) {
    lane.receiving->start();
    lane.receiving->wait();
  } else {
    send_partitions(job, lane);
    lane.sending->wait();
  }
  const LinkUsed used = link_of(lane);
  job.barrier();
  return used;
}

/// Computes `delay_us` in equal pieces, one before each partition of `share`.
void compute_and_mark(Job& job, Sending& sending, Share share, double delay_us) {
  if (delay_us <= 0) {
    sending.mark(share.begin, share.end);
    return;
  }
  if (share.begin == share.end) job.work.compute(delay_us);
  for (int partition = share.begin; partition < share.end; ++partition) {
    job.work.compute(delay_us / (share.end - share.begin));
    sending.mark(partition, partition + 1);
  }
}

}  // namespace

Lane make_lane(const Job& job, Subject& subject, const Case& c, int from, int tag) {
  Lane lane{subject.allocate(static_cast<std::size_t>(c.size_bytes)), {}, nullptr, nullptr};
  lane.message = {lane.buffer.bytes(), c.partitions, job.peer(), tag};
  if (job.rank == from) {
    lane.sending = subject.sending(lane.message);
  } else {
    lane.receiving = subject.receiving(lane.message);
  }
  return lane;
}

void send_partitions(Job& job, Lane& lane, const std::vector<double>& delays_us) {
  Sending& sending = *lane.sending;
  const int partitions = lane.message.partitions;
  sending.start();
  job.team.run([&](int member) {
    const double delay_us = delays_us.empty() ? 0 : delays_us[static_cast<std::size_t>(member)];
    compute_and_mark(job, sending, share_of(partitions, member, job.team.size()), delay_us);
  });
  sending.release();
}

Lane& LaneMeasurement::add_lane(int from) {
  lanes_.push_back(std::make_unique<Lane>(make_lane(job_, subject_, case_, from, static_cast<int>(lanes_.size()))));
  return *lanes_.back();
}

void LaneMeasurement::prepare(std::uint64_t epoch) {
  for (const auto& lane : lanes_) {
    if (lane->sending) fill(lane->message.bytes, case_.partitions, epoch);
    if (lane->receiving) poison(lane->message.bytes, case_.partitions, epoch);
  }
}

bool LaneMeasurement::compare(std::uint64_t epoch) const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [&](const auto& lane) { return !lane->receiving || received(lane->message, epoch); });
}

bool LaneMeasurement::received(const Message& message, std::uint64_t epoch) const {
  const auto mismatch = find_mismatch(message.bytes, case_.partitions, epoch);
  if (mismatch) {
    fmt::print(stderr,
               "partita bench: wrong data: rank {} offset {} (partition {} of {}): expected {:#04x}, got {:#04x}; {}, "
               "{} bytes, tag {}\n",
               job_.rank, mismatch->offset, mismatch->partition, case_.partitions, static_cast<int>(mismatch->expected),
               static_cast<int>(mismatch->got), subject_.name(), case_.size_bytes, message.tag);
  }
  return !mismatch;
}

LinkUsed LaneMeasurement::link_used() {
  if (Subject* teller = subject_.link_teller()) return try_link(job_, *teller, case_);
  return link_of(*lanes_.front());
}

}  // namespace partita::bench
