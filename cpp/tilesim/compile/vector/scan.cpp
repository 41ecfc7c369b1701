// Scans: a tile at a time along the scanned axis, what came before it carried in a slot.
#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/lanes.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/compile/vector/vector.hpp"

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
    const std::int64_t elements = element_count(t_.tiles);
    scope.slots = {ring_slot("x", from_.dtype, elements, "vector", depth_),
                   ring_slot("y", to_.dtype, elements, "store0", depth_)};
    if (carries())
      scope.slots.push_back(ring_slot("carry", sum_dtype(from_.dtype), elements / t_.tiles[dim_], "vector"));
    scope.body = body();
    return scope;
  }

 private:
  bool carries() const { return t_.trips(dim_) > 1; }

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
    const mapping::VectorProblem asked = problem();
    const mapping::VectorTiles chosen =
        vector_tiles(context_, kernel_, asked, {choice.tiles, static_cast<int>(shape_.size()) - 1, 2});
    from_shuffled_ = mapping::changes_lanes(asked, asked.operands[0], chosen);
    to_shuffled_ = mapping::changes_lanes(asked, asked.operands[1], chosen);
    lane_ = chosen.lane;
    depth_ = chosen.depth;
    t_ = tiled_space(shape_, chosen.tiles, "i");
    if (!carries() || !op_.attributes.flag("reverse")) return;
    t_.start[dim_] = (Expr(t_.trips(dim_) - 1) - Expr::symbol("i" + std::to_string(dim_))) * Expr(t_.tiles[dim_]);
    t_.extent[dim_] = min(Expr(t_.tiles[dim_]), Expr(shape_[dim_]) - t_.start[dim_]);
  }

  mapping::VectorProblem problem() const {
    mapping::VectorProblem problem = vector_problem(context_, kernel_, shape_);
    problem.operands = {placed_operand(context_, from_, shape_.size(), mapping::VectorOperand::Use::load),
                        placed_operand(context_, to_, shape_.size(), mapping::VectorOperand::Use::store)};
    mapping::VectorOperand carry;
    carry.use = mapping::VectorOperand::Use::scratch;
    carry.dtype = sum_dtype(from_.dtype);
    carry.step.assign(shape_.size(), 1);
    carry.step[dim_] = 0;
    problem.operands.push_back(std::move(carry));
    problem.functions = {1, 0, 0, 0};
    problem.scanned = static_cast<int>(dim_);
    return problem;
  }

  View view(const std::string& slot, bool carried = false) const {
    Shape tiles = t_.tiles;
    if (carried) tiles[dim_] = 1;
    const Shape strides = row_major_strides(tiles);
    View result{slot, 0, 0, {}};
    for (std::size_t axis = 0; axis < shape_.size(); ++axis)
      result.dims.push_back({t_.extent[axis], carried && axis == dim_ ? 0 : strides[axis]});
    return result;
  }

  /// y = scan(x), combined with the carry where there is one; the carry takes in the whole tile.
  program::VectorOp compute(bool first) const {
    program::VectorOp op;
    op.extents = t_.extent;
    op.lane_dim = lane_;
    op.inputs.push_back(view("x"));
    add_node(op.nodes, {.op = VectorNode::Op::input, .dtype = from_.dtype});
    int y = add_node(op.nodes, {.op = VectorNode::Op::scan,
                                .index = static_cast<int>(dim_),
                                .arguments = {0, -1, -1},
                                .dtype = from_.dtype,
                                .combiner = combiner_,
                                .reverse = op_.attributes.flag("reverse"),
                                .exclusive = op_.attributes.flag("exclusive")});
    if (!first) {
      op.inputs.push_back(view("carry", true));
      const DType wide = sum_dtype(from_.dtype);
      const int carry = add_node(op.nodes, {.op = VectorNode::Op::input, .index = 1, .dtype = wide});
      y = add_node(op.nodes, {.op = VectorNode::Op::function,
                              .function = function_of(combiner_),
                              .arguments = {carry, y, -1},
                              .dtype = wide});
    }
    op.outputs.push_back({y, view("y"), {}, Combiner::add, 0});
    if (carries())
      op.outputs.push_back({0, view("carry", true), {static_cast<int>(dim_)}, combiner_, Expr(first ? 0 : 1)});
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

  View whole(const std::string& slot, const std::vector<std::int64_t>& strides) const {
    View result{slot, 0, 0, {}};
    for (std::size_t axis = 0; axis < shape_.size(); ++axis) result.dims.push_back({t_.extent[axis], strides[axis]});
    return result;
  }

  Block body() const {
    const Shape strides = row_major_strides(t_.tiles);
    const auto in = from_shuffled_ ? memory_strides(context_, from_, t_.tiles) : strides;
    const auto out = to_shuffled_ ? memory_strides(context_, to_, t_.tiles) : strides;
    const Expr tile = Expr::symbol("i" + std::to_string(dim_));
    Block block;
    block.push_back(on("", program::Acquire{"x", {"load0"}}));
    block.push_back(on("load0", program::Load{region_transfer(from_, t_.start, t_.extent, in, "x")}));
    block.push_back(on("load0", program::Commit{"x", 0, 1}));
    if (from_shuffled_) permute_in_place(whole("x", in), whole("x", strides), block);
    block.push_back(on("vector", program::Wait{"x", 0, {}, 0, from_shuffled_ ? 2 : 1}));
    block.push_back(on("", program::Acquire{"y", {"vector"}}));
    if (carries()) {
      program::If first{equal(tile, Expr(0)), {}, {}};
      first.then.push_back(on("vector", compute(true)));
      first.otherwise.push_back(on("vector", compute(false)));
      block.push_back(on("", std::move(first)));
    } else {
      block.push_back(on("vector", compute(true)));
    }
    block.push_back(on("vector", program::Commit{"y", 0, 1}));
    block.push_back(on("vector", program::Release{"x", 0}));
    if (to_shuffled_) permute_in_place(whole("y", strides), whole("y", out), block);
    block.push_back(on("store0", program::Wait{"y", 0, {}, 0, to_shuffled_ ? 2 : 1}));
    block.push_back(on("store0", program::Store{region_transfer(to_, t_.start, t_.extent, out, "y"), {}, 0}));
    block.push_back(on("store0", program::Release{"y", 0}));
    if (!carries()) return wrap_loops(t_, std::move(block));
    Block rows;
    rows.push_back(on("", program::Acquire{"carry", {"vector"}}));
    rows.push_back(loop("i" + std::to_string(dim_), Expr(t_.trips(dim_)), std::move(block)));
    rows.push_back(on("vector", program::Commit{"carry", 0, 1}));
    rows.push_back(on("vector", program::Wait{"carry", 0, {}, 0, 1}));
    rows.push_back(on("vector", program::Release{"carry", 0}));
    return wrap_loops(t_, std::move(rows), dim_);
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
  bool from_shuffled_ = false, to_shuffled_ = false;  ///< elements change lanes between memory and tile
  std::int64_t depth_ = 2;
};

}  // namespace

program::Scope lower_cumulative(Context& context, const Kernel& kernel) {
  return ScanLowering(context, kernel).lower();
}

}  // namespace tilesim::lower
