// The two nodes of a job whose benchmark wants such.
#pragma once

#include <memory>

#include "apps/support/two_nodes.hpp"
#include "bench/job.hpp"

namespace partita::bench {

/// The nodes of the job's ranks, found once, whose communicators Partita knows. Failure where they are not two with as
/// many ranks each. Where both are one machine the job's notes say so. Collective.
std::shared_ptr<const apps::TwoNodes> find_two_nodes(Job& job);

}  // namespace partita::bench
