// first-contact: what the first message of two ranks costs, from making its request to the first partition's arrival,
// and what that costs between ranks that know each other.
#include "bench/benchmarks/all.hpp"
#include "bench/contents.hpp"
#include "bench/lane.hpp"

namespace partita::bench {

namespace {

constexpr int contact_time_tag = 2;

/// Each sample makes requests, sends one epoch through them and frees them; only the buffer is there before.
/// Microseconds from before rank 0's init call to rank 1's first Parrived that tells of a partition.
class Contact final : public LaneMeasurement {
 public:
  Contact(Job& job, Subject& subject, const Case& c)
      : LaneMeasurement(job, subject, c),
        buffer_(subject.allocate(static_cast<std::size_t>(c.size_bytes))),
        message_{buffer_.bytes(), c.partitions, job.peer(), 0},
        offset_(measure_offset(job.comm)) {}

  void prepare(std::uint64_t epoch) override {
    (job_.is_first() ? fill : poison)(message_.bytes, message_.partitions, epoch);
  }
  bool compare(std::uint64_t epoch) const override { return job_.is_first() || received(message_, epoch); }
  LinkUsed link_used() override { return subject_.link_teller() != nullptr ? LaneMeasurement::link_used() : link_; }

  double sample(const Round&) override {
    job_.barrier();
    if (!job_.is_first()) {
      receive();
      return 0;
    }
    const std::int64_t begin_ns = now_ns();
    send();
    std::int64_t arrived_ns = 0;
    check(PMPI_Recv(&arrived_ns, 1, MPI_INT64_T, job_.peer(), contact_time_tag, job_.comm, MPI_STATUS_IGNORE),
          "MPI_Recv");
    return static_cast<double>(arrived_ns + offset_.peer_to_here_ns - begin_ns) / 1000;
  }

 private:
  void send() {
    const auto sending = subject_.sending(message_);
    sending->start();
    sending->mark(0, message_.partitions);
    sending->release();
    sending->wait();
    link_ = sending->link_used();
    job_.barrier();  // before the requests are freed
  }

  void receive() {
    const auto receiving = subject_.receiving(message_);
    receiving->start();
    for (int partition = 0; !receiving->arrived(partition);) partition = (partition + 1) % message_.partitions;
    const std::int64_t arrived_ns = now_ns();
    receiving->wait();
    link_ = receiving->link_used();
    job_.barrier();
    check(PMPI_Send(&arrived_ns, 1, MPI_INT64_T, job_.peer(), contact_time_tag, job_.comm), "MPI_Send");
  }

  Buffer buffer_;
  Message message_;
  ClockOffset offset_;
  LinkUsed link_;
};

/// Ranks meet for the first time once in a job, so that each subject has one sample of that.
std::vector<Contender> make_first_contact_contenders(Job& job, const Subjects& subjects, const Case& c) {
  const Options& options = job.options;
  if (options.min_bytes != options.max_bytes || options.partitions.size() != 1) {
    throw Failure("first-contact has one size and one partition count in a job, as ranks meet but once: -m {0}:{0}",
                  options.max_bytes);
  }
  std::vector<Contender> contenders;
  for (const auto& subject : subjects) {
    contenders.push_back(
        {subject->name(), subjects.front()->name(), std::make_unique<Contact>(job, *subject, c), true});
  }
  for (const auto& subject : subjects) {
    contenders.push_back(
        {subject->name() + "-again", subjects.front()->name() + "-again", std::make_unique<Contact>(job, *subject, c)});
  }
  return contenders;
}

void set_first_contact_defaults(Options& options) {
  options.min_bytes = 64 << 10;
  options.max_bytes = 64 << 10;
  options.iterations = 50;
  options.warmup = 0;  // the first epochs are what is measured
  options.check_every_sample = true;
}

}  // namespace

Benchmark first_contact_benchmark() {
  return {.name = "first-contact",
          .what = "Time from a request's init call to its first arrival, between ranks that meet for the first time",
          .unit = "us",
          .timed_in_batches = false,
          .verified_before = false,
          .lacks = {"--window", "--batch", "--threads", "--delay", "--compute-us", "--noise-percent", "--warmup",
                    "--validation"},
          .set_defaults = set_first_contact_defaults,
          .contenders = make_first_contact_contenders,
          .metric_title = "x_persistent",
          .metric = times_faster};
}

}  // namespace partita::bench
