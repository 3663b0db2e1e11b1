// A field as a halo knows it.
#pragma once

#include "apps/halo/halo.hpp"
#include "apps/life/cell.hpp"

namespace life {

inline partita::framed_block frame_of(const Field& field) {
  return {field.cells, field.rows, field.columns, field.stride};
}

}  // namespace life
