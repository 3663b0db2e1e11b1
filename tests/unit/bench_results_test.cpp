// What is written of a run, and what is drawn from it.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/support/revision.hpp"
#include "bench/failure.hpp"
#include "bench/report.hpp"
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
  results.machine = {"A <CPU> & more", 16, 16, "Some MPI 1.0", "4.1", "multiple"};
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

TEST(BenchResults, early_samples_are_told_where_the_benchmark_counts_them) {
  Results counted = results();
  for (Row& row : counted.rows) row.early = 2;
  EXPECT_EQ(to_json(counted).at("rows")[0].at("early"), 2);
  EXPECT_NE(to_table(counted).find("2 of 3"), std::string::npos) << to_table(counted);
  EXPECT_FALSE(to_json(results()).at("rows")[0].contains("early"));
  EXPECT_EQ(to_table(results()).find("Early"), std::string::npos);
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

TEST(BenchReport, there_is_one_chart_for_each_partition_count_and_one_line_for_each_subject) {
  const auto charts = charts_of(to_json(results()), "latency");
  ASSERT_EQ(charts.size(), 2U);
  EXPECT_EQ(charts[0].name, "latency-8-partitions");
  ASSERT_EQ(charts[0].chart.series.size(), 2U);
  EXPECT_EQ(charts[0].chart.series[0].points.size(), 2U);
  EXPECT_EQ(charts[1].chart.series.size(), 1U);
}

TEST(BenchReport, where_the_size_fixes_the_partitions_there_is_one_chart_over_size) {
  Results fixed = results();
  fixed.benchmark = "partitioned.fig4";
  fixed.rows = {row(8192, 1, "traditional", {1}), row(8192, 1, "kernel", {2}), row(16384, 2, "traditional", {2}),
                row(16384, 2, "kernel", {3})};
  const auto charts = charts_of(to_json(fixed), "fig4");
  ASSERT_EQ(charts.size(), 1U);
  EXPECT_EQ(charts[0].name, "fig4");
  EXPECT_EQ(charts[0].chart.title, "partitioned.fig4, 1 to 2 partitions by size");
  ASSERT_EQ(charts[0].chart.series.size(), 2U);
  EXPECT_EQ(charts[0].chart.series[1].points.size(), 2U);
}

TEST(BenchReport, one_size_in_several_partition_counts_has_a_chart_for_each) {
  Results one_size = results();
  one_size.rows = {row(16, 1, "persistent", {1}), row(16, 8, "persistent", {1})};
  EXPECT_EQ(charts_of(to_json(one_size), "latency").size(), 2U);
}

TEST(BenchReport, a_measured_figure_whose_grids_grow_is_one_chart) {
  std::ifstream in(PARTITA_SOURCE_DIR "/docs/measurements/h200-2-gpus/fig4.json");
  const auto charts = charts_of(nlohmann::ordered_json::parse(in), "fig4");
  ASSERT_EQ(charts.size(), 1U);
  for (const Series& series : charts[0].chart.series) EXPECT_GT(series.points.size(), 1U) << series.name;
}

TEST(BenchReport, something_else_than_results_is_refused) {
  EXPECT_THROW(charts_of(nlohmann::ordered_json::parse("{}"), "x"), nlohmann::json::exception);
  EXPECT_THROW(charts_of(nlohmann::ordered_json::parse(R"({"rows": [{}]})"), "x"), nlohmann::json::exception);
}

TEST(BenchReport, text_is_escaped_and_every_point_drawn) {
  const auto charts = charts_of(to_json(results()), "latency");
  const std::string svg = to_svg(charts[0].chart);
  EXPECT_NE(svg.find("A &lt;CPU&gt; &amp; more"), std::string::npos);
  std::size_t circles = 0;
  for (std::size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) ++circles;
  EXPECT_EQ(circles, 3U);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(BenchReport, points_that_a_logarithmic_axis_cannot_show_are_left_out) {
  Chart chart{"zeros", "", "us", true, {{"a", {{8, 0}, {16, 0}}}}};
  const std::string svg = to_svg(chart);
  EXPECT_EQ(svg.find("<circle"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(BenchReport, sizes_are_named_in_powers_of_1024_where_they_are_whole) {
  EXPECT_EQ(short_bytes(8), "8");
  EXPECT_EQ(short_bytes(65536), "64K");
  EXPECT_EQ(short_bytes(4 << 20), "4M");
  EXPECT_EQ(short_bytes(1536), "1536");
}

}  // namespace
}  // namespace partita::bench
