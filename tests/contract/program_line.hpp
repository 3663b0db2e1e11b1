// A queue of a program's stream, on CUDA and on the fake GPU alike.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include "contract/gpu_program.hpp"
#include "support/errors.hpp"

namespace partita::test {

/// A stream of the program's, and a queue of it.
class ProgramLine {
 public:
  ProgramLine() { EXPECT_OK(Partita_Queue_init(&queue_, PARTITA_QUEUE_CUDA, &native_)); }
  ~ProgramLine() {
    EXPECT_OK(Partita_Queue_free(&queue_));
    stream_.drain();
  }
  ProgramLine(const ProgramLine&) = delete;
  ProgramLine& operator=(const ProgramLine&) = delete;

  ProgramStream& stream() { return stream_; }
  Partita_Queue queue() const { return queue_; }
  void run(Partita_Request& request) const {
    ASSERT_OK(Partita_Enqueue_start(queue_, &request));
    ASSERT_OK(Partita_Enqueue_wait(queue_, &request));
  }
  void finish() {
    ASSERT_OK(Partita_Queue_wait(queue_));
    stream_.drain();
  }

 private:
  ProgramStream stream_;
  void* native_ = stream_.native();
  Partita_Queue queue_ = PARTITA_QUEUE_NULL;
};

/// An info object with one key.
class OneKey {
 public:
  OneKey(const char* key, const char* value) {
    PMPI_Info_create(&info_);
    PMPI_Info_set(info_, key, value);
  }
  ~OneKey() { PMPI_Info_free(&info_); }
  OneKey(const OneKey&) = delete;
  OneKey& operator=(const OneKey&) = delete;
  operator MPI_Info() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

}  // namespace partita::test
