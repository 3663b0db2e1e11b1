// C = A + B on doubles where C is then summed over all ranks: what all ways to do so share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/allreduce.hpp"
#include "bench/gpu/measurement.hpp"

namespace partita::bench::gpu {

/// What all contenders of a case add up and receive, in GPU memory.
class SummedArrays {
 public:
  explicit SummedArrays(std::int64_t size_bytes);

  Sum sum() const { return {doubles(a_), doubles(b_), doubles(c_), count_}; }
  double* received() const { return doubles(received_); }
  std::int64_t count() const { return count_; }
  std::size_t size_bytes() const { return a_.size(); }

  /// Puts the addends of `epoch` there and spoils the sums.
  void prepare(int rank, std::uint64_t epoch);
  /// The first element that is not the sum over the ranks; count() where there is none.
  std::int64_t first_wrong(int ranks, std::uint64_t epoch);

 private:
  static double* doubles(const DeviceBuffer& buffer) { return reinterpret_cast<double*>(buffer.data()); }
  template <class Value>
  void upload(const DeviceBuffer& buffer, Value value);

  std::int64_t count_;
  DeviceBuffer a_, b_, c_, received_;
  std::vector<double> host_;
};

/// One epoch a sample: the computation and the sum, from the barrier before it to this rank's end.
class SummedAddition : public GpuMeasurement {
 public:
  SummedAddition(Job& job, std::string name, const Case& c, std::shared_ptr<SummedArrays> arrays)
      : GpuMeasurement(job, std::move(name), c), arrays_(std::move(arrays)) {}

  void prepare(std::uint64_t epoch) final { arrays_->prepare(job_.rank, epoch); }
  bool compare(std::uint64_t epoch) const final;
  double sample(const Round& round) final;

 protected:
  /// What lies before the epoch's computation, untimed.
  virtual void open() {}
  /// Until this rank may read the sums.
  virtual void compute_and_sum() = 0;

  const SummedArrays& arrays() const { return *arrays_; }
  int count() const { return static_cast<int>(arrays_->count()); }

 private:
  std::shared_ptr<SummedArrays> arrays_;
};

/// A partitioned collective of C, or of what comes of it, and its device request.
class SummingRequest {
 public:
  /// `init` is the init call but for its last two arguments, and `call` its name. `driver`: host or device. Collective.
  template <class Init>
  SummingRequest(const char* call, const char* driver, const Init& init) {
    RequestShape shape;
    shape.driver = driver;
    const OwnedInfo info = info_of(shape);
    check(init(info.get(), &request_), call);
    create_device_request();
  }
  ~SummingRequest() {
    Partita_Prequest_free(&prequest_);
    Partita_Request_free(&request_);
  }
  SummingRequest(const SummingRequest&) = delete;
  SummingRequest& operator=(const SummingRequest&) = delete;

  const MPIX_Prequest& for_kernels() const { return prequest_; }
  LinkUsed link_used() const;
  void start() {
    check(Partita_Start(&request_), "Partita_Start");
    check(Partita_Pbuf_prepare(request_), "Partita_Pbuf_prepare");
  }
  void wait() { check(Partita_Wait(&request_, MPI_STATUS_IGNORE), "Partita_Wait"); }

 private:
  void create_device_request();

  Partita_Request request_ = PARTITA_REQUEST_NULL;
  MPIX_Prequest prequest_{};
};

/// As many blocks as this rank's GPU runs at once of kernels that do collectives: ranks that share a GPU have them
/// together. Collective.
int most_blocks_of_a_rank(const Job& job);

}  // namespace partita::bench::gpu
