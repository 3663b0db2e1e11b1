#include "apps/jacobi2d/picture.hpp"

#include <gtest/gtest.h>
#include <png.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace jacobi2d {
namespace {

std::vector<double> slope(int rows, int columns) {
  std::vector<double> cells;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) cells.push_back(100.0 * column / (columns - 1));
  }
  return cells;
}

/// CIE lightness of a screen colour, 0 to 100.
double lightness_of(Colour colour) {
  const auto linear = [](int part) {
    const double share = part / 255.0;
    return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
  };
  const double y = 0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
  return y > 0.008856 ? 116.0 * std::cbrt(y) - 16.0 : 903.3 * y;
}

TEST(EmberMap, gets_lighter_all_the_way_in_even_steps) {
  const EmberMap map;
  const double step = (lightness_of(map.at(1.0)) - lightness_of(map.at(0.0))) / 20;
  EXPECT_GT(step, 4.0);
  for (int i = 0; i < 20; ++i) {
    const double rise = lightness_of(map.at((i + 1) / 20.0)) - lightness_of(map.at(i / 20.0));
    EXPECT_GT(rise, 0.35 * step) << "from " << i / 20.0;
    EXPECT_LT(rise, 1.5 * step) << "from " << i / 20.0;
  }
}

TEST(EmberMap, takes_values_outside_for_the_nearer_end) {
  const EmberMap map;
  EXPECT_EQ(map.at(-1.0), map.at(0.0));
  EXPECT_EQ(map.at(2.0), map.at(1.0));
  EXPECT_EQ(map.at(std::nan("")), map.at(0.0));
}

TEST(Picture, has_the_shape_of_the_grid_and_its_colours) {
  const Picture picture = draw(slope(10, 40), 10, 40, 0.0, 100.0, 200);
  EXPECT_EQ(picture.width, 200);
  EXPECT_EQ(picture.height, 50);
  ASSERT_EQ(picture.pixels.size(), 200U * 50U);
  const auto row = picture.pixels.begin() + 25 * 200;
  EXPECT_LT(lightness_of(row[3]), lightness_of(row[100]));
  EXPECT_LT(lightness_of(row[100]), lightness_of(row[197]));
}

TEST(Picture, of_a_single_cell_is_drawn) {
  EXPECT_EQ(draw(std::vector{50.0}, 1, 1, 0.0, 100.0, 16).pixels.size(), 256U);
}

TEST(WritePng, writes_what_libpng_reads_back) {
  const Picture picture = draw(slope(30, 20), 30, 20, 0.0, 100.0, 64);
  const std::string path =
      std::filesystem::temp_directory_path() / ("jacobi2d_picture_test_" + std::to_string(::getpid()) + ".png");
  write_png(picture, path);

  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_file(&image, path.c_str()), 0) << image.message;
  image.format = PNG_FORMAT_RGB;
  std::vector<Colour> pixels(picture.pixels.size());
  ASSERT_EQ(static_cast<int>(image.width), picture.width);
  ASSERT_EQ(static_cast<int>(image.height), picture.height);
  ASSERT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0) << image.message;
  std::filesystem::remove(path);
  EXPECT_EQ(pixels, picture.pixels);
}

TEST(WritePng, says_which_file_cannot_be_written) {
  const Picture picture = draw(slope(3, 3), 3, 3, 0.0, 100.0, 4);
  try {
    write_png(picture, "/nonexistent/folder/picture.png");
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/folder/picture.png"), std::string::npos);
  }
}

}  // namespace
}  // namespace jacobi2d
