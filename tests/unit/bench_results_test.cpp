// What is written of a run.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "apps/support/revision.hpp"
#include "bench/bus_bytes.hpp"
#include "bench/failure.hpp"
#include "bench/results.hpp"

namespace partita::bench {
namespace {

Row row(std::int64_t size_bytes, int partitions, const std::string& subject, std::vector<double> samples) {
  Row row;
  row.size_bytes = size_bytes;
  row.partitions = partitions;
  row.subject = subject;
  row.reference = "persistent";
  row.statistics = summarize(samples);
  row.samples = std::move(samples);
  row.metric = 1.25;
  return row;
}

Results results() {
  Results results;
  results.benchmark = "latency";
  results.unit = "us";
  results.metric_title = "x_persistent";
  results.options.benchmark = "latency";
  results.options.peers = {"native", "library:/some/place/peer.so"};
  results.origin.machine = {"A <CPU> & more", 16, 16, "Some MPI 1.0", "4.1", "multiple"};
  results.notes = {"something was left out"};
  results.rows = {row(8, 8, "persistent", {3, 1, 2}), row(8, 8, "partita-c", {1, 1, 1}),
                  row(16, 8, "persistent", {4, 4, 4}), row(16, 16, "persistent", {5, 5, 5})};
  results.rows[1].link = {"direct", "same node", 2};
  return results;
}

TEST(BenchResults, json_holds_raw_samples_in_order_and_the_link_that_was_used) {
  const auto json = to_json(results());
  EXPECT_EQ(json.at("benchmark"), "latency");
  ASSERT_EQ(json.at("rows").size(), 4U);
  EXPECT_EQ(json.at("rows")[0].at("samples"), nlohmann::json::parse("[3.0, 1.0, 2.0]"));
  EXPECT_EQ(json.at("rows")[0].at("median"), 2.0);
  EXPECT_EQ(json.at("rows")[1].at("link"), "direct");
  EXPECT_EQ(json.at("rows")[1].at("transport_partitions"), 2);
  EXPECT_EQ(json.at("machine").at("cores"), 16);
  EXPECT_EQ(json.at("machine").at("thread_level"), "multiple");
}

TEST(BenchResults, json_tells_where_buffers_lay) {
  Results placed = results();
  EXPECT_EQ(to_json(placed).at("options").at("placement"), "H H");
  placed.origin.on_gpu = true;
  EXPECT_EQ(to_json(placed).at("options").at("placement"), "D D");
  placed.mixes_memories = true;
  EXPECT_EQ(to_json(placed).at("options").at("placement"), "mixed");
}

TEST(BenchResults, early_samples_are_told_where_the_benchmark_counts_them) {
  Results counted = results();
  for (Row& row : counted.rows) row.early = 2;
  EXPECT_EQ(to_json(counted).at("rows")[0].at("early"), 2);
  EXPECT_NE(to_table(counted).find("2 of 3"), std::string::npos) << to_table(counted);
  EXPECT_FALSE(to_json(results()).at("rows")[0].contains("early"));
  EXPECT_EQ(to_table(results()).find("Early"), std::string::npos);
}

TEST(BenchResults, bus_bandwidth_stands_beside_rows_that_have_one) {
  Results counted = results();
  counted.rows[1].bus_gb_per_s = 12.5;
  EXPECT_EQ(to_json(counted).at("rows")[1].at("bus_gb_per_s"), 12.5);
  EXPECT_FALSE(to_json(counted).at("rows")[0].contains("bus_gb_per_s"));
  const std::string table = to_table(counted);
  EXPECT_NE(table.find("Bus GB/s"), std::string::npos) << table;
  EXPECT_NE(table.find(" 12.5\n"), std::string::npos) << table;
  EXPECT_NE(table.find(" -\n"), std::string::npos) << table;
  EXPECT_NE(to_csv(counted).find(",x_persistent,1.25,12.5\n"), std::string::npos) << to_csv(counted);
  EXPECT_EQ(to_table(results()).find("Bus"), std::string::npos);
}

/// As NCCL's tests: by the ranks' number of an allreduce up to twice its block, of all blocks all but one's share.
TEST(BenchResults, bus_bytes_are_those_of_nccl_tests) {
  EXPECT_EQ(bus_bytes_of_allreduce(1024, 4), 1536);
  EXPECT_EQ(bus_bytes_of_allreduce(1024, 2), 1024);
  EXPECT_EQ(bus_bytes_of_blocks(1024, 4), 3072);
  EXPECT_EQ(bus_bytes_of_bcast(1024, 4), 1024);
  EXPECT_EQ(bus_bytes_of_allreduce(1024, 1), 0);
  EXPECT_EQ(bus_bytes_of_blocks(1024, 1), 0);
  EXPECT_EQ(bus_bytes_of_bcast(1024, 1), 0);
}

TEST(BenchResults, json_tells_where_the_ranks_ran_and_how_fast_their_processors) {
  Results placed = results();
  placed.origin.binding = {{0, 0, "0-3", "0000:17:00.0"}, {1, 1, "4", ""}};
  placed.origin.clock_rates.cpu_most_mhz = 3100;
  placed.origin.clock_rates.gpu_sm_mhz = 1980;
  placed.origin.versions = {{"kernel", "6.1.0"}, {"nccl", "2.22.3"}};
  placed.origin.date = "2026-01-31T23:59:00Z";
  placed.origin.command = "partita bench latency -m 8:8";
  const auto json = to_json(placed);
  EXPECT_EQ(json.at("schema"), apps::schema_version);
  EXPECT_EQ(
      json.at("binding"),
      nlohmann::ordered_json::parse(
          R"([{"rank": 0, "node": 0, "cores": "0-3", "gpu": "0000:17:00.0"}, {"rank": 1, "node": 1, "cores": "4"}])"));
  EXPECT_EQ(json.at("clocks"), nlohmann::json::parse(R"({"cpu_most_mhz": 3100.0, "gpu_sm_mhz": 1980})"));
  EXPECT_EQ(json.at("versions"), nlohmann::json::parse(R"({"kernel": "6.1.0", "nccl": "2.22.3"})"));
  EXPECT_EQ(json.at("date"), placed.origin.date);
  EXPECT_EQ(json.at("command"), placed.origin.command);
  EXPECT_NE(to_table(placed).find("# rank 0: node 0, cores 0-3, GPU 0000:17:00.0\n# rank 1: node 1, cores 4\n"),
            std::string::npos);
}

TEST(BenchResults, json_tells_of_which_sources_the_program_is) {
  const auto json = to_json(results());
  EXPECT_TRUE(json.contains("partita"));
  EXPECT_EQ(json.at("revision"), apps::revision());
  EXPECT_FALSE(apps::revision().empty());
}

TEST(BenchResults, json_names_a_peer_library_without_where_it_lies) {
  EXPECT_EQ(to_json(results()).at("options").at("peers")[1], "library:peer.so");
  EXPECT_EQ(to_json(results()).dump().find("/some/place"), std::string::npos);
  Results keyed = results();
  keyed.options.peers = {"isend", "library:/some/place/peer.so?WHERE=/x:y"};
  EXPECT_EQ(to_json(keyed).at("options").at("peers"),
            nlohmann::json::parse(R"(["isend", "library:peer.so?WHERE=/x:y"])"));
}

TEST(BenchResults, the_csv_has_as_many_fields_in_each_line_as_in_its_heading) {
  const std::string csv = to_csv(results());
  std::vector<std::ptrdiff_t> commas{0};
  for (const char letter : csv) {
    if (letter == ',') ++commas.back();
    if (letter == '\n') commas.push_back(0);
  }
  commas.pop_back();
  ASSERT_EQ(commas.size(), 5U);
  for (const std::ptrdiff_t count : commas) EXPECT_EQ(count, commas.front());
}

TEST(BenchResults, the_table_marks_rows_whose_spread_is_too_large_and_says_what_the_mark_means) {
  Results steady = results();
  steady.rows = {row(8, 8, "persistent", {10, 10, 11, 11})};
  EXPECT_EQ(to_table(steady).find('~'), std::string::npos);
  steady.rows.push_back(row(8, 8, "wild", {1, 5, 10, 50}));
  const std::string table = to_table(steady);
  const std::size_t wild = table.find("wild");
  EXPECT_LT(wild, table.find('~')) << table;
  EXPECT_NE(table.find("# ~: a spread of more than 30 % of the median"), std::string::npos) << table;
}

TEST(BenchResults, the_table_shows_notes_and_every_row) {
  const std::string table = to_table(results());
  EXPECT_NE(table.find("# something was left out"), std::string::npos);
  EXPECT_NE(table.find("x_persistent"), std::string::npos);
  EXPECT_NE(table.find("partita-c"), std::string::npos);
  EXPECT_NE(table.find("direct"), std::string::npos);
}

TEST(BenchResults, a_file_that_cannot_be_written_is_a_failure) {
  EXPECT_THROW(write_file("/no/such/folder/file.json", "{}"), Failure);
}

}  // namespace
}  // namespace partita::bench
