// What a vector compute costs per element, counted from its nodes and outputs.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::program {

struct VectorWork {
  std::array<std::int32_t, 4> functions{};  ///< simple, multiply, divide, transcendental
  std::int64_t lane_reductions = 0, lane_scans = 0;
};

VectorWork work_of(const std::vector<VectorNodeSpec>& nodes, int lane);
VectorWork work_of(const VectorOp& op);

}  // namespace tilesim::program
