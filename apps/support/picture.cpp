#include "apps/support/picture.hpp"

#include <fmt/format.h>
#include <png.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace partita::apps {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw std::runtime_error(fmt::format("The picture {} cannot be written: {}.", path, why));
}

}  // namespace

void write_png(const Picture& picture, const std::string& path) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "wb"));
  if (!file) fail(path, std::strerror(errno));

  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = PNG_FORMAT_RGB;
  static_assert(sizeof(Colour) == 3, "libpng takes packed RGB bytes");
  if (png_image_write_to_stdio(&image, file.get(), 0, picture.pixels.data(), 0, nullptr) == 0) {
    fail(path, image.message);
  }
  if (std::fflush(file.get()) != 0) fail(path, std::strerror(errno));
}

}  // namespace partita::apps
