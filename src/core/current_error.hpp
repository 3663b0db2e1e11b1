// From whatever C++ throws to an Error.
#pragma once

#include <exception>
#include <new>

#include "core/error.hpp"

namespace partita {

/// Its sentence is so short that it takes no memory.
inline Error out_of_memory(ErrorClass error_class = ErrorClass::no_mem) {
  return Error(error_class, "out of memory");
}

/// What is being handled, as an Error; within a catch of std::exception or of everything. Where there is no memory for
/// its sentence either, it is that of out_of_memory().
inline Error current_error() noexcept {
  ErrorClass error_class = ErrorClass::no_mem;
  try {
    try {
      throw;
    } catch (const Error& error) {
      error_class = error.error_class();
      return error;
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    } catch (const std::exception& exception) {
      error_class = ErrorClass::internal;
      return Error(error_class, "{}", exception.what());
    }
  } catch (const std::bad_alloc&) {
    return out_of_memory(error_class);
  }
}

}  // namespace partita
