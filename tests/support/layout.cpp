#include "support/layout.hpp"

#include <algorithm>
#include <unordered_set>

namespace partita::test {
namespace {

/// Collects where copies of an inner type go, as the standard's type-map rules say (MPI 3.1, section 4.1).
struct Placement {
  const TypedLayout& inner;
  const std::vector<std::int64_t>& inner_displacements;
  std::int64_t inner_lower_bound;
  std::vector<std::int64_t> displacements{};
  std::int64_t lower = INT64_MAX;
  std::int64_t upper = INT64_MIN;
  std::int64_t copies = 0;

  /// `count` copies of the inner type in a row, the first at `offset` bytes.
  void block(std::int64_t offset, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = offset + i * inner.extent_bytes();
      for (const auto d : inner_displacements) displacements.push_back(at + d);
      lower = std::min(lower, at + inner_lower_bound);
      upper = std::max(upper, at + inner_lower_bound + inner.extent_bytes());
    }
    copies += count;
  }
};

}  // namespace

TypedLayout::Handle::~Handle() {
  if (owned && type != MPI_DATATYPE_NULL) PMPI_Type_free(&type);
}

TypedLayout TypedLayout::basic(MPI_Datatype type, int size_bytes, std::string name) {
  TypedLayout layout;
  layout.handle_ = std::make_shared<Handle>();
  layout.handle_->type = type;
  std::vector<std::int64_t> displacements(static_cast<std::size_t>(size_bytes));
  std::iota(displacements.begin(), displacements.end(), 0);
  layout.set_displacements(std::move(displacements));
  layout.extent_ = size_bytes;
  layout.text_ = std::move(name);
  return layout;
}

TypedLayout TypedLayout::derived(MPI_Datatype made, std::vector<std::int64_t> displacements, std::int64_t lower_bound,
                                 std::int64_t extent, std::int64_t basics, std::string text) {
  // An MPI may round an extent up for alignment (MPI 3.1, 4.1); the resize makes it what the oracle says.
  MPI_Aint made_lower = 0, made_extent = 0;
  MPI_Type_get_extent(made, &made_lower, &made_extent);
  if (made_lower != lower_bound || made_extent != extent) {
    MPI_Datatype exact = MPI_DATATYPE_NULL;
    MPI_Type_create_resized(made, lower_bound, extent, &exact);
    MPI_Type_free(&made);
    made = exact;
  }
  MPI_Type_commit(&made);
  TypedLayout layout;
  layout.handle_ = std::make_shared<Handle>();
  layout.handle_->type = made;
  layout.handle_->owned = true;
  layout.set_displacements(std::move(displacements));
  layout.lower_bound_ = lower_bound;
  layout.extent_ = extent;
  layout.basics_ = basics;
  layout.text_ = std::move(text);
  return layout;
}

void TypedLayout::set_displacements(std::vector<std::int64_t> displacements) {
  displacements_ = std::move(displacements);
  runs_.assign(displacements_.size(), 1);
  for (std::size_t i = runs_.size(); i-- > 1;) {
    if (displacements_[i] == displacements_[i - 1] + 1) runs_[i - 1] = runs_[i] + 1;
  }
}

