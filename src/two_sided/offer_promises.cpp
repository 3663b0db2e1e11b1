#include "two_sided/offer_promises.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "core/native.hpp"

namespace partita {

bool takes_offers_on(MPI_Comm comm) {
  static constexpr std::array promises = {"mpi_assert_exact_length", "mpi_assert_no_any_tag",
                                          "mpi_assert_no_any_source"};
  MPI_Info info = MPI_INFO_NULL;
  if (native::Comm_get_info(comm, &info) != MPI_SUCCESS) return false;
  const bool any = std::ranges::any_of(promises, [info](const char* promise) {
    char value[8] = {};
    int found = 0;
    return native::Info_get(info, promise, sizeof value - 1, value, &found) == MPI_SUCCESS && found != 0 &&
           std::string(value) == "true";
  });
  native::Info_free(&info);
  return !any;
}

}  // namespace partita
