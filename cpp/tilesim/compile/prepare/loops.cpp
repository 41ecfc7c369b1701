#include "tilesim/compile/prepare/loops.hpp"

#include <algorithm>
#include <optional>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/plan/in_place.hpp"
#include "tilesim/compile/prepare/trips.hpp"
#include "tilesim/compile/vector/tiling.hpp"

namespace tilesim::lower {

using program::Block;

namespace {

int uses(const GraphFunction& function, ValueId value) {
  auto count = std::count(function.outputs.begin(), function.outputs.end(), value);
  for (const Op& op : function.ops) count += std::count(op.operands.begin(), op.operands.end(), value);
  return static_cast<int>(count);
}

/// The original of a copied value, through any number of copies.
ValueId copied_from(const GraphFunction& function, ValueId value) {
  for (const Op* op = producer(function, value); op && op->kind == Kind::copy; op = producer(function, value))
    value = op->operands[0];
  return value;
}

void drop_unused(GraphFunction& function) {
  for (bool changed = true; changed;) {
    const auto unused = [&](const Op& op) {
      return std::all_of(op.results.begin(), op.results.end(),
                         [&](ValueId value) { return value == no_value || uses(function, value) == 0; });
    };
    changed = std::erase_if(function.ops, unused) > 0;
  }
}

/// Adds copies for outputs that are inputs, constants or other outputs.
void separate_outputs(GraphFunction& function) {
  for (std::size_t i = 0; i < function.outputs.size(); ++i) {
    const ValueId value = function.outputs[i];
    const Op* from = producer(function, value);
    const bool own = from && from->kind != Kind::constant && place_of(function.outputs, value) == static_cast<int>(i);
    if (own) continue;
    Op copy;
    copy.kind = Kind::copy;
    copy.name = function.value(value).name + ".next" + std::to_string(i);
    copy.operands = {value};
    copy.attributes.set("layout", true);
    function.values.push_back({copy.name, function.value(value).type});
    copy.results = {static_cast<ValueId>(function.values.size()) - 1};
    function.outputs[i] = copy.results[0];
    function.ops.push_back(std::move(copy));
  }
}

}  // namespace

LoopPlan plan_loop(const Graph& graph, const GraphFunction& function, const Op& op, const std::string& body_name) {
  const std::optional<Counted> counted = counted_trips(graph, function, op);
  if (!counted)
    throw CannotRun(op, Lack::trips,
                    {"while: the number of trips is unknown at compile time", op.name,
                     "condition \"" + graph.functions[at(op.functions[0])].name + "\"",
                     "a counter from a constant, by a constant, less than a constant",
                     "Say how many it makes, trips={'" + op.name + "': n} (--trips " + op.name +
                         "=n), or give inputs, ts.run(graph, inputs): the reference kernels count them"});
  LoopPlan plan;
  plan.trips = counted->trips;
  plan.start = counted->start;
  plan.step = counted->step;
  plan.counter = counted->place;
  plan.body = graph.functions[at(op.functions[1])];
  plan.body.name = body_name;
  GraphFunction& body = plan.body;
  plan.counter_value = body.inputs[at(plan.counter)];
  std::vector<ValueId> outputs;
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    const ValueId before = body.inputs[i], after = copied_from(body, body.outputs[i]);
    const Op* from = producer(body, after);
    Carried carried = Carried::renewed;
    if (static_cast<int>(i) == plan.counter)
      carried = Carried::counter;
    else if (before == after)
      carried = Carried::unchanged;
    else if (from && old_value(*from, after) == before)
      carried = Carried::in_place;
    plan.states.push_back(carried);
    if (carried == Carried::renewed)
      if (const auto grows = counted_state(graph, function, op, static_cast<int>(i)))
        plan.inductions.push_back({i, before, grows->start, grows->step});
    if (carried != Carried::in_place && carried != Carried::renewed) continue;
    outputs.push_back(after);
    plan.written.push_back(static_cast<int>(i));
  }
  body.outputs = outputs;
  body.aliases.clear();
  drop_unused(body);
  separate_outputs(body);
  return plan;
}

std::string formal_input(const LoopPlan& plan, std::size_t state) {
  return plan.body.name + "." + plan.body.value(plan.body.inputs[state]).name;
}

