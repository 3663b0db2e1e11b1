// What kernels do wrong, as a table: the code that they get, and what the next host call says. Written once for GPUs
// (tests/gpu/device_errors_test.cu) and for threads on memory that stands for a GPU's (tests/contract).
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <cstddef>
#include <string>
#include <vector>

#include "support/job.hpp"
#include "support/told.hpp"

namespace partita::test {

enum class Mistake {
  partition,
  partition_below,
  partition_asked,
  twice,
  twice_in_a_range,
  descending_range,
  mark,
  mark_after_pstart,
  pstart,
  pstart_twice,
  prepare,
  pwait,
  pwait_partition,
  ask,
  none,  ///< all partitions once
};

/// The wrong call, and the right ones before it. By a block of one thread.
struct Commit {
  Mistake mistake;
  MPIX_Prequest prequest;

  MPIX_Device int operator()() const {
    int flag = 0;
    switch (mistake) {
      case Mistake::partition:
        return MPIX_Pready(4, prequest);
      case Mistake::partition_below:
        return MPIX_Pready_block(-1, prequest);
      case Mistake::partition_asked:
        return MPIX_Parrived(prequest, 4, &flag);
      case Mistake::twice:
        return MPIX_Pready(1, prequest) != 0 ? -1 : MPIX_Pready_thread(1, prequest);
      case Mistake::twice_in_a_range:
        return MPIX_Pready(2, prequest) != 0 ? -1 : MPIX_Pready_range(1, 3, prequest);
      case Mistake::descending_range:
        return MPIX_Pready_range(3, 1, prequest);
      case Mistake::mark:
        return MPIX_Pready_block(0, prequest);
      case Mistake::mark_after_pstart:
        return MPIX_Pstart(prequest) != 0 ? -1 : MPIX_Pready(0, prequest);
      case Mistake::pstart:
        return MPIX_Pstart(prequest);
      case Mistake::pstart_twice:
        return MPIX_Pstart(prequest) != 0 ? -1 : MPIX_Pstart(prequest);
      case Mistake::prepare:
        return MPIX_Pbuf_prepare(prequest);
      case Mistake::pwait:
        return MPIX_Pwait(prequest);
      case Mistake::pwait_partition:
        return MPIX_Pwait_partition(0, prequest);
      case Mistake::ask:
        return MPIX_Parrived(prequest, 0, &flag);
      case Mistake::none:
        return MPIX_Pready_range(0, 3, prequest);
    }
    return -1;
  }
};

struct MistakeCase {
  const char* name;
  bool by_sender;
  const char* key;  ///< an info key of both sides, or null
  bool starts;      ///< the host that makes the mistake, before its kernel
  Mistake mistake;
  int code;
  const char* words;
};

inline const std::vector<MistakeCase>& mistake_cases() {
  static constexpr const char* host = nullptr;
  static constexpr const char* device = "partita_driver=device";
  static constexpr const char* in_place = "partita_in_place=true";
  static const std::vector<MistakeCase> cases = {
      {"a partition that is not there", true, host, true, Mistake::partition, PARTITA_DEVICE_ERR_PARTITION,
       "named a partition that the request does not have (partition 4)"},
      {"a negative partition", true, host, true, Mistake::partition_below, PARTITA_DEVICE_ERR_PARTITION,
       "named a partition that the request does not have"},
      {"asking for a partition that is not there", false, host, true, Mistake::partition_asked,
       PARTITA_DEVICE_ERR_PARTITION, "named a partition that the request does not have (partition 4)"},
      {"a second mark", true, host, true, Mistake::twice, PARTITA_DEVICE_ERR_TWICE,
       "marked a partition twice in an epoch, or in no epoch (partition 1)"},
      {"a second mark in a range", true, host, true, Mistake::twice_in_a_range, PARTITA_DEVICE_ERR_TWICE,
       "marked a partition twice in an epoch, or in no epoch (partition 2)"},
      {"a descending range", true, host, true, Mistake::descending_range, PARTITA_DEVICE_ERR_PARTITION,
       "named a range of partitions that does not ascend (partition 3)"},
      {"a mark before the host starts", true, host, false, Mistake::mark, PARTITA_DEVICE_ERR_INACTIVE,
       "marked a partition before the host had started the epoch (partition 0)"},
      {"a mark of a receive", false, host, true, Mistake::mark, PARTITA_DEVICE_ERR_SIDE,
       "made a call for sends on a receive, or one for receives on a send (partition 0)"},
      {"asking for a partition of a send", true, host, true, Mistake::ask, PARTITA_DEVICE_ERR_SIDE,
       "made a call for sends on a receive, or one for receives on a send (partition 0)"},
      {"awaiting a partition of a send", true, host, true, Mistake::pwait_partition, PARTITA_DEVICE_ERR_SIDE,
       "made a call for sends on a receive"},
      {"Pstart of a host-driven send", true, host, true, Mistake::pstart, PARTITA_DEVICE_ERR_DRIVER,
       "made a call for device-driven requests on a host-driven one, in epoch"},
      {"Pstart of a host-driven receive", false, host, true, Mistake::pstart, PARTITA_DEVICE_ERR_DRIVER,
       "made a call for device-driven requests on a host-driven one, in epoch"},
      {"Pbuf_prepare of a host-driven send", true, host, true, Mistake::prepare, PARTITA_DEVICE_ERR_DRIVER,
       "made a call for device-driven requests on a host-driven one, in epoch"},
      {"Pwait of a host-driven send", true, host, true, Mistake::pwait, PARTITA_DEVICE_ERR_DRIVER,
       "made a call for device-driven requests on a host-driven one, in epoch"},
      {"a wait that takes too long", false, host, true, Mistake::pwait, PARTITA_DEVICE_ERR_TIMEOUT,
       "waited longer than PARTITA_TIMEOUT, in epoch"},
      {"a wait for a partition that takes too long", false, host, true, Mistake::pwait_partition,
       PARTITA_DEVICE_ERR_TIMEOUT, "waited longer than PARTITA_TIMEOUT (partition 0)"},
      {"a mark in place before the receiver is ready", true, in_place, true, Mistake::mark,
       PARTITA_DEVICE_ERR_UNPREPARED, "went on without Pbuf_prepare, when the receiver was not ready (partition 0)"},
      {"Pbuf_prepare before Pstart", true, device, false, Mistake::prepare, PARTITA_DEVICE_ERR_INACTIVE,
       "called Pbuf_prepare before Pstart had opened an epoch, in epoch"},
      {"a mark before Pbuf_prepare", true, device, false, Mistake::mark_after_pstart, PARTITA_DEVICE_ERR_UNPREPARED,
       "went on without Pbuf_prepare, when the receiver was not ready (partition 0)"},
      {"a mark in no epoch", true, device, false, Mistake::mark, PARTITA_DEVICE_ERR_TWICE,
       "marked a partition twice in an epoch, or in no epoch (partition 0)"},
      {"Pstart in an open epoch of a send", true, device, false, Mistake::pstart_twice, PARTITA_DEVICE_ERR_ACTIVE,
       "started an epoch before the one before was complete, in epoch"},
      {"Pstart in an open epoch of a receive", false, device, false, Mistake::pstart_twice, PARTITA_DEVICE_ERR_ACTIVE,
       "started an epoch before the one before was complete, in epoch"},
  };
  return cases;
}

/// `Device` has: static std::byte* allocate(size_bytes), free(std::byte*), int call(Commit): what a kernel gets;
/// static bool kernels_copy: they move the bytes themselves.
template <class Device>
class DeviceMistakes : public testing::Test {
 protected:
  static constexpr int partitions = 4;
  static constexpr int partition_bytes = 64;
  static constexpr std::size_t total_bytes = partitions * partition_bytes;

