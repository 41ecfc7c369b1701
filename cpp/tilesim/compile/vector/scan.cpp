// Scans: one tile at a time along the scanned axis, with the previous state carried in a slot.
#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/layouts/lanes.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/compile/vector/vector.hpp"
#include "tilesim/program/vector_work.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

class ScanLowering {
 public:
  ScanLowering(Context& context, const Kernel& kernel)
      : context_(context),
        kernel_(kernel),
        op_(context.function.ops[static_cast<std::size_t>(kernel.ops[0])]),
        from_(context.placements[static_cast<std::size_t>(op_.operands[0])]),
        to_(context.placements[static_cast<std::size_t>(op_.results[0])]),
        shape_(context.value(op_.results[0]).type.shape),
        dim_(static_cast<std::size_t>(op_.attributes.integer("dim"))),
        combiner_(parse_combiner(op_.attributes.text("combiner"))) {}

  program::Scope lower() {
    program::Scope scope = named_scope(context_, kernel_);
    if (element_count(shape_) == 0) return scope;
    choose();
    std::vector<lower::Ring> rings;
    for (const Ring& ring : {x_, y_, carry_})
      if (plan_.buffers[ring.operand].there) rings.push_back(planned_ring(ring.slot, problem_, plan_, ring.operand));
    if (carries()) rings.back().carried = "i" + std::to_string(dim_);
    return write_kernel(std::move(scope), rings, body());
  }

 private:
  bool carries() const { return plan_.carries; }

  void choose() {
    const std::int64_t bytes = 2 * (host_bytes(from_.dtype) + host_bytes(to_.dtype));
    std::vector<bool> points(shape_.size(), true);
    points[dim_] = false;
    TileChoice choice;
    choice.space = shape_;
    choice.buffers = {{std::vector<bool>(shape_.size(), true), bytes}};
    add_granules(choice, context_, from_);
    add_granules(choice, context_, to_);
    choice.whole.assign(shape_.size(), false);
    choice.whole[dim_] = true;
    if (!choose_tiles(choice, context_.machine)) {
      choice.whole[dim_] = false;
      choice.buffers.push_back({points, 2 * host_bytes(sum_dtype(from_.dtype))});
      if (!choose_tiles(choice, context_.machine))
        throw UserError({"not even one element of a scan fits the scratchpad", op_.name, {}, {}, {}});
    }
    make_problem();
    const mapping::VectorTiles chosen =
        vector_tiles(context_, kernel_, problem_, {choice.tiles, static_cast<int>(shape_.size()) - 1, 2});
    plan_ = mapping::plan(problem_, chosen, context_.machine);
    lane_ = chosen.lane;
    t_ = tiled_space(shape_, chosen.tiles, "i");
    if (!carries() || !op_.attributes.flag("reverse")) return;
    t_.start[dim_] = (Expr(t_.trips(dim_) - 1) - Expr::symbol("i" + std::to_string(dim_))) * Expr(t_.tiles[dim_]);
    t_.extent[dim_] = min(Expr(t_.tiles[dim_]), Expr(shape_[dim_]) - t_.start[dim_]);
  }

  void make_problem() {
    using Use = mapping::VectorOperand::Use;
    problem_ = vector_problem(context_, kernel_, shape_);
    problem_.operands = {placed_operand(context_, from_, shape_.size(), Use::load),
                         placed_operand(context_, to_, shape_.size(), Use::store)};
    give_access(context_, from_, problem_.operands[0]);
    give_access(context_, to_, problem_.operands[1]);
    mapping::VectorOperand carry;
    carry.use = Use::scratch;
    carry.dtype = sum_dtype(from_.dtype);
    carry.between = true;
    carry.step.assign(shape_.size(), 1);
    carry.step[dim_] = 0;
    problem_.operands.push_back(std::move(carry));
    problem_.functions = {1, 0, 0, 0};
    problem_.scanned = static_cast<int>(dim_);
    problem_.backward = op_.attributes.flag("reverse");
    mapping::VectorStage whole, tile;
    whole.rows = mapping::VectorStage::Rows::whole;
    tile.rows = mapping::VectorStage::Rows::streamed;
    whole.functions = functions_of(compute(true, false));
    tile.functions = functions_of(compute(false, true));
    tile.first = functions_of(compute(true, true));
    whole.dtype = tile.dtype = from_.dtype;
    whole.scans = tile.scans = tile.reductions = 1;
    whole.loads = tile.loads = {0};
    whole.stores = tile.stores = {1};
    problem_.stages = {whole, tile};
  }

  static mapping::VectorStage::Functions functions_of(const program::VectorOp& op) {
    return program::work_of(op).functions;
  }

