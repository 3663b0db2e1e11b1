// The device API compiles at run time, without the standard headers.
#include <gtest/gtest.h>
#include <nvrtc.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

const char* const every_call = R"(
#include <partita/device.cuh>

extern "C" __global__ void every_call(MPIX_Prequest send, MPIX_Prequest recv, int* out) {
  int flag = 0;
  int codes = MPIX_Pstart(send) + MPIX_Pstart(recv) + MPIX_Pbuf_prepare(send);
  codes += MPIX_Pready(0, send) + MPIX_Pready_thread(1, send) + MPIX_Pready_warp(2, send) + MPIX_Pready_block(3, send);
  codes += MPIX_Pready_range(4, 5, send) + MPIX_Parrived(recv, 0, &flag) + MPIX_Pwait_partition(0, recv);
  codes += MPIX_Pwait(send) + MPIX_Pwait(recv);
  *out = codes + flag + (MPIX_Pbuffer(0, send) != nullptr);
}
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

/// The log of the compilation; empty if it went through. Stores the PTX where the architecture is a virtual one.
std::string compile(const char* source, const std::string& architecture, const char* standard,
                    std::string* ptx = nullptr) {
  nvrtcProgram program = nullptr;
  EXPECT_EQ(nvrtcCreateProgram(&program, source, "kernels.cu", 0, nullptr, nullptr), NVRTC_SUCCESS);
  const std::string target = "--gpu-architecture=" + architecture;
  const std::vector<const char*> options = {target.c_str(), standard, "--include-path=" PARTITEST_INCLUDE,
                                            "--include-path=" PARTITEST_CUDA_INCLUDE,
                                            "--include-path=" PARTITEST_CUDA_INCLUDE "/cccl"};
  const nvrtcResult result = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  std::string log;
  if (result != NVRTC_SUCCESS) {
    std::size_t length = 0;
    EXPECT_EQ(nvrtcGetProgramLogSize(program, &length), NVRTC_SUCCESS);
    log.resize(length);
    EXPECT_EQ(nvrtcGetProgramLog(program, log.data()), NVRTC_SUCCESS);
    log = std::string(nvrtcGetErrorString(result)) + "\n" + log;
  }
  if (result == NVRTC_SUCCESS && ptx != nullptr) {
    std::size_t length = 0;
    EXPECT_EQ(nvrtcGetPTXSize(program, &length), NVRTC_SUCCESS);
    ptx->resize(length);
    EXPECT_EQ(nvrtcGetPTX(program, ptx->data()), NVRTC_SUCCESS);
  }
  nvrtcDestroyProgram(&program);
  return log;
}

TEST(DeviceNvrtc, compiles_for_the_oldest_architecture_from_sm_70_on_and_for_hopper) {
  int count = 0;
  ASSERT_EQ(nvrtcGetNumSupportedArchs(&count), NVRTC_SUCCESS);
  std::vector<int> architectures(static_cast<std::size_t>(count));
  ASSERT_EQ(nvrtcGetSupportedArchs(architectures.data()), NVRTC_SUCCESS);
  const auto oldest = std::find_if(architectures.begin(), architectures.end(), [](int a) { return a >= 70; });
  ASSERT_NE(oldest, architectures.end());
  std::printf("the oldest architecture of this NVRTC: sm_%d\n", *oldest);
  EXPECT_EQ(compile(every_call, "sm_" + std::to_string(*oldest), "--std=c++17"), "");
  EXPECT_EQ(compile(every_call, "sm_90", "--std=c++20"), "");
}

/// Kernels read a request that they were given by value in the constant bank. Where a call on it was inlined late, CUDA
/// 13.0 took its address (cvta.param) and read it as if it were local memory, which is an illegal access.
TEST(DeviceNvrtc, no_call_takes_the_address_of_a_kernels_parameter_nor_copies_it) {
  std::string ptx;
  ASSERT_EQ(compile(epochs, "compute_90", "--std=c++17", &ptx), "");
  ASSERT_NE(ptx.find("ld.param"), std::string::npos);
  EXPECT_EQ(ptx.find("cvta.param"), std::string::npos);
  EXPECT_EQ(ptx.find("__local_depot"), std::string::npos);
}

}  // namespace
