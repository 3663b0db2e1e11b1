// The device API compiles at run time, without the standard headers.
#include <gtest/gtest.h>
#include <nvrtc.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

const char* const source = R"(
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

/// The log of the compilation; empty if it went through.
std::string compile(int architecture, const char* standard) {
  nvrtcProgram program = nullptr;
  EXPECT_EQ(nvrtcCreateProgram(&program, source, "every_call.cu", 0, nullptr, nullptr), NVRTC_SUCCESS);
  const std::string target = "--gpu-architecture=sm_" + std::to_string(architecture);
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
  EXPECT_EQ(compile(*oldest, "--std=c++17"), "");
  EXPECT_EQ(compile(90, "--std=c++20"), "");
}

}  // namespace
