// One message of one subject in one direction, and the measurements that are made of lanes.
#pragma once

#include <memory>
#include <vector>

#include "bench/measurement.hpp"

namespace partita::bench {

/// Owns the buffer and this rank's side of the message: `sending` on one rank, `receiving` on the other.
struct Lane {
  Buffer buffer;
  Message message;
  std::unique_ptr<Sending> sending;
  std::unique_ptr<Receiving> receiving;
};

/// A lane from rank `from` to the other one. `tag` tells the lanes of a measurement apart. Collective.
Lane make_lane(const Job& job, Subject& subject, const Case& c, int from, int tag);

/// Opens an epoch, lets the team compute and mark, and releases: all of an epoch but the wait. `delays_us` holds each
/// member's computing time, spread evenly over its partitions; empty for none.
void send_partitions(Job& job, Lane& lane, const std::vector<double>& delays_us = {});

/// A measurement whose data travels in lanes; prepare and compare are the same for all of them.
class LaneMeasurement : public Measurement {
 public:
  LaneMeasurement(Job& job, Subject& subject, const Case& c) : job_(job), subject_(subject), case_(c) {}

  void prepare(std::uint64_t epoch) override;
  bool compare(std::uint64_t epoch) const override;
  LinkUsed link_used() override;

 protected:
  /// Adds a lane; to be called by constructors, in the same order on both ranks.
  Lane& add_lane(int from);
  /// Whether `message` holds the contents of `epoch`; prints where it does not.
  bool received(const Message& message, std::uint64_t epoch) const;

  Job& job_;
  Subject& subject_;
  Case case_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

/// One contender for each subject, all compared with the first, the persistent send.
template <class M>
std::vector<Contender> one_per_subject(Job& job, const Subjects& subjects, const Case& c) {
  std::vector<Contender> contenders;
  for (const auto& subject : subjects) {
    contenders.push_back({subject->name(), subjects.front()->name(), std::make_unique<M>(job, *subject, c)});
  }
  return contenders;
}

}  // namespace partita::bench
