// The device API compiles at run time, without the standard headers.
#include <gtest/gtest.h>
#include <nvrtc.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace {

const char* const every_call = R"(
#include <partita/device.cuh>

extern "C" __global__ void every_call(MPIX_Prequest send, MPIX_Prequest recv, int* out) {
  int flag = 0;
  int codes = MPIX_Pstart(send) + MPIX_Pstart(recv) + MPIX_Pbuf_prepare(send);
  codes += MPIX_Pready(0, send) + MPIX_Pready_thread(1, send) + MPIX_Pready_warp(2, send) + MPIX_Pready_block(3, send);
  codes += MPIX_Pready_range(4, 5, send) + MPIX_Parrived(recv, 0, &flag) + MPIX_Pwait_partition(0, recv);
  codes += MPIX_Pwait(send) + MPIX_Pwait(recv) + MPIX_Pnext(send) + MPIX_Pnext(send, recv, send);
  *out = codes + flag + (MPIX_Pbuffer(0, send) != nullptr);
}

#define PARTITEST_COLLECTIVE(call) \
  extern "C" __global__ void of_##call(MPIX_Prequest request, int* out) { *out = call(request); }
PARTITEST_COLLECTIVE(MPIX_Pallreduce)
PARTITEST_COLLECTIVE(MPIX_Pallgather)
PARTITEST_COLLECTIVE(MPIX_Preduce_scatter)
PARTITEST_COLLECTIVE(MPIX_Palltoall)
PARTITEST_COLLECTIVE(MPIX_Pbcast)
)";

const char* const epochs = R"(
#include <partita/device.cuh>

extern "C" __global__ void epochs(MPIX_Prequest send, MPIX_Prequest recv, int how, int count, int* out) {
  int codes = 0;
  for (int e = 0; e < count; ++e) {
    codes += MPIX_Pstart(send) + MPIX_Pstart(recv) + MPIX_Pbuf_prepare(send);
    for (int p = static_cast<int>(threadIdx.x); p < send.send_partitions; p += static_cast<int>(blockDim.x)) {
      if (how == 0) codes += MPIX_Pready(p, send);
      if (how == 1) codes += MPIX_Pready_thread(p, send);
      if (how == 2) codes += MPIX_Pready_range(p, p, send);
    }
    for (int p = 0; p < send.send_partitions; ++p) {
      if (how == 3) codes += MPIX_Pready_warp(p, send);
      if (how == 4) codes += MPIX_Pready_block(p, send);
      int flag = 0;
      codes += MPIX_Parrived(recv, p, &flag) + MPIX_Pwait_partition(p, recv);
    }
    codes += MPIX_Pwait(send) + MPIX_Pwait(recv);
  }
  *out = codes;
}
)";

const char* const exchange = R"(
#include <partita/device.cuh>

extern "C" __global__ void __launch_bounds__(1024) exchange(MPIX_Prequest send, MPIX_Prequest recv, int epochs) {
  for (int e = 0; e < epochs; ++e) {
    MPIX_Pstart(recv);
    MPIX_Pstart(send);
    MPIX_Pbuf_prepare(send);
    MPIX_Pready_block(0, send);
    MPIX_Pwait(recv);
    MPIX_Pwait(send);
  }
}
)";

/// Two blocks share a multiprocessor.
const char* const crowded = R"(
#define PARTITA_DEVICE_FEW_REGISTERS
#include <partita/device.cuh>

extern "C" __global__ void __launch_bounds__(1024, 2)
    crowded(MPIX_Prequest send, const unsigned long long* a, unsigned long long* c) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i];
  MPIX_Pready_block(static_cast<int>(blockIdx.x), send);
}
)";

/// A persistent kernel of one block.
const char* const persistent = R"(
#include <partita/device.cuh>

extern "C" __global__ void __launch_bounds__(1024)
    persistent(MPIX_Prequest send, MPIX_Prequest recv, int epochs) {
  for (int e = 0; e < epochs; ++e) {
    MPIX_Pready_block(0, send);
    MPIX_Pnext(send, recv, send);
    MPIX_Pstart(recv);
  }
}
)";

/// A step of a solver whose blocks agree on a sum.
const char* const summing = R"(
#include <partita/device.cuh>

extern "C" __global__ void __launch_bounds__(512) summing(MPIX_Prequest sum, int epochs) {
  for (int e = 0; e < epochs; ++e) MPIX_Pallreduce(sum);
}
)";

struct Compilation {
  std::string failure;  ///< with the log; empty if it went through
  std::string log;
  std::string ptx;  ///< where the architecture is a virtual one
};

/// A text of NVRTC's about `program`.
std::string text_of(nvrtcProgram program, nvrtcResult (*size_of)(nvrtcProgram, std::size_t*),
                    nvrtcResult (*get)(nvrtcProgram, char*)) {
  std::size_t length = 0;
  EXPECT_EQ(size_of(program, &length), NVRTC_SUCCESS);
  std::string text(length, '\0');
  EXPECT_EQ(get(program, text.data()), NVRTC_SUCCESS);
  return text;
}

