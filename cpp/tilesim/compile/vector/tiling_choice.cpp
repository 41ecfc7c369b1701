// Describes vector kernels as mapping problems, and chooses their tiles.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/layouts/lanes.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/mapping/identity.hpp"
#include "tilesim/mapping/vector/search.hpp"

namespace tilesim::lower {

namespace {

constexpr double worth = 0.98;  // smaller gains are within the error of the estimate

FlopClass class_of(const Op& op) {
  if (op.kind == Kind::elementwise) return info(parse_function(op.attributes.text("function"))).flop_class;
  if (op.kind == Kind::reduce && op.attributes.text("combiner") == "multiply") return FlopClass::multiply;
  return FlopClass::simple;
}

/// Whether an operand varies along all axes of the space, possibly as a view.
bool has_all(const mapping::VectorProblem& problem, const mapping::VectorOperand& operand) {
  if (operand.axes.size() >= problem.space.size()) return true;
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
    if (problem.space[axis] > 1 && operand.step[axis] == 0) return false;
  return true;
}

/// Axes that may lie along the lanes, the last one first. If memory is tiled for the lanes, only the last one and minor
/// axes of transfers; if the last one is reduced, also the others: then the cross-lane unit permutes tiles instead.
std::vector<int> lanes_of(const Share& machine, const mapping::VectorProblem& problem) {
  std::vector<int> lanes;
  for (int axis = static_cast<int>(problem.space.size()); axis-- > 0;) lanes.push_back(axis);
  if (lanes.empty()) lanes.push_back(0);
  const auto tiled = [&](const mapping::VectorOperand& operand) {
    return operand.use != mapping::VectorOperand::Use::scratch && operand.layout.size() == 2 &&
           has_all(problem, operand);
  };
  if (machine.layout.tile.size() != 2 || std::ranges::none_of(problem.operands, tiled)) return lanes;
  lanes = {last_long_axis(problem.space)};
  for (const mapping::VectorOperand& operand : problem.operands) {
    if (operand.use == mapping::VectorOperand::Use::scratch || !has_all(problem, operand)) continue;
    const int minor = operand.axes.empty() ? -1 : operand.axes[0];
    if (minor >= 0 && std::find(lanes.begin(), lanes.end(), minor) == lanes.end()) lanes.push_back(minor);
  }
  if (problem.turns && lanes.size() == 1 && problem.reduced[at(lanes[0])])
    for (int axis = lanes[0]; axis-- > 0;)
      if (problem.space[at(axis)] > 1 && !problem.reduced[at(axis)]) lanes.push_back(axis);
  return lanes;
}

/// The fastest tiles by estimate, or `usual` if the gain is small; of about equal tiles those with fewest transfers.
mapping::VectorTiles fastest(const Context& context, const mapping::VectorProblem& problem,
                             const mapping::VectorTiles& usual) {
  constexpr std::size_t compared = 10;
  constexpr double alike = 1.01;
  if (!mapping::legal(problem, usual, context.machine).legal) return usual;
  const std::vector<mapping::RankedTiles> found =
      mapping::search_from(problem, context.machine, compared, usual, context.options.cancel);
  if (found.empty() || found[0].cost.cycles >= worth * mapping::price(problem, usual, context.machine).cycles)
    return usual;
  const mapping::RankedTiles* best = &found[0];
  for (const mapping::RankedTiles& other : found)
    if (other.cost.cycles <= alike * found[0].cost.cycles && other.cost.transfers < best->cost.transfers) best = &other;
  return best->tiles;
}

/// The usual tiles, split further until their buffers fit; reduced axes are split last.
mapping::VectorTiles fitting(const mapping::VectorProblem& problem, mapping::VectorTiles tiles, const Share& machine) {
  for (const bool combined : {false, true})
    for (std::size_t axis = 0; axis < problem.space.size(); ++axis) {
      const bool stays = !problem.whole.empty() && problem.whole[axis];
      if (stays || (problem.reduced[axis] && !combined)) continue;
      while (tiles.tiles[axis] > 1 && mapping::vector_scratchpad_bytes(problem, tiles) > machine.core.scratchpad.bytes)
        tiles.tiles[axis] = ceil_div(tiles.tiles[axis], 2);
    }
  return tiles;
}

/// The usual tiles along the lane axis that the cost model prefers: an axis that fills the lanes may be worth a pass
/// through the cross-lane unit.
mapping::VectorTiles on_lanes(const Context& context, const mapping::VectorProblem& problem,
                              const mapping::VectorTiles& usual) {
  mapping::VectorTiles best = usual;
  if (problem.space.size() < 2 || !problem.ranks || !mapping::legal(problem, usual, context.machine).legal) return best;
  double least = worth * mapping::price(problem, usual, context.machine).cycles;
  for (int axis = static_cast<int>(problem.space.size()); axis-- > 0;) {
    mapping::VectorTiles other = usual;
    other.lane = axis;
    if (problem.space[at(axis)] == 1 || axis == usual.lane || !mapping::legal(problem, other, context.machine).legal)
      continue;
    const double cycles = mapping::price(problem, other, context.machine).cycles;
    if (cycles < least) least = cycles, best = other;
  }
  return best;
}

/// The tiles that the cost model prefers to the usual ones; equal problems of a program are solved once.
mapping::VectorTiles searched_tiles(const Context& context, const mapping::VectorProblem& problem,
                                    const mapping::VectorTiles& usual) {
  if (!problem.ranks && !problem.walks) return usual;
  std::string key = mapping::identity(context.machine) + " " + mapping::identity(problem) + std::to_string(usual.lane) +
                    "," + std::to_string(usual.depth);
  for (std::int64_t size : usual.tiles) key += "," + std::to_string(size);
  for (std::int64_t size : usual.sub) key += ";" + std::to_string(size);
  const auto known = context.choices.tiles.find(key);
  if (known != context.choices.tiles.end()) return known->second;
  return context.choices.tiles[std::move(key)] = fastest(context, problem, usual);
}

}  // namespace

int last_long_axis(const Shape& space) {
  for (int axis = static_cast<int>(space.size()); axis-- > 0;)
    if (space[static_cast<std::size_t>(axis)] > 1) return axis;
  return std::max(0, static_cast<int>(space.size()) - 1);
}

mapping::VectorOperand placed_operand(const Context& context, const Placement& placement, std::size_t rank,
                                      mapping::VectorOperand::Use use) {
  mapping::VectorOperand operand;
  operand.use = use;
  operand.dtype = placement.dtype;
  operand.step.assign(rank, 1);
  const program::Tensor* tensor = find_tensor(context, placement.tensor);
  if (tensor && tensor->tile.size() == 2 && placement.axes.size() >= 2) operand.layout = tensor->tile;
  for (const auto& [access, extent] : memory_axes(context, placement)) {
    operand.axes.push_back(access.terms.empty() ? -1 : access.terms.back().dim);
    operand.extents.push_back(extent);
    if (operand.axes.size() > 1) continue;
    operand.minor_offset = access.constant;
    if (!access.terms.empty()) operand.minor_step = access.terms.back().coefficient;
    if (operand.layout.size() == 2) operand.row = operand.layout[1];
    for (std::size_t term = 0; term + 1 < access.terms.size(); ++term)
      operand.minor_mixed |= access.terms[term].coefficient % operand.row != 0;
  }
  return operand;
}

void fetch_apart(const Context& context, mapping::VectorOperand& operand, std::vector<int> axes) {
  operand.apart = std::move(axes);
  if (operand.layout.size() == 2) operand.layout[0] = 1;
  const std::int64_t burst = 8 * context.machine.memory.burst_bytes / std::max(1, bits(operand.dtype));
  if (operand.layout.empty() && !operand.extents.empty())
    operand.extents[0] = round_up(operand.extents[0] + 1, std::max<std::int64_t>(1, burst));
}

void give_access(const Context& context, const Placement& placement, mapping::VectorOperand& operand) {
  operand.access.clear();
  for (MemoryAxis& axis : memory_axes(context, placement)) operand.access.push_back(std::move(axis.access));
  if (!operand.access.empty()) return;
  operand.access.emplace_back();  // a scalar, as an axis of one element
  operand.axes = {-1};
  operand.extents = {1};
}

mapping::VectorProblem vector_problem(const Context& context, const Kernel& kernel, const Shape& space) {
  mapping::VectorProblem problem;
  problem.operation = kernel.name;
  problem.contexts = context.contexts;
  problem.space = space;
  problem.whole_tiles = "sub-tiles are for elementwise kernels, reductions and normalizations";
  problem.reduced.assign(space.size(), false);
  for (int index : kernel.ops) {
    const Op& op = context.function.ops[static_cast<std::size_t>(index)];
    problem.kernel += (problem.kernel.empty() ? "" : " ") + std::string(info(op.kind).name);
    for (const char* name : {"function", "combiner"})
      if (op.attributes.find(name)) problem.kernel += ":" + op.attributes.text(name);
    for (const char* name : {"dims", "window", "strides", "window_dilation", "pads"})
      if (op.attributes.find(name))
        for (std::int64_t number : op.attributes.integers(name)) problem.kernel += "," + std::to_string(number);
    if (op.attributes.find("dim")) problem.kernel += "," + std::to_string(op.attributes.integer("dim"));
    for (ValueId operand : op.operands)
      problem.kernel += operand == no_value ? " -" : " " + tilesim::to_string(context.value(operand).type);
    if (const FlopClass kind = class_of(op); kind != FlopClass::move)
      ++problem.functions[static_cast<std::size_t>(kind) - 1];
  }
  if (!kernel.inputs.empty()) problem.dtype = context.placements[static_cast<std::size_t>(kernel.inputs[0])].dtype;
  return problem;
}

mapping::VectorTiles vector_tiles(const Context& context, const Kernel& kernel, mapping::VectorProblem problem,
                                  const mapping::VectorTiles& usual) {
  if (problem.lanes.empty()) problem.lanes = lanes_of(context.machine, problem);
  if (std::ranges::find(problem.lanes, usual.lane) == problem.lanes.end()) problem.lanes.push_back(usual.lane);
  mapping::VectorTiles chosen = problem.ranks ? fitting(problem, usual, context.machine) : usual;
  chosen.contexts = problem.contexts;
  const auto given = context.options.vectors.find(kernel.name);
  if (given != context.options.vectors.end()) {
    chosen = given->second;
    if (const mapping::Legality verdict = mapping::legal(problem, chosen, context.machine); !verdict.legal)
      throw UserError(
          {"the mapping given for this operation is not legal: " + verdict.reason, kernel.name, {}, {}, {}});
  } else if (mapping_rule(context) == "cost" && context.machine.sorts.empty() &&
             (context.machine.core.count == context.contexts || context.contexts == 1)) {
    chosen = searched_tiles(context, problem, chosen);
  } else if (mapping_rule(context) == "profile") {
    chosen = on_lanes(context, problem, chosen);
  }
  if (context.options.record_vectors)
    context.options.record_vectors->push_back(
        {context.function.name, kernel.name, std::move(problem), chosen, context.machine});
  return chosen;
}

}  // namespace tilesim::lower