TypedLayout TypedLayout::wrap_once(Random& random, const TypedLayout& inner) {
  Placement place{inner, inner.displacements_, inner.lower_bound_};
  MPI_Datatype made = MPI_DATATYPE_NULL;
  std::string text;
  const std::int64_t extent = inner.extent_;
  bool back_a_byte = inner.steps_back_a_byte_;
  const auto finish = [&] {
    TypedLayout layout = derived(made, std::move(place.displacements), place.lower, place.upper - place.lower,
                                 place.copies * inner.basics_, text + " of " + inner.text_);
    layout.steps_back_a_byte_ = back_a_byte;
    return layout;
  };

  switch (random.integer(0, 8)) {
    case 0: {
      const int n = random.integer(1, 4);
      MPI_Type_contiguous(n, inner.type(), &made);
      place.block(0, n);
      text = "contiguous(" + std::to_string(n) + ")";
      return finish();
    }
    case 1: {
      const int n = random.integer(1, 4), block = random.integer(1, 3), stride = block + random.integer(0, 3);
      const int step = random.one_in(3) ? -stride : stride;
      MPI_Type_vector(n, block, step, inner.type(), &made);
      for (int i = 0; i < n; ++i) place.block(i * step * extent, block);
      back_a_byte |= step * extent == -1;
      text = "vector(" + std::to_string(n) + "," + std::to_string(block) + "," + std::to_string(step) + ")";
      return finish();
    }
    case 2: {
      const int n = random.integer(1, 4), block = random.integer(1, 3);
      const MPI_Aint step = (random.one_in(3) ? -1 : 1) * (block * extent + random.integer(0, 9));
      MPI_Type_create_hvector(n, block, step, inner.type(), &made);
      for (int i = 0; i < n; ++i) place.block(i * step, block);
      back_a_byte |= step == -1;
      text = "hvector(" + std::to_string(n) + "," + std::to_string(block) + "," + std::to_string(step) + "B)";
      return finish();
    }
    case 3: {
      std::vector<int> lengths, offsets;
      int at = random.integer(-3, 3);
      for (int i = random.integer(1, 4); i > 0; --i) {
        lengths.push_back(random.integer(1, 3));
        offsets.push_back(at);
        at += lengths.back() + random.integer(0, 3);
      }
      if (random.one_in(2)) {  // type-map order is not address order
        std::reverse(lengths.begin(), lengths.end());
        std::reverse(offsets.begin(), offsets.end());
      }
      MPI_Type_indexed(static_cast<int>(lengths.size()), lengths.data(), offsets.data(), inner.type(), &made);
      for (std::size_t i = 0; i < lengths.size(); ++i) place.block(offsets[i] * extent, lengths[i]);
      text = "indexed(" + std::to_string(lengths.size()) + " from " + std::to_string(offsets[0]) + ")";
      return finish();
    }
    case 4: {
      std::vector<int> offsets;
      const int block = random.integer(1, 3);
      int at = random.integer(-4, 2);
      for (int i = random.integer(1, 4); i > 0; --i, at += block + random.integer(0, 2)) offsets.push_back(at);
      MPI_Type_create_indexed_block(static_cast<int>(offsets.size()), block, offsets.data(), inner.type(), &made);
      for (const int offset : offsets) place.block(offset * extent, block);
      text = "indexed_block(" + std::to_string(offsets.size()) + "x" + std::to_string(block) + ")";
      return finish();
    }
    case 5: {
      std::vector<int> lengths;
      std::vector<MPI_Aint> offsets;
      std::vector<MPI_Datatype> types;
      MPI_Aint at = random.integer(-20, 20);
      for (int i = random.integer(1, 3); i > 0; --i) {
        lengths.push_back(random.integer(0, 2));
        offsets.push_back(at);
        types.push_back(inner.type());
        at += lengths.back() * extent + random.integer(0, 11);
      }
      lengths.back() = 1;
      MPI_Type_create_struct(static_cast<int>(types.size()), lengths.data(), offsets.data(), types.data(), &made);
      for (std::size_t i = 0; i < lengths.size(); ++i) place.block(offsets[i], lengths[i]);
      text = "struct(" + std::to_string(types.size()) + " from " + std::to_string(offsets[0]) + "B)";
      return finish();
    }
    case 6: {
      const MPI_Aint lower = inner.lower_bound_ + random.integer(-8, 8);
      const MPI_Aint wider = std::max<std::int64_t>(1, extent) + random.integer(0, 13);
      MPI_Type_create_resized(inner.type(), lower, wider, &made);
      place.block(0, 1);
      place.lower = lower;
      place.upper = lower + wider;
      text = "resized(" + std::to_string(lower) + "," + std::to_string(wider) + ")";
      return finish();
    }
    case 7: {
      const int sizes[2] = {random.integer(1, 4), random.integer(1, 4)};
      const int parts[2] = {random.integer(1, sizes[0]), random.integer(1, sizes[1])};
      const int starts[2] = {random.integer(0, sizes[0] - parts[0]), random.integer(0, sizes[1] - parts[1])};
      const bool by_columns = random.one_in(2);
      MPI_Type_create_subarray(2, sizes, parts, starts, by_columns ? MPI_ORDER_FORTRAN : MPI_ORDER_C, inner.type(),
                               &made);
      const int slow = by_columns ? 1 : 0, fast = by_columns ? 0 : 1;
      for (int i = 0; i < parts[slow]; ++i) {
        const std::int64_t line = static_cast<std::int64_t>(starts[slow] + i) * sizes[fast] + starts[fast];
        place.block(line * extent, parts[fast]);
      }
      place.lower = 0;
      place.upper = static_cast<std::int64_t>(sizes[0]) * sizes[1] * extent;
      text = "subarray(" + std::to_string(parts[0]) + "x" + std::to_string(parts[1]) + ")";
      return finish();
    }
    default: {
      MPI_Type_dup(inner.type(), &made);
      place.block(0, 1);
      text = "dup";
      return finish();
    }
  }
}

TypedLayout TypedLayout::random(Random& random, const TypedLayout& element, int depth, bool overlaps) {
  constexpr std::int64_t largest_bytes = 2000;
  TypedLayout layout = element;
  for (int level = random.integer(0, depth); level > 0; --level) {
    const TypedLayout wider = wrap_once(random, layout);
    const bool usable = wider.extent_ > 0 && wider.size_bytes() <= largest_bytes;
    if (usable && (overlaps || !wider.overlaps_itself(3))) layout = wider;
  }
  return layout;
}

std::pair<std::int64_t, std::int64_t> TypedLayout::span_of(std::int64_t count) const {
  if (count == 0 || displacements_.empty()) return {0, 0};
  const auto [least, most] = std::minmax_element(displacements_.begin(), displacements_.end());
  const std::int64_t last = (count - 1) * extent_;
  return {std::min(*least, *least + last), std::max(*most, *most + last) + 1};
}

bool TypedLayout::overlaps_itself(std::int64_t count) const {
  std::unordered_set<std::int64_t> seen;
  for (std::int64_t position = 0; position < count * size_bytes(); ++position) {
    if (!seen.insert(offset_of(position)).second) return true;
  }
  return false;
}

}  // namespace partita::test
