// scatter: stores boxes of the updates at given indices, one after the other, because boxes may overlap.
#include <algorithm>
#include <array>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/movement/boxes.hpp"
#include "tilesim/compile/movement/movement.hpp"
#include "tilesim/compile/plan/in_place.hpp"
#include "tilesim/compile/plan/row_bytes.hpp"
#include "tilesim/compile/vector/tiling.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

/// The function that combines two elements. Sums of narrow floats are kept in f32, as in the reference.
Function function_of(const std::string& combiner) {
  if (combiner == "add") return Function::add;
  if (combiner == "multiply") return Function::multiply;
  return combiner == "maximum" ? Function::maximum : Function::minimum;
}

DType meeting_dtype(DType dtype, const std::string& combiner) {
  return combiner != "set" && is_float(dtype) && bits(dtype) < 32 ? DType::f32 : dtype;
}

}  // namespace

/// Copies the updates so that one axis of boxes precedes the axes of a box.
Placement MovementLowering::flat_updates(const std::vector<std::int64_t>& window, const Shape& boxes, DType dtype) {
  const ValueId updates = op_.operands[2];
  const Shape& given = shape(updates);
  const std::int64_t rank = static_cast<std::int64_t>(given.size());
  Shape ordered;
  std::vector<AxisAccess> write;
  for (std::int64_t axis = 0; axis < rank; ++axis)
    if (!contains(window, axis)) ordered.push_back(given[at(axis)]), write.push_back(affine_axis(at(axis)));
  for (std::int64_t axis : window) ordered.push_back(given[at(axis)]), write.push_back(affine_axis(at(axis)));
  const Placement copied = temporary("updates", dtype, ordered);
  copy(given, placement(updates), plain_axes(given.size()), copied, write);
  return *same_bytes(copied, copied.dtype, boxes);
}

void MovementLowering::scatter() {
  main_.clear();  // the mapping applies to the store of the boxes
  const ValueId x = op_.operands[0];
  const std::string combiner = op_.attributes.text("combiner");
  const auto& map = op_.attributes.integers("scatter_dims_to_operand_dims");
  const auto& window = op_.attributes.integers("update_window_dims");
  const auto& inserted = op_.attributes.integers("inserted_window_dims");
  const Shape& given = shape(op_.operands[2]);
  const std::vector<AxisAccess> plain = plain_axes(shape_.size());
  const DType dtype = meeting_dtype(context_.value(y_).type.dtype, combiner);
  const program::Tensor* result = find_tensor(context_, placement(y_).tensor);
  const bool own = placement(y_).identity && placement(y_).dtype == dtype && result && result->tile.empty();
  const bool in_place = own && old_value(op_, y_) == x;
  const Placement target = own ? placement(y_) : temporary("meeting", dtype, shape_);
  if (!in_place) copy(shape_, placement(x), plain, target, plain);
  Gather g;
  const bool flat = map.size() != 1;
  const Shape strides = row_major_strides(shape_);
  g.fill = op_.attributes.text("mode", "drop") == "drop";
  g.boxes = given;
  Shape boxes{1};
  std::vector<std::int64_t> sizes(shape_.size(), 1);
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(given.size()); ++axis)
    if (!contains(window, axis)) g.batch_axes.push_back(axis), boxes[0] *= given[at(axis)];
  for (std::size_t axis = 0, next = 0; axis < shape_.size(); ++axis) {
    if (contains(inserted, static_cast<std::int64_t>(axis))) continue;
    sizes[axis] = given[at(window[next++])];
    boxes.push_back(sizes[axis]);
    g.box_axis.push_back(flat ? 0 : static_cast<int>(axis));
    g.box_step.push_back(flat ? strides[axis] : 1);
  }
  if (element_count(given) == 0) return;
  if (!flat) g.axis = at(map[0]);
  for (std::int64_t axis : map) {
    g.scale.push_back(flat ? strides[at(axis)] : 1);
    g.last.push_back(shape_[at(axis)] - sizes[at(axis)]);
  }
  g.span = std::max<std::int64_t>(1, flat ? element_count(shape_) : shape_[g.axis]);
  g.along = g.batch_axes.empty() ? 0 : g.batch_axes.size() - 1;
  g.source = flat ? *same_bytes(target, dtype, {element_count(shape_)}) : target;
  const Shape held = combiner == "set" || flat ? Shape{} : held_tiles(g, boxes);
  const Placement updates = flat_updates(window, boxes, held.empty() ? placement(op_.operands[2]).dtype : dtype);
  const Placement found = box_starts(g);
  const Placement starts = *same_bytes(found, found.dtype, {boxes[0]});
  if (held.empty())
    store_boxes(g, starts, updates, boxes);
  else
    combine_held(g, starts, updates, held);
  main_.clear();
  if (!own) copy(shape_, target, plain, placement(y_), plain);
}

