// GPU memory in the MPI's calls that take none of it, nor Partita for them: an error with a sentence, and the program
// goes on.
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "contract/gpu_aware_job.hpp"
#include "support/errors.hpp"
#include "support/gather.hpp"
#include "support/gpu_memory.hpp"
#include "support/job.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

/// Whose error handlers were called, and with what.
struct Heard {
  std::vector<MPI_Comm> comms = {};
  std::vector<MPI_Win> windows = {};
  std::vector<MPI_File> files = {};
  int code = MPI_SUCCESS;
} heard;

void hear_comm(MPI_Comm* comm, int* code, ...) {
  heard.comms.push_back(*comm);
  heard.code = *code;
}
void hear_window(MPI_Win* window, int* code, ...) {
  heard.windows.push_back(*window);
  heard.code = *code;
}
void hear_file(MPI_File* file, int* code, ...) {
  heard.files.push_back(*file);
  heard.code = *code;
}

class GpuRefusals : public testing::Test {
 protected:
  struct Case {
    std::string call;
    std::string argument;
    Heard expected;
    /// Hands `memory` to the argument; no elements of it where `count` is 0, otherwise 1.
    std::function<int(int* memory, int count)> make;
  };

  GpuRefusals();
  ~GpuRefusals() override;

  Case on(const char* call, const char* argument, const Heard& expected, std::function<int(int*, int)> make) {
    return {call, argument, expected, std::move(make)};
  }
  std::vector<Case> cases();
  /// Cases of calls that exist in one form.
  std::vector<Case> cases_without_count();

  template <class Then>
  static int then(int code, Then next) {
    return code == MPI_SUCCESS ? next() : code;
  }
  int ended(int code) {
    return then(code, [&] { return MPI_Wait(&request_, MPI_STATUS_IGNORE); });
  }
  int freed(int code) {
    return then(code, [&] { return MPI_Win_free(&made_); });
  }
  /// A call that moves a position, which one that fails leaves alone.
  template <class Position, class Call>
  static int at(Call call) {
    Position position = 0;
    const int code = call(&position);
    if (code != MPI_SUCCESS) {
      EXPECT_EQ(position, 0);
    }
    return code;
  }

  void make_dynamic_window();

  int* words_ = nullptr;  ///< the window's
  int other_[2] = {1, 2};
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  MPI_Win dynamic_ = MPI_WIN_NULL;  ///< null on an MPI that makes no window of memory that there is
  MPI_Win made_ = MPI_WIN_NULL;
  MPI_File file_ = MPI_FILE_NULL;
  MPI_Request request_ = MPI_REQUEST_NULL;
  MPI_Errhandler of_comms_ = MPI_ERRHANDLER_NULL;
  MPI_Errhandler of_self_before_ = MPI_ERRHANDLER_NULL;
};

GpuRefusals::GpuRefusals() {
  heard = {};
  MPI_Errhandler of_windows = MPI_ERRHANDLER_NULL;
  MPI_Errhandler of_files = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(hear_comm, &of_comms_);
  MPI_Win_create_errhandler(hear_window, &of_windows);
  MPI_File_create_errhandler(hear_file, &of_files);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
  MPI_Comm_set_errhandler(comm_, of_comms_);
  MPI_Comm_get_errhandler(MPI_COMM_SELF, &of_self_before_);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, of_comms_);
  EXPECT_OK(MPI_Win_allocate(2 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &words_, &window_));
  words_[0] = 5;
  words_[1] = 6;
  MPI_Win_set_errhandler(window_, of_windows);
  make_dynamic_window();
  if (dynamic_ != MPI_WIN_NULL) MPI_Win_set_errhandler(dynamic_, of_windows);
  const std::string name = testing::TempDir() + "partita_refused_" + std::to_string(from_rank_zero(getpid()));
  EXPECT_OK(MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                          MPI_INFO_NULL, &file_));
  MPI_File_set_errhandler(file_, of_files);
  EXPECT_OK(MPI_File_set_view(file_, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  for (MPI_Errhandler* const each : {&of_windows, &of_files}) MPI_Errhandler_free(each);
  EXPECT_OK(MPI_Win_lock_all(0, window_));
}

/// Open MPI 4 makes such windows only over transports that it has not got between the ranks of a node.
void GpuRefusals::make_dynamic_window() {
  MPI_Errhandler before = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic_) != MPI_SUCCESS) dynamic_ = MPI_WIN_NULL;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
  MPI_Errhandler_free(&before);
}

