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
    std::vector<bool> spans;  ///< axes that the buffer has; its extent is 1 along others
    std::int64_t bytes;       ///< per element, for all buffers of the ring
  };
  Shape space;
  std::vector<BufferNeed> buffers;
  std::vector<bool> whole;         ///< axes that must not be split
  Shape tiles;                     ///< result
  std::vector<std::size_t> order;  ///< axes in order of splitting, as major axes in memory first; empty: outer to inner
  std::vector<bool>
      joined;      ///< axes along which tiles depend on each other, so cores cannot share them; empty: `whole`
  Shape granules;  ///< per axis: least extent without excess traffic; smaller only as a last resort. Empty: 1
};

/// Raises `granules` to the least extents that memory moves: bursts along the tensor's minor axis, or layout tiles.
void add_granules(TileChoice& choice, const Context& context, const Placement& placement);

/// Splits outer axes first, until all rings fit the scratchpad, several tiles can overlap, and each of several cores
/// has a tile. Returns false if even tiles of one element along these axes do not fit.
bool choose_tiles(TileChoice& choice, const Share& machine);

/// The default lane axis: the last axis with several elements.
int last_long_axis(const Shape& space);

/// Tiles of a vector kernel: given tiles (UserError if illegal), with mapping "cost" the fastest by the estimate, else
/// `usual`. Records the choice.
mapping::VectorTiles vector_tiles(const Context& context, const Kernel& kernel, mapping::VectorProblem problem,
                                  const mapping::VectorTiles& usual);
/// The operand for loads or stores of a placement, in tiles of the space that indexes it.
mapping::VectorOperand placed_operand(const Context& context, const Placement& placement, std::size_t rank,
                                      mapping::VectorOperand::Use use);
/// Describes rows that indices select: each is fetched in full bursts, with a transfer per position on the axes.
void fetch_apart(const Context& context, mapping::VectorOperand& operand, std::vector<int> axes);
/// Adds exact tile addresses to an operand whose placement has the axes of the space.
void give_access(const Context& context, const Placement& placement, mapping::VectorOperand& operand);
/// The problem of a kernel, without operands: name, kinds and types of its operations, functions per point.
mapping::VectorProblem vector_problem(const Context& context, const Kernel& kernel, const Shape& space);

/// All attributes of an operation as text. Together with `vector_problem`, the text identifies movement kernels.
std::string attributes_text(const Op& op);

/// An empty scope with the kernel's name, operations, launch cost and barrier.
program::Scope named_scope(const Context& context, const Kernel& kernel);

/// A tiled iteration space: start and extent of the current tile per axis. `stem` and the axis name each loop.
struct TiledSpace {
  Shape space, tiles;
  std::string stem;
  std::vector<Expr> start, extent;
  std::int64_t trips(std::size_t axis) const;
};
TiledSpace tiled_space(const Shape& space, const Shape& tiles, const std::string& stem);
/// Puts the body into loops over the split axes, axis 0 outermost. `skip`: an axis that already has a loop.
program::Block wrap_loops(const TiledSpace& t, program::Block body, std::size_t skip = SIZE_MAX);
/// Puts the body into the loops of a plan, which `stem` and the axis name.
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
/// Lowers a user-defined operation, with complete operands and results in the scratchpad.
program::Scope lower_opaque(Context& context, const Kernel& kernel);
/// Throws UserError if the user gives tiles for a kernel that has only one tiling.
void refuse_tiles(const Context& context, const Kernel& kernel);

}  // namespace tilesim::lower