/// Tiles of {rows of the target, its other axes, boxes} if each box is a full row, to combine rows in target tiles on
/// chip; empty: does not apply, or storing one box at a time is faster.
Shape MovementLowering::held_tiles(const Gather& g, const Shape& boxes) const {
  const Shape& whole = g.source.tensor_shape;
  TileChoice choice;
  choice.space = {whole[g.axis]};
  for (std::size_t axis = 0; axis < whole.size(); ++axis)
    if (axis != g.axis) choice.space.push_back(whole[axis]);
  if (boxes[0] * element_count(choice.space) != element_count(boxes) * whole[g.axis]) return {};
  const std::size_t last = choice.space.size();
  choice.space.push_back(boxes[0]);
  std::vector<bool> target(last + 1, true), updates(last + 1, true), indices(last + 1, false);
  target[last] = updates[0] = false;
  indices[last] = true;
  const std::int64_t bytes = ring_bytes(g.source.dtype);
  choice.buffers = {{target, bytes}, {updates, bytes}, {indices, 4 * host_bytes(DType::i64)}};
  choice.whole.assign(last + 1, false);
  choice.joined = indices;
  choice.granules.assign(last + 1, 1);
  choice.granules[last] = choice.granules[last - 1] = context_.machine.core.vector.lanes;
  choice.order = {last};
  for (std::size_t axis = 1; axis < last; ++axis) choice.order.push_back(axis);
  choice.order.push_back(0);
  Share machine = context_.machine;
  machine.core.scratchpad.bytes -= bytes * ceil_div(element_count(choice.space), whole[g.axis] * boxes[0]);  // spare
  if (!choose_tiles(choice, machine)) return {};
  const std::int64_t parts = ceil_div(choice.space[0], choice.tiles[0]);
  if (parts > 1 && !g.fill) return {};  // no tile would detect an index outside
  const double row = static_cast<double>(bytes) / 2 * static_cast<double>(element_count(boxes) / boxes[0]);
  const double moved = row * (2.0 * static_cast<double>(choice.space[0]) + static_cast<double>(parts * boxes[0]));
  const auto& memory = context_.machine.memory;
  const double turn = 2e-12 * static_cast<double>(memory.latency_ps);  // seconds: each box waits for the previous one
  return moved < turn * static_cast<double>(memory.bytes_per_second) * static_cast<double>(boxes[0]) ? choice.tiles
                                                                                                     : Shape{};
}

