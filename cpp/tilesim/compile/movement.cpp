// Movement by DMA: load a region through one access map, store it through another.
#include <algorithm>
#include <optional>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/placement.hpp"
#include "tilesim/compile/tiling.hpp"

namespace tilesim::lower {

using program::Block;

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

AxisAccess term(std::size_t dim, std::int64_t coefficient = 1, std::int64_t constant = 0) {
  AxisAccess access;
  access.terms.push_back({static_cast<int>(dim), coefficient});
  access.constant = constant;
  return access;
}

std::vector<AxisAccess> plain(std::size_t rank) {
  std::vector<AxisAccess> axes;
  for (std::size_t i = 0; i < rank; ++i) axes.push_back(term(i));
  return axes;
}

/// A placement seen through another access: axes of the tensor by the axes of the iteration space.
Placement through(const Placement& placement, const std::vector<AxisAccess>& access) {
  Placement result = placement;
  for (AxisAccess& axis : result.axes) {
    AxisAccess composed;
    composed.constant = axis.constant;
    for (const auto& outer : axis.terms) {
      composed.constant += outer.coefficient * access[at(outer.dim)].constant;
      for (const auto& inner : access[at(outer.dim)].terms)
        composed.terms.push_back({inner.dim, inner.coefficient * outer.coefficient});
    }
    axis = std::move(composed);
  }
  return result;
}

class MovementLowering {
 public:
  MovementLowering(Context& context, const Kernel& kernel)
      : context_(context),
        kernel_(kernel),
        op_(context.function.ops[at(kernel.ops[0])]),
        y_(op_.results[0]),
        shape_(context.value(y_).type.shape) {}

  program::Scope lower() {
    scope_ = named_scope(context_, kernel_);
    emit();
    return std::move(scope_);
  }

 private:
  const Shape& shape(ValueId value) const { return context_.value(value).type.shape; }
  const Placement& placement(ValueId value) const { return context_.placements[at(value)]; }
  [[noreturn]] void unsupported(const std::string& why) const {
    throw Unsupported({std::string(info(op_.kind).name) + ": " + why, op_.name, {}, {}, {}});
  }

  struct Region {
    Shape space, tiles;
    std::vector<Expr> start, extent;
    std::vector<std::int64_t> strides;
  };

  Region region(const Shape& space, DType dtype, int suffix) const {
    TileChoice choice{space,
                      {{std::vector<bool>(space.size(), true), 2 * host_bytes(dtype)}},
                      std::vector<bool>(space.size(), false),
                      {},
                      {}};
    const program::Tensor* target = context_.program.find_tensor(placement(y_).tensor);
    if (target && target->minor_to_major.size() == space.size() && placement(y_).identity)
      for (auto axis = target->minor_to_major.rbegin(); axis != target->minor_to_major.rend(); ++axis)
        choice.order.push_back(at(*axis));
    if (!choose_tiles(choice, context_.machine)) unsupported("not even one element fits the scratchpad");
    Region r{space, choice.tiles, {}, {}, row_major_strides(choice.tiles)};
    for (std::size_t axis = 0; axis < space.size(); ++axis) {
      const std::int64_t whole = space[axis], tile = r.tiles[axis];
      const Expr start = tile >= whole ? Expr(0) : Expr::symbol(index(axis, suffix)) * Expr(tile);
      r.start.push_back(start);
      r.extent.push_back(tile >= whole || whole % tile == 0 ? Expr(std::min(tile, whole))
                                                            : min(Expr(tile), Expr(whole) - start));
    }
    return r;
  }

  static std::string index(std::size_t axis, int suffix) {
    return "i" + std::to_string(suffix) + "_" + std::to_string(axis);
  }

  void add_slot(program::Scope& scope, const std::string& name, DType dtype, const Shape& tiles,
                const std::string& consumer) const {
    program::Slot slot;
    slot.name = name;
    slot.dtype = dtype;
    slot.elements = std::max<std::int64_t>(1, element_count(tiles));
    slot.depth = 2;
    slot.consumers = {consumer};
    scope.slots.push_back(std::move(slot));
  }

