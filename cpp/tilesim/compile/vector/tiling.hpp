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
    std::int64_t bytes;       ///< per element, all buffers of its ring together
  };
  Shape space;
  std::vector<BufferNeed> buffers;
  std::vector<bool> whole;  ///< axes that must not be cut
  Shape tiles;              ///< the answer
  std::vector<std::size_t>
      order;  ///< axes, cut first to last; empty: outer to inner. Follows the layout in memory: major axes first
  std::vector<bool>
      joined;      ///< axes along which tiles depend on each other, so that cores cannot share them; empty: `whole`
  Shape granules;  ///< per axis: below this, memory moves more than the tile; cut further only if all are. Empty: 1
};

/// Takes into `granules` what memory moves at least of a tensor: bursts along its minor axis, or layout tiles.
void add_granules(TileChoice& choice, const Context& context, const Placement& placement);

/// Cuts outer axes first, until all rings fit the scratchpad and the work falls into several tiles that can overlap,
/// and where the machine has several cores, into as many as there are cores. False when even single elements of the
/// axes that may be cut do not fit.
bool choose_tiles(TileChoice& choice, const Share& machine);

/// The axis that lies over the lanes as a rule: the last one of several elements.
int last_long_axis(const Shape& space);

/// Tiles of a vector kernel: those given from outside (UserError where they are not legal), or with mapping "cost" the
/// best by estimate, or `usual`. The choice is recorded.
mapping::VectorTiles vector_tiles(const Context& context, const Kernel& kernel, mapping::VectorProblem problem,
                                  const mapping::VectorTiles& usual);
/// What is loaded from or stored to a placement, for tiles of a space that it is indexed by.
mapping::VectorOperand placed_operand(const Context& context, const Placement& placement, std::size_t rank,
                                      mapping::VectorOperand::Use use);
/// Tells the operand where exactly its tiles lie in a placement whose axes are those of the space.
void give_access(const Context& context, const Placement& placement, mapping::VectorOperand& operand);
/// The problem of a kernel without operands: name, kinds and types of its operations, functions per point.
mapping::VectorProblem vector_problem(const Context& context, const Kernel& kernel, const Shape& space);

/// Every attribute of an operation: with `vector_problem`, what tells movement kernels apart.
std::string attributes_text(const Op& op);

/// An empty scope with the kernel's name, operations, launch cost and barrier.
program::Scope named_scope(const Context& context, const Kernel& kernel);

/// A tiled iteration space: start and extent of the current tile of each axis, loops named `stem` and the axis.
struct TiledSpace {
  Shape space, tiles;
  std::string stem;
  std::vector<Expr> start, extent;
  std::int64_t trips(std::size_t axis) const;
};
TiledSpace tiled_space(const Shape& space, const Shape& tiles, const std::string& stem);
/// The loops of the axes that are cut, axis 0 outermost; `skip`: an axis that has its loop already.
program::Block wrap_loops(const TiledSpace& t, program::Block body, std::size_t skip = SIZE_MAX);
/// The loops of a plan, named `stem` and the axis.
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
/// An operation of the user's: whole operands and results in the scratchpad.
program::Scope lower_opaque(Context& context, const Kernel& kernel);
/// UserError where tiles are given from outside for a kernel that has one way to cut its work.
void refuse_tiles(const Context& context, const Kernel& kernel);

}  // namespace tilesim::lower