/// For each tile of the target, combines all boxes with its rows; boxes of other rows go to a spare row behind the
/// tile.
void MovementLowering::combine_held(const Gather& g, const Placement& starts, const Placement& updates,
                                    const Shape& tiles) {
  refuse_tiles(context_, kernel_);
  const int suffix = steps_++;
  const Shape& whole = g.source.tensor_shape;
  const DType dtype = g.source.dtype;
  const std::size_t last = tiles.size() - 1;
  Shape space{whole[g.axis]};
  for (std::size_t axis = 0; axis < whole.size(); ++axis)
    if (axis != g.axis) space.push_back(whole[axis]);
  space.push_back(updates.tensor_shape[0]);
  const TiledSpace t = tiled_space(space, tiles, "i" + std::to_string(suffix) + "_");
  const Shape strides = row_major_strides(Shape(tiles.begin(), tiles.end() - 1));
  const std::int64_t row = strides[0], rows = tiles[0];
  std::vector<Ring> rings{ring("old", dtype, (rows + 1) * row), ring("u", dtype, tiles[last] * row),
                          ring("start", starts.dtype, tiles[last]), ring("place", DType::i32, tiles[last])};
  rings[0].carried = t.stem + std::to_string(last);
  std::vector<Expr> from, size, update_from{t.start[last]}, update_size{t.extent[last]};
  Shape from_strides, update_strides{row};
  for (std::size_t axis = 0, next = 1; axis < whole.size(); ++axis) {
    const bool moves = axis == g.axis;
    const std::size_t dim = moves ? 0 : next++;
    from.push_back(t.start[dim]);
    size.push_back(t.extent[dim]);
    from_strides.push_back(strides[dim]);
    if (!contains(std::vector<std::int64_t>(g.box_axis.begin(), g.box_axis.end()), static_cast<std::int64_t>(axis)))
      continue;
    update_from.push_back(moves ? Expr(0) : t.start[dim]);
    update_size.push_back(moves ? Expr(1) : t.extent[dim]);
    update_strides.push_back(moves ? 0 : strides[dim]);
  }
  const auto view = [&](const std::string& slot, const Expr& count) {
    View result{slot, 0, 0, {{count, row}}};
    for (std::size_t dim = 1; dim < last; ++dim) result.dims.push_back({t.extent[dim], strides[dim]});
    return result;
  };
  Block inner;
  inner.push_back(statement(program::Load{region_transfer(starts, {t.start[last]}, {t.extent[last]}, {1}, "start")}));
  program::VectorOp places;
  places.extents = {t.extent[last]};
  places.lane_dim = 0;
  places.inputs = {{"start", 0, 0, {{t.extent[last], 1}}}};
  const auto add = [&](VectorNode node, Expr scalar = 0) {
    places.nodes.push_back({node, std::move(scalar)});
    return static_cast<int>(places.nodes.size()) - 1;
  };
  const auto apply = [&](Function function, std::array<int, 3> arguments, DType type) {
    return add({.op = VectorNode::Op::function, .function = function, .arguments = arguments, .dtype = type});
  };
  const int start = add({.op = VectorNode::Op::input, .index = 0, .dtype = starts.dtype});
  const int wide = add({.op = VectorNode::Op::convert, .arguments = {start, -1, -1}, .dtype = DType::i64});
  const int first = add({.op = VectorNode::Op::scalar, .dtype = DType::i64}, t.start[0]);
  int place = apply(Function::subtract, {wide, first, -1}, DType::i64);
  if (g.fill) {
    const int zero = add({.op = VectorNode::Op::constant, .number = 0, .dtype = DType::i64});
    const int none = add({.op = VectorNode::Op::scalar, .dtype = DType::i64}, t.extent[0]);
    const int inside = apply(Function::logical_and,
                             {apply(Function::less_equal, {zero, place, -1}, DType::boolean),
                              apply(Function::less, {place, none, -1}, DType::boolean), -1},
                             DType::boolean);
    place = apply(Function::select, {inside, place, none}, DType::i64);
  }
  places.outputs.push_back({place, {"place", 0, 0, {{t.extent[last], 1}}}, {}, Combiner::add, 0});
  inner.push_back(statement(std::move(places)));
  inner.push_back(statement(program::Load{region_transfer(updates, update_from, update_size, update_strides, "u")}));
  inner.push_back(statement(program::IndexedOp{view("u", t.extent[last]),
                                               {"place", 0, 0, {{t.extent[last], 1}}},
                                               view("old", t.extent[0] + Expr(g.fill ? 1 : 0)),
                                               true,
                                               parse_combiner(op_.attributes.text("combiner"))}));
  Block body;
  body.push_back(statement(program::Load{region_transfer(g.source, from, size, from_strides, "old")}));
  if (g.fill) {
    program::VectorOp none;
    View behind = view("old", 1);
    behind.offset = t.extent[0] * Expr(row);
    for (const program::Dim& dim : behind.dims) none.extents.push_back(dim.extent);
    none.lane_dim = static_cast<int>(none.extents.size()) - 1;
    none.nodes.push_back({{.op = VectorNode::Op::constant, .number = 0, .dtype = dtype}, 0});
    none.outputs.push_back({0, std::move(behind), {}, Combiner::add, 0});
    body.push_back(statement(std::move(none)));
  }
  if (t.trips(last) > 1) {
    Block each;
    each.push_back(loop(t.stem + std::to_string(last), Expr(t.trips(last)), std::move(inner)));
    inner = std::move(each);
  }
  std::move(inner.begin(), inner.end(), std::back_inserter(body));
  body.push_back(statement(program::Store{region_transfer(g.source, from, size, from_strides, "old"), {}, 0}));
  add_step(Region{}, rings, wrap_loops(t, std::move(body), last), suffix);
}

