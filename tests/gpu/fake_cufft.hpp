// What fake_cufft.cpp has been asked for.
#pragma once

#include <cstddef>
#include <vector>

struct FakePlan {
  bool allocates = true;  ///< a work area of its own, as cuFFT does unless it is told otherwise before the plan is made
  bool made = false;
  std::size_t work_bytes = 0;
  void* area = nullptr;
  int transforms = 0;
};

struct FakeCufft {
  std::vector<FakePlan> plans;
  int destroyed = 0;
};

extern "C" FakeCufft* fake_cufft();
