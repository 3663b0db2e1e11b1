// What a call of the C++ API throws.
#pragma once

#include <gtest/gtest.h>
#include <partita/error.hpp>

#include <string>
#include <vector>

#include "support/face.hpp"

namespace partita::test {

/// Whether `call` throws an error of `error_class` whose sentence has all of `words`.
template <class Call>
testing::AssertionResult throws(Call call, int error_class, const std::vector<std::string>& words) {
  try {
    call();
  } catch (const error& thrown) {
    if (thrown.error_class() != error_class) {
      return testing::AssertionFailure() << "class " << thrown.error_class() << ", expected " << error_class << ": "
                                         << thrown.what();
    }
    if (class_of(thrown.code()) != error_class) return testing::AssertionFailure() << "the code has another class";
    for (const std::string& word : words) {
      if (std::string(thrown.what()).find(word) == std::string::npos) {
        return testing::AssertionFailure() << "no \"" << word << "\" in: " << thrown.what();
      }
    }
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "nothing is thrown";
}

}  // namespace partita::test
