// A stream of the program's in tests of the drop-in, on CUDA and on the fake GPU alike.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace partita::test {

enum class StreamKind { own, legacy, per_thread };

/// A stream of this rank's GPU. A default stream is others', too: it is named here, and the thread that makes this is
/// the one that uses it.
class PacedStream {
 public:
  explicit PacedStream(StreamKind kind);
  /// Everything has been done that it was asked for.
  ~PacedStream();
  PacedStream(const PacedStream&) = delete;
  PacedStream& operator=(const PacedStream&) = delete;

  /// What the info key partita_stream calls it.
  std::string name() const;
  /// What comes behind waits for so long.
  void pause(std::chrono::milliseconds length);
  /// What comes behind waits until release(). No two at once.
  void hold();
  void release();
  /// Within the memory of the GPU.
  void copy(void* to, const void* from, std::size_t size_bytes);
  void drain();
  /// What is asked for between the two goes to a graph, which is thrown away.
  void begin_capture();
  void end_capture();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace partita::test
