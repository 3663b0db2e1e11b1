// From a C++ Error to what an MPI program sees: a code, a sentence, and the call of its error handler.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "core/current_error.hpp"
#include "transfer/communicators.hpp"

namespace partita::capi {

/// Where a layer above is the one that the program calls: errors name the call that `current_call` gives, if it gives
/// one.
void name_calls_by(const char* (*current_call)());

/// Draws one error code per class from the MPI. Once, after MPI_Init.
void prepare_codes();

/// The code of `error_class`.
int code_of(ErrorClass error_class);

/// Keeps `error`'s sentence, with the call as the program made it in front, for this thread's Partita_Error_string;
/// returns the code. Where there is no memory for that, it is "out of memory". Where the MPI has raised the error, only
/// returns the MPI's code.
int remember(const char* call, const Error& error) noexcept;

/// Keeps the sentence of an error that a layer above found, with its MPI error class.
int remember(int error_class, const char* sentence);

/// Prints the sentence of `code` where the handler of `comm` is fatal: it ends the job, so that nobody could ask for
/// the sentence afterwards.
void print_if_fatal(MPI_Comm comm, int code);

/// Calls the error handler of `comm` with `code`. Where that is fatal, ends the job as it would: the MPI's own words
/// would blame a call that the program has not made.
void call_handler(MPI_Comm comm, int code);

/// Passes `code` to the error handler of `comm` (after printing the sentence, if the handler is fatal); returns it.
int raise(MPI_Comm comm, int code);

/// Calls the error handler of a window, or of a file, likewise.
int raise_on_window(MPI_Win window, int code);
int raise_on_file(MPI_File file, int code);

/// Raises MPI_ERR_IN_STATUS for a call on many requests, one of which failed with `code`, whose sentence is printed.
int raise_in_status(MPI_Comm comm, int code);

/// The sentence of this thread's last error `code`, or null.
const std::string* sentence_of(int code);

/// The communicator of `record`, or MPI_COMM_SELF once the program has freed it.
MPI_Comm handler_of(const Communicator* record);

/// Throws Error (arg) where a call got no place for its answer.
void check_output(const void* output, const char* name);

/// What is being handled goes to the handler of `comm()`. Not inlined: a call that succeeds then saves fewer registers.
template <class Comm>
[[gnu::cold, gnu::noinline]] int report_failure(const char* call, Comm comm) noexcept {
  const Error error = current_error();
  const int code = remember(call, error);
  return error.raised_code() != 0 ? code : raise(comm(), code);
}

/// Runs `body`; an Error goes to the handler of `comm()`.
template <class Comm, class Body>
int guarded(const char* call, Comm comm, Body body) noexcept {
  try {
    body();
    return MPI_SUCCESS;
  } catch (...) {
    return report_failure(call, comm);
  }
}

/// For calls that concern no communicator.
template <class Body>
int guarded(const char* call, Body body) noexcept {
  return guarded(call, [] { return MPI_COMM_SELF; }, body);
}

}  // namespace partita::capi