/// new = old elements combined with the updates in slot "u", of type `added`.
void MovementLowering::combine(program::Transfer old, const std::vector<Expr>& extent, const Shape& strides,
                               DType dtype, DType added, Block& body) const {
  const auto view = [&](const char* slot) {
    View result{slot, 0, 0, {}};
    for (std::size_t axis = 0; axis < extent.size(); ++axis) result.dims.push_back({extent[axis], strides[axis]});
    return result;
  };
  body.push_back(statement(program::Load{std::move(old)}));
  program::VectorOp compute;
  compute.extents = extent;
  compute.lane_dim = static_cast<int>(extent.size()) - 1;
  compute.inputs = {view("old"), view("u")};
  compute.nodes.push_back({{.op = VectorNode::Op::input, .index = 0, .dtype = dtype}, 0});
  compute.nodes.push_back({{.op = VectorNode::Op::input, .index = 1, .dtype = added}, 0});
  compute.nodes.push_back({{.op = VectorNode::Op::function,
                            .function = function_of(op_.attributes.text("combiner")),
                            .arguments = {0, 1, -1},
                            .dtype = dtype},
                           0});
  compute.outputs.push_back({2, view("new"), {}, Combiner::add, 0});
  body.push_back(statement(std::move(compute)));
}

/// Stores boxes one at a time if elements are combined; otherwise as many as fit, later boxes over earlier ones.
void MovementLowering::store_boxes(const Gather& g, const Placement& starts, const Placement& updates,
                                   const Shape& boxes) {
  const bool combines = op_.attributes.text("combiner") != "set";
  const int suffix = steps_++;
  const DType dtype = g.source.dtype;
  const std::int64_t bytes = 2 * host_bytes(updates.dtype) + (combines ? 4 * host_bytes(dtype) : 0);
  // Boxes are stored in order. A mapping may set the number of boxes at a time if the boxes themselves are not split.
  const Shape usual = usual_tiles(boxes, bytes, {});
  if (std::equal(usual.begin() + 1, usual.end(), boxes.begin() + 1)) main_ = boxes;
  const Region r = region(boxes, bytes, suffix);
  Shape tiles = r.tiles;
  if (combines) tiles[0] = 1;
  const Shape strides = row_major_strides(tiles);
  std::vector<Ring> rings{ring("u", updates.dtype, element_count(tiles))};
  const Expr first = r.start[0] + (combines ? Expr::symbol("box") : Expr(0));
  std::vector<Expr> start = r.start, extent = r.extent;
  start[0] = first;
  if (combines) extent[0] = 1;
  const auto boxed = [&](const std::string& slot) {
    program::Transfer transfer;
    transfer.tensor = g.source.tensor;
    transfer.at.assign(g.source.tensor_shape.size(), Expr(0));
    transfer.slot = slot;
    if (g.fill) transfer.fill = 0.0;
    transfer.dims.push_back({extent[0], static_cast<int>(g.axis), 1, Expr(strides[0]), starts.tensor, {first}});
    for (std::size_t i = 0; i < g.box_axis.size(); ++i) {
      Expr& origin = transfer.at[at(g.box_axis[i])];
      origin = origin + start[i + 1] * Expr(g.box_step[i]);
      transfer.dims.push_back({extent[i + 1], g.box_axis[i], Expr(g.box_step[i]), Expr(strides[i + 1]), {}, {}});
    }
    return transfer;
  };
  Block body{statement(program::Load{region_transfer(updates, start, extent, strides, "u")})};
  if (combines) {
    for (const char* name : {"old", "new"}) rings.push_back(ring(name, dtype, element_count(tiles)));
    combine(boxed("old"), extent, strides, dtype, updates.dtype, body);
  }
  body.push_back(statement(program::Store{boxed(combines ? "new" : "u"), {}, 0}));
  program::Scope turn;  // begins after earlier turns: a later box may overwrite an earlier one
  turn.operation = scope_.operation;
  turn.barrier = true;
  program::Statement turns = on("", write_kernel(std::move(turn), rings, std::move(body)));
  if (combines) turns = loop("box", r.extent[0], {std::move(turns)});
  add_step(r, {}, {std::move(turns)}, suffix);
}

}  // namespace tilesim::lower
