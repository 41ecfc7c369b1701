// Movement by DMA: load a region through one access map, store it through another.
#include "tilesim/compile/movement/movement.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/plan/placement.hpp"
#include "tilesim/compile/plan/row_bytes.hpp"
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

void MovementLowering::add_step(const Region& r, const std::vector<Ring>& rings, Block body, int suffix) {
  for (auto turn = r.loops.rbegin(); turn != r.loops.rend(); ++turn) {
    Block inner = std::move(body);
    body.clear();
    body.push_back(loop(index(turn->axis, suffix), Expr(turn->trips), std::move(inner)));
  }
  program::Scope step;
  step.barrier = !scope_.body.empty();  // the kernel's barrier, if any, orders the first step
  step.operation = scope_.operation;
  scope_.body.push_back(on("", write_kernel(std::move(step), rings, std::move(body))));
}

namespace {

/// Extents of a load before a shuffle: 1 along axes of stride 0, whose elements memory holds once.
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
  const Shuffle lanes = shuffle(r, source, target);
  Block body;
  program::Transfer transfer =
      region_transfer(source, r.start, distinct(r.extent, lanes.loaded, lanes.plan.permuted), lanes.loaded, "x");
  if (fill) transfer.fill = fill;
  load(r, std::move(transfer), lanes, body);
  if (converts) body.push_back(statement(convert(r, lanes.stored, from.dtype)));
  const char* last = converts ? "y" : "x";
  body.push_back(statement(program::Store{region_transfer(target, r.start, r.extent, lanes.stored, last), {}, 0}));
  add_step(r, rings(lanes.plan), std::move(body), suffix);
}

program::VectorOp MovementLowering::convert(const Region& r, const std::vector<std::int64_t>& strides, DType from) {
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
  return compute;
}

program::Statement MovementLowering::store(const Region& r, const std::string& slot, const Placement& to) {
  return statement(program::Store{region_transfer(to, r.start, r.extent, r.strides, slot), {}, 0});
}

void MovementLowering::fill(double value) {
  const int suffix = steps_++;
  const DType dtype = placement(y_).dtype;
  const Region r = region(shape_, 2 * host_bytes(dtype), suffix);
  program::VectorOp compute;
  compute.extents = r.extent;
  compute.lane_dim = static_cast<int>(r.extent.size()) - 1;
  compute.nodes.push_back(
      {{.op = VectorNode::Op::constant, .number = value, .dtype = context_.value(y_).type.dtype}, 0});
  program::View out{"y", 0, 0, {}};
  for (std::size_t axis = 0; axis < r.extent.size(); ++axis) out.dims.push_back({r.extent[axis], r.strides[axis]});
  compute.outputs.push_back({0, out, {}, Combiner::add, 0});
  add_step(r, {ring("y", dtype, element_count(r.tiles))}, {statement(std::move(compute)), store(r, "y", placement(y_))},
           suffix);
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
      unsupported("has no lowering to this type of machine");
  }
}

namespace {

bool same_term(const AxisAccess::Term& a, const AxisAccess::Term& b) {
  return a.dim == b.dim && a.coefficient == b.coefficient;
}

/// Whether two values are in one tensor with equal strides and differ only in their offset.
bool only_shifted(const Placement& a, const Placement& b) {
  return a.tensor == b.tensor && a.fill == b.fill && a.moved.empty() && b.moved.empty() &&
         std::ranges::equal(a.axes, b.axes, [](const AxisAccess& one, const AxisAccess& other) {
           return std::ranges::equal(one.terms, other.terms, same_term);
         });
}

}  // namespace

/// Whether the producer of a concat's part has stored it at its place in the result.
bool MovementLowering::stored_in_place(ValueId part, std::size_t dim, std::int64_t offset) const {
  if (!context_.placed(part) || placement(part).tensor != placement(y_).tensor) return false;
  std::vector<AxisAccess> there = placement(y_).axes;
  for (AxisAccess& axis : there)
    for (const AxisAccess::Term& term : axis.terms)
      if (term.dim == static_cast<int>(dim)) axis.constant += term.coefficient * offset;
  return std::ranges::equal(placement(part).axes, there, [&](const AxisAccess& a, const AxisAccess& b) {
    return a.constant == b.constant && std::ranges::equal(a.terms, b.terms, same_term);
  });
}

