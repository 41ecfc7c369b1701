// ragged_contract: one product per group of rows. The rows per group are data: a first step stores the start of each
// group, loops and addresses read it, and rows after the last group are filled with zeros.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/mapping/space.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

AxisAccess axis_of(int dim) {
  AxisAccess axis;
  axis.terms.push_back({dim, 1});
  return axis;
}

struct RaggedExtents { std::int64_t groups, rows, columns, depth; };

RaggedExtents extents_of(const Context& context, const Op& op) {
  const Shape& a = context.value(op.operands[0]).type.shape;
  const Shape& b = context.value(op.operands[1]).type.shape;
  return {b[0], a[0], context.value(op.results[0]).type.shape[1], a[1]};
}

/// Number of nonempty groups, and rows per group, if rows are spread evenly. A single row counts two groups: data
/// selects its group, so the kernel loops over the groups.
std::pair<std::int64_t, std::int64_t> even(const RaggedExtents& e) {
  const std::int64_t groups = std::max<std::int64_t>(1, std::min(e.groups, std::max<std::int64_t>(2, e.rows)));
  return {groups, ceil_div(e.rows, groups)};
}

/// `apart`: distance in rows of adjacent groups in a and in the result; 0: data determines it.
Domain ragged_domain(const Op& op, std::int64_t groups, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                     std::int64_t apart) {
  Domain domain;
  domain.extents = {groups, rows, columns, depth};
  domain.names = {"g", "m", "n", "k"};
  domain.reduction = {false, false, false, true};
  AxisAccess row = axis_of(ragged_row);
  if (apart > 0) row.terms.insert(row.terms.begin(), {ragged_group, apart});
  Access a, b, y;
  a.axes = {row, axis_of(ragged_depth)};
  b.axes = {axis_of(ragged_group), axis_of(ragged_depth), axis_of(ragged_column)};
  if (op.attributes.flag("b_transposed")) std::swap(b.axes[1], b.axes[2]);
  y.axes = {row, axis_of(ragged_column)};
  domain.operands = {a, b};
  domain.results = {y};
  return domain;
}

}  // namespace

mapping::Problem ragged_problem(const Context& context, const Kernel& kernel) {
  const Op& op = context.function.ops[at(kernel.anchor)];
  const RaggedExtents e = extents_of(context, op);
  const auto [groups, rows] = even(e);
  mapping::Problem problem;
  problem.operation = op.name;
  problem.domain = ragged_domain(op, groups, rows, e.columns, e.depth, rows);
  problem.batch_dims = {ragged_group};
  problem.m_dims = {ragged_row};
  problem.n_dims = {ragged_column};
  problem.k_dims = {ragged_depth};
  for (ValueId value : {op.operands[0], op.operands[1]}) {
    const Placement& placement = context.placements[at(value)];
    const program::Tensor* tensor = find_tensor(context, placement.tensor);
    problem.dtypes.push_back(placement.dtype);
    problem.memory_dtypes.push_back(placement.dtype);
    problem.shapes.push_back(context.value(value).type.shape);
    problem.minor_to_major.push_back(tensor && placement.identity ? tensor->minor_to_major : std::vector<int>{});
  }
  problem.shapes[0][0] = groups * rows;
  const DType type = context.value(op.results[0]).type.dtype;
  problem.dtypes.push_back(type == DType::f64 ? DType::f64 : context.machine.core.array.numerics.accumulate);
  problem.memory_dtypes.push_back(type);
  problem.shapes.push_back({groups * rows, e.columns});
  problem.minor_to_major.emplace_back();
  problem.kernel = info(op.kind).name;
  add_vector_parts(problem, context, kernel);
  return problem;
}

namespace {

/// Adapts the nest to the kernel's order: groups outermost, one tile of sums.
mapping::Nest group_by_group(const Share& machine, const mapping::Problem& problem, mapping::Nest nest) {
  nest.tiles[ragged_group] = 1;
  nest.sub.clear();  // the number of rows to split is data
  const auto place = [&](int dim) { return std::find(nest.order.begin(), nest.order.end(), dim) - nest.order.begin(); };
  // A group with more rows than typical must still read its matrix once.
  const bool columns_first =
      place(ragged_column) < place(ragged_row) || nest.tiles[ragged_row] >= problem.domain.extents[ragged_row];
  nest.order = {ragged_group, ragged_column, ragged_row, ragged_depth};
  if (!columns_first) std::swap(nest.order[1], nest.order[2]);
  // Shrinks tiles until the nest is legal: other orders may have held fewer sums.
  for (int step = 0; step < 64 && !mapping::legal(problem, nest, machine).legal; ++step) {
    std::int64_t& tile = nest.tiles[nest.tiles[ragged_row] > 1 ? ragged_row : ragged_column];
    tile = std::max<std::int64_t>(1, ceil_div(tile, 2));
  }
  return nest;
}

}  // namespace

