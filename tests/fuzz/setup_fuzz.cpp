// Every reader of bytes from another process, driven by libFuzzer: the first byte of an input chooses the reader, the
// rest is what the reader gets. A reader throws Error, or reads something that can be written again. Anything else
// ends the run: another exception, memory taken for what is not there, a sanitizer's finding.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "core/error.hpp"
#include "fuzz/fuzzed_readers.hpp"

namespace partita::test {
namespace {

[[noreturn]] void fail(const SetupReader& reader, const char* what) {
  std::fprintf(stderr, "reader %s: %s\n", reader.name.c_str(), what);
  std::abort();
}

void drive(const SetupReader& reader, std::span<const std::byte> bytes) {
  wire::Bytes once;
  try {
    once = reader.again(bytes);
  } catch (const Error& error) {
    if (error.error_class() != ErrorClass::internal) fail(reader, "the error is not of class internal");
    if (error.sentence().find("setup message") == std::string::npos) fail(reader, "the error names no setup message");
    return;
  }
  try {
    if (reader.again(once) != once) fail(reader, "what was read is another message when it is written again");
  } catch (const Error&) {
    fail(reader, "what was read is refused when it is written again");
  }
}

}  // namespace
}  // namespace partita::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto& readers = *new std::vector(partita::test::fuzzed_readers());  // never destroyed
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  partita::test::drive(readers[data[0] % readers.size()], bytes.subspan(1));
  return 0;
}