  /// Adds one step: its own slots, after all steps before (they may write the same tensor).
  void add_step(const Region& r, program::Scope step, Block body, int suffix) {
    for (std::size_t axis = r.space.size(); axis-- > 0;) {
      if (r.tiles[axis] >= r.space[axis]) continue;
      Block inner = std::move(body);
      body.clear();
      body.push_back(loop(index(axis, suffix), Expr(ceil_div(r.space[axis], r.tiles[axis])), std::move(inner)));
    }
    step.body = std::move(body);
    step.barrier = true;
    step.operation = scope_.operation;
    assign_addresses(step, context_.machine);
    scope_.body.push_back(on("", std::move(step)));
  }

  /// For every point of `space`: y at `to` = x at `from`; the tile is loaded and stored by strided transfers.
  void copy(const Shape& space, ValueId x, const std::vector<AxisAccess>& from, const std::vector<AxisAccess>& to,
            std::optional<double> fill = {}) {
    if (element_count(space) == 0) return;
    const int suffix = steps_++;
    const DType dtype = placement(x).dtype;
    const Region r = region(space, dtype, suffix);
    program::Scope step;
    const bool converts = dtype != placement(y_).dtype;
    add_slot(step, "x", dtype, r.tiles, converts ? "vector" : "store0");
    if (converts) add_slot(step, "y", placement(y_).dtype, r.tiles, "store0");
    Block body;
    body.push_back(on("", program::Acquire{"x", {"load0"}}));
    program::Transfer load = region_transfer(through(placement(x), from), r.start, r.extent, r.strides, "x");
    load.fill = fill;
    body.push_back(on("load0", program::Load{std::move(load)}));
    body.push_back(on("load0", program::Commit{"x", 0, 1}));
    if (converts) emit_convert(r, body);
    store(r, converts ? "y" : "x", to, body);
    add_step(r, std::move(step), std::move(body), suffix);
  }

  void emit_convert(const Region& r, Block& body) const {
    program::VectorOp compute;
    compute.extents = r.extent;
    compute.lane_dim = static_cast<int>(r.extent.size()) - 1;
    program::View in{"x", 0, 0, {}}, out{"y", 0, 0, {}};
    for (std::size_t axis = 0; axis < r.extent.size(); ++axis) {
      in.dims.push_back({r.extent[axis], r.strides[axis]});
      out.dims.push_back({r.extent[axis], r.strides[axis]});
    }
    compute.inputs.push_back(in);
    compute.nodes.push_back({{.op = VectorNode::Op::input, .dtype = DType::f32}, 0});
    compute.outputs.push_back({0, out, {}, Combiner::add, 0});
    body.push_back(on("vector", program::Wait{"x", 0, {}, 0, 1}));
    body.push_back(on("", program::Acquire{"y", {"vector"}}));
    body.push_back(on("vector", std::move(compute)));
    body.push_back(on("vector", program::Commit{"y", 0, 1}));
    body.push_back(on("vector", program::Release{"x", 0}));
  }

  void store(const Region& r, const std::string& slot, const std::vector<AxisAccess>& to, Block& body) const {
    body.push_back(on("store0", program::Wait{slot, 0, {}, 0, 1}));
    body.push_back(
        on("store0",
           program::Store{region_transfer(through(placement(y_), to), r.start, r.extent, r.strides, slot), {}, 0}));
    body.push_back(on("store0", program::Release{slot, 0}));
  }

  /// y = a constant, everywhere.
  void fill(double value) {
    const int suffix = steps_++;
    const DType dtype = placement(y_).dtype;
    const Region r = region(shape_, dtype, suffix);
    program::Scope step;
    add_slot(step, "y", dtype, r.tiles, "store0");
    program::VectorOp compute;
    compute.extents = r.extent;
    compute.lane_dim = static_cast<int>(r.extent.size()) - 1;
    compute.nodes.push_back(
        {{.op = VectorNode::Op::constant, .number = value, .dtype = context_.value(y_).type.dtype}, 0});
    program::View out{"y", 0, 0, {}};
    for (std::size_t axis = 0; axis < r.extent.size(); ++axis) out.dims.push_back({r.extent[axis], r.strides[axis]});
    compute.outputs.push_back({0, out, {}, Combiner::add, 0});
    Block body;
    body.push_back(on("", program::Acquire{"y", {"vector"}}));
    body.push_back(on("vector", std::move(compute)));
    body.push_back(on("vector", program::Commit{"y", 0, 1}));
    store(r, "y", plain(shape_.size()), body);
    add_step(r, std::move(step), std::move(body), suffix);
  }

