// Windows (pooling) on the vector unit. A window longer than the scratchpad is reduced in parts.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/compile/vector/vector.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

class WindowLowering {
 public:
  WindowLowering(Context& context, const Kernel& kernel)
      : context_(context),
        kernel_(kernel),
        op_(context.function.ops[static_cast<std::size_t>(kernel.ops[0])]),
        from_(context.placements[static_cast<std::size_t>(op_.operands[0])]),
        to_(context.placements[static_cast<std::size_t>(op_.results[0])]),
        out_(context.value(op_.results[0]).type.shape),
        window_(op_.attributes.integers("window")),
        strides_(op_.attributes.integers("strides", Shape(out_.size(), 1))),
        dilation_(op_.attributes.integers("window_dilation", Shape(out_.size(), 1))),
        pads_(op_.attributes.integers("pads", Shape(2 * out_.size(), 0))),
        combiner_(parse_combiner(op_.attributes.text("combiner"))),
        wide_(sum_dtype(from_.dtype)) {}

  program::Scope lower() {
    program::Scope scope = named_scope(context_, kernel_);
    if (element_count(out_) == 0) return scope;
    choose();
    std::vector<Ring> rings;
    for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
      static const char* const names[] = {"x", "y", "sum"};
      if (plan_.buffers[i].there) rings.push_back(planned_ring(names[i], problem_, plan_, i));
    }
    return write_kernel(std::move(scope), rings, body());
  }

 private:
  std::size_t rank() const { return out_.size(); }

  /// Extents of the input that a tile of outputs reads through a tile of taps.
  Shape region(const Shape& outputs, const Shape& taps) const {
    Shape result;
    for (std::size_t axis = 0; axis < rank(); ++axis)
      result.push_back((outputs[axis] - 1) * strides_[axis] + (taps[axis] - 1) * dilation_[axis] + 1);
    return result;
  }

  bool in_parts() const { return !plan_.parts.empty(); }

  /// Splits outputs, outer axes first. Splits taps before that if a window takes more than a quarter of the budget, so
  /// that adjacent outputs still share loaded elements.
  void choose() {
    Shape tiles = out_, taps = window_;
    const std::int64_t capacity = context_.machine.core.scratchpad.bytes;
    const auto budget = static_cast<double>(std::min<std::int64_t>(capacity, 4 << 20));
    const auto bytes = [&](const Shape& outputs) {
      double in = 1, result = 1;  // products of extents may exceed 64 bits
      for (const std::int64_t extent : region(outputs, taps)) in *= static_cast<double>(extent);
      for (const std::int64_t tile : outputs) result *= static_cast<double>(tile);
      const double own = host_bytes(to_.dtype) + (taps == window_ ? 0 : host_bytes(wide_));
      return 2 * (in * host_bytes(from_.dtype) + result * own) + 3 * 2 * 64;
    };
    const auto halve = [&](Shape& extents, const auto& too_large) {
      for (std::size_t axis = 0; axis < rank() && too_large();) {
        if (extents[axis] > 1)
          extents[axis] = (extents[axis] + 1) / 2;
        else
          ++axis;
      }
    };
    halve(taps, [&] { return bytes(Shape(rank(), 1)) > budget / 4; });
    halve(tiles, [&] { return bytes(tiles) > budget; });
    if (bytes(tiles) > static_cast<double>(capacity))
      throw UserError({"not even one tap of a window fits the scratchpad", op_.name, {}, {}, {}});
    cut_for_cores(tiles);
    make_problem(taps);
    const mapping::VectorTiles chosen =
        vector_tiles(context_, kernel_, problem_, {tiles, static_cast<int>(rank()) - 1, 2});
    plan_ = mapping::plan(problem_, chosen, context_.machine);
    lane_ = chosen.lane;
    y_ = tiled_space(out_, chosen.tiles, "i");
    w_ = tiled_space(window_, taps, "w");
  }

  /// Splits tiles, outer axes first, until each core has one; no axis below the extent that its layout moves at once.
  void cut_for_cores(Shape& tiles) const {
    const std::int64_t cores = context_.machine.core.count;
    TileChoice least;
    least.space = out_;
    add_granules(least, context_, from_);
    add_granules(least, context_, to_);
    least.granules.resize(rank(), 1);
    const auto trips = [&] {
      std::int64_t count = 1;
      for (std::size_t axis = 0; axis < rank() && count < cores; ++axis) count *= ceil_div(out_[axis], tiles[axis]);
      return count;
    };
    for (std::size_t axis = 0; axis < rank(); ++axis)
      while (trips() < cores && tiles[axis] > least.granules[axis])
        tiles[axis] = std::max(least.granules[axis], ceil_div(tiles[axis], 2));
  }

  void make_problem(const Shape& taps) {
    using Use = mapping::VectorOperand::Use;
    problem_ = vector_problem(context_, kernel_, out_);
    problem_.turns = false;
    problem_.taps = window_;
    problem_.tap_tiles = taps;
    problem_.functions = {};
    problem_.functions[combiner_ == Combiner::multiply ? 1 : 0] = 1;
    mapping::VectorOperand in = placed_operand(context_, from_, rank(), Use::load),
                           result = placed_operand(context_, to_, rank(), Use::store), sum;
    give_access(context_, from_, in);
    give_access(context_, to_, result);
    in.step = strides_;
    in.reach = region(Shape(rank(), 1), taps);
    in.dilation = dilation_;
    for (std::size_t axis = 0; axis < rank(); ++axis) in.before.push_back(pads_[2 * axis]);
    sum.use = Use::scratch;
    sum.dtype = wide_;
    sum.step.assign(rank(), 1);
    sum.between = true;
    problem_.operands = {std::move(in), std::move(result), std::move(sum)};
    mapping::VectorStage reduced, part, rounding;
    reduced.functions[combiner_ == Combiner::multiply ? 1 : 0] = 1;
    reduced.dtype = from_.dtype;
    reduced.loads = {0};
    part = reduced;
    reduced.rows = mapping::VectorStage::Rows::whole;
    reduced.stores = rounding.stores = {1};
    part.rows = rounding.rows = mapping::VectorStage::Rows::streamed;
    rounding.pass = 0;
    rounding.taps = false;
    rounding.dtype = wide_;
    find_patterns(reduced, part, rounding);
    problem_.stages = {std::move(reduced), std::move(part), std::move(rounding)};
  }

  /// Sets the stages' patterns. Dims: the axes of the output, then those of the window.
  void find_patterns(mapping::VectorStage& reduced, mapping::VectorStage& part, mapping::VectorStage& rounding) const {
    if (2 * rank() > most_vector_dims) return;
    const std::uint32_t outputs = (std::uint32_t{1} << rank()) - 1;
    std::uint32_t taps = 0;
    for (std::size_t axis = 0; axis < rank(); ++axis)
      if (window_[axis] > 1) taps |= std::uint32_t{1} << (rank() + axis);
    const VectorNode node{.op = VectorNode::Op::input};
    const VectorRead in{from_.dtype, outputs | taps}, sum{wide_, outputs};
    const VectorWrite to_result{0, to_.dtype, taps, combiner_, false}, to_sum{0, wide_, taps, combiner_, true},
        rounded{0, to_.dtype, 0, Combiner::add, false};
    reduced.pattern = pattern_of({&node, 1}, {&in, 1}, {&to_result, 1});
    part.pattern = pattern_of({&node, 1}, {&in, 1}, {&to_sum, 1});
    rounding.pattern = pattern_of({&node, 1}, {&sum, 1}, {&rounded, 1});
  }

  /// The value of padding: the combiner's identity element, or the nearest in the type (some have no infinity).
  double fill() const {
    const double neutral = identity_element(combiner_, from_.dtype);
    if (!is_float(from_.dtype)) return neutral;
    double held = 0;
    for (const Overflow overflow : {Overflow::ieee, Overflow::saturate}) {
      std::byte narrow[8] = {};
      convert(&neutral, DType::f64, narrow, from_.dtype, 1, Rounding::nearest_even, overflow);
      convert(narrow, from_.dtype, &held, DType::f64, 1);
      if (held == held) break;
    }
    return held;
  }

  program::Transfer load() const {
    const Shape strides = row_major_strides(region(y_.tiles, w_.tiles));
    std::vector<Expr> start, extent;
    for (std::size_t axis = 0; axis < rank(); ++axis) {
      start.push_back(y_.start[axis] * Expr(strides_[axis]) + w_.start[axis] * Expr(dilation_[axis]) -
                      Expr(pads_[2 * axis]));
      extent.push_back((y_.extent[axis] - Expr(1)) * Expr(strides_[axis]) +
                       (w_.extent[axis] - Expr(1)) * Expr(dilation_[axis]) + Expr(1));
    }
    program::Transfer transfer = region_transfer(from_, start, extent, strides, "x");
    transfer.fill = fill();
    return transfer;
  }

  program::VectorOp compute(const std::string& target, const Expr& accumulate) const {
    const Shape in_strides = row_major_strides(region(y_.tiles, w_.tiles)), out_strides = row_major_strides(y_.tiles);
    program::VectorOp op;
    View in{"x", 0, 0, {}}, result{target, 0, 0, {}};
    for (std::size_t axis = 0; axis < rank(); ++axis) {
      op.extents.push_back(y_.extent[axis]);
      in.dims.push_back({y_.extent[axis], in_strides[axis] * strides_[axis]});
      result.dims.push_back({y_.extent[axis], out_strides[axis]});
    }
    program::VectorOutputSpec output;
    for (std::size_t axis = 0; axis < rank(); ++axis) {
      if (window_[axis] == 1) continue;
      output.reduce.push_back(static_cast<int>(op.extents.size()));
      op.extents.push_back(w_.extent[axis]);
      in.dims.push_back({w_.extent[axis], in_strides[axis] * dilation_[axis]});
      result.dims.push_back({w_.extent[axis], 0});
    }
    op.lane_dim = lane_;
    op.inputs.push_back(in);
    add_node(op.nodes, {.op = VectorNode::Op::input, .dtype = from_.dtype});
    output.view = result;
    output.combiner = combiner_;
    output.accumulate = accumulate;
    op.outputs.push_back(output);
    return op;
  }

  /// Rounds the finished sums once.
  program::VectorOp rounded() const {
    const Shape strides = row_major_strides(y_.tiles);
    program::VectorOp op;
    View in{"sum", 0, 0, {}}, result{"y", 0, 0, {}};
    for (std::size_t axis = 0; axis < rank(); ++axis) {
      op.extents.push_back(y_.extent[axis]);
      in.dims.push_back({y_.extent[axis], strides[axis]});
      result.dims.push_back({y_.extent[axis], strides[axis]});
    }
    op.lane_dim = lane_;
    op.inputs.push_back(in);
    add_node(op.nodes, {.op = VectorNode::Op::input, .dtype = wide_});
    op.outputs.push_back({0, result, {}, Combiner::add, 0});
    return op;
  }

  Block body() const {
    Block part;
    part.push_back(statement(program::Load{load()}));
    if (in_parts()) {
      Expr before = 0;
      for (const mapping::VectorPlan::Loop& loop : plan_.parts)
        before = before + Expr::symbol("w" + std::to_string(loop.axis));
      part.push_back(statement(compute("sum", less(Expr(0), before))));
      part = wrap_loops(plan_.parts, "w", std::move(part));
      part.push_back(statement(rounded()));
    } else {
      part.push_back(statement(compute("y", 0)));
    }
    const Shape strides = row_major_strides(y_.tiles);
    part.push_back(statement(program::Store{region_transfer(to_, y_.start, y_.extent, strides, "y"), {}, 0}));
    return wrap_loops(plan_.rows, "i", std::move(part));
  }

  Context& context_;
  const Kernel& kernel_;
  const Op& op_;
  const Placement &from_, &to_;
  const Shape& out_;
  Shape window_, strides_, dilation_, pads_;
  Combiner combiner_;
  DType wide_;
  TiledSpace y_, w_;
  int lane_ = -1;
  mapping::VectorProblem problem_;
  mapping::VectorPlan plan_;
};

}  // namespace

program::Scope lower_window(Context& context, const Kernel& kernel) { return WindowLowering(context, kernel).lower(); }

}  // namespace tilesim::lower
