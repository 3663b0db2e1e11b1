// What the environment tells of the job that a process was started in.
#include "core/launch.hpp"

#include <gtest/gtest.h>

#include <map>

#include "core/which_mpi.hpp"

namespace partita::test {
namespace {

std::optional<AnnouncedJob> announced(const std::map<std::string, std::string>& environment) {
  return announced_job([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

void expect_job(const std::map<std::string, std::string>& environment, const char* variable, int size, int rank) {
  const auto job = announced(environment);
  ASSERT_TRUE(job.has_value()) << variable;
  EXPECT_EQ(job->variable, variable);
  EXPECT_EQ(job->size, size);
  EXPECT_EQ(job->rank, rank);
}

TEST(Launch, each_launcher_announces_its_job) {
  expect_job({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}}, "OMPI_COMM_WORLD_SIZE", 4, 3);
  expect_job({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}, "PMI_SIZE", 2, 1);
  expect_job({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "5"}}, "SLURM_STEP_NUM_TASKS", 8, 5);
  expect_job({{"PMI_SIZE", "2"}}, "PMI_SIZE", 2, 0);
}

TEST(Launch, a_batch_script_announces_nothing) {
  EXPECT_FALSE(announced({}));
  EXPECT_FALSE(announced({{"SLURM_NTASKS", "16"}, {"SLURM_NPROCS", "16"}, {"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(announced({{"SLURM_NTASKS", "16"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}));
}

TEST(Launch, a_job_of_one_within_a_larger_one_is_a_job_of_one) {
  EXPECT_FALSE(announced({{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "8"}}));
  EXPECT_FALSE(announced({{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMI_SIZE", "4"}}));
}

TEST(Launch, a_job_within_an_interactive_step_is_announced) {
  expect_job({{"PMI_SIZE", "4"}, {"PMI_RANK", "2"}, {"SLURM_STEP_NUM_TASKS", "1"}}, "PMI_SIZE", 4, 2);
}

TEST(Launch, what_is_no_number_announces_nothing) {
  EXPECT_FALSE(announced({{"PMI_SIZE", ""}, {"OMPI_COMM_WORLD_SIZE", "many"}}));
}

TEST(WhichMpi, families_are_known_by_what_the_library_says) {
  EXPECT_EQ(family_of("Open MPI v4.1.4, package: Debian OpenMPI"), MpiFamily::open_mpi);
  EXPECT_EQ(family_of("MPICH Version:      5.0.2\nMPICH Release date: …"), MpiFamily::mpich);
  EXPECT_EQ(family_of("Intel(R) MPI Library 2021.9 for Linux* OS"), MpiFamily::mpich);
  EXPECT_EQ(family_of("MVAPICH2 Version : 2.3.7"), MpiFamily::mpich);
  EXPECT_EQ(family_of("an MPI that nobody has seen"), MpiFamily::unknown);
}

TEST(WhichMpi, names_are_short) {
  EXPECT_EQ(short_name("Open MPI v4.1.4, package: Debian OpenMPI"), "Open MPI v4.1.4");
  EXPECT_EQ(short_name("MPICH Version:      5.0.2\nMPICH Release date: …"), "MPICH Version: 5.0.2");
}

}  // namespace
}  // namespace partita::test
