#include "tilesim/mapping/vector/movement.hpp"

#include <algorithm>

#include "tilesim/base/shape.hpp"

namespace tilesim::mapping {

std::vector<MovePlan::Loop> tile_loops(const Shape& space, const Shape& tiles) {
  std::vector<MovePlan::Loop> loops;
  for (std::size_t axis = 0; axis < space.size(); ++axis)
    if (tiles[axis] < space[axis]) loops.push_back({axis, ceil_div(space[axis], tiles[axis])});
  return loops;
}

MovePlan plan_move(const VectorProblem& problem, const VectorTiles& tiles) {
  MovePlan plan;
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
    plan.tiles.push_back(std::min(tiles.tiles[axis], std::max<std::int64_t>(1, problem.space[axis])));
  plan.loops = tile_loops(problem.space, plan.tiles);
  const VectorOperand &from = problem.operands[0], &to = problem.operands[1];
  const std::int64_t elements = std::max<std::int64_t>(1, element_count(plan.tiles));
  plan.buffers.push_back({"x", from.dtype, elements, tiles.depth});
  if (from.dtype != to.dtype) plan.buffers.push_back({"y", to.dtype, elements, tiles.depth});
  VectorTiles whole = tiles;
  whole.tiles = plan.tiles;
  plan.permuted = changes_lanes(problem, from, whole);
  return plan;
}

}  // namespace tilesim::mapping
