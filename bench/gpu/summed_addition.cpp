#include "bench/gpu/summed_addition.hpp"

#include <algorithm>
#include <cstdio>

#include "apps/support/gpus.hpp"
#include "apps/support/time_limit.hpp"
#include "bench/partita_calls.hpp"

namespace partita::bench::gpu {

namespace {

/// C of a rank. A whole number, so that any order of the ranks gives the same sum.
double part_of(int rank, std::uint64_t epoch, std::int64_t i) {
  return static_cast<double>((rank * 1009 + static_cast<std::int64_t>(epoch % 1000) * 31 + i * 7) & 0xfffff);
}

}  // namespace

SummedArrays::SummedArrays(std::int64_t size_bytes)
    : count_(size_bytes / static_cast<std::int64_t>(sizeof(double))),
      a_(static_cast<std::size_t>(size_bytes)),
      b_(a_.size()),
      c_(a_.size()),
      received_(a_.size()),
      host_(static_cast<std::size_t>(count_)) {}

void SummedArrays::prepare(int rank, std::uint64_t epoch) {
  upload(a_, [&](std::int64_t i) { return part_of(rank, epoch, i) - static_cast<double>(i); });
  upload(b_, [](std::int64_t i) { return static_cast<double>(i); });
  check(cudaMemset(c_.data(), 0xff, c_.size()), "cudaMemset");
  check(cudaMemset(received_.data(), 0xff, received_.size()), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

std::int64_t SummedArrays::first_wrong(int ranks, std::uint64_t epoch) {
  check(cudaMemcpy(host_.data(), received_.data(), received_.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  for (std::int64_t i = 0; i < count_; ++i) {
    double expected = 0;
    for (int rank = 0; rank < ranks; ++rank) expected += part_of(rank, epoch, i);
    if (host_[static_cast<std::size_t>(i)] != expected) return i;
  }
  return count_;
}

template <class Value>
void SummedArrays::upload(const DeviceBuffer& buffer, Value value) {
  for (std::int64_t i = 0; i < count_; ++i) host_[static_cast<std::size_t>(i)] = value(i);
  check(cudaMemcpy(buffer.data(), host_.data(), buffer.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
}

bool SummedAddition::compare(std::uint64_t epoch) const {
  const std::int64_t wrong = arrays_->first_wrong(job_.ranks, epoch);
  if (wrong == arrays_->count()) return true;
  std::fprintf(stderr, "rank %d: %s: element %lld is not the sum of all ranks'\n", job_.rank, name_.c_str(),
               static_cast<long long>(wrong));
  return false;
}

double SummedAddition::sample(const Round&) {
  open();
  job_.barrier();
  const std::int64_t begin_ns = now_ns();
  compute_and_sum();
  return static_cast<double>(now_ns() - begin_ns) / 1000;
}

void SummingRequest::create_device_request() {
  check(Partita_Prequest_create(&prequest_, request_), "Partita_Prequest_create");
  if (prequest_.limit_ns == 0) prequest_.limit_ns = apps::wait_limit_ns();
}

LinkUsed SummingRequest::link_used() const {
  return PartitaCalls::link_used(request_);
}

int most_blocks_of_a_rank(const Job& job) {
  const cudaDeviceProp properties = apps::properties_of_current_gpu();
  return std::max(1, std::min(most_allreduce_blocks(), properties.multiProcessorCount) /
                         apps::most_ranks_on_a_gpu(job.comm, properties.uuid));
}

}  // namespace partita::bench::gpu
