// Ranks that compute on GPUs, with cuFFT.
#pragma once

#include <mpi.h>

#include <optional>
#include <string>
#include <vector>

#include "apps/fft/memory.hpp"
#include "apps/fft/transform.hpp"

namespace fft::gpu {

/// Makes a GPU the rank's and loads cuFFT from `path`; empty: from the usual names. Why that cannot be, as a sentence,
/// the same on every rank; nothing if it can. Collective.
std::optional<std::string> choose_device(MPI_Comm comm, const std::string& path);

// What follows is for a job that has its devices.

/// For people: "NVIDIA H200, a GPU for each rank". Collective.
std::string describe_device(MPI_Comm comm);
/// What a GPU lacks of the memory that its ranks' works for these hops take, before any is taken; nothing if none does.
/// Collective; the same on every rank. cuFFT is loaded as by choose_device.
std::optional<Shortage> find_shortage(MPI_Comm comm, const std::string& path, const std::vector<Hop>& hops);
/// Makers of works whose cells and buffers lie in the memory of this rank's GPU.
WorkMaker work_maker(const std::string& path);

}  // namespace fft::gpu