void MovementLowering::concat() {
  const std::size_t dim = at(op_.attributes.integer("dim"));
  main_[dim] = 0;
  for (ValueId x : op_.operands) main_[dim] = std::max(main_[dim], shape(x)[dim]);
  std::int64_t offset = 0;
  std::vector<std::int64_t> offsets;
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < op_.operands.size(); ++i) {
    if (!stored_in_place(op_.operands[i], dim, offset)) left.push_back(i);
    offsets.push_back(offset);
    offset += shape(op_.operands[i])[dim];
  }
  for (std::size_t i = 0; i < left.size(); ++i) {
    const ValueId x = op_.operands[left[i]];
    std::vector<std::size_t> alike{left[i]};
    for (std::size_t k = i + 1; k < left.size(); ++k)
      if (const ValueId other = op_.operands[left[k]];
          shape(other) == shape(x) && only_shifted(placement(x), placement(other)))
        alike.push_back(left[k]);
    if (copy_shifted(alike, offsets)) {
      std::erase_if(left, [&](std::size_t part) { return part != alike[0] && std::ranges::count(alike, part) > 0; });
      continue;
    }
    std::vector<AxisAccess> to = plain_axes(shape_.size());
    to[dim].constant = offsets[left[i]];
    copy(shape(x), placement(x), plain_axes(shape_.size()), placement(y_), to);
  }
}

