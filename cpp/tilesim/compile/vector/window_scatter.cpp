// window_scatter: one tile of the result at a time, with all windows that overlap it. First finds the position of each
// window's extreme, tap by tap; then each tap adds the values of its windows to the elements below it.
#include <algorithm>
#include <optional>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/compile/vector/vector.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

std::string numbered(const char* stem, std::size_t axis) { return stem + std::to_string(axis); }

/// One axis. A tile of the result begins at a multiple of the stride: windows have the same place in every tile.
struct Axis {
  std::int64_t extent, window, stride, pad;
  std::int64_t tile = 1;  ///< extent of the result's tile

  /// The first window that reaches into the tile, relative to the window at the tile's start: not positive.
  std::int64_t first() const { return floor_div(pad - window + 1, stride); }
  std::int64_t windows() const { return floor_div(tile - 1 + pad, stride) - first() + 1; }
  /// Distance from the first window's first element to the tile's first element.
  std::int64_t halo() const { return pad - first() * stride; }
  /// Number of elements, from the first window on, that the windows and the tile cover.
  std::int64_t region() const { return std::max((windows() - 1) * stride + window, halo() + tile); }
  std::int64_t trips() const { return ceil_div(extent, tile); }
};

class WindowScatterLowering {
 public:
  WindowScatterLowering(Context& context, const Kernel& kernel)
      : context_(context),
        kernel_(kernel),
        op_(context.function.ops[static_cast<std::size_t>(kernel.ops[0])]),
        x_(context.placements[static_cast<std::size_t>(op_.operands[0])]),
        source_(context.placements[static_cast<std::size_t>(op_.operands[1])]),
        y_(context.placements[static_cast<std::size_t>(op_.results[0])]),
        dtype_(context.value(op_.results[0]).type.dtype),
        wide_(sum_dtype(dtype_)) {
    const Shape& shape = context.value(op_.results[0]).type.shape;
    const auto& window = op_.attributes.integers("window");
    const auto strides = op_.attributes.integers("strides", Shape(shape.size(), 1));
    const auto pads = op_.attributes.integers("pads", Shape(2 * shape.size(), 0));
    for (std::size_t i = 0; i < shape.size(); ++i) axes_.push_back({shape[i], window[i], strides[i], pads[2 * i]});
    order_ = by_memory();
    padded_ = std::ranges::any_of(pads, [](std::int64_t pad) { return pad != 0; });
  }

  program::Scope lower() {
    program::Scope scope = named_scope(context_, kernel_);
    if (std::ranges::any_of(axes_, [](const Axis& axis) { return axis.extent == 0; })) return scope;
    refuse_tiles(context_, kernel_);
    check_vector_dtypes(context_, {kernel_.ops[0]});
    choose();
    const std::vector<Ring> rings{
        {"x", x_.dtype, elements(regions())},    {"source", source_.dtype, elements(windows())},
        {"best", wide_, elements(windows()), 1}, {"found", DType::i32, elements(windows()), 1},
        {"sum", wide_, elements(regions()), 1},  {"y", y_.dtype, elements(tiles())}};
    return write_kernel(std::move(scope), rings, body());
  }

 private:
  template <class F>
  Shape each(F&& f) const {
    Shape result;
    for (const Axis& axis : axes_) result.push_back(f(axis));
    return result;
  }
  Shape tiles() const {
    return each([](const Axis& axis) { return axis.tile; });
  }
  Shape windows() const {
    return each([](const Axis& axis) { return axis.windows(); });
  }
  Shape regions() const {
    return each([](const Axis& axis) { return axis.region(); });
  }
  static std::int64_t elements(const Shape& shape) { return element_count(shape); }
  std::int64_t taps() const {
    return element_count(each([](const Axis& axis) { return axis.window; }));
  }

  double bytes() const {
    const auto product = [](const Shape& shape) {
      double result = 1;
      for (const std::int64_t extent : shape) result *= static_cast<double>(extent);
      return result;
    };
    const double wide = host_bytes(wide_);
    return product(regions()) * (2 * host_bytes(x_.dtype) + wide) +
           product(windows()) * (2 * host_bytes(source_.dtype) + wide + 4) +
           product(tiles()) * 2 * host_bytes(y_.dtype) + 9 * 64;
  }

