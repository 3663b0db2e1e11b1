// `partita tune`.
#pragma once

namespace partita::bench::tune {

/// Runs `partita tune [options]`; argv[0] is "tune". MPI is running, Partita is not. Returns the exit status: 0, 1 for
/// what cannot be measured here, 2 for wrong options; throws Failure, on some ranks perhaps, on wrong data. Collective.
int command(int argc, char** argv);

}  // namespace partita::bench::tune
