// Versions of libraries of which a process may hold several, as of NCCL, since NVSHMEM brings one: whoever loads one
// knows which it uses, and tells.
#pragma once

#include <map>
#include <string>

namespace partita::apps {

/// One thread at a time.
void tell_version(const std::string& name, const std::string& version);

/// Version by name.
const std::map<std::string, std::string>& told_versions();

/// 22203 is "2.22.3", as NCCL counts since 2.9.
std::string nccl_version(int number);

}  // namespace partita::apps
