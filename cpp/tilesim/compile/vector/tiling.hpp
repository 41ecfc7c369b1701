// Tile sizes of vector and movement kernels, and helpers that both lowerings share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/compile/writer/kernel_writer.hpp"
#include "tilesim/mapping/vector/plan.hpp"

namespace tilesim::lower {

struct TileChoice {
  struct BufferNeed {
    std::vector<bool> spans;  ///< axes that the buffer spans; it has extent 1 along the others
    std::int64_t bytes;       ///< per element, for all buffers of its ring
  };
  Shape space;
  std::vector<BufferNeed> buffers;
  std::vector<bool> whole;  ///< axes that must not be split
  Shape tiles;              ///< result
  std::vector<std::size_t>
      order;  ///< axes in order of splitting; empty: outer to inner. Follows the memory layout: major axes first
  std::vector<bool>
      joined;      ///< axes along which tiles depend on each other, so that cores cannot share them; empty: `whole`
  Shape granules;  ///< per axis: least extent without excess traffic; split further only as a last resort. Empty: 1
};

/// Raises `granules` to the least extents that memory moves: bursts along the tensor's minor axis, or layout tiles.
void add_granules(TileChoice& choice, const Context& context, const Placement& placement);

/// Splits outer axes first, until all rings fit the scratchpad, several tiles can overlap, and each of several cores
/// has a tile. False if even single elements of the axes that may be split do not fit.
bool choose_tiles(TileChoice& choice, const Share& machine);

/// The default lane axis: the last one with several elements.
int last_long_axis(const Shape& space);

/// Tiles of a vector kernel: the given ones (UserError if not legal), with mapping "cost" the best by estimate, or
/// `usual`. Records the choice.
mapping::VectorTiles vector_tiles(const Context& context, const Kernel& kernel, mapping::VectorProblem problem,
                                  const mapping::VectorTiles& usual);
/// The operand for loads or stores of a placement, in tiles of the space that indexes it.
mapping::VectorOperand placed_operand(const Context& context, const Placement& placement, std::size_t rank,
                                      mapping::VectorOperand::Use use);
/// Describes rows that indices select: each is fetched in whole bursts, with a transfer for each position of the axes.
void fetch_apart(const Context& context, mapping::VectorOperand& operand, std::vector<int> axes);
/// Adds exact tile addresses to an operand whose placement has the axes of the space.
void give_access(const Context& context, const Placement& placement, mapping::VectorOperand& operand);
/// The problem of a kernel without operands: name, kinds and types of its operations, functions per point.
mapping::VectorProblem vector_problem(const Context& context, const Kernel& kernel, const Shape& space);

/// All attributes of an operation as text: with `vector_problem`, it distinguishes movement kernels.
std::string attributes_text(const Op& op);

/// An empty scope with the kernel's name, operations, launch cost and barrier.
program::Scope named_scope(const Context& context, const Kernel& kernel);

/// A tiled iteration space: start and extent of the current tile per axis; loops are named by `stem` and the axis.
struct TiledSpace {
  Shape space, tiles;
  std::string stem;
  std::vector<Expr> start, extent;
  std::int64_t trips(std::size_t axis) const;
};
TiledSpace tiled_space(const Shape& space, const Shape& tiles, const std::string& stem);
/// Wraps the body in loops over the split axes, axis 0 outermost; `skip`: an axis that has a loop already.
program::Block wrap_loops(const TiledSpace& t, program::Block body, std::size_t skip = SIZE_MAX);
/// Wraps the body in the loops of a plan, named by `stem` and the axis.
program::Block wrap_loops(const std::vector<mapping::VectorPlan::Loop>& loops, const std::string& stem,
                          program::Block body);
/// A ring of buffers.
program::Slot ring_slot(const std::string& name, DType dtype, std::int64_t elements, const std::string& consumer,
                        std::int64_t depth = 2);

/// The ring of an operand of a planned vector kernel.
Ring planned_ring(const std::string& name, const mapping::VectorProblem& problem, const mapping::VectorPlan& plan,
                  std::size_t operand);

program::Scope lower_cumulative(Context& context, const Kernel& kernel);
program::Scope lower_order(Context& context, const Kernel& kernel);
program::Scope lower_window(Context& context, const Kernel& kernel);
program::Scope lower_window_scatter(Context& context, const Kernel& kernel);
program::Scope lower_solve(Context& context, const Kernel& kernel);
/// Lowers a user-defined operation: whole operands and results in the scratchpad.
program::Scope lower_opaque(Context& context, const Kernel& kernel);
/// UserError if tiles are given for a kernel that has only one tiling.
void refuse_tiles(const Context& context, const Kernel& kernel);

}  // namespace tilesim::lower
