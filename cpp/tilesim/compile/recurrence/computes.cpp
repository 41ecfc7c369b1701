#include "tilesim/compile/recurrence/computes.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/layouts/lanes.hpp"
#include "tilesim/compile/plan/uses.hpp"
#include "tilesim/compile/prepare/checks.hpp"
#include "tilesim/program/vector_work.hpp"

namespace tilesim::lower {

namespace {

using program::View;
using Use = RecurrenceBuffer::Use;

DType dtype_of_inputs(const program::VectorOp& op) {
  for (const program::VectorNodeSpec& node : op.nodes)
    if (node.node.op == VectorNode::Op::input) return node.node.dtype;
  return op.nodes.empty() ? DType::f32 : op.nodes[0].node.dtype;
}

}  // namespace

RecurrenceTile::RecurrenceTile(const Recurrence& recurrence, const LoopPlan& loop, const RecurrencePlan& plan) {
  for (std::size_t i = 0; i < recurrence.space.size(); ++i) {
    const std::int64_t tile = plan.tiles[i], trips = ceil_div(recurrence.space[i], tile);
    start.push_back(trips > 1 ? Expr::symbol("part" + std::to_string(i)) * Expr(tile) : Expr(0));
    extent.push_back(recurrence.space[i] % tile == 0 ? Expr(tile)
                                                     : min(Expr(tile), Expr(recurrence.space[i]) - start.back()));
  }
  const std::int64_t chunks = ceil_div(loop.trips, plan.chunk);
  first_trip = chunks > 1 ? Expr::symbol("chunk") * Expr(plan.chunk) : Expr(0);
  count = loop.trips % plan.chunk == 0 ? Expr(plan.chunk) : min(Expr(plan.chunk), Expr(loop.trips) - first_trip);
  in_chunk = plan.chunk > 1 ? Expr::symbol("trip") : Expr(0);
  trip = first_trip + in_chunk;
}

RecurrenceComputes::RecurrenceComputes(const Context& context, const LoopPlan& loop, const Recurrence& recurrence,
                                       const RecurrencePlan& plan, const RecurrenceTile& tile)
    : context_(context),
      body_{context.graph,      recurrence.body, context.machine, context.options, context.choices, context.program, {},
            recurrence.scalars, context.contexts},
      r_(recurrence),
      plan_(plan),
      tile_(tile) {
  body_.counters[loop.counter_value] = Expr(loop.start) + tile.trip * Expr(loop.step);
  for (const Induction& own : loop.inductions) body_.counters[own.value] = Expr(own.start) + tile.trip * Expr(own.step);
}

double RecurrenceComputes::cycles(const RecurrenceStage& stage) const {
  if (stage.results.empty()) return 0;
  const program::VectorOp op = compute(stage).op;
  const auto extent = [&](int i) { return stage.spans[at(i)] ? plan_.tiles[at(i)] : std::int64_t{1}; };
  const Descriptor descriptor = vector_descriptor(dtype_of_inputs(op), program::work_of(op),
                                                  static_cast<int>(std::ssize(r_.space)), plan_.lane, extent);
  return static_cast<double>(ClosedForm(context_.machine).latency(descriptor, {}).done);
}

bool RecurrenceComputes::computes_all() const {
  const VectorSpec& vector = context_.machine.core.vector;
  for (const Op& op : r_.body.ops)
    for (const ValueId operand : op.operands)
      if (operand != no_value && !r_.scalars.count(operand) && !r_.body.value(operand).type.shape.empty() &&
          !computes(vector, r_.body.value(operand).type.dtype))
        return false;
  return true;
}

/// Where the buffer's part of this trip begins; of a state, the copy that the trip reads, or makes.
Expr RecurrenceComputes::offset_of(const RecurrenceBuffer& buffer, bool makes, std::size_t number) const {
  if (buffer.use == Use::state) return modulo(makes ? tile_.trip + Expr(1) : tile_.trip, 2) * Expr(buffer.tile);
  if (buffer.use != Use::read && buffer.use != Use::write) return 0;
  const Recurrence::Slice& slice = slice_of(number);
  return (slice.step > 0 ? tile_.in_chunk : tile_.count - Expr(1) - tile_.in_chunk) * Expr(buffer.tile);
}

const Recurrence::Slice& RecurrenceComputes::slice_of(std::size_t number) const {
  const std::size_t first_read = r_.wholes.size(), first_write = first_read + r_.reads.size() + r_.states.size();
  return number < first_write ? r_.reads[number - first_read] : r_.writes[number - first_write];
}

View RecurrenceComputes::view(std::size_t number, bool makes, const RecurrenceStage& stage) const {
  const RecurrenceBuffer& buffer = plan_.buffers[number];
  View result{buffer.slot, 0, offset_of(buffer, makes, number), {}};
  for (std::size_t i = 0; i < r_.space.size(); ++i)
    result.dims.push_back({stage.spans[i] ? tile_.extent[i] : Expr(1), buffer.strides[i]});
  return result;
}

/// By value: the buffer that holds it before the stage, and whether that is a state's new copy.
std::map<ValueId, std::pair<std::size_t, bool>> RecurrenceComputes::held_before(const RecurrenceStage& stage) const {
  std::map<ValueId, std::pair<std::size_t, bool>> held;
  std::size_t state = 0;
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const RecurrenceBuffer& buffer = plan_.buffers[i];
    if (buffer.use == Use::write) continue;
    if (buffer.use == Use::state) {
      const ValueId after = r_.states[state++].after;
      if (r_.level[at(after)] < stage.level) held.try_emplace(after, i, true);
    }
    if (buffer.use != Use::sum || r_.level[at(buffer.value)] <= stage.level) held[buffer.value] = {i, false};
  }
  return held;
}

