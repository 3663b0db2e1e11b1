#include "bench/partita_calls.hpp"

#include <array>
#include <charconv>
#include <string>

#include "bench/failure.hpp"

namespace partita::bench {

namespace {

std::string value_of(MPI_Info info, const char* key) {
  std::array<char, MPI_MAX_INFO_VAL + 1> value{};
  int found = 0;
  check(PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, value.data(), &found), "MPI_Info_get");
  return found != 0 ? std::string(value.data()) : std::string();
}

}  // namespace

LinkUsed PartitaCalls::link_used(Partita_Request request) {
  MPI_Info info = MPI_INFO_NULL;
  check(Partita_Request_get_info(request, &info), "Partita_Request_get_info");
  LinkUsed used{value_of(info, "partita_link"), value_of(info, "partita_reason"), 0,
                value_of(info, "partita_gpu_copy")};
  if (used.gpu_copy == "kernel" && value_of(info, "partita_packets") == "true") used.gpu_copy = "packets";
  const std::string count = value_of(info, "partita_transport_partitions");
  std::from_chars(count.data(), count.data() + count.size(), used.transport_partitions);
  check(PMPI_Info_free(&info), "MPI_Info_free");
  return used;
}

}  // namespace partita::bench
