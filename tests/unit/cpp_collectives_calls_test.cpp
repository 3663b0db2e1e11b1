// Each collective of the C++ API hands its arguments to the C call of its name, in their order. The C calls here take
// the place of the library's, and note what they are given.
#include <gtest/gtest.h>
#include <partita/partita.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using Values = std::vector<std::uintptr_t>;

template <class T>
std::uintptr_t value_of(T argument) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<std::uintptr_t>(argument);
  } else {
    return static_cast<std::uintptr_t>(argument);
  }
}

/// An argument that no other place has; nobody looks what it stands for.
template <class T>
T argument_at(std::size_t place) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(0x1000 + 16 * place);
  } else {
    return static_cast<T>(100 + place);
  }
}

struct Noted {
  std::string call;
  Values arguments;  ///< without the request, the number of partitions last
} noted;

template <class... Arguments>
int note(const char* call, Partita_Request* request, Arguments... arguments) {
  noted = {call, {value_of(arguments)...}};
  *request = PARTITA_REQUEST_NULL;
  return MPI_SUCCESS;
}

const MPI_Comm comm = argument_at<MPI_Comm>(1000);

template <class... Arguments, std::size_t... Places>
void expect_handed_on(const std::string& name, bool partitioned,
                      partita::request (partita::communicator::*call)(Arguments...) const,
                      std::index_sequence<Places...>) {
  Values expected{value_of(argument_at<Arguments>(Places))...};
  expected.insert(expected.end() - 1, value_of(comm));  // before info
  if (partitioned) {
    // The first number that is an int.
    const std::vector<bool> is_int{std::is_same_v<int, Arguments>...};
    const auto partitions = expected.begin() + (std::find(is_int.begin(), is_int.end(), true) - is_int.begin());
    std::rotate(partitions, partitions + 1, expected.end());
  }
  EXPECT_FALSE((partita::communicator(comm).*call)(argument_at<Arguments>(Places)...));
  EXPECT_EQ(name, noted.call);
  EXPECT_EQ(expected, noted.arguments) << name;
}

template <class... Arguments>
void expect_handed_on(const std::string& name, bool partitioned,
                      partita::request (partita::communicator::*call)(Arguments...) const) {
  expect_handed_on(name, partitioned, call, std::index_sequence_for<Arguments...>());
}

}  // namespace

#define PARTITEST_LIST(...) __VA_ARGS__
#define COLLECTIVE(KIND, NAME, BUFFERS, OTHERS, ARGUMENTS)                                                       \
  int Partita_P##KIND##_init(PARTITEST_LIST BUFFERS, int partitions, PARTITEST_LIST OTHERS, MPI_Comm given_comm, \
                             MPI_Info info, Partita_Request* request) {                                          \
    return note("p" #KIND, request, PARTITEST_LIST ARGUMENTS, given_comm, info, partitions);                     \
  }                                                                                                              \
  int Partita_##NAME##_init(PARTITEST_LIST BUFFERS, PARTITEST_LIST OTHERS, MPI_Comm given_comm, MPI_Info info,   \
                            Partita_Request* request) {                                                          \
    return note(#KIND, request, PARTITEST_LIST ARGUMENTS, given_comm, info);                                     \
  }
#include "capi/collective_calls.inc"
#undef COLLECTIVE
int Partita_Barrier_init(MPI_Comm given_comm, MPI_Info info, Partita_Request* request) {
  return note("barrier", request, given_comm, info);
}

namespace {

TEST(CppCollectivesCalls, a_partitioned_collective_hands_its_arguments_on) {
#define COLLECTIVE(KIND, ...) expect_handed_on("p" #KIND, true, &partita::communicator::p##KIND##_init);
#include "capi/collective_calls.inc"
#undef COLLECTIVE
}

TEST(CppCollectivesCalls, a_persistent_collective_hands_its_arguments_on) {
#define COLLECTIVE(KIND, ...) expect_handed_on(#KIND, false, &partita::communicator::KIND##_init);
#include "capi/collective_calls.inc"
#undef COLLECTIVE
  expect_handed_on("barrier", false, &partita::communicator::barrier_init);
}

}  // namespace