GpuRefusals::~GpuRefusals() {
  EXPECT_OK(MPI_Win_unlock_all(window_));
  EXPECT_OK(MPI_File_close(&file_));
  if (dynamic_ != MPI_WIN_NULL) {
    EXPECT_OK(MPI_Win_free(&dynamic_));
  }
  EXPECT_OK(MPI_Win_free(&window_));
  MPI_Comm_set_errhandler(MPI_COMM_SELF, of_self_before_);
  MPI_Errhandler_free(&of_self_before_);
  MPI_Errhandler_free(&of_comms_);
  MPI_Comm_free(&comm_);
}

/// What hears of an error: on MPICH windows and communicators are of one type.
#define HEARD_comm_    \
  Heard {              \
    .comms = { comm_ } \
  }
#define HEARD_MPI_COMM_SELF    \
  Heard {                      \
    .comms = { MPI_COMM_SELF } \
  }
#define HEARD_window_      \
  Heard {                  \
    .windows = { window_ } \
  }
#define HEARD_dynamic_      \
  Heard {                   \
    .windows = { dynamic_ } \
  }
#define HEARD_file_    \
  Heard {              \
    .files = { file_ } \
  }
#define CASE(CALL, ARGUMENT, WHO, ...)      \
  on(NAME_OF(CALL), #ARGUMENT, HEARD_##WHO, \
     [this]([[maybe_unused]] int* memory, [[maybe_unused]] int count) { return __VA_ARGS__; }),

std::vector<GpuRefusals::Case> GpuRefusals::cases() {
  std::vector<Case> all{
#define COUNT int
#define SIZE MPI_Aint
#define MPI_CALL(CALL) MPI_##CALL
#define NAME_OF(CALL) "MPI_" #CALL
#include "contract/host_buffer_cases.inc"
#undef COUNT
#undef SIZE
#undef MPI_CALL
#undef NAME_OF
#if MPI_VERSION >= 4
#define COUNT MPI_Count
#define SIZE MPI_Count
#define MPI_CALL(CALL) MPI_##CALL##_c
#define NAME_OF(CALL) "MPI_" #CALL "_c"
#include "contract/host_buffer_cases.inc"
#undef COUNT
#undef SIZE
#undef MPI_CALL
#undef NAME_OF
#endif
  };
  for (Case& each : cases_without_count()) all.push_back(std::move(each));
  return all;
}

/// What they move depends on the target.
std::vector<GpuRefusals::Case> GpuRefusals::cases_without_count() {
  const auto target = [](int count) { return count == 0 ? MPI_PROC_NULL : rank(); };
  const auto fetch = [=, this](const void* origin, void* result, int count) {
    return then(MPI_Fetch_and_op(origin, result, MPI_INT, target(count), 0, MPI_SUM, window_),
                [&] { return MPI_Win_flush_all(window_); });
  };
  const auto swap = [=, this](const void* origin, const void* compare, void* result, int count) {
    return then(MPI_Compare_and_swap(origin, compare, result, MPI_INT, target(count), 0, window_),
                [&] { return MPI_Win_flush_all(window_); });
  };
  int* const own = other_;
  const Heard window = HEARD_window_;
  std::vector<Case> all = {
      on("MPI_Fetch_and_op", "origin_addr", window, [=](int* memory, int count) { return fetch(memory, own, count); }),
      on("MPI_Fetch_and_op", "result_addr", window, [=](int* memory, int count) { return fetch(own, memory, count); }),
      on("MPI_Compare_and_swap", "origin_addr", window,
         [=](int* memory, int count) { return swap(memory, own, own + 1, count); }),
      on("MPI_Compare_and_swap", "compare_addr", window,
         [=](int* memory, int count) { return swap(own, memory, own + 1, count); }),
      on("MPI_Compare_and_swap", "result_addr", window,
         [=](int* memory, int count) { return swap(own, own + 1, memory, count); }),
  };
  if (dynamic_ == MPI_WIN_NULL) return all;
  all.push_back(on("MPI_Win_attach", "base", HEARD_dynamic_, [this](int* memory, int count) {
    const MPI_Aint size = count * static_cast<MPI_Aint>(sizeof(int));
    return then(MPI_Win_attach(dynamic_, memory, size),
                [&] { return size == 0 ? MPI_SUCCESS : MPI_Win_detach(dynamic_, memory); });
  }));
  return all;
}

