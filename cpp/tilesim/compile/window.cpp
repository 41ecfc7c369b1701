// Windows (pooling) and scans on the vector unit.
#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/tiling.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

program::Slot make_slot(const std::string& name, DType dtype, std::int64_t elements, const std::string& consumer) {
  program::Slot slot;
  slot.name = name;
  slot.dtype = dtype;
  slot.elements = std::max<std::int64_t>(1, elements);
  slot.depth = 2;
  slot.consumers = {consumer};
  return slot;
}

std::string index(std::size_t axis) { return "i" + std::to_string(axis); }

struct Tiled {
  Shape space, tiles;
  std::vector<Expr> start, extent;
};

Tiled tiled(const Shape& space, const Shape& tiles) {
  Tiled result{space, tiles, {}, {}};
  for (std::size_t axis = 0; axis < space.size(); ++axis) {
    const bool whole = tiles[axis] >= space[axis];
    result.start.push_back(whole ? Expr(0) : Expr::symbol(index(axis)) * Expr(tiles[axis]));
    result.extent.push_back(whole || space[axis] % tiles[axis] == 0
                                ? Expr(std::min(space[axis], tiles[axis]))
                                : min(Expr(tiles[axis]), Expr(space[axis]) - result.start.back()));
  }
  return result;
}

void wrap(program::Scope& scope, const Tiled& t, Block body) {
  for (std::size_t axis = t.space.size(); axis-- > 0;) {
    if (t.tiles[axis] >= t.space[axis]) continue;
    Block inner = std::move(body);
    body.clear();
    body.push_back(loop(index(axis), Expr(ceil_div(t.space[axis], t.tiles[axis])), std::move(inner)));
  }
  scope.body = std::move(body);
}

/// load x, compute y, store y.
Block pipeline(program::Transfer load, program::VectorOp compute, program::Transfer store) {
  Block body;
  body.push_back(on("", program::Acquire{"x", {"load0"}}));
  body.push_back(on("load0", program::Load{std::move(load)}));
  body.push_back(on("load0", program::Commit{"x", 0, 1}));
  body.push_back(on("vector", program::Wait{"x", 0, {}, 0, 1}));
  body.push_back(on("", program::Acquire{"y", {"vector"}}));
  body.push_back(on("vector", std::move(compute)));
  body.push_back(on("vector", program::Commit{"y", 0, 1}));
  body.push_back(on("vector", program::Release{"x", 0}));
  body.push_back(on("store0", program::Wait{"y", 0, {}, 0, 1}));
  body.push_back(on("store0", program::Store{std::move(store), {}, 0}));
  body.push_back(on("store0", program::Release{"y", 0}));
  return body;
}

}  // namespace