  /// Axes in the result's memory order, outer ones first. On-chip tiles have this order, the last axis on the lanes.
  std::vector<std::size_t> by_memory() const {
    const program::Tensor* tensor = find_tensor(context_, y_.tensor);
    const bool ordered = y_.identity && tensor && tensor->minor_to_major.size() == axes_.size();
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < axes_.size(); ++i)
      order.push_back(ordered ? static_cast<std::size_t>(tensor->minor_to_major[axes_.size() - 1 - i]) : i);
    return order;
  }

  /// The least extents of tiles that consist of whole bursts or layout tiles.
  Shape granules() const {
    TileChoice choice;
    choice.space = each([](const Axis& axis) { return axis.extent; });
    choice.granules.assign(axes_.size(), 1);
    for (const Placement* placement : {&x_, &y_}) add_granules(choice, context_, *placement);
    return choice.granules;
  }

  /// Number of windows that all tiles compute, including those that adjacent tiles repeat.
  double computed() const {
    double elements = 1;
    for (const Axis& axis : axes_) elements *= static_cast<double>(axis.windows() * axis.trips());
    return elements;
  }

  /// Halves the axis that adds the fewest repeated windows, the outer one of equals; false if all axes are at their
  /// least extents.
  bool cut(const Shape& least, std::size_t axes) {
    std::optional<std::size_t> best;
    std::int64_t best_tile = 0;
    double fewest = 0;
    for (std::size_t i = 0; i < axes; ++i) {
      Axis& axis = axes_[order_[i]];
      const std::int64_t whole = axis.tile, granule = std::max(axis.stride, least[order_[i]]);
      if (whole <= granule) continue;
      axis.tile = round_up(std::max(granule, ceil_div(whole, 2)), axis.stride);
      if (axis.tile < whole && (!best || computed() < fewest))
        best = order_[i], best_tile = axis.tile, fewest = computed();
      axis.tile = whole;
    }
    if (best) axes_[*best].tile = best_tile;
    return best.has_value();
  }

  /// Splits no axis below what memory moves at once while others can be split. Several tiles let transfers overlap, and
  /// each core gets a tile.
  void choose() {
    for (Axis& axis : axes_) axis.tile = round_up(axis.extent, axis.stride);
    const std::int64_t capacity = context_.machine.core.scratchpad.bytes;
    const double budget = static_cast<double>(std::min<std::int64_t>(capacity, 4 << 20));
    const Shape least = granules(), any(axes_.size(), 1);
    while (bytes() > budget && cut(least, axes_.size())) continue;
    while (bytes() > static_cast<double>(capacity) && cut(any, axes_.size())) continue;
    if (bytes() > static_cast<double>(capacity))
      throw CannotRun(op_, Lack::scratchpad,
                      {"window_scatter: not even one window fits the scratchpad", op_.name,
                       std::to_string(static_cast<std::int64_t>(bytes())) + " bytes",
                       "at most " + std::to_string(capacity) + " bytes", "a smaller window, or fallback='host'"});
    const auto trips = [&] { return element_count(each([](const Axis& axis) { return axis.trips(); })); };
    while (trips() < context_.machine.core.count && cut(least, axes_.empty() ? 0 : axes_.size() - 1)) continue;
  }

  Expr tile_index(std::size_t axis) const {
    return axes_[axis].trips() == 1 ? Expr(0) : Expr::symbol(numbered("i", axis));
  }
  /// First window of the tile; it may precede the first existing window.
  Expr first_window(std::size_t axis) const {
    const Axis& a = axes_[axis];
    return tile_index(axis) * Expr(a.tile / a.stride) + Expr(a.first());
  }
  Expr tap(std::size_t axis) const { return axes_[axis].window == 1 ? Expr(0) : Expr::symbol(numbered("t", axis)); }
  Expr flat_tap() const {
    Expr flat = 0;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) flat = flat * Expr(axes_[axis].window) + tap(axis);
    return flat;
  }

  Shape strides_of(const Shape& extents) const {
    Shape strides(extents.size());
    std::int64_t stride = 1;
    for (auto axis = order_.rbegin(); axis != order_.rend(); ++axis) {
      strides[*axis] = stride;
      stride *= extents[*axis];
    }
    return strides;
  }

  View dense(const std::string& slot, const Shape& extents) const {
    View view{slot, 0, 0, {}};
    const Shape strides = strides_of(extents);
    for (std::size_t axis = 0; axis < extents.size(); ++axis) view.dims.push_back({extents[axis], strides[axis]});
    return view;
  }

  /// The elements of a region below the current tap of each window.
  View tapped(const std::string& slot) const {
    View view{slot, 0, 0, {}};
    const Shape strides = strides_of(regions()), count = windows();
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      view.dims.push_back({count[axis], strides[axis] * axes_[axis].stride});
      view.offset = view.offset + tap(axis) * Expr(strides[axis]);
    }
    return view;
  }

  program::VectorOp over(const Shape& extents) const {
    program::VectorOp op;
    for (const std::int64_t extent : extents) op.extents.push_back(extent);
    op.lane_dim = order_.empty() ? -1 : static_cast<int>(order_.back());
    return op;
  }

  static int input(program::VectorOp& op, View view, DType dtype) {
    op.inputs.push_back(std::move(view));
    return add_node(op.nodes,
                    {.op = VectorNode::Op::input, .index = static_cast<int>(op.inputs.size()) - 1, .dtype = dtype});
  }
  static int apply(program::VectorOp& op, Function function, std::array<int, 3> arguments, DType dtype) {
    return add_node(op.nodes,
                    {.op = VectorNode::Op::function, .function = function, .arguments = arguments, .dtype = dtype});
  }
  static int constant(program::VectorOp& op, double value, DType dtype) {
    return add_node(op.nodes, {.op = VectorNode::Op::constant, .number = value, .dtype = dtype});
  }
  static int scalar(program::VectorOp& op, const Expr& value) {
    op.nodes.push_back({{.op = VectorNode::Op::scalar, .dtype = DType::i64}, value});
    return static_cast<int>(op.nodes.size()) - 1;
  }

  program::VectorOp filled(const std::string& slot, const Shape& extents, double value, DType dtype) const {
    program::VectorOp op = over(extents);
    const int node = constant(op, value, dtype);
    op.outputs.push_back({node, dense(slot, extents), {}, Combiner::add, 0});
    return op;
  }

  /// A node that is true if the tap lies inside x; -1: always inside. For existing windows, only padding is outside.
  int inside(program::VectorOp& op) const {
    int all = -1;
    const auto both = [&](int condition) {
      all = all < 0 ? condition : apply(op, Function::logical_and, {all, condition, -1}, DType::boolean);
    };
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const Axis& a = axes_[axis];
      if (!padded_ || a.window == 1) continue;
      const int number =
          add_node(op.nodes, {.op = VectorNode::Op::iota, .index = static_cast<int>(axis), .dtype = DType::i64});
      const int step = a.stride == 1
                           ? number
                           : apply(op, Function::multiply,
                                   {number, constant(op, static_cast<double>(a.stride), DType::i64), -1}, DType::i64);
      const Expr base = first_window(axis) * Expr(a.stride) + tap(axis) - Expr(a.pad);
      const int position = apply(op, Function::add, {step, scalar(op, base), -1}, DType::i64);
      both(apply(op, Function::less_equal, {constant(op, 0, DType::i64), position, -1}, DType::boolean));
      both(apply(op, Function::less, {position, constant(op, static_cast<double>(a.extent), DType::i64), -1},
                 DType::boolean));
    }
    return all;
  }

  /// Takes the tap if it is better than all previous ones, or the first one inside x.
  program::VectorOp search() const {
    const Shape count = windows();
    program::VectorOp op = over(count);
    const int x = input(op, tapped("x"), x_.dtype), best = input(op, dense("best", count), wide_),
              found = input(op, dense("found", count), DType::i32);
    const bool largest = op_.attributes.text("select") == "maximum";
    const int better = apply(op, largest ? Function::greater : Function::less, {x, best, -1}, DType::boolean);
    const int none = apply(op, Function::less, {found, constant(op, 0, DType::i64), -1}, DType::boolean);
    int take = apply(op, Function::logical_or, {none, better, -1}, DType::boolean);
    if (const int here = inside(op); here >= 0)
      take = apply(op, Function::logical_and, {take, here, -1}, DType::boolean);
    const int value = apply(op, Function::select, {take, x, best}, wide_);
    const int number = apply(op, Function::select, {take, scalar(op, flat_tap()), found}, DType::i64);
    op.outputs.push_back({value, dense("best", count), {}, Combiner::add, 0});
    op.outputs.push_back({number, dense("found", count), {}, Combiner::add, 0});
    return op;
  }

  program::VectorOp gather() const {
    const Shape count = windows();
    program::VectorOp op = over(count);
    const int sum = input(op, tapped("sum"), wide_), found = input(op, dense("found", count), DType::i32),
              source = input(op, dense("source", count), source_.dtype);
    const int here = apply(op, Function::equal, {found, scalar(op, flat_tap()), -1}, DType::boolean);
    const int given = apply(op, Function::select, {here, source, constant(op, 0, wide_)}, wide_);
    const int total = apply(op, Function::add, {sum, given, -1}, wide_);
    op.outputs.push_back({total, tapped("sum"), {}, Combiner::add, 0});
    return op;
  }

  program::VectorOp rounded() const {
    program::VectorOp op = over(tiles());
    View from{"sum", 0, 0, {}};
    const Shape strides = strides_of(regions());
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      from.dims.push_back({axes_[axis].tile, strides[axis]});
      offset += axes_[axis].halo() * strides[axis];
    }
    from.offset = offset;
    const int sum = input(op, from, wide_);
    op.outputs.push_back({sum, dense("y", tiles()), {}, Combiner::add, 0});
    return op;
  }

  void over_taps(program::VectorOp compute, Block& block) const {
    Block body;
    body.push_back(statement(std::move(compute)));
    for (std::size_t axis = axes_.size(); axis-- > 0;) {
      if (axes_[axis].window == 1) continue;
      Block inner = std::move(body);
      body.clear();
      body.push_back(loop(numbered("t", axis), Expr(axes_[axis].window), std::move(inner)));
    }
    std::move(body.begin(), body.end(), std::back_inserter(block));
  }

  program::Transfer operand(const Placement& placement, const std::string& slot, bool by_window) const {
    std::vector<Expr> start, extent;
    const Shape all = by_window ? windows() : regions();
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const Axis& a = axes_[axis];
      start.push_back(by_window ? first_window(axis) : first_window(axis) * Expr(a.stride) - Expr(a.pad));
      extent.push_back(all[axis]);
    }
    program::Transfer transfer = region_transfer(placement, start, extent, strides_of(all), slot);
    transfer.fill = 0.0;
    return transfer;
  }

  Block body() const {
    Block block;
    const auto fill = [&](const std::string& slot, const Shape& extents, double value, DType dtype) {
      block.push_back(statement(filled(slot, extents, value, dtype)));
    };
    block.push_back(statement(program::Load{operand(x_, "x", false)}));
    fill("best", windows(), 0, wide_);
    fill("found", windows(), -1, DType::i64);
    over_taps(search(), block);
    block.push_back(statement(program::Load{operand(source_, "source", true)}));
    fill("sum", regions(), 0, wide_);
    over_taps(gather(), block);
    block.push_back(statement(rounded()));
    store(block);
    for (std::size_t axis = axes_.size(); axis-- > 0;) {
      if (axes_[axis].trips() == 1) continue;
      Block inner = std::move(block);
      block.clear();
      block.push_back(loop(numbered("i", axis), Expr(axes_[axis].trips()), std::move(inner)));
    }
    return block;
  }

  void store(Block& block) const {
    std::vector<Expr> start, extent;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      start.push_back(tile_index(axis) * Expr(axes_[axis].tile));
      extent.push_back(min(Expr(axes_[axis].tile), Expr(axes_[axis].extent) - start.back()));
    }
    block.push_back(statement(program::Store{region_transfer(y_, start, extent, strides_of(tiles()), "y"), {}, 0}));
  }

  Context& context_;
  const Kernel& kernel_;
  const Op& op_;
  const Placement &x_, &source_, &y_;
  DType dtype_, wide_;
  std::vector<Axis> axes_;
  std::vector<std::size_t> order_;
  bool padded_ = false;
};

}  // namespace

program::Scope lower_window_scatter(Context& context, const Kernel& kernel) {
  return WindowScatterLowering(context, kernel).lower();
}

}  // namespace tilesim::lower
