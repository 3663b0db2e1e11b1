#include "capi/arguments.hpp"

#include <string_view>

#include "capi/info.hpp"
#include "core/mpi_check.hpp"

namespace partita::capi {
namespace {

void check_numbers(const RawArguments& raw) {
  if (raw.partitions < 1) {
    throw Error(ErrorClass::arg, "argument partitions is {}; expected is a number from 1", raw.partitions);
  }
  if (raw.count < 0) throw Error(ErrorClass::count, "argument count is {}; expected is 0 or more", raw.count);
}

void check_tag(const Runtime& runtime, int tag) {
  const int bound = runtime.world.tag_upper_bound();
  if (tag < 0 || tag > bound) {
    throw Error(ErrorClass::tag, "argument tag is {}; expected is 0 to {}, and no wildcard", tag, bound);
  }
}

void check_total(const RawArguments& raw) {
  MPI_Count size = 0;
  PARTITA_MPI(Type_size_x(raw.datatype, &size));
  std::int64_t partition_bytes = 0;
  std::int64_t total_bytes = 0;
  if (__builtin_mul_overflow(raw.count, size, &partition_bytes) ||
      __builtin_mul_overflow(partition_bytes, raw.partitions, &total_bytes)) {
    throw Error(ErrorClass::count, "{} partitions of {} elements of {} bytes are more bytes than 2^63 - 1",
                raw.partitions, raw.count, size);
  }
  if (raw.buffer == MPI_BOTTOM && total_bytes > 0) {
    MPI_Count lower_bound = 0;
    MPI_Count extent = 0;
    PARTITA_MPI(Type_get_true_extent_x(raw.datatype, &lower_bound, &extent));
    if (lower_bound == 0 && raw.rank != MPI_PROC_NULL) {
      throw Error(ErrorClass::buffer, "argument buf is null, but the request has {} bytes", total_bytes);
    }
  }
}

/// The world rank of `rank` in `communicator` (of the remote group, in an intercommunicator).
int peer_of(const Runtime& runtime, Communicator& communicator, int rank) {
  const std::vector<int>& peers = communicator.peers(runtime.world);
  if (rank < 0 || static_cast<std::size_t>(rank) >= peers.size()) {
    throw Error(ErrorClass::rank, "argument rank is {}; expected is 0 to {} or MPI_PROC_NULL, and no wildcard", rank,
                peers.size() - 1);
  }
  const int peer = peers[static_cast<std::size_t>(rank)];
  if (peer == MPI_UNDEFINED) {
    throw Error(ErrorClass::rank, "argument rank is {}, a process that Partita was not initialised with", rank);
  }
  return peer;
}

void set_link(const std::string& value, RequestArguments& arguments) {
  arguments.link = checked_link(value);
}

void set_transport_partitions(const std::string& value, RequestArguments& arguments) {
  arguments.transport_partitions = parse_transport_partitions("info key partita_transport_partitions", value);
}

void set_driver(const std::string& value, RequestArguments& arguments) {
  if (value != "host" && value != "device") {
    throw Error(ErrorClass::info_value, "info key partita_driver is \"{}\"; expected is host or device", value);
  }
  arguments.driver = value == "device" ? link::Driver::device : link::Driver::host;
}

void set_gpu_copy(const std::string& value, RequestArguments& arguments) {
  const auto parsed = parse_gpu_copy(value);
  if (!parsed) {
    throw Error(ErrorClass::info_value, "info key partita_gpu_copy is \"{}\"; expected is auto, kernel or engine",
                value);
  }
  arguments.gpu_copy = *parsed;
}

void set_in_place(const std::string& value, RequestArguments& arguments) {
  if (value != "true" && value != "false") {
    throw Error(ErrorClass::info_value, "info key partita_in_place is \"{}\"; expected is true or false", value);
  }
  arguments.in_place = value == "true";
}

constexpr InfoKey<RequestArguments> request_info_keys[] = {
    {"partita_link", set_link},         {"partita_transport_partitions", set_transport_partitions},
    {"partita_driver", set_driver},     {"partita_gpu_copy", set_gpu_copy},
    {"partita_in_place", set_in_place},
};

}  // namespace

/// No MPI says whether a type is committed, but they refuse to send an element of one that is not. Nothing is read from
/// the buffer of a send to MPI_PROC_NULL.
void check_datatype(const Runtime& runtime, const char* name, MPI_Datatype datatype) {
  if (datatype == MPI_DATATYPE_NULL) {
    throw Error(ErrorClass::type, "argument {} is MPI_DATATYPE_NULL; expected is a committed datatype", name);
  }
  static const char unread = 0;
  if (native::Send(&unread, 1, datatype, MPI_PROC_NULL, 0, runtime.world.control()) != MPI_SUCCESS) {
    throw Error(ErrorClass::type, "argument {} is not committed; expected is a datatype after MPI_Type_commit", name);
  }
}

RequestArguments checked(Runtime& runtime, Side side, const RawArguments& raw) {
  RequestArguments arguments;
  arguments.communicator = runtime.communicators.find(raw.comm);
  check_numbers(raw);
  check_datatype(runtime, "datatype", raw.datatype);
  check_total(raw);
  if (raw.rank != MPI_PROC_NULL) arguments.peer = peer_of(runtime, *arguments.communicator, raw.rank);
  check_tag(runtime, raw.tag);
  arguments.link = runtime.settings.link;
  arguments.transport_partitions = runtime.settings.transport_partitions;
  arguments.gpu_copy = runtime.settings.gpu_copy;
  apply_info(raw.info, request_info_keys, arguments);

  arguments.side = side;
  arguments.buffer = static_cast<std::byte*>(raw.buffer);
  arguments.partitions = raw.partitions;
  arguments.count = raw.count;
  arguments.datatype = raw.datatype;
  arguments.rank = raw.rank;
  arguments.tag = raw.tag;
  return arguments;
}

}  // namespace partita::capi
