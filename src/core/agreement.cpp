#include "core/agreement.hpp"

#include <array>
#include <string>

#include "core/mpi_check.hpp"

namespace partita {

void fail_together(MPI_Comm comm, const std::optional<Error>& failure) {
  int rank = 0;
  int size = 1;
  PARTITA_MPI(Comm_rank(comm, &rank));
  PARTITA_MPI(Comm_size(comm, &size));
  int first = failure ? rank : size;
  PARTITA_MPI(Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm));
  if (first == size) return;

  std::string sentence = failure ? failure->sentence() : std::string();
  std::array<int, 2> head = {failure ? static_cast<int>(failure->error_class()) : 0, static_cast<int>(sentence.size())};
  PARTITA_MPI(Bcast(head.data(), 2, MPI_INT, first, comm));
  sentence.resize(static_cast<std::size_t>(head[1]));
  PARTITA_MPI(Bcast(sentence.data(), head[1], MPI_CHAR, first, comm));
  const auto error_class = static_cast<ErrorClass>(head[0]);
  throw SharedError(Error(error_class, "rank {}{}", first, sentence), first == rank);
}

}  // namespace partita
