#include "tilesim/mapping/vector/plan.hpp"

#include <algorithm>

#include "tilesim/base/shape.hpp"

namespace tilesim::mapping {

std::vector<VectorStage> stages_of(const VectorProblem& problem) {
  if (!problem.stages.empty()) return problem.stages;
  VectorStage all;
  all.functions = problem.functions;
  all.scans = problem.scanned >= 0 ? 1 : 0;
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    if (problem.operands[i].use == VectorOperand::Use::load) all.loads.push_back(static_cast<int>(i));
    if (problem.operands[i].use == VectorOperand::Use::store) all.stores.push_back(static_cast<int>(i));
  }
  return {all};
}

/// A kernel without streaming loads everything first. A streaming pass loads the operands of its own stages in order.
std::vector<VectorPhase> phases_of(const VectorProblem& problem, bool streamed) {
  const std::vector<VectorStage> stages = stages_of(problem);
  std::int64_t last = 0;
  for (const VectorStage& stage : stages) last = std::max(last, stage.pass);
  std::vector<VectorPhase> phases;
  const auto add = [&](std::int64_t pass) {
    VectorPhase phase;
    phase.streams = streamed && pass > 0;
    std::vector<bool> wanted(problem.operands.size(), pass < 0);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const VectorStage& stage = stages[s];
      if (pass >= 0 && stage.pass != pass) continue;
      if (stage.rows != VectorStage::Rows::any && (stage.rows == VectorStage::Rows::streamed) != streamed) continue;
      phase.stages.push_back(static_cast<int>(s));
      for (int k : stage.loads) wanted[static_cast<std::size_t>(k)] = true;
    }
    for (std::size_t k = 0; k < wanted.size(); ++k)
      if (wanted[k] && problem.operands[k].use == VectorOperand::Use::load) phase.loads.push_back(static_cast<int>(k));
    if (pass < 0 || !phase.stages.empty()) phases.push_back(std::move(phase));
  };
  if (!streamed) {
    add(-1);
    return phases;
  }
  for (std::int64_t pass = 1; pass <= last; ++pass) add(pass);
  add(0);
  return phases;
}

bool streams(const VectorProblem& problem, const VectorTiles& tiles) {
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
    if (problem.reduced[axis] && tiles.tiles[axis] < problem.space[axis]) return true;
  return false;
}

bool window_in_parts(const VectorProblem& problem) { return problem.tap_tiles != problem.taps; }

namespace {

bool is_carried(const VectorProblem& problem, std::size_t axis) {
  return problem.scanned == static_cast<int>(axis) || (axis < problem.carried.size() && problem.carried[axis]);
}

}  // namespace

bool tiles_follow(const VectorProblem& problem, const VectorTiles& tiles) {
  if (window_in_parts(problem) || streams(problem, tiles)) return true;
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
    if (is_carried(problem, axis) && tiles.tiles[axis] < problem.space[axis]) return true;
  return false;
}

bool is_there(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles) {
  return !operand.between || tiles_follow(problem, tiles);
}

bool in_pieces(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles) {
  bool pieces = false;
  for (std::size_t axis = 0; axis < tiles.sub.size(); ++axis) {
    if (tiles.sub[axis] >= std::min(tiles.tiles[axis], problem.space[axis])) continue;
    if (operand.step[axis] == 0) return false;
    pieces = true;
  }
  return pieces;
}

std::int64_t held_extent(const VectorProblem& problem, const VectorOperand& operand, std::size_t axis,
                         std::int64_t size) {
  if (operand.step[axis] == 0) return 1;
  const std::int64_t reach = operand.reach.empty() ? 1 : operand.reach[axis];
  std::int64_t points = std::min(size, problem.space[axis]);
  if (!operand.most.empty()) points = std::max<std::int64_t>(1, std::min(points, operand.most[axis]));
  return operand.step[axis] * (points - 1) + reach;
}

std::int64_t held_elements(const VectorProblem& problem, const VectorOperand& operand,
                           const std::vector<std::int64_t>& size) {
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
    count = saturating(count, held_extent(problem, operand, axis, size[axis]));
  return count;
}