  /// A slot with the operand whose layout it has.
  struct Ring {
    const char* slot;
    std::size_t operand;
  };
  static constexpr Ring x_{"x", 0}, y_{"y", 1}, carry_{"carry", 2};

  /// A view of the tile; before tiles are chosen, it has no dims.
  View view(const Ring& ring, const std::vector<std::int64_t>& strides) const {
    View result{ring.slot, 0, 0, {}};
    for (std::size_t axis = 0; axis < t_.extent.size(); ++axis) result.dims.push_back({t_.extent[axis], strides[axis]});
    return result;
  }
  View view(const Ring& ring) const { return view(ring, plan_.buffers[ring.operand].strides); }

  const Placement& placed(const Ring& ring) const { return ring.operand == 0 ? from_ : to_; }

  /// Strides of the tile in its slot as loaded or stored.
  std::vector<std::int64_t> moved(const Ring& ring) const {
    const mapping::VectorPlan::OperandRing& buffer = plan_.buffers[ring.operand];
    return buffer.turned ? memory_strides(context_, placed(ring), t_.tiles) : buffer.strides;
  }

  program::Transfer transfer(const Ring& ring) const {
    return region_transfer(placed(ring), t_.start, t_.extent, moved(ring), ring.slot);
  }

  /// y = scan(x), combined with the carry unless `first`. `carries`: also adds the whole tile to the carry.
  program::VectorOp compute(bool first, bool carries) const {
    program::VectorOp op;
    op.extents = t_.extent;
    op.lane_dim = lane_;
    op.inputs.push_back(view(x_));
    add_node(op.nodes, {.op = VectorNode::Op::input, .dtype = from_.dtype});
    int y = add_node(op.nodes, {.op = VectorNode::Op::scan,
                                .index = static_cast<int>(dim_),
                                .arguments = {0, -1, -1},
                                .dtype = from_.dtype,
                                .combiner = combiner_,
                                .reverse = op_.attributes.flag("reverse"),
                                .exclusive = op_.attributes.flag("exclusive")});
    if (!first) {
      op.inputs.push_back(view(carry_));
      const DType wide = sum_dtype(from_.dtype);
      const int carry = add_node(op.nodes, {.op = VectorNode::Op::input, .index = 1, .dtype = wide});
      y = add_node(op.nodes, {.op = VectorNode::Op::function,
                              .function = function_of(combiner_),
                              .arguments = {carry, y, -1},
                              .dtype = wide});
    }
    op.outputs.push_back({y, view(y_), {}, Combiner::add, 0});
    if (carries) op.outputs.push_back({0, view(carry_), {static_cast<int>(dim_)}, combiner_, Expr(first ? 0 : 1)});
    return op;
  }

  static Function function_of(Combiner combiner) {
    switch (combiner) {
      case Combiner::add:
        return Function::add;
      case Combiner::multiply:
        return Function::multiply;
      case Combiner::maximum:
        return Function::maximum;
      case Combiner::minimum:
        return Function::minimum;
      case Combiner::logical_and:
        return Function::logical_and;
      case Combiner::logical_or:
        return Function::logical_or;
    }
    return Function::add;
  }

  Block body() const {
    const bool from_shuffled = plan_.buffers[0].turned, to_shuffled = plan_.buffers[1].turned;
    Block block;
    block.push_back(statement(program::Load{transfer(x_)}));
    if (from_shuffled) block.push_back(statement(program::PermuteOp{view(x_, moved(x_)), view(x_)}));
    if (carries()) {
      program::If first{equal(Expr::symbol("i" + std::to_string(dim_)), Expr(0)), {}, {}};
      first.then.push_back(statement(compute(true, true)));
      first.otherwise.push_back(statement(compute(false, true)));
      block.push_back(statement(std::move(first)));
    } else {
      block.push_back(statement(compute(true, false)));
    }
    if (to_shuffled) block.push_back(statement(program::PermuteOp{view(y_), view(y_, moved(y_))}));
    block.push_back(statement(program::Store{transfer(y_), {}, 0}));
    return wrap_loops(plan_.rows, "i", std::move(block));
  }

  Context& context_;
  const Kernel& kernel_;
  const Op& op_;
  const Placement &from_, &to_;
  const Shape& shape_;
  std::size_t dim_;
  Combiner combiner_;
  TiledSpace t_;
  int lane_ = -1;
  mapping::VectorProblem problem_;
  mapping::VectorPlan plan_;
};

}  // namespace

program::Scope lower_cumulative(Context& context, const Kernel& kernel) {
  return ScanLowering(context, kernel).lower();
}

}  // namespace tilesim::lower
