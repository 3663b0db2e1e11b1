// How a program moves messages between two ranks by sends and receives: the ways that two_sided.cpp compares, and the
// memory of the messages.
#pragma once

#include <mpi.h>
#include <partita/partita.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bench/contents.hpp"
#include "bench/measurement.hpp"

namespace partita::bench {

/// GPU memory as a program has it that stages its messages by hand.
struct StagingMemory {
  Buffer (*on_gpu)(std::size_t size_bytes);
  Buffer (*page_locked)(std::size_t size_bytes);  ///< of the host
  /// Between the two, either way; complete on return.
  void (*copy)(void* to, const void* from, std::size_t size_bytes);
};

/// The MPI's calls that move a message.
struct MessageCalls {
  decltype(&MPI_Send) send;
  decltype(&MPI_Recv) recv;
  decltype(&MPI_Isend) isend;
  decltype(&MPI_Irecv) irecv;
  decltype(&MPI_Test) test;
  decltype(&MPI_Wait) wait;
};

/// By their standard names, which a loaded drop-in takes, and the MPI's own functions.
MessageCalls standard_calls();
MessageCalls own_calls();

inline constexpr int message_tag = 41;

// ---- Where messages lie ---------------------------------------------------------------------------------------------

enum class Where : std::uint8_t { host, page_locked, gpu };

/// Memory of so many messages. Contents on a GPU are made and compared on the host.
class MessageMemory {
 public:
  /// `gpu` may be null where `where` is host.
  MessageMemory(Where where, std::size_t message_bytes, int messages, const StagingMemory* gpu);

  std::byte* message(int number) const {
    return bytes().data() + bytes().size() / static_cast<std::size_t>(messages_) * static_cast<std::size_t>(number);
  }
  /// What bench/contents.hpp does with a message's bytes, a partition each.
  void fill(std::uint64_t epoch) const { make(bench::fill, epoch); }
  void poison(std::uint64_t epoch) const { make(bench::poison, epoch); }
  std::optional<Mismatch> find_mismatch(std::uint64_t epoch) const;

 private:
  std::span<std::byte> bytes() const { return buffer_.bytes(); }
  void make(void (*contents)(std::span<std::byte>, int, std::uint64_t), std::uint64_t epoch) const;

