#include "capi/report.hpp"

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "core/log.hpp"
#include "core/mpi_check.hpp"

namespace partita::capi {
namespace {

std::array<int, error_class_count> codes = mpi_error_classes;
bool codes_are_drawn = false;

std::array<std::string, error_class_count>& sentences() {
  thread_local std::array<std::string, error_class_count> of_this_thread;
  return of_this_thread;
}

/// Where the MPI will not add codes to its classes the class itself serves: every class is a valid code.
int draw_code(int error_class) {
  int code = 0;
  int class_of_code = 0;
  const bool drawn = native::Add_error_code(error_class, &code) == MPI_SUCCESS &&
                     native::Error_class(code, &class_of_code) == MPI_SUCCESS && class_of_code == error_class;
  return drawn ? code : error_class;
}

/// Whose handler hears of errors on `comm`: MPI_COMM_SELF's, where the program has passed a handle that is none.
MPI_Comm with_handler(MPI_Comm comm) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (native::Comm_get_errhandler(comm, &handler) != MPI_SUCCESS) return MPI_COMM_SELF;
  native::Errhandler_free(&handler);
  return comm;
}

/// Whose processes end by an error on `comm`: MPI_COMM_NULL where it is not fatal.
MPI_Comm ended_by_error(MPI_Comm comm) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (native::Comm_get_errhandler(comm, &handler) != MPI_SUCCESS) return MPI_COMM_WORLD;
  MPI_Comm ended = handler == MPI_ERRORS_ARE_FATAL ? MPI_COMM_WORLD : MPI_COMM_NULL;
#if MPI_VERSION >= 4
  if (handler == MPI_ERRORS_ABORT) ended = comm;
#endif
  native::Errhandler_free(&handler);
  return ended;
}

/// Ends the processes of `comm`, but first lets the launcher read what they wrote: it would not do so afterwards.
[[noreturn]] void end_processes(MPI_Comm comm) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  native::Abort(comm, EXIT_FAILURE);
  std::_Exit(EXIT_FAILURE);  // an MPI may come back while its launcher ends the job
}

/// Passes `code` to the handler of what is no communicator, which `get` gives and `call` calls. The processes that
/// MPI_ERRORS_ABORT ends there, those of a group, the MPI alone can name.
template <class Get, class Call>
int raise_on_object(Get get, Call call, int code) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (get(&handler) != MPI_SUCCESS) return raise(MPI_COMM_SELF, code);
  const bool ends_job = handler == MPI_ERRORS_ARE_FATAL;
  bool is_fatal = ends_job;
#if MPI_VERSION >= 4
  is_fatal = is_fatal || handler == MPI_ERRORS_ABORT;
#endif
  native::Errhandler_free(&handler);
  const std::string* sentence = is_fatal ? sentence_of(code) : nullptr;
  if (sentence != nullptr) log("{}", *sentence);
  if (ends_job) end_processes(MPI_COMM_WORLD);
  call(code);
  return code;
}

const char* no_call() {
  return nullptr;
}
const char* (*call_of_the_program)() = no_call;

std::string call_as_made(const char* call) {
  const char* made = call_of_the_program();
  return made != nullptr ? made : fmt::format("Partita_{}", call);
}

}  // namespace

void name_calls_by(const char* (*current_call)()) {
  call_of_the_program = current_call;
}

void prepare_codes() {
  if (codes_are_drawn) return;
  codes_are_drawn = true;
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = draw_code(mpi_error_classes[i]);
}

int code_of(ErrorClass error_class) {
  return codes[static_cast<std::size_t>(error_class)];
}

int remember(const char* call, const Error& error) noexcept {
  if (error.raised_code() != 0) return error.raised_code();
  std::string& kept = sentences()[static_cast<std::size_t>(error.error_class())];
  try {
    kept = fmt::format("{}: {}", call_as_made(call), error.sentence());
  } catch (const std::bad_alloc&) {
    kept = out_of_memory().sentence();
  }
  return code_of(error.error_class());
}

int remember(int error_class, const char* sentence) {
  const auto index = static_cast<std::size_t>(error_class_of(error_class));
  sentences()[index] = sentence;
  return codes[index];
}

const std::string* sentence_of(int code) {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == code && !sentences()[i].empty()) return &sentences()[i];
  }
  return nullptr;
}

void print_if_fatal(MPI_Comm comm, int code) {
  const std::string* sentence = ended_by_error(comm) != MPI_COMM_NULL ? sentence_of(code) : nullptr;
  if (sentence != nullptr) log("{}", *sentence);
}

void call_handler(MPI_Comm comm, int code) {
  const MPI_Comm ended = ended_by_error(comm);
  if (ended != MPI_COMM_NULL) end_processes(ended);
  native::Comm_call_errhandler(comm, code);
}

int raise(MPI_Comm comm, int code) {
  const MPI_Comm heard = with_handler(comm);
  print_if_fatal(heard, code);
  call_handler(heard, code);
  return code;
}

int raise_on_window(MPI_Win window, int code) {
  return raise_on_object([&](MPI_Errhandler* handler) { return native::Win_get_errhandler(window, handler); },
                         [&](int raised) { native::Win_call_errhandler(window, raised); }, code);
}

int raise_on_file(MPI_File file, int code) {
  return raise_on_object([&](MPI_Errhandler* handler) { return native::File_get_errhandler(file, handler); },
                         [&](int raised) { native::File_call_errhandler(file, raised); }, code);
}

int raise_in_status(MPI_Comm comm, int code) {
  print_if_fatal(comm, code);
  call_handler(comm, MPI_ERR_IN_STATUS);
  return MPI_ERR_IN_STATUS;
}

MPI_Comm handler_of(const Communicator* record) {
  return record != nullptr && record->alive.load(std::memory_order_acquire) ? record->handle : MPI_COMM_SELF;
}

void check_output(const void* output, const char* name) {
  if (output == nullptr) throw Error(ErrorClass::arg, "argument {} is null; expected is where to put the answer", name);
}

}  // namespace partita::capi
