// What records say of where their figures come from.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/support/binding.hpp"
#include "apps/support/origin.hpp"
#include "apps/support/shown_command.hpp"
#include "apps/support/told_versions.hpp"
#include "apps/support/versions.hpp"

namespace partita::apps {
namespace {

TEST(Origin, sets_of_cores_are_written_as_runs) {
  EXPECT_EQ(core_list({}), "");
  EXPECT_EQ(core_list({5}), "5");
  EXPECT_EQ(core_list({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_FALSE(allowed_cores().empty());
}

TEST(Origin, a_command_is_shown_without_folders_and_quoted_for_a_shell) {
  const std::vector<std::string> words{
      "-m", "8:4K", "--peer", "library:/some/place/peer.so?WHERE=/a/b", "--json=/out/x.json", "out/y.json", "it's"};
  EXPECT_EQ(shown_command(words), "-m 8:4K --peer 'library:peer.so?WHERE=b' --json=x.json y.json 'it'\\''s'");
}

TEST(Origin, versions_are_read_as_their_libraries_count_them) {
  EXPECT_EQ(cuda_version(13000), "13.0");
  EXPECT_EQ(cuda_version(12040), "12.4");
  EXPECT_EQ(nccl_version(22203), "2.22.3");
  EXPECT_EQ(find_versions().count("kernel"), 1U);
  EXPECT_EQ(find_versions().count("nccl"), 0U);
  tell_version("nccl", "2.22.3");
  EXPECT_EQ(find_versions().at("nccl"), "2.22.3");
}

TEST(Origin, the_command_is_the_one_that_has_started_the_process) {
  const std::string command = own_command();
  EXPECT_NE(command.find("_test"), std::string::npos) << command;
  EXPECT_EQ(command.find('/'), std::string::npos) << command;
}

TEST(Origin, what_the_system_does_not_tell_is_left_out) {
  Origin origin;
  EXPECT_EQ(origin_json(origin).at("clocks"), nlohmann::json::object());
  origin.clock_rates.cpu_governor = "performance";
  origin.clock_rates.gpu_sm_most_mhz = 1980;
  EXPECT_EQ(origin_json(origin).at("clocks"),
            nlohmann::json::parse(R"({"cpu_governor": "performance", "gpu_sm_most_mhz": 1980})"));
}

}  // namespace
}  // namespace partita::apps
