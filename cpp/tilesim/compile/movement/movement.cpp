// Movement by DMA: load a region through one access map, store it through another.
#include "tilesim/compile/movement/movement.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/plan/placement.hpp"
#include "tilesim/compile/vector/tiling.hpp"

namespace tilesim::lower {

using program::Block;

AxisAccess affine_axis(std::size_t dim, std::int64_t coefficient, std::int64_t constant) {
  AxisAccess access;
  access.terms.push_back({static_cast<int>(dim), coefficient});
  access.constant = constant;
  return access;
}

std::vector<AxisAccess> plain_axes(std::size_t rank) {
  std::vector<AxisAccess> axes;
  for (std::size_t i = 0; i < rank; ++i) axes.push_back(affine_axis(i));
  return axes;
}

Placement seen_through(const Placement& placement, const std::vector<AxisAccess>& access) {
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

MovementLowering::MovementLowering(Context& context, const Kernel& kernel)
    : context_(context),
      kernel_(kernel),
      op_(context.function.ops[at(kernel.ops[0])]),
      y_(op_.results[0]),
      shape_(context.value(y_).type.shape),
      main_(shape_) {}

program::Scope MovementLowering::lower() {
  scope_ = named_scope(context_, kernel_);
  if (element_count(shape_) > 0) emit();
  return std::move(scope_);
}

void MovementLowering::unsupported(const std::string& why) const {
  throw CannotRun(op_, Lack::lowering, {std::string(info(op_.kind).name) + ": " + why, op_.name, {}, {}, {}});
}

std::string MovementLowering::index(std::size_t axis, int suffix) {
  return "i" + std::to_string(suffix) + "_" + std::to_string(axis);
}

void MovementLowering::add_slot(program::Scope& scope, const std::string& name, DType dtype, std::int64_t elements,
                                const std::vector<std::string>& consumers) const {
  program::Slot slot;
  slot.name = name;
  slot.dtype = dtype;
  slot.elements = std::max<std::int64_t>(1, elements);
  slot.depth = depth_;
  slot.consumers = consumers;
  scope.slots.push_back(std::move(slot));
}

void MovementLowering::add_step(const Region& r, program::Scope step, Block body, int suffix) {
  for (auto turn = r.loops.rbegin(); turn != r.loops.rend(); ++turn) {
    Block inner = std::move(body);
    body.clear();
    body.push_back(loop(index(turn->axis, suffix), Expr(turn->trips), std::move(inner)));
  }
  step.body = std::move(body);
  step.barrier = !scope_.body.empty();  // the kernel's own, if any, orders the first step
  step.operation = scope_.operation;
  scope_.body.push_back(on("", std::move(step)));
}

namespace {

/// Extents of what is loaded: what memory has once is loaded once.
std::vector<Expr> distinct(std::vector<Expr> extent, const std::vector<std::int64_t>& strides, bool shuffled) {
  for (std::size_t axis = 0; axis < extent.size() && shuffled; ++axis)
    if (strides[axis] == 0) extent[axis] = 1;
  return extent;
}

}  // namespace

void MovementLowering::copy(const Shape& space, const Placement& from, const std::vector<AxisAccess>& read,
                            const Placement& to, const std::vector<AxisAccess>& write, std::optional<double> fill) {
  if (element_count(space) == 0) return;
  const int suffix = steps_++;
  const bool converts = from.dtype != to.dtype;
  const Placement source = seen_through(from, read), target = seen_through(to, write);
  const std::int64_t bytes = 2 * host_bytes(from.dtype) + (converts ? 2 * host_bytes(to.dtype) : 0);
  const Region r = region(space, bytes, suffix, {source, target});
  program::Scope step;
  const Shuffle lanes = shuffle(r, source, target);
  add_slots(step, lanes.plan);
  Block body;
  program::Transfer transfer =
      region_transfer(source, r.start, distinct(r.extent, lanes.loaded, lanes.plan.permuted), lanes.loaded, "x");
  transfer.fill = fill;
  load(r, std::move(transfer), lanes, body);
  std::int64_t pieces = lanes.plan.pieces();
  if (converts) {
    emit_convert(r, lanes.stored, from.dtype, pieces, body);
    pieces = 1;
  }
  const char* last = converts ? "y" : "x";
  store(last, region_transfer(target, r.start, r.extent, lanes.stored, last), pieces, body);
  add_step(r, std::move(step), std::move(body), suffix);
}

void MovementLowering::emit_convert(const Region& r, const std::vector<std::int64_t>& strides, DType from,
                                    std::int64_t pieces, Block& body) {
  program::VectorOp compute;
  compute.extents = r.extent;
  compute.lane_dim = static_cast<int>(r.extent.size()) - 1;
  for (std::size_t axis = 0; axis < r.extent.size(); ++axis)
    if (strides[axis] == 1 && r.tiles[axis] > 1) compute.lane_dim = static_cast<int>(axis);
  program::View in{"x", 0, 0, {}}, out{"y", 0, 0, {}};
  for (std::size_t axis = 0; axis < r.extent.size(); ++axis) {
    in.dims.push_back({r.extent[axis], strides[axis]});
    out.dims.push_back({r.extent[axis], strides[axis]});
  }
  compute.inputs.push_back(in);
  compute.nodes.push_back({{.op = VectorNode::Op::input, .dtype = from}, 0});
  compute.outputs.push_back({0, out, {}, Combiner::add, 0});
  body.push_back(on("vector", program::Wait{"x", 0, {}, 0, pieces}));
  body.push_back(on("", program::Acquire{"y", {"vector"}}));
  body.push_back(on("vector", std::move(compute)));
  body.push_back(on("vector", program::Commit{"y", 0, 1}));
  body.push_back(on("vector", program::Release{"x", 0}));
}

void MovementLowering::store(const Region& r, const std::string& slot, const Placement& to, Block& body) {
  store(slot, region_transfer(to, r.start, r.extent, r.strides, slot), 1, body);
}

void MovementLowering::store(const std::string& slot, program::Transfer transfer, std::int64_t pieces, Block& body) {
  body.push_back(on("store0", program::Wait{slot, 0, {}, 0, pieces}));
  body.push_back(on("store0", program::Store{std::move(transfer), {}, 0}));
  body.push_back(on("store0", program::Release{slot, 0}));
}

void MovementLowering::fill(double value) {
  const int suffix = steps_++;
  const DType dtype = placement(y_).dtype;
  const Region r = region(shape_, 2 * host_bytes(dtype), suffix);
  program::Scope step;
  add_slot(step, "y", dtype, element_count(r.tiles), {"store0"});
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
  store(r, "y", placement(y_), body);
  add_step(r, std::move(step), std::move(body), suffix);
}

void MovementLowering::emit() {
  for (ValueId x : op_.operands)
    if (op_.kind != Kind::dynamic_slice && op_.kind != Kind::dynamic_update && context_.counters.count(x))
      unsupported("an operand is the counter of a loop");
  const bool spreads = op_.kind == Kind::broadcast || op_.kind == Kind::copy || op_.kind == Kind::reshape;
  if (spreads && context_.scalars.count(op_.operands[0])) return fill(context_.scalars.at(op_.operands[0]));
  const std::vector<AxisAccess> plain = plain_axes(shape_.size());
  switch (op_.kind) {
    case Kind::copy:
      return copy(shape_, placement(op_.operands[0]), plain, placement(y_), plain);
    case Kind::transpose:
    case Kind::slice:
    case Kind::broadcast:
    case Kind::reverse:
      return copy(shape_, placement(op_.operands[0]), domain(context_.function, op_).operands[0].axes, placement(y_),
                  plain);
    case Kind::bitcast:
      return bitcast();
    case Kind::reshape:
      return reshape();
    case Kind::pad:
      return pad();
    case Kind::concat:
      return concat();
    case Kind::gather:
      return gather();
    case Kind::embedding:
      return embedding();
    case Kind::scatter:
      return scatter();
    case Kind::dynamic_slice:
      return dynamic_slice();
    case Kind::dynamic_update:
      return dynamic_update();
    default:
      unsupported("has no lowering to a machine of this sort");
  }
}

/// Whether the maker of a concat's part has stored it where it belongs.
bool MovementLowering::stored_in_place(ValueId part, std::size_t dim, std::int64_t offset) const {
  if (!context_.placed(part) || placement(part).tensor != placement(y_).tensor) return false;
  std::vector<AxisAccess> there = placement(y_).axes;
  for (AxisAccess& axis : there)
    for (const AxisAccess::Term& term : axis.terms)
      if (term.dim == static_cast<int>(dim)) axis.constant += term.coefficient * offset;
  const auto same_term = [](const AxisAccess::Term& a, const AxisAccess::Term& b) {
    return a.dim == b.dim && a.coefficient == b.coefficient;
  };
  return std::ranges::equal(placement(part).axes, there, [&](const AxisAccess& a, const AxisAccess& b) {
    return a.constant == b.constant && std::ranges::equal(a.terms, b.terms, same_term);
  });
}

void MovementLowering::concat() {
  const std::size_t dim = at(op_.attributes.integer("dim"));
  main_[dim] = 0;
  for (ValueId x : op_.operands) main_[dim] = std::max(main_[dim], shape(x)[dim]);
  std::int64_t offset = 0;
  for (ValueId x : op_.operands) {
    std::vector<AxisAccess> to = plain_axes(shape_.size());
    to[dim].constant = offset;
    if (!stored_in_place(x, dim, offset)) copy(shape(x), placement(x), plain_axes(shape_.size()), placement(y_), to);
    offset += shape(x)[dim];
  }
}

/// A split or merge of axes is a strided copy. Any other reshape writes the operand's axes into the result's bytes.
void MovementLowering::reshape() {
  const ValueId x = op_.operands[0];
  const std::vector<AxisAccess> own = plain_axes(shape(x).size()), plain = plain_axes(shape_.size());
  if (const auto split = split_access(shape(x), shape_))
    return copy(shape_, placement(x), *split, placement(y_), plain);
  main_ = shape(x);
  if (const auto merge = split_access(shape_, shape(x)))
    return copy(shape(x), placement(x), own, placement(y_), *merge);
  if (const auto bytes = same_bytes(placement(y_), placement(y_).dtype, shape(x)))
    return copy(shape(x), placement(x), own, *bytes, own);
  main_ = shape_;
  const Placement between = temporary("dense", placement(x).dtype, shape(x));
  copy(shape(x), placement(x), own, between, own);
  copy(shape_, *same_bytes(between, between.dtype, shape_), plain, placement(y_), plain);
}

/// The bytes are copied as what they were.
void MovementLowering::bitcast() {
  const ValueId x = op_.operands[0];
  const std::vector<AxisAccess> own = plain_axes(shape(x).size()), plain = plain_axes(shape_.size());
  main_ = shape(x);
  if (const auto bytes = same_bytes(placement(y_), placement(x).dtype, shape(x)))
    return copy(shape(x), placement(x), own, *bytes, own);
  const Placement between = temporary("bits", placement(x).dtype, shape(x));
  copy(shape(x), placement(x), own, between, own);
  main_ = shape_;
  copy(shape_, *same_bytes(between, placement(y_).dtype, shape_), plain, placement(y_), plain);
}

Placement MovementLowering::temporary(const std::string& stem, DType dtype, const Shape& shape) {
  program::Tensor tensor;
  tensor.name = placement(y_).tensor + "." + stem;
  while (find_tensor(context_, tensor.name)) tensor.name += std::to_string(++temporaries_);
  tensor.dtype = dtype;
  for (std::int64_t extent : shape) tensor.shape.push_back(Expr(extent));
  tensor.role = program::Role::temporary;
  context_.program.tensors.push_back(tensor);
  return {tensor.name, shape, dtype, plain_axes(shape.size()), true};
}

std::optional<Placement> MovementLowering::same_bytes(const Placement& placement, DType dtype, const Shape& shape) {
  if (!placement.identity) return std::nullopt;
  if (placement.dtype == dtype && placement.tensor_shape == shape) return placement;
  program::Tensor* owner = find_tensor(context_, placement.tensor);
  if (!owner ||
      packed_bytes(owner->dtype, element_count(placement.tensor_shape)) != packed_bytes(dtype, element_count(shape)))
    return std::nullopt;
  owner->tile.clear();  // one order of bytes for both shapes
  owner->minor_to_major.clear();
  const std::string name = owner->name;
  Placement result = temporary("bytes", dtype, shape);
  find_tensor(context_, result.tensor)->alias_of = name;
  return result;
}

Placement MovementLowering::dense(ValueId value, bool flat) {
  const Placement& own = placement(value);
  const Shape all{element_count(own.tensor_shape)};
  if (own.identity && !flat) return own;
  if (own.identity) {
    const program::Tensor* tensor = find_tensor(context_, own.tensor);
    const bool padded = tensor && !tensor->tile.empty();
    if (!padded)
      if (const auto bytes = same_bytes(own, own.dtype, all)) return *bytes;
  }
  const Placement copied = temporary("dense", own.dtype, shape(value));
  const std::vector<AxisAccess> plain = plain_axes(shape(value).size());
  Shape main;
  std::swap(main, main_);
  copy(shape(value), own, plain, copied, plain);
  std::swap(main, main_);
  return flat ? *same_bytes(copied, own.dtype, {element_count(shape(value))}) : copied;
}

program::Scope lower_movement(Context& context, const Kernel& kernel) {
  const Kind kind = context.function.ops[at(kernel.ops[0])].kind;
  if (kind == Kind::sort || kind == Kind::top_k) return lower_order(context, kernel);
  if (kind == Kind::window_scatter) return lower_window_scatter(context, kernel);
  if (kind == Kind::linear_solve) return lower_solve(context, kernel);
  if (kind == Kind::opaque) return lower_opaque(context, kernel);
  return MovementLowering(context, kernel).lower();
}

}  // namespace tilesim::lower