bool VectorPlan::in_pieces() const {
  return std::any_of(pieces.begin(), pieces.end(), [](std::int64_t count) { return count > 1; });
}

namespace {

VectorPlan::OperandRing buffer_of(const VectorProblem& problem, const VectorOperand& operand,
                                  const VectorTiles& tiles) {
  VectorPlan::OperandRing buffer;
  const std::size_t rank = problem.space.size();
  buffer.there = is_there(problem, operand, tiles);
  for (std::size_t axis = 0; axis < rank; ++axis)
    buffer.extents.push_back(held_extent(problem, operand, axis, tiles.tiles[axis]));
  buffer.strides = row_major_strides(buffer.extents);
  if (problem.turns && changes_lanes(problem, operand, tiles)) {  // the lane axis is innermost
    const auto lane = static_cast<std::size_t>(tiles.lane);
    std::int64_t stride = buffer.extents[lane];
    buffer.strides[lane] = 1;
    for (std::size_t axis = rank; axis-- > 0;)
      if (axis != lane) buffer.strides[axis] = stride, stride *= buffer.extents[axis];
  }
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (operand.step[axis] == 0) buffer.strides[axis] = 0;
  buffer.elements = std::max<std::int64_t>(1, held_elements(problem, operand, tiles.tiles));
  const bool scratch = operand.use == VectorOperand::Use::scratch;
  buffer.depth = scratch && operand.depth > 0 ? operand.depth : tiles.depth;
  buffer.turned = problem.turns && changes_lanes(problem, operand, tiles);
  buffer.in_pieces = in_pieces(problem, operand, tiles);
  return buffer;
}

}  // namespace

VectorPlan plan(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine) {
  VectorPlan plan;
  const std::size_t rank = problem.space.size();
  plan.streamed = streams(problem, tiles);
  std::vector<VectorPlan::Loop> carried;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t extent = std::max<std::int64_t>(1, problem.space[axis]);
    const std::int64_t tile = std::min(tiles.tiles[axis], extent);
    plan.pieces.push_back(tiles.sub.empty() ? 1 : ceil_div(tile, std::min(tile, tiles.sub[axis])));
    if (tile >= extent) continue;
    const VectorPlan::Loop loop{static_cast<int>(axis), ceil_div(extent, tile), tile, is_carried(problem, axis)};
    (problem.reduced[axis] ? plan.columns : loop.carried ? carried : plan.rows).push_back(loop);
  }
  plan.carries = !carried.empty();
  plan.rows.insert(plan.rows.end(), carried.begin(), carried.end());
  for (std::size_t axis = 0; axis < problem.taps.size(); ++axis)
    if (const std::int64_t taps = problem.taps[axis], tile = problem.tap_tiles[axis]; tile < taps)
      plan.parts.push_back({static_cast<int>(axis), ceil_div(taps, tile), tile});
  std::size_t loads = 0;
  for (const VectorOperand& operand : problem.operands) {
    plan.buffers.push_back(buffer_of(problem, operand, tiles));
    if (operand.use == VectorOperand::Use::load)
      plan.buffers.back().queue = loads++ % static_cast<std::size_t>(machine.core.dma.load_queues);
  }
  plan.phases = phases_of(problem, tiles_follow(problem, tiles));
  return plan;
}

std::vector<Stretch> stretches(std::int64_t extent, std::int64_t tile, std::int64_t piece) {
  std::vector<Stretch> result;
  extent = std::max<std::int64_t>(1, extent);
  tile = std::min(tile, extent);
  const std::int64_t full = extent / tile;
  const auto add = [&](std::int64_t start, std::int64_t size, std::int64_t count) {
    for (std::int64_t at = 0; at < size; at += piece)
      result.push_back({start + at, std::min(piece, size - at), tile, count});
  };
  add(0, tile, full);
  if (extent % tile > 0) add(full * tile, extent % tile, 1);
  return result;
}

}  // namespace tilesim::mapping