RecurrenceComputes::Compute RecurrenceComputes::compute(const RecurrenceStage& stage) const {
  Compute compute;
  for (std::size_t i = 0; i < r_.space.size(); ++i)
    compute.op.extents.push_back(stage.spans[i] ? tile_.extent[i] : Expr(1));
  compute.op.lane_dim = plan_.lane;
  DagBuilder dag(body_);
  bind_held(stage, compute, dag);
  std::set<int> ops;
  for (int i = 0; i < std::ssize(r_.body.ops); ++i)
    if (is_recomputable(r_.body.ops[at(i)].kind)) ops.insert(i);
  std::vector<int> roots;
  for (const RecurrenceStage::Result& result : stage.results) {
    if (!result.sum)
      roots.push_back(dag.node_of(result.value, ops));
    else if (result.sum->kind == Kind::reduce)
      roots.push_back(dag.node_of(result.sum->operands[0], ops));
    else
      roots.push_back(product(*result.sum, dag, ops));
  }
  compute.op.nodes = std::move(dag.nodes());
  for (std::size_t i = 0; i < roots.size(); ++i)
    for (const std::size_t buffer : stage.results[i].buffers) add_output(stage, i, roots[i], buffer, compute);
  return compute;
}

/// Declares what the results are computed from, as far as it is held.
void RecurrenceComputes::bind_held(const RecurrenceStage& stage, Compute& compute, DagBuilder& dag) const {
  const auto held = held_before(stage);
  std::set<ValueId> seen;
  std::vector<ValueId> pending;
  for (const RecurrenceStage::Result& result : stage.results)
    if (result.sum)
      pending.insert(pending.end(), result.sum->operands.begin(), result.sum->operands.end());
    else
      pending.push_back(result.value);
  while (!pending.empty()) {
    const ValueId value = pending.back();
    pending.pop_back();
    if (value == no_value || r_.scalars.count(value) || body_.counters.count(value)) continue;
    if (!seen.insert(value).second) continue;
    if (const auto found = held.find(value); found != held.end()) {
      const auto& [buffer, makes] = found->second;
      compute.op.inputs.push_back(view(buffer, makes, stage));
      compute.read.insert(buffer);
      dag.bind_input(value, static_cast<int>(compute.op.inputs.size()) - 1);
    } else if (const Op* op = maker(value)) {
      pending.insert(pending.end(), op->operands.begin(), op->operands.end());
    }
  }
}

const Op* RecurrenceComputes::maker(ValueId value) const {
  for (const Op& op : r_.body.ops)
    if (op.results[0] == value) return &op;
  return nullptr;
}

/// Operands rounded as an array rounds them: a loop gives the same whichever unit multiplies.
int RecurrenceComputes::product(const Op& op, DagBuilder& dag, const std::set<int>& ops) const {
  const Numerics& numerics = context_.machine.core.array.numerics;
  int factors[2];
  for (std::size_t i = 0; i < 2; ++i) {
    factors[i] = dag.node_of(op.operands[i], ops);
    if (!is_exact(op) && rounds_operands(numerics, r_.body.value(op.operands[i]).type.dtype))
      factors[i] = add_node(
          dag.nodes(), {.op = VectorNode::Op::convert, .arguments = {factors[i], -1, -1}, .dtype = *numerics.multiply});
  }
  const DType wide = r_.body.value(op.operands[0]).type.dtype == DType::f64 ? DType::f64 : DType::f32;
  return add_node(dag.nodes(), {.op = VectorNode::Op::function,
                                .function = Function::multiply,
                                .arguments = {factors[0], factors[1], -1},
                                .dtype = wide});
}

bool RecurrenceComputes::multiplies_all() const {
  const Numerics& numerics = context_.machine.core.array.numerics;
  return std::ranges::all_of(r_.body.ops, [&](const Op& op) {
    if (op.kind != Kind::contract || is_exact(op)) return true;
    const bool tf32 = numerics.multiply_tf32 && r_.body.value(op.operands[0]).type.dtype == DType::f32;
    return !tf32 && unit_roundoff(numerics.accumulate) <= unit_roundoff(DType::f32);
  });
}

void RecurrenceComputes::add_output(const RecurrenceStage& stage, std::size_t result, int node, std::size_t buffer,
                                    Compute& compute) const {
  program::VectorOutputSpec output{node, view(buffer, true, stage), {}, Combiner::add, 0};
  if (const Op* sum = stage.results[result].sum) {
    output.reduce = r_.along[at(stage.results[result].value)];
    std::ranges::sort(output.reduce);
    if (sum->kind == Kind::reduce) output.combiner = parse_combiner(sum->attributes.text("combiner"));
  }
  compute.op.outputs.push_back(std::move(output));
}

int RecurrenceComputes::level_of_state(std::size_t number) const {
  for (const RecurrenceStage& stage : plan_.stages)
    for (const RecurrenceStage::Result& result : stage.results)
      if (std::ranges::count(result.buffers, number) > 0) return stage.level;
  return 0;
}

}  // namespace tilesim::lower
