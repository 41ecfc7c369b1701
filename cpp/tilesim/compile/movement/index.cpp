// Movement with data-dependent addresses: the DMA reads a tensor of indices that the vector unit has clamped.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/layouts/rows.hpp"
#include "tilesim/compile/movement/boxes.hpp"
#include "tilesim/compile/movement/movement.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

/// Appends nodes to a vector compute; functions are of type i64.
class Nodes {
 public:
  explicit Nodes(program::VectorOp& compute) : nodes_(compute.nodes) {}
  int add(VectorNode node, Expr scalar = 0) {
    nodes_.push_back({node, std::move(scalar)});
    return static_cast<int>(nodes_.size()) - 1;
  }
  int input(int index, DType dtype) { return add({.op = VectorNode::Op::input, .index = index, .dtype = dtype}); }
  int constant(std::int64_t value, DType dtype = DType::i64) {
    return add({.op = VectorNode::Op::constant, .number = static_cast<double>(value), .dtype = dtype});
  }
  int apply(Function function, int a, int b, int c = -1) {
    return add({.op = VectorNode::Op::function, .function = function, .arguments = {a, b, c}, .dtype = DType::i64});
  }

 private:
  std::vector<program::VectorNodeSpec>& nodes_;
};

/// The placement of start indices by batch axes only, without the axis of components.
Placement of_boxes(Placement starts, std::size_t batch_rank) {
  for (AxisAccess& access : starts.axes)
    access.terms.erase(std::remove_if(access.terms.begin(), access.terms.end(),
                                      [&](const AxisAccess::Term& term) { return at(term.dim) >= batch_rank; }),
                       access.terms.end());
  return starts;
}

DType index_dtype(std::int64_t elements) { return elements < (std::int64_t{1} << 31) ? DType::i32 : DType::i64; }

}  // namespace

void MovementLowering::gather() {
  const ValueId x = op_.operands[0];
  const auto& map = op_.attributes.integers("start_index_map");
  const auto& sizes = op_.attributes.integers("slice_sizes");
  const auto& collapsed = op_.attributes.integers("collapsed_slice_dims");
  const auto& offsets = op_.attributes.integers("offset_dims");
  const std::string mode = op_.attributes.text("mode", "clip");
  Gather g;
  g.clip = mode == "clip";
  g.fill = mode == "fill";
  const bool apart = fetches_apart(sizes, map.size()), flat = map.size() != 1 && !apart;
  g.source = dense(x, flat);
  const Shape strides = row_major_strides(shape(x));
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape_.size()); ++axis)
    (contains(offsets, axis) ? g.box_axes : g.batch_axes).push_back(axis);
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(sizes.size()); ++axis) {
    if (contains(collapsed, axis)) continue;
    g.box_axis.push_back(flat ? 0 : static_cast<int>(axis));
    g.box_step.push_back(flat ? strides[at(axis)] : 1);
  }
  if (!flat) g.axis = at(map[0]);
  if (apart)
    for (std::int64_t axis : map) g.apart.push_back(at(axis));
  for (std::int64_t axis : map) {
    g.scale.push_back(flat ? strides[at(axis)] : 1);
    g.last.push_back(shape(x)[at(axis)] - sizes[at(axis)]);
  }
  g.span = std::max<std::int64_t>(1, flat ? element_count(shape(x)) : shape(x)[g.axis]);
  for (std::size_t i = 1; i < g.batch_axes.size(); ++i)
    if (shape_[at(g.batch_axes[i])] >= shape_[at(g.batch_axes[g.along])]) g.along = i;
  if (apart) return gather_apart(std::move(g));
  load_boxes(g, {box_starts(g)});
}

/// Whether to fetch boxes with several start components one by one: if that moves less than flattening the operand.
bool MovementLowering::fetches_apart(const std::vector<std::int64_t>& sizes, std::size_t components) const {
  if (components < 2) return false;
  const Shape& tile = context_.machine.layout.tile;
  const auto padded_bytes = [&](ValueId value) {
    const Shape& whole = shape(value);
    double bytes = host_bytes(placement(value).dtype);
    for (std::size_t axis = 0; axis < whole.size(); ++axis) {
      const std::size_t minor = whole.size() - 1 - axis;
      const bool padded = tile.size() == 2 && minor < 2;
      bytes *= static_cast<double>(padded ? round_up(whole[axis], tile[1 - minor]) : whole[axis]);
    }
    return bytes;
  };
  std::int64_t box = 1;
  for (const std::int64_t size : sizes) box *= size;
  const std::int64_t burst = context_.machine.memory.burst_bytes, bytes = host_bytes(placement(op_.operands[0]).dtype);
  const std::int64_t boxes = element_count(shape_) / std::max<std::int64_t>(1, box);
  const auto further = static_cast<std::int64_t>(components);
  const double fetched =
      static_cast<double>(boxes) * static_cast<double>(round_up(box * bytes, burst) + further * burst);
  const double indices = static_cast<double>(further - 1) * padded_bytes(op_.operands[1]);  // read for each component
  return fetched + indices < 2.0 * padded_bytes(op_.operands[0]);
}

