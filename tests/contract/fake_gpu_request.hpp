// Requests on GPU memory of the tests' own making (support/fake_gpu.hpp); threads stand for kernels.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <cstdint>
#include <memory>

#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/pattern.hpp"

namespace partita::test {

/// One request: rank 0 sends to rank 1.
class FakeGpuRequest : public testing::Test {
 protected:
  static constexpr int partitions = 12;
  static constexpr std::size_t partition_bytes = 1000;
  static constexpr std::size_t total_bytes = partitions * partition_bytes;

  bool sends() const { return rank() == 0; }

  void make(Gpu gpu, const char* key = nullptr, const char* value = nullptr) {
    buffer_ = std::make_unique<FakeGpuBuffer>(gpu, total_bytes);
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    if (key != nullptr) PMPI_Info_set(info, key, value);
    const int code = sends() ? Partita_Psend_init(buffer_->data(), partitions, partition_bytes, MPI_BYTE, 1, 2,
                                                  MPI_COMM_WORLD, info, &request_)
                             : Partita_Precv_init(buffer_->data(), partitions, partition_bytes, MPI_BYTE, 0, 2,
                                                  MPI_COMM_WORLD, info, &request_);
    PMPI_Info_free(&info);
    ASSERT_EQ(code, MPI_SUCCESS);
  }
  void TearDown() override {
    FakeGpu::instance().hold(nullptr);
    if (request_ != PARTITA_REQUEST_NULL) {
      EXPECT_EQ(Partita_Request_free(&request_), MPI_SUCCESS);
    }
    harness_barrier();
    buffer_.reset();
  }

  void write_partition(std::uint64_t round, int p) const {
    const std::int64_t first = p * static_cast<std::int64_t>(partition_bytes);
    write_pattern(buffer_->data() + first, round, first, first + static_cast<std::int64_t>(partition_bytes));
  }
  void expect_contents(std::uint64_t round) const {
    const auto all = static_cast<std::int64_t>(total_bytes);
    EXPECT_EQ(first_off_pattern(buffer_->data(), round, 0, all), all) << "the first wrong byte of round " << round;
  }
  std::unique_ptr<FakeGpuBuffer> buffer_;
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

/// While one lives, errors of calls on a request, and of those on none, come back.
class ReturnedErrors {
 public:
  ReturnedErrors() { set_handlers(MPI_ERRORS_RETURN); }
  ReturnedErrors(const ReturnedErrors&) = delete;
  ReturnedErrors& operator=(const ReturnedErrors&) = delete;
  ~ReturnedErrors() { set_handlers(MPI_ERRORS_ARE_FATAL); }

 private:
  static void set_handlers(MPI_Errhandler handler) {
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
  }
};

}  // namespace partita::test
