// Communicators that the program makes, and windows and files, which have one inside.
#pragma once

#include <utility>

#include "capi/gpu_aware.hpp"

namespace partita::dropin {

/// Lives in each call that makes one: Partita makes none of its own meanwhile, which the MPI might hold up until the
/// program's has ended.
class Constructing {
 public:
  Constructing() : constructors_(Partita_Begin_constructor()) {}
  ~Constructing() { Partita_End_constructor(constructors_); }
  Constructing(const Constructing&) = delete;
  Constructing& operator=(const Constructing&) = delete;

  /// The call has returned `code`, and what it makes is under way in the MPI: nobody hears of its end.
  void goes_on(int code) {
    if (code == MPI_SUCCESS) constructors_ = nullptr;
  }

 private:
  Partita_Constructors constructors_;
};

}  // namespace partita::dropin
