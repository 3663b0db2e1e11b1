// Layouts that stay with the datatypes they are of.
#include "two_sided/known_layouts.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <memory>

namespace partita {
namespace {

MPI_Datatype made_vector(int blocks) {
  MPI_Datatype vector = MPI_DATATYPE_NULL;
  MPI_Type_vector(blocks, 2, 3, MPI_INT, &vector);
  MPI_Type_commit(&vector);
  return vector;
}

TEST(KnownLayouts, are_made_once) {
  KnownLayouts known;
  MPI_Datatype vector = made_vector(5);
  const auto layout = known.of(vector);
  EXPECT_EQ(layout->runs(), Layout::of(vector).runs());
  EXPECT_EQ(known.of(vector), layout);
  MPI_Type_free(&vector);
}

TEST(KnownLayouts, go_with_their_datatypes) {
  KnownLayouts known;
  for (int blocks = 2; blocks < 5; ++blocks) {
    MPI_Datatype vector = made_vector(blocks);
    const std::weak_ptr<const Layout> layout = known.of(vector);
    EXPECT_EQ(layout.lock()->size_bytes(), blocks * 8);
    MPI_Type_free(&vector);
    EXPECT_TRUE(layout.expired());
  }
}

TEST(KnownLayouts, of_a_duplicate_are_its_own) {
  KnownLayouts known;
  MPI_Datatype vector = made_vector(5);
  MPI_Datatype duplicate = MPI_DATATYPE_NULL;
  const auto layout = known.of(vector);
  MPI_Type_dup(vector, &duplicate);
  MPI_Type_free(&vector);
  EXPECT_NE(known.of(duplicate), layout);
  EXPECT_EQ(known.of(duplicate)->runs(), layout->runs());
  MPI_Type_free(&duplicate);
}

TEST(KnownLayouts, of_mpis_own_datatypes_are_not_kept) {
  KnownLayouts known;
  const std::weak_ptr<const Layout> layout = known.of(MPI_INT);
  EXPECT_TRUE(layout.expired());
  EXPECT_TRUE(known.of(MPI_INT)->contiguous());
}

/// A program frees its datatypes when it likes.
TEST(KnownLayouts, outlive_who_knows_them) {
  auto known = std::make_unique<KnownLayouts>();
  MPI_Datatype vector = made_vector(5);
  const std::weak_ptr<const Layout> layout = known->of(vector);
  known = nullptr;
  EXPECT_FALSE(layout.expired());
  MPI_Type_free(&vector);
  EXPECT_TRUE(layout.expired());
}

}  // namespace
}  // namespace partita
