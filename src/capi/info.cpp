#include "capi/info.hpp"

#include <algorithm>

#include "core/mpi_check.hpp"
#include "link/names.hpp"

namespace partita::capi {
namespace {

/// The value of a key that `info` has.
std::string info_value(MPI_Info info, const char* key) {
  int length = 0;
  int found = 0;
  PARTITA_MPI(Info_get_valuelen(info, key, &length, &found));
  std::string value(static_cast<std::size_t>(length) + 1, '\0');
  PARTITA_MPI(Info_get(info, key, length, value.data(), &found));
  value.resize(static_cast<std::size_t>(length));
  return value;
}

}  // namespace

void read_info(MPI_Info info, std::span<const std::string_view> names,
               const std::function<void(std::size_t place, const std::string& value)>& take) {
  if (info == MPI_INFO_NULL) return;
  int keys = 0;
  if (const int code = native::Info_get_nkeys(info, &keys); code != MPI_SUCCESS) {
    throw Error(ErrorClass::info, "argument info is no info object; the MPI says: {}", mpi_text(code));
  }
  for (int i = 0; i < keys; ++i) {
    char name[MPI_MAX_INFO_KEY + 1] = "";
    PARTITA_MPI(Info_get_nthkey(info, i, name));
    if (!std::string_view(name).starts_with("partita_")) continue;
    const auto known = std::ranges::find(names, std::string_view(name));
    if (known == names.end()) {
      std::string all;
      for (const std::string_view each : names) all += fmt::format("{}{}", all.empty() ? "" : ", ", each);
      throw Error(ErrorClass::info_key, "argument info has the key {}; Partita knows {}", name, all);
    }
    take(static_cast<std::size_t>(known - names.begin()), info_value(info, name));
  }
}

std::string checked_link(const std::string& value) {
  if (!link::is_choice(value)) {
    throw Error(ErrorClass::info_value, "info key partita_link is \"{}\"; expected is one of: {}", value,
                link::choices());
  }
  return value;
}

}  // namespace partita::capi