program::Scope lower_window(Context& context, const Kernel& kernel) {
  const Op& op = context.function.ops[static_cast<std::size_t>(kernel.ops[0])];
  const ValueId x = op.operands[0], y = op.results[0];
  const Shape& out = context.value(y).type.shape;
  const std::size_t rank = out.size();
  const auto window = op.attributes.integers("window");
  const auto strides = op.attributes.integers("strides", Shape(rank, 1)),
             dilation = op.attributes.integers("window_dilation", Shape(rank, 1));
  const auto pads = op.attributes.integers("pads", Shape(2 * rank, 0));
  const DType in_dtype = context.placements[static_cast<std::size_t>(x)].dtype,
              out_dtype = context.placements[static_cast<std::size_t>(y)].dtype;
  const auto reach = [&](std::size_t axis, std::int64_t tile) {
    return (tile - 1) * strides[axis] + (window[axis] - 1) * dilation[axis] + 1;
  };
  Shape tiles = out, region(rank);
  for (std::int64_t& tile : tiles) tile = std::max<std::int64_t>(1, tile);
  const auto bytes = [&] {
    std::int64_t in = 1, result = 1;
    for (std::size_t axis = 0; axis < rank; ++axis)
      in *= region[axis] = reach(axis, tiles[axis]), result *= tiles[axis];
    return 2 * (in * host_bytes(in_dtype) + result * host_bytes(out_dtype)) + 256;
  };
  const std::int64_t budget =
      std::max<std::int64_t>(std::min<std::int64_t>(context.machine.core.scratchpad.bytes, 4 << 20), 1);
  for (std::size_t axis = 0; axis < rank && bytes() > budget;) {
    if (tiles[axis] > 1)
      tiles[axis] = (tiles[axis] + 1) / 2;
    else
      ++axis;
  }
  if (bytes() > context.machine.core.scratchpad.bytes)
    throw Unsupported({"one window does not fit the scratchpad", op.name, std::to_string(bytes()) + " bytes", {}, {}});
  const Tiled t = tiled(out, tiles);
  program::Scope scope = named_scope(context, kernel);
  scope.slots = {make_slot("x", in_dtype, element_count(region), "vector"),
                 make_slot("y", out_dtype, element_count(tiles), "store0")};
  const Shape in_strides = row_major_strides(region), out_strides = row_major_strides(tiles);
  std::vector<Expr> start, extent;
  program::VectorOp compute;
  View in{"x", 0, 0, {}}, result{"y", 0, 0, {}};
  for (std::size_t axis = 0; axis < rank; ++axis) {
    start.push_back(t.start[axis] * Expr(strides[axis]) - Expr(pads[2 * axis]));
    extent.push_back((t.extent[axis] - Expr(1)) * Expr(strides[axis]) + Expr((window[axis] - 1) * dilation[axis] + 1));
    compute.extents.push_back(t.extent[axis]);
    in.dims.push_back({t.extent[axis], in_strides[axis] * strides[axis]});
    result.dims.push_back({t.extent[axis], out_strides[axis]});
  }
  program::VectorOutputSpec output;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (window[axis] == 1) continue;
    output.reduce.push_back(static_cast<int>(compute.extents.size()));
    compute.extents.push_back(window[axis]);
    in.dims.push_back({Expr(window[axis]), in_strides[axis] * dilation[axis]});
    result.dims.push_back({Expr(window[axis]), 0});
  }
  const Combiner combiner = parse_combiner(op.attributes.text("combiner"));
  compute.lane_dim = static_cast<int>(rank) - 1;
  compute.inputs.push_back(in);
  compute.nodes.push_back({{.op = VectorNode::Op::input, .dtype = in_dtype}, 0});
  output.view = result;
  output.combiner = combiner;
  compute.outputs.push_back(output);
  program::Transfer load =
      region_transfer(context.placements[static_cast<std::size_t>(x)], start, extent, in_strides, "x");
  load.fill = identity_element(combiner, in_dtype);
  wrap(scope, t,
       pipeline(std::move(load), std::move(compute),
                region_transfer(context.placements[static_cast<std::size_t>(y)], t.start, t.extent, out_strides, "y")));
  assign_addresses(scope, context.machine);
  return scope;
}

program::Scope lower_cumulative(Context& context, const Kernel& kernel) {
  const Op& op = context.function.ops[static_cast<std::size_t>(kernel.ops[0])];
  const ValueId x = op.operands[0], y = op.results[0];
  const Shape& shape = context.value(y).type.shape;
  const auto dim = static_cast<std::size_t>(op.attributes.integer("dim"));
  const DType dtype = context.placements[static_cast<std::size_t>(x)].dtype;
  TileChoice choice{shape,
                    {{std::vector<bool>(shape.size(), true), 4 * host_bytes(dtype)}},
                    std::vector<bool>(shape.size(), false),
                    {},
                    {}};
  choice.whole[dim] = true;
  if (!choose_tiles(choice, context.machine))
    throw Unsupported({"a scan over an axis longer than the scratchpad has no lowering yet",
                       op.name,
                       std::to_string(shape[dim]) + " elements",
                       {},
                       {}});
  const Tiled t = tiled(shape, choice.tiles);
  const Shape strides = row_major_strides(choice.tiles);
  program::Scope scope = named_scope(context, kernel);
  scope.slots = {
      make_slot("x", dtype, element_count(choice.tiles), "vector"),
      make_slot("y", context.placements[static_cast<std::size_t>(y)].dtype, element_count(choice.tiles), "store0")};
  program::VectorOp compute;
  compute.extents = t.extent;
  compute.lane_dim = static_cast<int>(shape.size()) - 1;
  View in{"x", 0, 0, {}}, out{"y", 0, 0, {}};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    in.dims.push_back({t.extent[axis], strides[axis]});
    out.dims.push_back({t.extent[axis], strides[axis]});
  }
  compute.inputs.push_back(in);
  compute.nodes.push_back({{.op = VectorNode::Op::input, .dtype = dtype}, 0});
  compute.nodes.push_back({{.op = VectorNode::Op::scan,
                            .index = static_cast<int>(dim),
                            .arguments = {0, -1, -1},
                            .dtype = dtype,
                            .combiner = parse_combiner(op.attributes.text("combiner")),
                            .reverse = op.attributes.flag("reverse"),
                            .exclusive = op.attributes.flag("exclusive")},
                           0});
  compute.outputs.push_back({1, out, {}, Combiner::add, 0});
  wrap(scope, t,
       pipeline(region_transfer(context.placements[static_cast<std::size_t>(x)], t.start, t.extent, strides, "x"),
                std::move(compute),
                region_transfer(context.placements[static_cast<std::size_t>(y)], t.start, t.extent, strides, "y")));
  assign_addresses(scope, context.machine);
  return scope;
}

}  // namespace tilesim::lower