  static int sender() { return 0; }
  static int receiver() { return ranks() - 1; }

  void SetUp() override {
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    out_ = Device::allocate(total_bytes);
    in_ = Device::allocate(total_bytes);
  }
  void TearDown() override {
    harness_barrier();
    Device::free(out_);
    Device::free(in_);
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  }

  void make(const char* key) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    if (key != nullptr) {
      const std::string text = key;
      const auto equals = text.find('=');
      PMPI_Info_set(info, text.substr(0, equals).c_str(), text.substr(equals + 1).c_str());
    }
    if (rank() == sender()) {
      ASSERT_EQ(
          Partita_Psend_init(out_, partitions, partition_bytes, MPI_BYTE, receiver(), 7, MPI_COMM_WORLD, info, &send_),
          MPI_SUCCESS);
    }
    if (rank() == receiver()) {
      ASSERT_EQ(
          Partita_Precv_init(in_, partitions, partition_bytes, MPI_BYTE, sender(), 7, MPI_COMM_WORLD, info, &recv_),
          MPI_SUCCESS);
    }
    PMPI_Info_free(&info);
  }
  void free_both() {
    harness_barrier();
    if (rank() == sender()) {
      EXPECT_EQ(Partita_Request_free(&send_), MPI_SUCCESS);
    }
    if (rank() == receiver()) {
      EXPECT_EQ(Partita_Request_free(&recv_), MPI_SUCCESS);
    }
  }