/// Searches may choose nests that the kernel does not support (tiles of several groups, other orders): from the best
/// nests and the heuristic's, moves to adjacent nests that are faster in this kernel's order.
mapping::Nest ragged_nest(const Context& context, const Kernel& kernel, const mapping::Problem& problem,
                          const Share& machine) {
  constexpr int most_rounds = 8;
  constexpr std::int64_t most_steps = 3000;
  require_array(context, context.function.ops[at(kernel.anchor)], problem.dtypes[0]);
  // Profiles do not cover ragged products.
  const std::string rule = mapping_rule(context) == "profile" ? "cost" : mapping_rule(context);
  const mapping::Nest chosen =
      group_by_group(machine, problem, nest_by_rule(context, problem, machine, Effort::full, rule));
  if (rule != "cost" || !context.machine.sorts.empty()) return chosen;
  mapping::CostModel model(problem, machine);
  const mapping::Space choices = mapping::space(problem, machine);
  const bool walks = !std::isinf(model.steps(chosen, most_steps));
  const auto cycles_of = [&](const mapping::Nest& nest) {
    return walks ? model.steps(nest, most_steps) : model.price(nest).soft;
  };
  mapping::Nest best = chosen;
  double least = std::numeric_limits<double>::infinity();
  for (mapping::Nest here :
       {chosen, group_by_group(machine, problem, nest_by_rule(context, problem, machine, Effort::rough, rule))}) {
    double now = cycles_of(here);
    for (int round = 0; round < most_rounds; ++round) {
      mapping::Nest next;
      for (mapping::Nest& other : choices.neighbours(here, false)) {
        other = group_by_group(machine, problem, std::move(other));
        if (!model.fits(other)) continue;
        if (model.price(other).bound >= now) continue;
        const double cycles = cycles_of(other);
        if (cycles >= now) continue;
        now = cycles;
        next = std::move(other);
      }
      if (next.tiles.empty()) break;
      here = std::move(next);
    }
    if (now >= least) continue;
    least = now;
    best = std::move(here);
  }
  return best;
}

/// Replaces the typical rows of the problem by rows that data determines.
void ProductLowering::prepare_ragged() {
  const RaggedExtents e = extents_of(context_, anchor_);
  Divided divided = split_along(context_, problem_, ragged_column);  // each core computes some columns of all groups
  split_ = std::move(divided.split);
  seen_ = std::make_shared<const Share>(divided.seen);
  nest_ = ragged_nest(context_, kernel_, problem_, *seen_);
  domain_ = ragged_domain(anchor_, e.groups, e.rows, problem_.domain.extents[ragged_column], e.depth, 0);
  const std::string stem = context_.placements[at(anchor_.results[0])].tensor;
  const auto declare = [&](const char* suffix, std::vector<std::int64_t> values) {
    program::Tensor tensor;
    tensor.name = stem + suffix;
    tensor.dtype = DType::i32;
    tensor.shape = {Expr(e.groups)};
    tensor.typical = {std::move(values),
                      std::to_string(e.rows) + " rows spread evenly over " + std::to_string(e.groups) + " groups"};
    context_.program.tensors.push_back(tensor);
    return tensor.name;
  };
  std::vector<std::int64_t> counts, offsets;
  for (std::int64_t group = 0, before = 0; group < e.groups; ++group) {
    counts.push_back(e.rows / e.groups + (group < e.rows % e.groups ? 1 : 0));
    offsets.push_back(before);
    before += counts.back();
  }
  counts_ = declare(".counts", counts);
  offsets_ = declare(".offsets", offsets);
}

Expr ProductLowering::row_count() const {
  return Expr::read(counts_, {domain_.extents[ragged_group] > 1 ? Expr::symbol("i_g") : Expr(0)});
}

Expr ProductLowering::first_row() const {
  return Expr::read(offsets_, {domain_.extents[ragged_group] > 1 ? Expr::symbol("i_g") : Expr(0)});
}