void MovementLowering::gather_apart(Gather g) {
  one_by_one_ = true;
  std::vector<Placement> starts;
  const std::vector<std::int64_t> last = g.last;
  for (std::size_t i = 0; i < g.apart.size(); ++i) {
    g.component = static_cast<std::int64_t>(i);
    g.scale = {1};
    g.last = {last[i]};
    g.span = std::max<std::int64_t>(1, shape(op_.operands[0])[g.apart[i]]);
    starts.push_back(box_starts(g));
  }
  load_boxes(g, starts);
}

/// Computes the starts of a tile of boxes into slot "start", from their indices in slot "index".
program::VectorOp MovementLowering::starts_of(const Gather& g, const Region& r, DType indices) {
  const std::size_t components = g.scale.size(), batch_rank = g.batch_axes.size();
  const std::int64_t tile = element_count(r.tiles);
  program::VectorOp compute;
  compute.extents = r.extent;
  compute.lane_dim = static_cast<int>(batch_rank) - 1;
  Nodes nodes(compute);
  // In mode error, a single index outside its range leads the transfer outside, which names it. A sum of several may
  // stay inside: a negative index then replaces the sum, and one that is too large does so with the span added.
  int sum = nodes.constant(0), valid = -1, wrong = -1;
  for (std::size_t i = 0; i < components; ++i) {
    View view{"index", 0, static_cast<std::int64_t>(i) * tile, {}};
    for (std::size_t axis = 0; axis < batch_rank; ++axis) view.dims.push_back({r.extent[axis], r.strides[axis]});
    compute.inputs.push_back(view);
    int index = nodes.input(static_cast<int>(i), indices);
    const int low = nodes.constant(0), high = nodes.constant(g.last[i]);
    if (g.clip) {
      index = nodes.apply(Function::clamp, low, index, high);
    } else if (g.fill || components > 1) {
      if (wrong < 0) wrong = nodes.constant(-g.span);
      const int inside = nodes.apply(Function::equal, index, nodes.apply(Function::clamp, low, index, high));
      valid = valid < 0 ? inside : nodes.apply(Function::logical_and, valid, inside);
      if (!g.fill) {
        const int behind = nodes.apply(Function::add, index, nodes.constant(g.span));
        const int outside = nodes.apply(Function::select, nodes.apply(Function::less, index, low), index, behind);
        wrong = nodes.apply(Function::select, inside, wrong, outside);
      }
    }
    if (g.scale[i] != 1) index = nodes.apply(Function::multiply, index, nodes.constant(g.scale[i]));
    sum = i == 0 ? index : nodes.apply(Function::add, sum, index);
  }
  if (valid >= 0) sum = nodes.apply(Function::select, valid, sum, wrong);
  View out{"start", 0, 0, {}};
  for (std::size_t axis = 0; axis < batch_rank; ++axis) out.dims.push_back({r.extent[axis], r.strides[axis]});
  compute.outputs.push_back({sum, out, {}, Combiner::add, 0});
  return compute;
}

/// The result has the batch axes in order, except that `along` is last.
Placement MovementLowering::box_starts(const Gather& g) {
  const ValueId indices = op_.operands[1];
  const auto vector_dim = at(op_.attributes.integer("index_vector_dim"));
  const std::size_t components = g.scale.size(), batch_rank = g.batch_axes.size();
  Shape space;
  std::vector<AxisAccess> read;  // per axis of the index tensor: batch dim, or the dim of components
  for (std::int64_t axis : g.batch_axes) space.push_back((g.boxes.empty() ? shape_ : g.boxes)[at(axis)]);
  for (std::size_t axis = 0, batch = 0; axis < shape(indices).size(); ++axis)
    read.push_back(affine_axis(axis == vector_dim ? batch_rank : batch++));
  Shape stored;
  std::vector<AxisAccess> write;
  for (std::size_t i = 0; i < batch_rank; ++i)
    if (i != g.along) stored.push_back(space[i]), write.push_back(affine_axis(i));
  if (batch_rank > 0) stored.push_back(space[g.along]), write.push_back(affine_axis(g.along));
  const Placement from = seen_through(placement(indices), read);
  const Placement result = temporary("starts", index_dtype(g.span), stored);
  const int suffix = steps_++;
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(1, components));
  Shape main;
  std::swap(main, main_);
  const std::int64_t bytes = 2 * (count * host_bytes(from.dtype) + host_bytes(result.dtype));
  const Region r = region(space, bytes, suffix, {of_boxes(from, batch_rank), seen_through(result, write)});
  std::swap(main, main_);
  const std::int64_t tile = element_count(r.tiles);
  std::vector<Ring> rings{ring("start", result.dtype, tile)};
  std::vector<Expr> start = r.start, extent = r.extent;
  std::vector<std::int64_t> strides = r.strides;
  start.push_back(g.component);
  extent.push_back(count);
  strides.push_back(tile);
  Block body;
  if (components > 0) {
    rings.insert(rings.begin(), ring("index", from.dtype, tile * count));
    body.push_back(statement(program::Load{region_transfer(from, start, extent, strides, "index")}));
  }
  body.push_back(statement(starts_of(g, r, from.dtype)));
  body.push_back(store(r, "start", seen_through(result, write)));
  add_step(r, rings, std::move(body), suffix);
  return result;
}

