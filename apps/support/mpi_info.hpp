// Info keys of the MPI's, as a value.
#pragma once

#include <mpi.h>

#include <initializer_list>
#include <string>
#include <utility>

namespace partita::apps {

/// Info keys for a request; freed with it.
class Info {
 public:
  Info(std::initializer_list<std::pair<const char*, std::string>> keys) {
    MPI_Info_create(&info_);
    for (const auto& [key, value] : keys) MPI_Info_set(info_, key, value.c_str());
  }
  ~Info() { MPI_Info_free(&info_); }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;

  MPI_Info get() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

}  // namespace partita::apps
