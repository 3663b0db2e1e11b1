// When a waiting thread gives its core away.
#include "core/backoff.hpp"

#include <gtest/gtest.h>

namespace partita {
namespace {

/// How many looks a wait takes until it gives the core away.
int looks_to_yield(Backoff& backoff, int pauses) {
  int looks = 1;
  while (!backoff.pause(pauses)) ++looks;
  return looks;
}

TEST(Backoff, gives_the_core_away_sooner_where_ranks_share_it) {
  Backoff alone(0);
  Backoff sharing(-1);
  EXPECT_EQ(looks_to_yield(alone, 1), 4096);
  EXPECT_EQ(looks_to_yield(sharing, 1), 16);
}

/// Looks that take long are fewer in the same time.
TEST(Backoff, counts_a_look_that_takes_steps_of_the_engine_as_many) {
  Backoff alone(0);
  Backoff sharing(-1);
  EXPECT_EQ(looks_to_yield(alone, Backoff::pauses_of_steps), 64);
  EXPECT_EQ(looks_to_yield(sharing, Backoff::pauses_of_steps), 1);
}

TEST(Backoff, gives_it_away_at_each_look_from_then_on) {
  for (const int pauses : {1, Backoff::pauses_of_steps}) {
    Backoff backoff(0);
    looks_to_yield(backoff, pauses);
    for (int look = 0; look < 20; ++look) EXPECT_TRUE(backoff.pause(pauses));
    EXPECT_TRUE(backoff.pause());
  }
}

}  // namespace
}  // namespace partita
