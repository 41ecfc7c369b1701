// scatter: boxes of the updates go where indices say, one after the other, since two may meet.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/movement/boxes.hpp"
#include "tilesim/compile/movement/movement.hpp"
#include "tilesim/compile/plan/in_place.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

/// How two elements that meet become one; sums of narrow floats are kept in f32, as the reference does.
Function function_of(const std::string& combiner) {
  if (combiner == "add") return Function::add;
  if (combiner == "multiply") return Function::multiply;
  return combiner == "maximum" ? Function::maximum : Function::minimum;
}

DType meeting_dtype(DType dtype, const std::string& combiner) {
  return combiner != "set" && is_float(dtype) && bits(dtype) < 32 ? DType::f32 : dtype;
}

}  // namespace

/// Updates with one axis of boxes before the axes of the box.
Placement MovementLowering::flat_updates(const std::vector<std::int64_t>& window, const Shape& boxes) {
  const ValueId updates = op_.operands[2];
  const Shape& given = shape(updates);
  const std::int64_t rank = static_cast<std::int64_t>(given.size());
  Shape ordered;
  std::vector<AxisAccess> write;
  for (std::int64_t axis = 0; axis < rank; ++axis)
    if (!contains(window, axis)) ordered.push_back(given[at(axis)]), write.push_back(affine_axis(at(axis)));
  for (std::int64_t axis : window) ordered.push_back(given[at(axis)]), write.push_back(affine_axis(at(axis)));
  const Placement copied = temporary("updates", placement(updates).dtype, ordered);
  copy(given, placement(updates), plain_axes(given.size()), copied, write);
  return *same_bytes(copied, copied.dtype, boxes);
}

void MovementLowering::scatter() {
  main_.clear();  // until the boxes are stored
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
  const Placement updates = flat_updates(window, boxes);
  const Placement found = box_starts(g);
  const Placement starts = *same_bytes(found, found.dtype, {boxes[0]});
  g.source = flat ? *same_bytes(target, dtype, {element_count(shape_)}) : target;
  store_boxes(g, starts, updates, boxes);
  main_.clear();
  if (!own) copy(shape_, target, plain, placement(y_), plain);
}

/// new = what was there combined with the updates in slot "u", of type `added`.
void MovementLowering::combine(program::Transfer old, const std::vector<Expr>& extent, const Shape& strides,
                               DType dtype, DType added, Block& body) const {
  const auto view = [&](const char* slot) {
    View result{slot, 0, 0, {}};
    for (std::size_t axis = 0; axis < extent.size(); ++axis) result.dims.push_back({extent[axis], strides[axis]});
    return result;
  };
  body.push_back(on("", program::Acquire{"old", {"load0"}}));
  body.push_back(on("load0", program::Load{std::move(old)}));
  body.push_back(on("load0", program::Commit{"old", 0, 1}));
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
  for (const char* slot : {"u", "old"}) body.push_back(on("vector", program::Wait{slot, 0, {}, 0, 1}));
  body.push_back(on("", program::Acquire{"new", {"vector"}}));
  body.push_back(on("vector", std::move(compute)));
  body.push_back(on("vector", program::Commit{"new", 0, 1}));
  for (const char* slot : {"u", "old"}) body.push_back(on("vector", program::Release{slot, 0}));
}

/// A box at a time where elements meet; otherwise as many as fit, the later ones over the earlier.
void MovementLowering::store_boxes(const Gather& g, const Placement& starts, const Placement& updates,
                                   const Shape& boxes) {
  const bool combines = op_.attributes.text("combiner") != "set";
  const int suffix = steps_++;
  const DType dtype = g.source.dtype;
  const std::int64_t bytes = 2 * host_bytes(updates.dtype) + (combines ? 4 * host_bytes(dtype) : 0);
  // Boxes are stored in their order: a mapping may say how many at a time, where they need not be cut themselves.
  const Shape usual = usual_tiles(boxes, bytes, {});
  if (std::equal(usual.begin() + 1, usual.end(), boxes.begin() + 1)) main_ = boxes;
  const Region r = region(boxes, bytes, suffix);
  Shape tiles = r.tiles;
  if (combines) tiles[0] = 1;
  const Shape strides = row_major_strides(tiles);
  program::Scope turn;  // after all before it: a later box may lie over an earlier one
  turn.operation = scope_.operation;
  turn.barrier = true;
  add_slot(turn, "u", updates.dtype, element_count(tiles), {combines ? "vector" : "store0"});
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
  Block& body = turn.body;
  body.push_back(on("", program::Acquire{"u", {"load0"}}));
  body.push_back(on("load0", program::Load{region_transfer(updates, start, extent, strides, "u")}));
  body.push_back(on("load0", program::Commit{"u", 0, 1}));
  if (combines) {
    add_slot(turn, "old", dtype, element_count(tiles), {"vector"});
    add_slot(turn, "new", dtype, element_count(tiles), {"store0"});
    combine(boxed("old"), extent, strides, dtype, updates.dtype, body);
  }
  const std::string last = combines ? "new" : "u";
  body.push_back(on("store0", program::Wait{last, 0, {}, 0, 1}));
  body.push_back(on("store0", program::Store{boxed(last), {}, 0}));
  body.push_back(on("store0", program::Release{last, 0}));
  Block turns;
  turns.push_back(on("", std::move(turn)));
  if (combines) {
    Block each;
    each.push_back(loop("box", r.extent[0], std::move(turns)));
    turns = std::move(each);
  }
  add_step(r, program::Scope{}, std::move(turns), suffix);
}

}  // namespace tilesim::lower