std::string formal_output(const LoopPlan& plan, std::size_t output) {
  const auto state = at(plan.written[output]);
  return plan.states[state] == Carried::in_place ? formal_input(plan, state)
                                                 : plan.body.name + ".result" + std::to_string(output);
}

std::string copy_name(const Op& op, std::size_t state) { return op.name + ".copy" + std::to_string(state); }

namespace {

/// Tiles of a copy: the default ones, or those of a given mapping.
mapping::VectorTiles copy_tiles(const Context& context, const std::string& name, const Placement& from,
                                const Placement& to, const Shape& usual) {
  using Use = mapping::VectorOperand::Use;
  const std::size_t rank = usual.size();
  Kernel kernel;
  kernel.name = name;
  mapping::VectorProblem problem = vector_problem(context, kernel, to.tensor_shape);
  problem.kernel = "copy " + std::string(tilesim::name(to.dtype));
  problem.lanes = {static_cast<int>(std::max<std::size_t>(rank, 1)) - 1};
  problem.ranks = false;
  problem.walks = true;
  problem.points = 0;
  problem.dtype = to.dtype;
  problem.operands = {placed_operand(context, from, rank, Use::load), placed_operand(context, to, rank, Use::store)};
  problem.operands[1].held = false;
  for (mapping::VectorOperand& operand : problem.operands)
    if (operand.step.size() != rank) operand.step.assign(rank, 1);
  return vector_tiles(context, kernel, std::move(problem), {usual, problem.lanes[0], 2});
}

}  // namespace

program::Scope copy_step(const Context& context, const std::string& operation, const std::string& name,
                         const Placement& from, const Placement& to) {
  const Shape& shape = to.tensor_shape;
  TileChoice choice;
  choice.space = shape;
  choice.buffers = {{std::vector<bool>(shape.size(), true), 2 * host_bytes(to.dtype)}};
  choice.whole.assign(shape.size(), false);
  add_granules(choice, context, to);
  if (!choose_tiles(choice, context.machine))
    throw UserError({"not even one element fits the scratchpad", operation, {}, {}, {}});
  const mapping::VectorTiles tiles = copy_tiles(context, name, from, to, choice.tiles);
  const TiledSpace t = tiled_space(shape, tiles.tiles, "i");
  const Shape strides = row_major_strides(t.tiles);
  program::Scope step;
  step.operation = {operation};
  step.barrier = true;
  Block body{statement(program::Load{region_transfer(from, t.start, t.extent, strides, "x")}),
             statement(program::Store{region_transfer(to, t.start, t.extent, strides, "x"), {}, 0})};
  return write_kernel(std::move(step), {{"x", to.dtype, element_count(t.tiles), tiles.depth}},
                      wrap_loops(t, std::move(body)));
}

program::Scope number_step(const Op& op, std::int64_t number, const Placement& to) {
  program::Scope step;
  step.operation = {op.name};
  step.barrier = true;
  program::VectorOp compute;
  compute.extents = {Expr(1)};
  compute.lane_dim = 0;
  compute.nodes.push_back(
      {{.op = VectorNode::Op::constant, .number = static_cast<double>(number), .dtype = to.dtype}, 0});
  compute.outputs.push_back({0, {"count", 0, 0, {{Expr(1), Expr(1)}}}, {}, Combiner::add, 0});
  return write_kernel(
      std::move(step), {{"count", to.dtype, 1}},
      {statement(std::move(compute)), statement(program::Store{region_transfer(to, {}, {}, {}, "count"), {}, 0})});
}

namespace {

class LoopLowering {
 public:
  LoopLowering(Context& context, const Op& op, const LoopPlan& plan) : context_(context), op_(op), plan_(plan) {}

  program::Scope lower() {
    scope_.kernel = op_.name;
    scope_.operation = {op_.name};
    scope_.launch_cycles = context_.machine.core.kernel_launch_cycles;
    scope_.barrier = true;
    for (std::size_t i = 0; i < plan_.states.size(); ++i) prepare(i);
    if (plan_.trips > 0) trips();
    return std::move(scope_);
  }

 private:
  /// Tensors of a state: initial value, final value, and the second buffer that trips alternate with.
  struct State { std::string first, last, other; };

  const Placement& operand(std::size_t i) const { return context_.placements[at(op_.operands[i])]; }