/// The load of a tile for one position of `loops`, the result's axes whose positions each need a transfer.
program::Transfer MovementLowering::load_of(const Gather& g, const std::vector<Placement>& starts, const Region& r,
                                            std::vector<std::size_t>& loops) const {
  program::Transfer load;
  load.tensor = g.source.tensor;
  load.at.assign(g.source.tensor_shape.size(), Expr(0));
  load.slot = "x";
  if (g.fill) load.fill = 0.0;
  program::TransferDim through{1, static_cast<int>(g.axis), 1, 0, starts[0].tensor, {}};
  Expr offset = 0;
  std::vector<std::size_t> order;  // batch axes in the order of the stored starts
  for (std::size_t i = 0; i < g.batch_axes.size(); ++i)
    if (i != g.along) order.push_back(i);
  if (!g.apart.empty() && !g.batch_axes.empty()) order.push_back(g.along);
  for (const std::size_t i : order) {
    const std::size_t axis = at(g.batch_axes[i]);
    const bool single = shape_[axis] == 1 || r.tiles[axis] == 1;
    const Expr step_index = single ? Expr(0) : Expr::symbol("j" + std::to_string(axis));
    if (!single) loops.push_back(axis);
    through.through_at.push_back(r.start[axis] + step_index);
    offset = offset + step_index * Expr(r.strides[axis]);
  }
  if (!g.batch_axes.empty() && g.apart.empty()) {
    const std::size_t axis = at(g.batch_axes[g.along]);
    through.through_at.push_back(r.start[axis]);
    through.extent = r.extent[axis];
    through.stride = Expr(r.strides[axis]);
  }
  load.offset = offset;
  for (std::size_t i = 0; i < std::max<std::size_t>(1, g.apart.size()); ++i) {
    load.dims.push_back(through);
    if (g.apart.empty()) continue;
    load.dims.back().axis = static_cast<int>(g.apart[i]);
    load.dims.back().through = starts[i].tensor;
  }
  for (std::size_t i = 0; i < g.box_axes.size(); ++i) {
    const std::size_t axis = at(g.box_axes[i]);
    Expr& origin = load.at[at(g.box_axis[i])];
    origin = origin + r.start[axis] * Expr(g.box_step[i]);
    load.dims.push_back({r.extent[axis], g.box_axis[i], Expr(g.box_step[i]), Expr(r.strides[axis]), {}, {}});
  }
  return load;
}

/// Loads boxes with one transfer per tile and batch position; along batch axis `along`, one transfer covers all
/// positions. Boxes with starts along several axes are loaded one by one.
void MovementLowering::load_boxes(const Gather& g, const std::vector<Placement>& starts) {
  const int suffix = steps_++;
  const DType dtype = g.source.dtype;
  rows_apart_.emplace();
  for (std::size_t i = 0; i < g.batch_axes.size(); ++i)
    if (i != g.along || !g.apart.empty()) rows_apart_->push_back(static_cast<int>(g.batch_axes[i]));
  const Region r = region(shape_, 2 * host_bytes(dtype), suffix);
  std::vector<std::size_t> loops;
  program::Transfer load = load_of(g, starts, r, loops);
  program::Statement loads = statement(program::Load{std::move(load)});
  for (std::size_t i = loops.size(); i-- > 0;)
    loads = loop("j" + std::to_string(loops[i]), r.extent[loops[i]], {std::move(loads)});
  add_step(r, {ring("x", dtype, element_count(r.tiles))}, {std::move(loads), store(r, "x", placement(y_))}, suffix);
}

