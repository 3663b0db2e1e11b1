// `partita report`.
#pragma once

namespace partita::bench {

/// Runs `partita report ARGUMENTS…`; argv[0] is "report". Starts python3 on report.py, which lies in share/partita
/// beside the program's bin, and waits for it; of several ranks the first one does. Returns its exit status, or 1 where
/// it cannot start.
int report(int argc, char** argv);

}  // namespace partita::bench