  void emit() {
    const ValueId x = op_.operands.empty() ? no_value : op_.operands[0];
    switch (op_.kind) {
      case Kind::copy:
      case Kind::bitcast:
        return copy(shape_, x, plain(shape_.size()), plain(shape_.size()));
      case Kind::transpose:
      case Kind::slice:
      case Kind::broadcast:
      case Kind::reverse:
        return copy(shape_, x, domain(context_.function, op_).operands[0].axes, plain(shape_.size()));
      case Kind::reshape:
        return reshape(x);
      case Kind::pad:
        return pad(x);
      case Kind::concat:
        return concat();
      case Kind::embedding:
        return embedding();
      case Kind::dynamic_slice:
        return copy(shape_, x, plain(shape_.size()), plain(shape_.size())), shift_starts(1, true);
      case Kind::dynamic_update:
        return dynamic_update();
      default:
        unsupported("no lowering yet");
    }
  }

  void reshape(ValueId x) {
    if (const auto split = split_access(shape(x), shape_)) return copy(shape_, x, *split, plain(shape_.size()));
    if (const auto merge = split_access(shape_, shape(x))) return copy(shape(x), x, plain(shape(x).size()), *merge);
    unsupported("from " + to_string(shape(x)) + " to " + to_string(shape_) +
                " is neither a split nor a merge of axes of a view");
  }

  double pad_value() const {
    if (op_.operands.size() < 2 || op_.operands[1] == no_value) return 0;
    const auto known = context_.scalars.find(op_.operands[1]);
    if (known == context_.scalars.end()) unsupported("the padding value is not a known constant");
    return known->second;
  }

  void pad(ValueId x) {
    const std::string mode = op_.attributes.text("mode", "constant");
    const std::vector<std::int64_t>& low = op_.attributes.integers("low");
    const std::vector<std::int64_t> interior =
        op_.attributes.integers("interior", std::vector<std::int64_t>(low.size(), 0));
    if (mode != "constant") unsupported("mode " + mode + " has no lowering yet");
    const bool dilated = std::any_of(interior.begin(), interior.end(), [](std::int64_t v) { return v > 0; });
    if (!dilated) {
      std::vector<AxisAccess> from;
      for (std::size_t axis = 0; axis < low.size(); ++axis) from.push_back(term(axis, 1, -low[axis]));
      return copy(shape_, x, from, plain(shape_.size()), pad_value());
    }
    if (std::any_of(low.begin(), low.end(), [](std::int64_t v) { return v < 0; }))
      unsupported("interior padding with negative edges has no lowering yet");
    fill(pad_value());
    std::vector<AxisAccess> to;
    for (std::size_t axis = 0; axis < low.size(); ++axis) to.push_back(term(axis, interior[axis] + 1, low[axis]));
    copy(shape(x), x, plain(shape(x).size()), to);
  }

  void concat() {
    const std::size_t dim = at(op_.attributes.integer("dim"));
    std::int64_t offset = 0;
    for (ValueId x : op_.operands) {
      std::vector<AxisAccess> to = plain(shape_.size());
      to[dim].constant = offset;
      copy(shape(x), x, plain(shape_.size()), to);
      offset += shape(x)[dim];
    }
  }

