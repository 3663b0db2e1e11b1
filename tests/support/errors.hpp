// Checks of wrong calls: the class, the sentence, and that nothing else happened.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "support/face.hpp"

namespace partita::test {

/// While it lives, errors on `comm`, MPI_COMM_SELF and MPI_COMM_WORLD come back as return codes; the last is where an
/// MPI-3.1 takes errors that belong to no communicator.
class ErrorsReturn {
 public:
  explicit ErrorsReturn(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_get_errhandler(comm_, &before_);
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &self_before_);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &world_before_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  ~ErrorsReturn() {
    MPI_Comm_set_errhandler(comm_, before_);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, self_before_);
    MPI_Errhandler_free(&before_);
    MPI_Errhandler_free(&self_before_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, world_before_);
    MPI_Errhandler_free(&world_before_);
  }
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
  MPI_Errhandler self_before_ = MPI_ERRHANDLER_NULL;
  MPI_Errhandler world_before_ = MPI_ERRHANDLER_NULL;
};

inline std::string class_name(int error_class) {
  return "class " + std::to_string(error_class) + " (" + sentence_of(error_class) + ")";
}

/// `code` is an error of `error_class` whose sentence contains all of `words`.
inline testing::AssertionResult is_error(int code, int error_class, const std::vector<std::string>& words) {
  if (code == MPI_SUCCESS)
    return testing::AssertionFailure() << "the call succeeded, expected " << class_name(error_class);
  const std::string sentence = sentence_of(code);
  if (class_of(code) != error_class) {
    return testing::AssertionFailure() << "got " << class_name(class_of(code)) << ", expected "
                                       << class_name(error_class) << "; the sentence: " << sentence;
  }
  for (const auto& word : words) {
    if (sentence.find(word) == std::string::npos) {
      return testing::AssertionFailure() << "the sentence does not name \"" << word << "\": " << sentence;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace partita::test

/// EXPECT_ERROR(call, MPI_ERR_TAG, "Psend_init", "tag", "-5")
#define EXPECT_ERROR(call, error_class, ...) EXPECT_TRUE(::partita::test::is_error(call, error_class, {__VA_ARGS__}))