/// Fetches rows of the table by the ids; the vector unit replaces rows of the padding index by zeros.
void MovementLowering::embedding() {
  const Placement& entered = placement(op_.operands[0]);
  if (!placement(y_).through.empty()) {  // the readers fetch the rows
    const std::vector<AxisAccess> plain = plain_axes(2);
    main_.clear();
    const Placement copied{placement(y_).tensor, entered.tensor_shape, entered.dtype, plain, true};
    return copy(entered.tensor_shape, entered, plain, copied, plain);
  }
  const bool scattered = rows_scattered(context_, entered, element_count(shape(op_.operands[1])));
  const Placement table = dense(op_.operands[0], false, scattered), ids = dense(op_.operands[1]);
  const std::int64_t padding = op_.attributes.integer("padding_index", -1);
  const int suffix = steps_++;
  const std::size_t rank = shape_.size(), ids_rank = rank - 1;
  const DType dtype = table.dtype;
  const std::int64_t bytes =
      2 * host_bytes(dtype) * (padding < 0 ? 1 : 2) + (padding < 0 ? 0 : 2 * host_bytes(ids.dtype));
  rows_apart_.emplace();
  for (std::size_t axis = 0; axis + 1 < ids_rank; ++axis) rows_apart_->push_back(static_cast<int>(axis));
  masked_ = padding >= 0;
  const Region r = region(shape_, bytes, suffix);
  std::vector<Ring> rings{ring("x", dtype, element_count(r.tiles))};
  program::Transfer load;
  load.tensor = table.tensor;
  load.at = {Expr(0), r.start[rank - 1]};
  load.slot = "x";
  std::vector<Expr> through_at;
  for (std::size_t axis = 0; axis < ids_rank; ++axis) {
    const bool inner = axis + 1 == ids_rank;
    const Expr step_index = inner ? Expr(0) : Expr::symbol("j" + std::to_string(axis));
    through_at.push_back(r.start[axis] + step_index);
    load.offset = load.offset + step_index * Expr(r.strides[axis]);
  }
  const Expr rows = ids_rank > 0 ? r.extent[ids_rank - 1] : Expr(1);
  load.dims.push_back({rows, 0, 1, Expr(ids_rank > 0 ? r.strides[ids_rank - 1] : 0), ids.tensor, through_at});
  load.dims.push_back({r.extent[rank - 1], 1, 1, Expr(r.strides[rank - 1]), {}, {}});
  program::Statement loads = statement(program::Load{std::move(load)});
  for (std::size_t axis = ids_rank > 0 ? ids_rank - 1 : 0; axis-- > 0;)
    loads = loop("j" + std::to_string(axis), r.extent[axis], {std::move(loads)});
  Block body{std::move(loads)};
  if (padding >= 0) {
    rings.push_back(ring("y", dtype, element_count(r.tiles)));
    rings.push_back(ring("ids", ids.dtype, element_count(r.tiles) / std::max<std::int64_t>(1, r.tiles[rank - 1])));
    mask_rows(r, ids, padding, dtype, body);
  }
  body.push_back(store(r, padding < 0 ? "x" : "y", placement(y_)));
  add_step(r, rings, std::move(body), suffix);
}

/// y = ids == padding ? 0 : x
void MovementLowering::mask_rows(const Region& r, const Placement& ids, std::int64_t padding, DType dtype,
                                 Block& body) {
  const std::size_t rank = r.space.size();
  const Shape tiles(r.tiles.begin(), r.tiles.end() - 1);
  const Shape strides = row_major_strides(tiles);
  const std::vector<Expr> start(r.start.begin(), r.start.end() - 1), extent(r.extent.begin(), r.extent.end() - 1);
  program::VectorOp compute;
  compute.extents = r.extent;
  compute.lane_dim = static_cast<int>(rank) - 1;
  View x{"x", 0, 0, {}}, id{"ids", 0, 0, {}};
  for (std::size_t axis = 0; axis < rank; ++axis) {
    x.dims.push_back({r.extent[axis], r.strides[axis]});
    id.dims.push_back({r.extent[axis], axis + 1 < rank ? strides[axis] : 0});
  }
  View y = x;
  y.slot = "y";
  compute.inputs = {x, id};
  Nodes nodes(compute);
  const int row = nodes.input(0, dtype), read = nodes.input(1, ids.dtype);
  const int padded = nodes.apply(Function::equal, read, nodes.constant(padding, ids.dtype));
  const int zero = nodes.constant(0, dtype);
  const int result = nodes.add(
      {.op = VectorNode::Op::function, .function = Function::select, .arguments = {padded, zero, row}, .dtype = dtype});
  compute.outputs.push_back({result, y, {}, Combiner::add, 0});
  body.push_back(statement(program::Load{region_transfer(ids, start, extent, strides, "ids")}));
  body.push_back(statement(std::move(compute)));
}

}  // namespace tilesim::lower