TEST_F(GpuRefusals, name_the_call_the_argument_and_the_gpu_and_leave_all_as_it_was) {
  if (is_off()) GTEST_SKIP() << "the MPI's own";
  PlacedInts memory(Memory::gpu, {7, 8});
  const std::string gpu = "memory of GPU " + std::to_string(own_gpu());
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.call + " " + each.argument);
    step(each.call.c_str());
    heard = {};
    const int code = each.make(memory.data(), 1);
    EXPECT_ERROR(code, MPI_ERR_BUFFER, each.call + ": argument " + each.argument + " is " + gpu,
                 "expected is host memory", "messages and collectives");
    EXPECT_EQ(heard.comms, each.expected.comms);
    EXPECT_EQ(heard.windows, each.expected.windows);
    EXPECT_EQ(heard.files, each.expected.files);
    EXPECT_EQ(heard.code, code);
    EXPECT_EQ(request_, MPI_REQUEST_NULL);
    EXPECT_EQ(made_, MPI_WIN_NULL);
  }
  EXPECT_EQ(memory.get(), (Ints{7, 8}));
  EXPECT_OK(MPI_Win_flush_all(window_));
  EXPECT_EQ(Ints(words_, words_ + 2), (Ints{5, 6}));
  EXPECT_EQ(Ints(other_, other_ + 2), (Ints{1, 2}));
  MPI_Offset size = -1;
  EXPECT_OK(MPI_File_get_size(file_, &size));
  EXPECT_EQ(size, 0);
  MPI_Offset position = -1;
  EXPECT_OK(MPI_File_get_position(file_, &position));
  EXPECT_EQ(position, 0);
}

/// Within Open MPI 4, where several threads may call, ROMIO calls through null pointers in nonblocking collective
/// access to files, and OMPIO does not come back from the end of nonblocking and split access.
bool fails_in_the_mpi([[maybe_unused]] const std::string& call) {
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
  return call.starts_with("MPI_File_i") || call.ends_with("_begin");
#else
  return false;
#endif
}

TEST_F(GpuRefusals, are_none_of_host_memory_nor_of_no_elements) {
  PlacedInts on_gpu(Memory::gpu, {7, 8});
  PlacedInts on_host(Memory::host, {7, 8});
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.call + " " + each.argument);
    step(each.call.c_str());
    if (dynamic_ == MPI_WIN_NULL && each.call.starts_with("MPI_Win_create")) continue;
    if (fails_in_the_mpi(each.call)) continue;
    EXPECT_OK(each.make(on_host.data(), 1));
    EXPECT_OK(each.make(on_gpu.data(), 0));
    if (is_off()) {
      EXPECT_OK(each.make(on_gpu.data(), 1));
    }
    if (each.expected.windows == std::vector{window_}) {
      EXPECT_OK(MPI_Win_flush_all(window_));
    }
  }
  EXPECT_TRUE(heard.comms.empty() && heard.windows.empty() && heard.files.empty());
}

/// The origin's buffer has no elements for an operation that reads none.
TEST_F(GpuRefusals, are_none_of_an_origin_that_is_not_read) {
  PlacedInts on_gpu(Memory::gpu, {7, 8});
  int got = -1;
  EXPECT_OK(MPI_Fetch_and_op(on_gpu.data(), &got, MPI_INT, rank(), 0, MPI_NO_OP, window_));
  EXPECT_OK(MPI_Win_flush_all(window_));
  EXPECT_EQ(got, 5);
  EXPECT_OK(MPI_Get_accumulate(on_gpu.data(), 1, MPI_INT, &got, 1, MPI_INT, rank(), 1, 1, MPI_INT, MPI_NO_OP, window_));
  EXPECT_OK(MPI_Win_flush_all(window_));
  EXPECT_EQ(got, 6);
}

/// As of a message: the elements decide, not the argument.
TEST_F(GpuRefusals, see_the_elements_of_absolute_addresses) {
  if (is_off()) GTEST_SKIP() << "the MPI's own";
  PlacedInts on_gpu(Memory::gpu, {7, 8});
  PlacedInts on_host(Memory::host, {7, 8});
  const auto packed = [&](PlacedInts& memory) {
    MPI_Aint address = 0;
    const int length = 1;
    MPI_Datatype absolute = MPI_DATATYPE_NULL;
    EXPECT_OK(MPI_Get_address(memory.data(), &address));
    EXPECT_OK(MPI_Type_create_hindexed(1, &length, &address, MPI_INT, &absolute));
    EXPECT_OK(MPI_Type_commit(&absolute));
    int position = 0;
    const int code = MPI_Pack(MPI_BOTTOM, 1, absolute, other_, sizeof other_, &position, comm_);
    EXPECT_OK(MPI_Type_free(&absolute));
    return code;
  };
  EXPECT_ERROR(packed(on_gpu), MPI_ERR_BUFFER, "MPI_Pack", "inbuf", "memory of GPU");
  EXPECT_OK(packed(on_host));
  EXPECT_EQ(other_[0], 7);
}

}  // namespace
}  // namespace partita::test
