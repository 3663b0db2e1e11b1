// Writes one good message for each reader into the folder that is named: what the fuzzer starts from.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fuzz/fuzzed_readers.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return EXIT_FAILURE;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  const auto readers = partita::test::fuzzed_readers();
  for (std::size_t i = 0; i < readers.size(); ++i) {
    std::ofstream seed(folder / readers[i].name, std::ios::binary);
    seed.put(static_cast<char>(i));
    seed.write(reinterpret_cast<const char*>(readers[i].good.data()),
               static_cast<std::streamsize>(readers[i].good.size()));
    seed.flush();
    if (!seed) {
      std::fprintf(stderr, "the seed of reader %s could not be written into %s\n", readers[i].name.c_str(), argv[1]);
      return EXIT_FAILURE;
    }
  }
}