/// The step that computes the rows per group and the rows before each group from the group sizes.
program::Scope ProductLowering::ragged_offsets() {
  const Placement& sizes = context_.placements[at(anchor_.operands[2])];
  const std::int64_t groups = domain_.extents[ragged_group];
  program::Scope step;
  step.operation = scope_.operation;
  const auto line = [&](const char* slot) { return View{slot, 0, 0, {{Expr(groups), Expr(1)}}}; };
  program::VectorOp compute;
  compute.extents = {Expr(groups)};
  compute.lane_dim = 0;
  compute.inputs.push_back(line("sizes"));
  compute.nodes.push_back({{.op = VectorNode::Op::input, .dtype = sizes.dtype}, 0});
  compute.nodes.push_back({{.op = VectorNode::Op::convert, .arguments = {0, -1, -1}, .dtype = DType::i64}, 0});
  compute.nodes.push_back({{.op = VectorNode::Op::scan,
                            .index = 0,
                            .arguments = {1, -1, -1},
                            .dtype = DType::i64,
                            .combiner = Combiner::add,
                            .exclusive = true},
                           0});
  compute.outputs.push_back({1, line("counts"), {}, Combiner::add, 0});
  compute.outputs.push_back({2, line("offsets"), {}, Combiner::add, 0});
  Block body{statement(program::Load{region_transfer(sizes, {Expr(0)}, {Expr(groups)}, {1}, "sizes")}),
             statement(std::move(compute))};
  for (const char* slot : {"counts", "offsets"}) {
    program::Transfer store;
    store.tensor = slot == std::string("counts") ? counts_ : offsets_;
    store.at = {Expr(0)};
    store.dims.push_back({Expr(groups), 0, 1, 1, {}, {}});
    store.slot = slot;
    body.push_back(statement(program::Store{std::move(store), {}, 0}));
  }
  return write_kernel(std::move(step),
                      {{"sizes", sizes.dtype, groups}, {"counts", DType::i32, groups}, {"offsets", DType::i32, groups}},
                      std::move(body));
}

/// The step that stores zeros to the rows after the last group.
program::Scope ProductLowering::ragged_rest() {
  const Placement& y = context_.placements[at(anchor_.results[0])];
  const std::int64_t columns = extents_of(context_, anchor_).columns, all = domain_.extents[ragged_row];
  const std::int64_t last = domain_.extents[ragged_group] - 1;
  const Expr rows = Expr::read(counts_, {Expr(last)}) + Expr::read(offsets_, {Expr(last)});
  const std::int64_t most =
      std::clamp<std::int64_t>(context_.machine.core.scratchpad.bytes / 4 / host_bytes(y.dtype), 1, 4096);
  const std::int64_t width = std::min(columns, most);
  const std::int64_t height = std::clamp<std::int64_t>(most / width, 1, all);
  const Expr row = Expr::symbol("i_m") * Expr(height) + rows, column = Expr::symbol("i_n") * Expr(width);
  const std::vector<Expr> extent{min(Expr(height), Expr(all) - row), min(Expr(width), Expr(columns) - column)};
  program::Scope step;
  step.operation = scope_.operation;
  program::VectorOp compute;
  compute.extents = extent;
  compute.lane_dim = 1;
  compute.nodes.push_back({{.op = VectorNode::Op::constant, .dtype = y.dtype}, 0});
  compute.outputs.push_back(
      {0, {"zeros", 0, 0, {{extent[0], Expr(width)}, {extent[1], Expr(1)}}}, {}, Combiner::add, 0});
  Block body{statement(std::move(compute)),
             statement(program::Store{region_transfer(y, {row, column}, extent, {width, 1}, "zeros"), {}, 0})};
  body = {loop("i_n", Expr(ceil_div(columns, width)), std::move(body))};
  return write_kernel(std::move(step), {{"zeros", y.dtype, height * width}},
                      {loop("i_m", ceil_div(Expr(all) - rows, height), std::move(body))});
}

/// Combines the kernel's three steps.
void ProductLowering::add_ragged_steps() {
  program::Scope product;
  product.operation = scope_.operation;
  product.barrier = true;  // its expressions read tensors that the first step stores
  product.slots = std::move(scope_.slots);
  product.body = std::move(scope_.body);
  scope_.slots.clear();
  scope_.body.clear();
  scope_.body.push_back(on("", ragged_offsets()));
  scope_.body.push_back(on("", std::move(product)));
  scope_.body.push_back(on("", ragged_rest()));
}

}  // namespace tilesim::lower