Compilation compile(const char* source, const std::string& architecture, const char* standard) {
  nvrtcProgram program = nullptr;
  EXPECT_EQ(nvrtcCreateProgram(&program, source, "kernels.cu", 0, nullptr, nullptr), NVRTC_SUCCESS);
  const std::string target = "--gpu-architecture=" + architecture;
  const std::vector<const char*> options = {target.c_str(),
                                            standard,
                                            "--ptxas-options=--verbose",
                                            "--include-path=" PARTITEST_INCLUDE,
                                            "--include-path=" PARTITEST_CUDA_INCLUDE,
                                            "--include-path=" PARTITEST_CUDA_INCLUDE "/cccl"};
  const nvrtcResult result = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  Compilation compilation;
  compilation.log = text_of(program, nvrtcGetProgramLogSize, nvrtcGetProgramLog);
  if (result == NVRTC_SUCCESS) {
    compilation.ptx = text_of(program, nvrtcGetPTXSize, nvrtcGetPTX);
  } else {
    compilation.failure = std::string(nvrtcGetErrorString(result)) + "\n" + compilation.log;
  }
  nvrtcDestroyProgram(&program);
  return compilation;
}

/// Up to CUDA 12 the atomics of libcu++ go through the stack: what is said of registers holds for later ones.
bool atomics_take_the_stack() {
  int major = 0;
  int minor = 0;
  EXPECT_EQ(nvrtcVersion(&major, &minor), NVRTC_SUCCESS);
  return major < 13;
}

TEST(DeviceNvrtc, compiles_for_the_oldest_architecture_from_sm_70_on_and_for_hopper) {
  int count = 0;
  ASSERT_EQ(nvrtcGetNumSupportedArchs(&count), NVRTC_SUCCESS);
  std::vector<int> architectures(static_cast<std::size_t>(count));
  ASSERT_EQ(nvrtcGetSupportedArchs(architectures.data()), NVRTC_SUCCESS);
  const auto oldest = std::find_if(architectures.begin(), architectures.end(), [](int a) { return a >= 70; });
  ASSERT_NE(oldest, architectures.end());
  std::printf("the oldest architecture of this NVRTC: sm_%d\n", *oldest);
  EXPECT_EQ(compile(every_call, "sm_" + std::to_string(*oldest), "--std=c++17").failure, "");
  EXPECT_EQ(compile(every_call, "sm_90", "--std=c++20").failure, "");
}

/// Kernels read a request that they were given by value in the constant bank. Where a call on it was inlined late, CUDA
/// 13.0 took its address (cvta.param) and read it as if it were local memory, which is an illegal access.
TEST(DeviceNvrtc, no_call_takes_the_address_of_a_kernels_parameter_nor_copies_it) {
  const auto [failure, log, ptx] = compile(epochs, "compute_90", "--std=c++17");
  ASSERT_EQ(failure, "");
  ASSERT_NE(ptx.find("ld.param"), std::string::npos);
  EXPECT_EQ(ptx.find("cvta.param"), std::string::npos);
  if (!atomics_take_the_stack()) {
    EXPECT_EQ(ptx.find("__local_depot"), std::string::npos);
  }
}

/// What ptxas says of the stack and the spills of the kernel `name`.
std::string frame_of(const std::string& log, const std::string& name) {
  const std::size_t of_kernel = log.find("properties for " + name);
  if (of_kernel == std::string::npos) return log;
  const std::size_t line = log.find('\n', of_kernel) + 1;
  return log.substr(line, log.find('\n', line) - line);
}

/// What a mark spills it reads again behind an acquire fence, which has emptied the cache.
TEST(DeviceNvrtc, kernels_of_1024_threads_do_not_spill) {
  const char* const none =
      atomics_take_the_stack() ? " 0 bytes spill stores" : " 0 bytes stack frame, 0 bytes spill stores";
  for (const auto& [source, name] :
       {std::pair{exchange, "exchange"}, {crowded, "crowded"}, {persistent, "persistent"}}) {
    const Compilation compilation = compile(source, "sm_90", "--std=c++17");
    ASSERT_EQ(compilation.failure, "");
    const std::string frame = frame_of(compilation.log, name);
    EXPECT_NE(frame.find(none), std::string::npos) << name << ": " << frame;
  }
}

TEST(DeviceNvrtc, kernels_of_512_threads_that_reduce_between_ranks_do_not_spill) {
  const Compilation compilation = compile(summing, "sm_90", "--std=c++17");
  ASSERT_EQ(compilation.failure, "");
  const std::string frame = frame_of(compilation.log, "summing");
  EXPECT_NE(frame.find(" 0 bytes spill stores"), std::string::npos) << frame;
  EXPECT_EQ(compile(summing, "compute_90", "--std=c++17").ptx.find("cvta.param"), std::string::npos);
}

}  // namespace
