// Which ranks of a job start Partita, found out without a message on a communicator of the program.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace partita {

/// Between construction and end every rank of `comm`, an intracommunicator, is known to start Partita: blocks until
/// then, by names that the launcher keeps (MPI_Publish_name). Does nothing where no need is seen: under another
/// launcher than Open MPI's, where that has started one program only, or where it keeps no names.
class RollCall {
 public:
  explicit RollCall(MPI_Comm comm);
  ~RollCall();
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

 private:
  bool publish(const std::string& name);
  static void await(const std::string& name);

  std::vector<std::string> published_;
};

}  // namespace partita