  Placement declared(const std::string& name, std::size_t i) const {
    const TensorType& type = context_.value(op_.operands[i]).type;
    program::Tensor tensor;
    tensor.name = name;
    tensor.dtype = type.dtype;
    for (std::int64_t extent : type.shape) tensor.shape.push_back(Expr(extent));
    context_.program.tensors.push_back(tensor);
    std::vector<AxisAccess> axes(type.shape.size());
    for (std::size_t axis = 0; axis < axes.size(); ++axis) axes[axis].terms.push_back({static_cast<int>(axis), 1});
    return {name, type.shape, type.dtype, axes, true};
  }

  void prepare(std::size_t i) {
    State state;
    const Carried carried = plan_.states[i];
    const bool has_result = op_.results[i] != no_value && context_.placed(op_.results[i]);
    if (carried == Carried::counter) {
      const std::int64_t end = plan_.start + plan_.trips * plan_.step;
      if (has_result) scope_.body.push_back(on("", number_step(op_, end, context_.placements[at(op_.results[i])])));
      states_.push_back(state);
      return;
    }
    require(context_.placed(op_.operands[i]) && operand(i).identity, "a loop's state has no separate tensor");
    state.first = operand(i).tensor;
    const bool writes = carried != Carried::unchanged && plan_.trips > 0;
    if (has_result || writes) {
      const Placement last = has_result ? context_.placements[at(op_.results[i])]
                                        : declared(prefix() + op_.name + ".state" + std::to_string(i), i);
      state.last = last.tensor;
      const bool same_bytes = has_result && old_value(op_, op_.results[i]) != no_value;
      if ((carried == Carried::in_place || !writes) && !same_bytes)
        scope_.body.push_back(on("", copy_step(context_, op_.name, copy_name(op_, i), operand(i), last)));
      if (carried == Carried::renewed && plan_.trips > 1)
        state.other = declared(prefix() + op_.name + ".other" + std::to_string(i), i).tensor;
    }
    states_.push_back(std::move(state));
  }

  /// Prefix that distinguishes tensors of different functions.
  std::string prefix() const { return context_.function.name.empty() ? "" : context_.function.name + "."; }

  /// Calls the body for one trip. Reads renewed states from the operands (`first`), the final tensor (`from_last`) or
  /// the other one.
  program::Call call(const Expr& trip, bool from_last, bool first) const {
    program::Call result;
    result.function = plan_.body.name;
    result.parameters[counter_name] = Expr(plan_.start) + trip * Expr(plan_.step);
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const State& state = states_[i];
      if (plan_.states[i] == Carried::unchanged) result.tensors[formal_input(plan_, i)] = state.first;
      if (plan_.states[i] == Carried::in_place) result.tensors[formal_input(plan_, i)] = state.last;
      if (plan_.states[i] == Carried::renewed)
        result.tensors[formal_input(plan_, i)] = first ? state.first : from_last ? state.last : state.other;
    }
    for (std::size_t o = 0; o < plan_.written.size(); ++o) {
      const State& state = states_[at(plan_.written[o])];
      if (plan_.states[at(plan_.written[o])] == Carried::renewed)
        result.tensors[formal_output(plan_, o)] = from_last ? state.other : state.last;
    }
    return result;
  }

  /// The first trip reads the operands. Then two tensors alternate so that the last trip writes the result.
  void trips() {
    const bool odd = plan_.trips % 2 != 0;
    scope_.body.push_back(on("", call(0, !odd, true)));
    const std::int64_t pairs = (plan_.trips - 1) / 2;
    if (pairs > 0) {
      const Expr trip = Expr::symbol("pair") * Expr(2) + Expr(1);
      Block two;
      two.push_back(on("", call(trip, odd, false)));
      two.push_back(on("", call(trip + Expr(1), !odd, false)));
      scope_.body.push_back(loop("pair", Expr(pairs), std::move(two)));
    }
    if (!odd) scope_.body.push_back(on("", call(Expr(plan_.trips - 1), false, false)));
  }

  Context& context_;
  const Op& op_;
  const LoopPlan& plan_;
  program::Scope scope_;
  std::vector<State> states_;
};

}  // namespace

program::Scope lower_loop(Context& context, const Op& op, const LoopPlan& plan) {
  return LoopLowering(context, op, plan).lower();
}

}  // namespace tilesim::lower