  static void expect_error(int code, int error_class, const std::string& words) {
    ASSERT_NE(code, MPI_SUCCESS) << "expected is: " << words;
    int found = MPI_SUCCESS;
    PMPI_Error_class(code, &found);
    EXPECT_EQ(found, error_class);
    const std::string sentence = told_by(code);
    // An MPI whose strings are short cuts the sentence.
    const bool cut_short = sentence.size() + 1 >= MPI_MAX_ERROR_STRING;
    EXPECT_TRUE(cut_short || sentence.find(words) != std::string::npos) << sentence << "\nexpected is: " << words;
  }

  /// The host hears of it by Wait or by Test; then everything can be freed.
  void commit(const MistakeCase& wrong, bool by_wait) {
    make(wrong.key);
    if (rank() == (wrong.by_sender ? sender() : receiver())) {
      Partita_Request& request = wrong.by_sender ? send_ : recv_;
      const bool host_driven = wrong.key == nullptr || std::string(wrong.key) != "partita_driver=device";
      Partita_Prequest device{};
      const int created = Partita_Prequest_create(&device, request);
      if (wrong.by_sender && wrong.key != nullptr && !Device::kernels_copy) {
        expect_error(created, MPI_ERR_OTHER, "kernels cannot reach the receive buffer");
        return free_both();
      }
      ASSERT_EQ(created, MPI_SUCCESS);
      if (wrong.starts) {
        ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
      }
      // Where kernels hand all to the progress engine, a mark is counted before the host's word is read.
      const bool too_late = wrong.code == PARTITA_DEVICE_ERR_INACTIVE && host_driven && !Device::kernels_copy;
      EXPECT_EQ(Device::call(Commit{wrong.mistake, device}), too_late ? PARTITA_DEVICE_SUCCESS : wrong.code);
      int flag = 0;
      const int told =
          by_wait ? Partita_Wait(&request, MPI_STATUS_IGNORE) : Partita_Test(&request, &flag, MPI_STATUS_IGNORE);
      expect_error(told, MPI_ERR_OTHER, wrong.words);
      EXPECT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS) << "the request is still active";
      if (host_driven) {
        EXPECT_NE(Partita_Start(&request), MPI_SUCCESS) << "it was given up";
      }
      EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
      expect_error(Partita_Prequest_create(&device, request), MPI_ERR_REQUEST,
                   "an earlier epoch of the request ended with an error");
    }
    free_both();
  }

  /// A mark that was refused is taken back: the receiver has its epoch, though the sender's host is told of the
  /// mistake.
  void mark_twice_and_complete() {
    make(nullptr);
    Partita_Prequest device{};
    if (rank() == receiver()) {
      ASSERT_EQ(Partita_Start(&recv_), MPI_SUCCESS);
    }
    if (rank() == sender()) {
      ASSERT_EQ(Partita_Prequest_create(&device, send_), MPI_SUCCESS);
      ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
      ASSERT_EQ(Partita_Pbuf_prepare(send_), MPI_SUCCESS);
      EXPECT_EQ(Device::call(Commit{Mistake::twice_in_a_range, device}), PARTITA_DEVICE_ERR_TWICE);
      EXPECT_EQ(Device::call(Commit{Mistake::mark, device}), PARTITA_DEVICE_SUCCESS);
    }
    harness_barrier();  // the receiver's limit holds for no more than its wait
    if (rank() == receiver() && Device::kernels_copy) {
      EXPECT_EQ(Partita_Wait(&recv_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    harness_barrier();
    if (rank() == sender()) {
      expect_error(Partita_Wait(&send_, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "twice");
      EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
    }
    free_both();
  }

  /// A mistake behind the end of its epoch is told by the next call, whichever that is.
  void commit_late(int call) {
    make(nullptr);
    if (rank() == receiver()) {
      ASSERT_EQ(Partita_Start(&recv_), MPI_SUCCESS);
    }
    if (rank() == sender()) {
      Partita_Prequest device{};
      ASSERT_EQ(Partita_Prequest_create(&device, send_), MPI_SUCCESS);
      ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
      ASSERT_EQ(Device::call(Commit{Mistake::none, device}), PARTITA_DEVICE_SUCCESS);
      ASSERT_EQ(Partita_Wait(&send_, MPI_STATUS_IGNORE), MPI_SUCCESS);
      ASSERT_EQ(Device::call(Commit{Mistake::partition, device}), PARTITA_DEVICE_ERR_PARTITION);
      int flag = 0;
      int told = MPI_SUCCESS;
      if (call == 0) told = Partita_Wait(&send_, MPI_STATUS_IGNORE);
      if (call == 1) told = Partita_Test(&send_, &flag, MPI_STATUS_IGNORE);
      if (call == 2) told = Partita_Waitall(1, &send_, MPI_STATUSES_IGNORE);
      if (call == 3) told = Partita_Start(&send_);
      if (call == 4) told = Partita_Prequest_free(&device);
      if (call == 5) told = Partita_Request_free(&send_);
      expect_error(told, call == 2 ? MPI_ERR_IN_STATUS : MPI_ERR_OTHER, "");
      if (call != 2) {
        expect_error(told, MPI_ERR_OTHER, "a kernel named a partition that the request does not have (partition 4)");
      }
      if (call < 4) {
        EXPECT_EQ(Partita_Wait(&send_, MPI_STATUS_IGNORE), MPI_SUCCESS) << "told once";
        expect_error(Partita_Start(&send_), MPI_ERR_REQUEST, "ended with an error");
        EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS) << "told once";
      }
      if (call == 4) {
        EXPECT_EQ(device.state, nullptr) << "freed all the same";
        EXPECT_EQ(Partita_Prequest_create(&device, send_), MPI_SUCCESS) << "the epochs of the two sides agree";
        EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
      }
      if (call == 5) {
        EXPECT_EQ(send_, PARTITA_REQUEST_NULL) << "freed all the same";
      }
    }
    if (rank() == receiver()) {
      EXPECT_EQ(Partita_Wait(&recv_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    harness_barrier();
    if (rank() == sender() && send_ != PARTITA_REQUEST_NULL) {
      EXPECT_EQ(Partita_Request_free(&send_), MPI_SUCCESS);
    }
    if (rank() == receiver()) {
      EXPECT_EQ(Partita_Request_free(&recv_), MPI_SUCCESS);
    }
  }

  /// Nothing keeps the request any more when its free tells of the mistake.
  void free_behind_the_receiver() {
    make(nullptr);
    Partita_Prequest device{};
    if (rank() == sender()) {
      ASSERT_EQ(Partita_Prequest_create(&device, send_), MPI_SUCCESS);
    }
    harness_barrier();
    if (rank() == receiver()) {
      if (rank() != sender()) {  // so that it is matched
        ASSERT_EQ(Partita_Pbuf_prepare(recv_), MPI_SUCCESS);
      }
      EXPECT_EQ(Partita_Request_free(&recv_), MPI_SUCCESS);
    }
    const Partita_Request first = send_;
    make(nullptr);  // what the receiver says of this pair comes behind its word that the first is free
    if (rank() == sender()) {
      Partita_Prequest second{};
      ASSERT_EQ(Partita_Prequest_create(&second, send_), MPI_SUCCESS);
      EXPECT_EQ(Partita_Prequest_free(&second), MPI_SUCCESS);
      ASSERT_EQ(Device::call(Commit{Mistake::partition, device}), PARTITA_DEVICE_ERR_PARTITION);
      Partita_Request freed = first;
      expect_error(Partita_Request_free(&freed), MPI_ERR_OTHER,
                   "a kernel named a partition that the request does not have (partition 4)");
      EXPECT_EQ(freed, PARTITA_REQUEST_NULL) << "freed all the same";
    }
    free_both();
  }

  void refuse_calls_of_the_host() {
    make(nullptr);
    Partita_Prequest device{};
    if (rank() == receiver()) {
      ASSERT_EQ(Partita_Start(&recv_), MPI_SUCCESS);
    }
    if (rank() == sender()) {
      Partita_Prequest second{};
      ASSERT_EQ(Partita_Prequest_create(&device, send_), MPI_SUCCESS);
      expect_error(Partita_Prequest_create(&second, send_), MPI_ERR_REQUEST, "has a device request already");
      expect_error(Partita_Prequest_create(nullptr, send_), MPI_ERR_ARG, "argument prequest is null");
      ASSERT_EQ(Partita_Start(&send_), MPI_SUCCESS);
      expect_error(Partita_Prequest_free(&device), MPI_ERR_REQUEST, "the request is active");
      expect_error(Partita_Pready(0, send_), MPI_ERR_REQUEST, "kernels mark its partitions");
      EXPECT_EQ(Device::call(Commit{Mistake::none, device}), PARTITA_DEVICE_SUCCESS);
      EXPECT_EQ(Partita_Wait(&send_, MPI_STATUS_IGNORE), MPI_SUCCESS);
      Partita_Prequest stale = device;
      EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
      expect_error(Partita_Prequest_free(&stale), MPI_ERR_ARG, "");
    }
    if (rank() == receiver()) {
      EXPECT_EQ(Partita_Wait(&recv_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    free_both();
  }

  std::byte* out_ = nullptr;
  std::byte* in_ = nullptr;
  Partita_Request send_ = PARTITA_REQUEST_NULL;
  Partita_Request recv_ = PARTITA_REQUEST_NULL;
};

TYPED_TEST_SUITE_P(DeviceMistakes);

TYPED_TEST_P(DeviceMistakes, each_has_a_code_for_the_kernel_and_a_sentence_for_its_host) {
  for (const MistakeCase& wrong : mistake_cases()) {
    for (const bool by_wait : {true, false}) {
      SCOPED_TRACE(std::string(wrong.name) + (by_wait ? ", heard of by Wait" : ", heard of by Test"));
      step(wrong.name);
      this->commit(wrong, by_wait);
    }
  }
}

TYPED_TEST_P(DeviceMistakes, leave_the_epoch_as_it_is) {
  this->mark_twice_and_complete();
}

TYPED_TEST_P(DeviceMistakes, behind_the_end_of_an_epoch_are_told_by_the_next_call) {
  for (int call = 0; call < 6; ++call) {
    SCOPED_TRACE(call);
    this->commit_late(call);
  }
}

TYPED_TEST_P(DeviceMistakes, are_told_by_the_free_when_the_receiver_has_freed_before) {
  this->free_behind_the_receiver();
}

TYPED_TEST_P(DeviceMistakes, of_the_host_are_refused_with_a_reason) {
  this->refuse_calls_of_the_host();
}

REGISTER_TYPED_TEST_SUITE_P(DeviceMistakes, each_has_a_code_for_the_kernel_and_a_sentence_for_its_host,
                            leave_the_epoch_as_it_is, behind_the_end_of_an_epoch_are_told_by_the_next_call,
                            are_told_by_the_free_when_the_receiver_has_freed_before,
                            of_the_host_are_refused_with_a_reason);

}  // namespace partita::test
