// The keys of an info object that an init call knows.
#pragma once

#include <mpi.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace partita::capi {

/// Calls `take(place, value)` for each key of `info` that is among `names`. Keys of others are ignored, as the standard
/// says; a misspelt one of Partita's must not be: throws Error on it, and where `info` is no info object.
void read_info(MPI_Info info, std::span<const std::string_view> names,
               const std::function<void(std::size_t place, const std::string& value)>& take);

/// One key: `set` puts what its value says into the arguments, or throws Error.
template <class Arguments>
struct InfoKey {
  std::string_view name;
  void (*set)(const std::string& value, Arguments& arguments);
};

template <class Arguments, std::size_t count>
void apply_info(MPI_Info info, const InfoKey<Arguments> (&keys)[count], Arguments& arguments) {
  std::string_view names[count];
  for (std::size_t i = 0; i < count; ++i) names[i] = keys[i].name;
  read_info(info, names, [&](std::size_t place, const std::string& value) { keys[place].set(value, arguments); });
}

/// The value of partita_link. Throws Error.
std::string checked_link(const std::string& value);

}  // namespace partita::capi
