#include "apps/support/rank_texts.hpp"

#include <cstddef>
#include <numeric>

namespace partita::apps {

std::vector<std::string> gather_texts(MPI_Comm comm, const std::string& text) {
  int ranks = 0;
  PMPI_Comm_size(comm, &ranks);
  const int length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(ranks));
  PMPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, comm);
  std::vector<int> begins(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
  std::string all(static_cast<std::size_t>(begins.back() + lengths.back()), '\0');
  PMPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), begins.data(), MPI_CHAR, 0, comm);
  std::vector<std::string> texts;
  texts.reserve(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(begins[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

}  // namespace partita::apps
