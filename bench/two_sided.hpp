// Messages of two ranks by sends and receives, in host and GPU memory: what two-sided and channel.* compare
// (gpu-aware-channels-charm-ampi-charm4py, figures 11 to 14).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/measurement.hpp"
#include "bench/messages.hpp"

namespace partita::bench {

/// Round trips in host memory by `calls`; a sample is half of one, in microseconds.
std::unique_ptr<Measurement> make_round_trip(Job& job, std::string name, const Case& c, const MessageCalls& calls);

/// Windows of messages in host memory by `calls`; a sample is the time of one with its acknowledgement, in
/// microseconds.
std::unique_ptr<Measurement> make_window(Job& job, std::string name, const Case& c, const MessageCalls& calls);

// What is compared. `gpu`: null where no rank uses a GPU; rows on GPU memory are left out then, and where nobody takes
// it, of which the job gets a note. Collective.

/// Half a round trip.
std::vector<Contender> compare_round_trips(Job& job, const Case& c, const StagingMemory* gpu);
/// The time of a window.
std::vector<Contender> compare_windows(Job& job, const Case& c, const StagingMemory* gpu);
/// Half a round trip in parts: within the MPI, in copies, and the rest, which is Partita's own.
std::vector<Contender> split_round_trips(Job& job, const Case& c, const StagingMemory* gpu);

}  // namespace partita::bench
