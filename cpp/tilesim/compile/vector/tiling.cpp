#include "tilesim/compile/vector/tiling.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/core_sorts.hpp"

namespace tilesim::lower {

namespace {

std::int64_t needed(const TileChoice& choice) {
  std::int64_t bytes = 0;
  for (const TileChoice::BufferNeed& buffer : choice.buffers) {
    std::int64_t elements = 1;
    for (std::size_t axis = 0; axis < choice.space.size(); ++axis)
      if (buffer.spans[axis] && __builtin_mul_overflow(elements, choice.tiles[axis], &elements)) return INT64_MAX / 2;
    if (__builtin_mul_overflow(elements, buffer.bytes, &elements) ||
        __builtin_add_overflow(bytes, elements + 2 * 64, &bytes))
      return INT64_MAX / 2;
  }
  return bytes;
}

/// Halves the outermost axis that may be split, if possible one longer than its granule; false if there is none.
bool cut(TileChoice& choice, bool keep_inner) {
  const std::size_t rank = choice.space.size();
  for (const bool fine : {false, true}) {
    for (std::size_t i = 0; i < rank; ++i) {
      const std::size_t axis = choice.order.empty() ? i : choice.order[i];
      const std::int64_t granule = fine || choice.granules.empty() ? 1 : choice.granules[axis];
      if (choice.whole[axis] || choice.tiles[axis] <= granule) continue;
      if (keep_inner && (i + 1 == rank || fine)) return false;
      choice.tiles[axis] = std::max(granule, (choice.tiles[axis] + 1) / 2);
      return true;
    }
    if (choice.granules.empty()) return false;
  }
  return false;
}

/// Splits axes that cores can share, none below its granule, until each core has a tile; the number of tiles along an
/// axis is a multiple of the missing parts if possible.
void cut_for_cores(TileChoice& choice, std::int64_t cores) {
  if (cores < 2) return;
  const std::vector<bool>& joined = choice.joined.empty() ? choice.whole : choice.joined;
  const std::size_t rank = choice.space.size();
  std::int64_t missing = cores;  // parts that are still needed
  for (std::size_t i = 0; i < rank && missing > 1; ++i) {
    const std::size_t axis = choice.order.empty() ? i : choice.order[i];
    const std::int64_t extent = choice.space[axis], granule = choice.granules.empty() ? 1 : choice.granules[axis];
    if (joined[axis] || choice.whole[axis] || extent <= granule) continue;
    const std::int64_t trips = ceil_div(extent, choice.tiles[axis]);
    const std::int64_t wanted = round_up(trips, missing), most = ceil_div(extent, granule);
    choice.tiles[axis] = std::min(choice.tiles[axis], round_up(ceil_div(extent, std::min(wanted, most)), granule));
    missing = ceil_div(missing, ceil_div(extent, choice.tiles[axis]));
  }
}

/// Number of tiles wanted: one per core, more if faster cores should get more tiles than slower ones.
std::int64_t parts_wanted(const Share& machine) {
  constexpr std::int64_t most_per_core = 4;
  std::int64_t weight = 0;
  for (const Stretch& stretch : vector_speeds(machine)) weight += stretch.count * stretch.each;
  return std::clamp(weight, machine.core.count, most_per_core * machine.core.count);
}

}  // namespace

void add_granules(TileChoice& choice, const Context& context, const Placement& placement) {
  const std::size_t rank = placement.axes.size();
  if (rank == 0) return;
  const program::Tensor* tensor = find_tensor(context, placement.tensor);
  const bool ordered = tensor && tensor->minor_to_major.size() == rank;
  const bool padded = tensor && tensor->tile.size() == 2 && rank >= 2 && placement.through.empty();
  choice.granules.resize(choice.space.size(), 1);
  const std::int64_t burst =
      std::max<std::int64_t>(1, 8 * context.machine.memory.burst_bytes / std::max(1, bits(placement.dtype)));
  for (std::size_t i = 0; i < (padded ? 2U : 1U); ++i) {
    const std::size_t axis = ordered ? static_cast<std::size_t>(tensor->minor_to_major[i]) : rank - 1 - i;
    const std::int64_t granule = !placement.through.empty()
                                     ? placement.tensor_shape.back()  // each part reads the index
                                 : padded ? tensor->tile[1 - i]
                                          : burst;
    for (const AxisAccess::Term& term : placement.axes[axis].terms) {
      std::int64_t& own = choice.granules[static_cast<std::size_t>(term.dim)];
      if (std::abs(term.coefficient) == 1) own = std::max(own, granule);
    }
  }
}

bool choose_tiles(TileChoice& choice, const Share& machine) {
  choice.tiles.clear();
  for (std::int64_t extent : choice.space) choice.tiles.push_back(std::max<std::int64_t>(1, extent));
  const std::int64_t capacity = machine.core.scratchpad.bytes;
  while (needed(choice) > capacity)
    if (!cut(choice, false)) return false;
  // Several tiles let loads, computes and stores overlap; transfers of smaller tiles than this are inefficient.
  constexpr std::int64_t smallest = 128 << 10;
  const std::int64_t whole = [&] {
    TileChoice all = choice;
    all.tiles = choice.space;
    return needed(all);
  }();
  while (needed(choice) > std::max(smallest, whole / 8))
    if (!cut(choice, true)) break;
  cut_for_cores(choice, parts_wanted(machine));
  for (std::size_t axis = 0; axis < choice.space.size(); ++axis) {  // makes tiles equal
    const std::int64_t extent = std::max<std::int64_t>(1, choice.space[axis]);
    choice.tiles[axis] = ceil_div(extent, ceil_div(extent, choice.tiles[axis]));
  }
  return true;
}

std::int64_t TiledSpace::trips(std::size_t axis) const {
  return tiles[axis] >= space[axis] ? 1 : ceil_div(space[axis], tiles[axis]);
}

TiledSpace tiled_space(const Shape& space, const Shape& tiles, const std::string& stem) {
  TiledSpace result{space, tiles, stem, {}, {}};
  for (std::size_t axis = 0; axis < space.size(); ++axis) {
    const bool whole = tiles[axis] >= space[axis];
    result.start.push_back(whole ? Expr(0) : Expr::symbol(stem + std::to_string(axis)) * Expr(tiles[axis]));
    result.extent.push_back(whole || space[axis] % tiles[axis] == 0
                                ? Expr(std::min(space[axis], tiles[axis]))
                                : min(Expr(tiles[axis]), Expr(space[axis]) - result.start.back()));
  }
  return result;
}

program::Block wrap_loops(const TiledSpace& t, program::Block body, std::size_t skip) {
  for (std::size_t axis = t.space.size(); axis-- > 0;) {
    if (axis == skip || t.trips(axis) == 1) continue;
    program::Block inner = std::move(body);
    body.clear();
    body.push_back(loop(t.stem + std::to_string(axis), Expr(t.trips(axis)), std::move(inner)));
  }
  return body;
}

program::Block wrap_loops(const std::vector<mapping::VectorPlan::Loop>& loops, const std::string& stem,
                          program::Block body) {
  for (std::size_t i = loops.size(); i-- > 0;) {
    program::Block inner = std::move(body);
    body.clear();
    body.push_back(loop(stem + std::to_string(loops[i].axis), Expr(loops[i].trips), std::move(inner)));
  }
  return body;
}

program::Slot ring_slot(const std::string& name, DType dtype, std::int64_t elements, const std::string& consumer,
                        std::int64_t depth) {
  program::Slot slot;
  slot.name = name;
  slot.dtype = dtype;
  slot.elements = std::max<std::int64_t>(1, elements);
  slot.depth = depth;
  slot.consumers = {consumer};
  return slot;
}

Ring planned_ring(const std::string& name, const mapping::VectorProblem& problem, const mapping::VectorPlan& plan,
                  std::size_t operand) {
  const mapping::VectorPlan::OperandRing& buffer = plan.buffers[operand];
  return {name, problem.operands[operand].dtype, buffer.elements, buffer.depth,
          static_cast<std::int64_t>(buffer.queue)};
}

void refuse_tiles(const Context& context, const Kernel& kernel) {
  if (context.options.vectors.count(kernel.name))
    throw UserError({"tiles are given for a kernel that selects its tiles", kernel.name, {}, {}, {}});
}

program::Scope named_scope(const Context& context, const Kernel& kernel) {
  program::Scope scope;
  scope.kernel = kernel.name;
  for (int op : kernel.ops) scope.operation.push_back(context.function.ops[static_cast<std::size_t>(op)].name);
  scope.launch_cycles = context.machine.core.kernel_launch_cycles;
  scope.barrier = true;
  return scope;
}

}  // namespace tilesim::lower