  /// Rows of the table, fetched through the ids.
  void embedding() {
    if (op_.attributes.integer("padding_index", -1) >= 0) unsupported("a padding index has no lowering yet");
    const ValueId table = op_.operands[0], ids = op_.operands[1];
    if (!placement(table).identity || !placement(ids).identity) unsupported("table or ids are views");
    if (element_count(shape_) == 0) return;
    const int suffix = steps_++;
    const std::size_t rank = shape_.size();
    const Region r = region(shape_, placement(table).dtype, suffix);
    Shape tiles = r.tiles;
    program::Scope step;
    add_slot(step, "x", placement(table).dtype, tiles, "store0");

    std::vector<Expr> through_at;
    for (std::size_t axis = 0; axis + 1 < rank; ++axis) through_at.push_back(r.start[axis]);
    program::Transfer load;
    load.tensor = placement(table).tensor;
    load.at = {Expr(0), r.start[rank - 1]};
    load.slot = "x";
    Expr offset = 0;
    Block inner;
    for (std::size_t axis = 0; axis + 2 < rank; ++axis) {
      through_at[axis] = r.start[axis] + Expr::symbol("j" + std::to_string(axis));
      offset = offset + Expr::symbol("j" + std::to_string(axis)) * Expr(r.strides[axis]);
    }
    load.offset = offset;
    if (rank >= 2)
      load.dims.push_back({r.extent[rank - 2], 0, 1, Expr(r.strides[rank - 2]), placement(ids).tensor, through_at});
    else
      unsupported("ids are a scalar");
    load.dims.push_back({r.extent[rank - 1], 1, 1, Expr(r.strides[rank - 1]), {}, {}});
    inner.push_back(on("load0", program::Load{std::move(load)}));
    for (std::size_t axis = rank - 2; axis-- > 0;) {
      Block body = std::move(inner);
      inner.clear();
      inner.push_back(loop("j" + std::to_string(axis), r.extent[axis], std::move(body)));
    }
    Block body;
    body.push_back(on("", program::Acquire{"x", {"load0"}}));
    std::move(inner.begin(), inner.end(), std::back_inserter(body));
    body.push_back(on("load0", program::Commit{"x", 0, 1}));
    store(r, "x", plain(rank), body);
    add_step(r, std::move(step), std::move(body), suffix);
  }

  /// Start of a dynamic slice along `axis`, clamped into range.
  Expr clamped_start(std::size_t first, std::size_t axis, std::int64_t whole, std::int64_t part) const {
    const ValueId start = op_.operands[first + axis];
    if (const auto known = context_.scalars.find(start); known != context_.scalars.end())
      return std::clamp<std::int64_t>(static_cast<std::int64_t>(known->second), 0, whole - part);
    if (whole == part) return 0;
    if (!placement(start).identity) unsupported("a start index is a view");
    return max(Expr(0), min(Expr(whole - part),
                            Expr::read(placement(start).tensor, std::vector<Expr>(shape(start).size(), Expr(0)))));
  }

  /// Moves the last step's loads (or stores) by the dynamic starts.
  void shift_starts(std::size_t first, bool loads) {
    if (scope_.body.empty()) return;
    const Shape& whole = shape(op_.operands[0]);
    const Shape& part = loads ? shape_ : shape(op_.operands[1]);
    std::vector<Expr> starts;
    for (std::size_t axis = 0; axis < whole.size(); ++axis)
      starts.push_back(clamped_start(first, axis, whole[axis], part[axis]));
    const Placement& moved = placement(loads ? op_.operands[0] : y_);
    const std::function<void(Block&)> visit = [&](Block& block) {
      for (program::Statement& statement : block) {
        if (auto* inner = std::get_if<program::For>(&statement.action)) visit(inner->body);
        if (auto* inner = std::get_if<program::Scope>(&statement.action)) visit(inner->body);
        program::Transfer* transfer = nullptr;
        if (auto* load = std::get_if<program::Load>(&statement.action); load && loads) transfer = &load->transfer;
        if (auto* store = std::get_if<program::Store>(&statement.action); store && !loads) transfer = &store->transfer;
        if (!transfer) continue;
        for (std::size_t axis = 0; axis < moved.axes.size(); ++axis)
          for (const auto& t : moved.axes[axis].terms)
            transfer->at[axis] = transfer->at[axis] + starts[at(t.dim)] * Expr(t.coefficient);
      }
    };
    auto& last = std::get<program::Scope>(scope_.body.back().action);
    visit(last.body);
  }

  void dynamic_update() {
    const ValueId x = op_.operands[0], update = op_.operands[1];
    if (placement(x).tensor != placement(y_).tensor) copy(shape_, x, plain(shape_.size()), plain(shape_.size()));
    if (element_count(shape(update)) == 0) return;
    copy(shape(update), update, plain(shape_.size()), plain(shape_.size()));
    shift_starts(2, false);
  }

  Context& context_;
  const Kernel& kernel_;
  const Op& op_;
  ValueId y_;
  const Shape& shape_;
  program::Scope scope_;
  int steps_ = 0;
};

}  // namespace

program::Scope lower_movement(Context& context, const Kernel& kernel) {
  return MovementLowering(context, kernel).lower();
}

}  // namespace tilesim::lower
