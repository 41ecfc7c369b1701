// Blocks moved between a tensor and a slot, with everything resolved to numbers.
#pragma once

#include <string>
#include <vector>

#include "tilesim/base/array.hpp"

namespace tilesim::program {

struct ResolvedTransfer {
  struct Dim {
    std::int64_t extent;
    int axis;
    std::int64_t step, stride;
    std::vector<std::int64_t> rows;
  };
  Array tensor;
  Shape strides;
  std::vector<std::int64_t> at;
  std::vector<Dim> dims;
  DType slot_dtype = DType::f32;
  std::int64_t slot_elements = 0, slot_offset = 0;
  bool has_fill = false;
  double fill = 0;
  std::string place;
};

/// Throws UserError for an access outside the tensor (without fill) or the slot.
void load_block(const ResolvedTransfer& transfer, std::byte* slot);
void store_block(const ResolvedTransfer& transfer, const std::byte* slot);

}  // namespace tilesim::program