/// Copies parts that are views of one tensor at different offsets from common tiles, which contain the elements of all
/// parts. False if separate loads move hardly more.
bool MovementLowering::copy_shifted(const std::vector<std::size_t>& parts, const std::vector<std::int64_t>& offsets) {
  const Placement& first = placement(op_.operands[parts[0]]);
  const program::Tensor* tensor = find_tensor(context_, first.tensor);
  const std::size_t rank = first.axes.size(), dim = at(op_.attributes.integer("dim"));
  if (parts.size() < 2 || !tensor || !first.moved.empty() || first.dtype != placement(y_).dtype) return false;
  if (context_.options.vectors.count(kernel_.name)) return false;  // given tiles are for one part
  Shape low, high;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    low.push_back(first.axes[axis].constant);
    high.push_back(low[axis]);
    for (const std::size_t part : parts) {
      const std::int64_t constant = placement(op_.operands[part]).axes[axis].constant;
      low[axis] = std::min(low[axis], constant);
      high[axis] = std::max(high[axis], constant);
    }
  }
  const Shape space = shape(op_.operands[parts[0]]);
  const auto reached = [&](std::size_t axis, const std::vector<Expr>& extent, bool by_all = true) {
    Expr count = by_all ? high[axis] - low[axis] + 1 : 1;
    for (const AxisAccess::Term& term : first.axes[axis].terms)
      count = count + (extent[at(term.dim)] - Expr(1)) * Expr(term.coefficient);
    return count;
  };
  const auto region_of = [&](const Shape& tiles, bool by_all = true) {
    std::int64_t elements = 1;
    for (std::size_t axis = 0; axis < rank; ++axis)
      elements *= reached(axis, std::vector<Expr>(tiles.begin(), tiles.end()), by_all).value();
    return elements;
  };
  TileChoice choice;
  choice.space = space;
  choice.whole.assign(space.size(), false);
  choice.buffers = {{std::vector<bool>(space.size(), true), 2 * ring_bytes(first.dtype)}};
  std::vector<bool> shifts(space.size(), false);
  for (std::size_t axis = 0; axis < rank; ++axis)
    for (const AxisAccess::Term& term : first.axes[axis].terms) shifts[at(term.dim)] = high[axis] > low[axis];
  for (const bool shifted : {false, true})
    for (std::size_t axis = 0; axis < space.size(); ++axis)
      if (shifts[axis] == shifted) choice.order.push_back(axis);
  add_granules(choice, context_, first);
  add_granules(choice, context_, placement(y_));
  Share machine = context_.machine;
  const std::int64_t capacity = machine.core.scratchpad.bytes;
  do {
    if (!choose_tiles(choice, machine)) return false;
    machine.core.scratchpad.bytes /= 2;
  } while ((region_of(choice.tiles) + element_count(choice.tiles)) * ring_bytes(first.dtype) + 4 * 64 > capacity);
  const std::int64_t region = region_of(choice.tiles), tile = element_count(choice.tiles);
  constexpr double worth = 0.75;
  const auto alone = static_cast<double>(region_of(choice.tiles, false)) * static_cast<double>(parts.size());
  if (static_cast<double>(region) > worth * alone) return false;

  const int suffix = steps_++;
  depth_ = 2;
  const Region r = tiled(space, choice.tiles, suffix);
  program::Transfer load;
  load.tensor = first.tensor;
  load.fill = first.fill;
  load.slot = "x";
  Shape strides(rank, 0);
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const bool ordered = tensor->minor_to_major.size() == rank;
    const std::size_t axis = ordered ? static_cast<std::size_t>(tensor->minor_to_major[i]) : rank - 1 - i;
    strides[axis] = elements;
    elements *= reached(axis, std::vector<Expr>(r.tiles.begin(), r.tiles.end())).value();
  }
  for (std::size_t axis = 0; axis < rank; ++axis) {
    Expr start = low[axis];
    for (const AxisAccess::Term& term : first.axes[axis].terms)
      start = start + r.start[at(term.dim)] * Expr(term.coefficient);
    load.at.push_back(start);
    load.dims.push_back({reached(axis, r.extent), static_cast<int>(axis), 1, Expr(strides[axis]), {}, {}});
  }
  Block body;
  body.push_back(statement(program::Load{std::move(load)}));
  bool permuted = false;
  for (const std::size_t part : parts) {
    const Placement& source = placement(op_.operands[part]);
    std::vector<AxisAccess> to = plain_axes(shape_.size());
    to[dim].constant = offsets[part];
    const Placement target = seen_through(placement(y_), to);
    Shape steps(space.size(), 0);
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      offset += (source.axes[axis].constant - low[axis]) * strides[axis];
      for (const AxisAccess::Term& term : source.axes[axis].terms)
        steps[at(term.dim)] += term.coefficient * strides[axis];
    }
    const Shuffle lanes = shuffle(r, source, target);
    if (!lanes.plan.permuted) {
      program::Transfer moved = region_transfer(target, r.start, r.extent, steps, "x");
      moved.offset = offset;
      body.push_back(statement(program::Store{std::move(moved), {}, 0}));
      continue;
    }
    program::View in{"x", 0, offset, {}}, out{"y", 0, 0, {}};
    for (std::size_t axis = 0; axis < space.size(); ++axis) {
      in.dims.push_back({r.extent[axis], steps[axis]});
      out.dims.push_back({r.extent[axis], lanes.stored[axis]});
    }
    permuted = true;
    body.push_back(statement(program::PermuteOp{std::move(in), std::move(out)}));
    body.push_back(statement(program::Store{region_transfer(target, r.start, r.extent, lanes.stored, "y"), {}, 0}));
  }
  std::vector<Ring> rings{ring("x", first.dtype, elements)};
  // The ring has space for as many parts as fit, so that their stores overlap.
  depth_ = std::clamp((capacity / ring_bytes(first.dtype) - region) * 2 / tile - 1, std::int64_t{2}, std::ssize(parts));
  if (permuted) rings.push_back(ring("y", first.dtype, tile));
  rings.back().renewed = permuted;  // each part is a new version
  add_step(r, rings, std::move(body), suffix);
  return true;
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

/// Copies the bytes as elements of the operand's type.
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
  owner->tile.clear();  // both shapes need the same order of bytes
  owner->minor_to_major.clear();
  const std::string name = owner->name;
  Placement result = temporary("bytes", dtype, shape);
  find_tensor(context_, result.tensor)->alias_of = name;
  return result;
}

Placement MovementLowering::dense(ValueId value, bool flat, bool copies) {
  const Placement& own = placement(value);
  const Shape all{element_count(own.tensor_shape)};
  if (own.identity && !flat && !copies) return own;
  if (own.identity && !copies) {
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