  void (*copy_)(void* to, const void* from, std::size_t size_bytes);  ///< null of host memory
  int messages_;
  Buffer buffer_;
};

// ---- Ways of one message --------------------------------------------------------------------------------------------

/// The MPI's blocking calls.
class BlockingCalls {
 public:
  BlockingCalls(const MessageCalls& calls, const Job& job, const Case& c)
      : calls_(calls), size_(static_cast<int>(c.size_bytes)), peer_(job.peer()) {}
  void send(const std::byte* from) const {
    check(calls_.send(from, size_, MPI_BYTE, peer_, message_tag, MPI_COMM_WORLD), "MPI_Send");
  }
  void receive(std::byte* into) const {
    check(calls_.recv(into, size_, MPI_BYTE, peer_, message_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
  }

 private:
  MessageCalls calls_;
  int size_;
  int peer_;
};

/// The calls of the MPI's that a message of Partita's makes.
class PolledCalls {
 public:
  PolledCalls(const MessageCalls& calls, const Job& job, const Case& c)
      : calls_(calls), size_(static_cast<int>(c.size_bytes)), peer_(job.peer()) {}
  void send(const std::byte* from) const {
    MPI_Request request = MPI_REQUEST_NULL;
    check(calls_.isend(from, size_, MPI_BYTE, peer_, message_tag, MPI_COMM_WORLD, &request), "MPI_Isend");
    finish(request);
  }
  void receive(std::byte* into) const {
    MPI_Request request = MPI_REQUEST_NULL;
    check(calls_.irecv(into, size_, MPI_BYTE, peer_, message_tag, MPI_COMM_WORLD, &request), "MPI_Irecv");
    finish(request);
  }

 private:
  void finish(MPI_Request request) const {
    int complete = 0;
    while (complete == 0) check(calls_.test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
  }

  MessageCalls calls_;
  int size_;
  int peer_;
};

/// Partita's C API, which makes a message of its own of host memory, too.
class CApiCalls {
 public:
  CApiCalls(const Job& job, const Case& c) : size_(c.size_bytes), peer_(job.peer()) {}
  void send(const std::byte* from) const {
    Partita_Request request = PARTITA_REQUEST_NULL;
    check(Partita_Isend(from, size_, MPI_BYTE, peer_, message_tag, MPI_COMM_WORLD, &request), "Partita_Isend");
    check(Partita_Wait(&request, MPI_STATUS_IGNORE), "Partita_Wait");
  }
  void receive(std::byte* into) const {
    Partita_Request request = PARTITA_REQUEST_NULL;
    check(Partita_Irecv(into, size_, MPI_BYTE, peer_, message_tag, MPI_COMM_WORLD, &request), "Partita_Irecv");
    check(Partita_Wait(&request, MPI_STATUS_IGNORE), "Partita_Wait");
  }

 private:
  MPI_Count size_;
  int peer_;
};

/// Copies of a program's own before and behind `Way`, on page-locked host memory.
template <class Way>
class StagedCalls {
 public:
  StagedCalls(Way way, const Case& c, const StagingMemory& gpu)
      : way_(way),
        gpu_(gpu),
        size_(static_cast<std::size_t>(c.size_bytes)),
        sent_(gpu.page_locked(size_)),
        received_(gpu.page_locked(size_)) {}
  void send(const std::byte* from) const {
    gpu_.copy(sent_.bytes().data(), from, size_);
    way_.send(sent_.bytes().data());
  }
  void receive(std::byte* into) const {
    way_.receive(received_.bytes().data());
    gpu_.copy(into, received_.bytes().data(), size_);
  }

 private:
  Way way_;
  StagingMemory gpu_;
  std::size_t size_;
  Buffer sent_;
  Buffer received_;
};

// ---- Ways of a window of messages -----------------------------------------------------------------------------------

/// So many messages are in flight: --window, but no more than 128 MiB of them, and one at least.
int messages_in_flight(const Case& c, const Options& options);

/// The MPI's nonblocking calls on a window of messages.
class WindowCalls {
 public:
  WindowCalls(const MessageCalls& calls, const Job& job, const Case& c)
      : calls_(calls),
        size_(static_cast<int>(c.size_bytes)),
        peer_(job.peer()),
        requests_(static_cast<std::size_t>(messages_in_flight(c, job.options)), MPI_REQUEST_NULL) {}

  void begin_send(int number, const std::byte* from) {
    check(calls_.isend(from, size_, MPI_BYTE, peer_, message_tag, MPI_COMM_WORLD, &request(number)), "MPI_Isend");
  }
  void begin_receive(int number, std::byte* into) {
    check(calls_.irecv(into, size_, MPI_BYTE, peer_, message_tag, MPI_COMM_WORLD, &request(number)), "MPI_Irecv");
  }
  void finish_send(int number) { check(calls_.wait(&request(number), MPI_STATUS_IGNORE), "MPI_Wait"); }
  void finish_receive(int number, std::byte*) { finish_send(number); }

 private:
  MPI_Request& request(int number) { return requests_[static_cast<std::size_t>(number)]; }

  MessageCalls calls_;
  int size_;
  int peer_;
  std::vector<MPI_Request> requests_;
};

/// A program's own copies, and the same calls on page-locked host memory. A rank sends or receives.
class StagedWindowCalls {
 public:
  StagedWindowCalls(const WindowCalls& messages, const Job& job, const Case& c, const StagingMemory& gpu)
      : messages_(messages),
        gpu_(gpu),
        size_(static_cast<std::size_t>(c.size_bytes)),
        host_(gpu.page_locked(size_ * static_cast<std::size_t>(messages_in_flight(c, job.options)))) {}

  void begin_send(int number, const std::byte* from) {
    gpu_.copy(host(number), from, size_);
    messages_.begin_send(number, host(number));
  }
  void begin_receive(int number, std::byte*) { messages_.begin_receive(number, host(number)); }
  void finish_send(int number) { messages_.finish_send(number); }
  void finish_receive(int number, std::byte* into) {
    messages_.finish_receive(number, host(number));
    gpu_.copy(into, host(number), size_);
  }

 private:
  std::byte* host(int number) const { return host_.bytes().data() + size_ * static_cast<std::size_t>(number); }

  WindowCalls messages_;
  StagingMemory gpu_;
  std::size_t size_;
  Buffer host_;
};

}  // namespace partita::bench
