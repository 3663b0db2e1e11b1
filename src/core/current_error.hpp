// From whatever C++ throws to an Error.
#pragma once

#include <exception>
#include <new>

#include "core/error.hpp"

namespace partita {

/// What is being handled, as an Error; within a catch of std::exception or of everything.
inline Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorClass::no_mem, "out of memory");
  } catch (const std::exception& exception) {
    return Error(ErrorClass::internal, "{}", exception.what());
  }
}

}  // namespace partita
