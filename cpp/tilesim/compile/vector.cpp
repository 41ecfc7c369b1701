// Lowering of the vector family: elementwise, reductions with rows on chip or streamed, scans, windows.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/tiling.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// A value held in a slot: its extent along each space axis is the tile's, or 1.
struct Held {
  ValueId value = no_value;
  std::string slot;
  std::vector<bool> spans;            ///< per space axis
  std::vector<std::int64_t> strides;  ///< per space axis, 0 where it does not span
};

class VectorLowering {
 public:
  VectorLowering(Context& context, const Kernel& kernel)
      : context_(context), kernel_(kernel), ops_(kernel.ops.begin(), kernel.ops.end()) {
    find_space();
  }

  bool fits() {
    make_tiles(true);
    return tiles_fit_;
  }

  program::Scope lower() {
    make_tiles(true);
    if (!tiles_fit_ && streamable()) make_tiles(false);
    if (!tiles_fit_)
      throw Unsupported({"a row of this operation does not fit the scratchpad",
                         context_.function.ops[at(kernel_.ops.back())].name,
                         std::to_string(context_.machine.core.scratchpad.bytes) + " bytes of scratchpad",
                         {},
                         {}});
    scope_ = named_scope(context_, kernel_);
    for (int op : kernel_.ops)
      if (is_reduce(op)) reduces_.push_back(op);
    make_slots();
    scope_.body = streamed_ ? streamed_body() : resident_body();
    for (std::size_t axis = 0; axis < space_.size(); ++axis)
      if (streamed_ ? !reduced_[axis] : true) wrap_loop(axis);
    assign_addresses(scope_, context_.machine);
    return std::move(scope_);
  }

 private:
  const Op& op(int i) const { return context_.function.ops[at(i)]; }
  const Shape& shape(ValueId value) const { return context_.value(value).type.shape; }
  bool is_reduce(int i) const { return op(i).kind == Kind::reduce; }
  bool keeps(int i) const { return op(i).attributes.flag("keep_dims"); }

  void find_space() {
    for (int i : kernel_.ops) {
      const Shape& own = is_reduce(i) ? shape(op(i).operands[0]) : shape(op(i).results[0]);
      if (own.size() > space_.size() || (own.size() == space_.size() && element_count(own) > element_count(space_)))
        space_ = own;
    }
    reduced_.assign(space_.size(), false);
    for (int i : kernel_.ops)
      if (is_reduce(i))
        for (std::int64_t dim : op(i).attributes.integers("dims")) reduced_[static_cast<std::size_t>(dim)] = true;
  }

  /// Which space axes a value spans: numpy alignment, except results of reductions that drop their axes.
  std::vector<bool> spans(ValueId value) const {
    std::vector<bool> result(space_.size(), false);
    const Shape& own = shape(value);
    if (own.size() < space_.size() && dropped(value)) {
      for (std::size_t axis = 0; axis < space_.size(); ++axis) result[axis] = !reduced_[axis];
      return result;
    }
    for (std::size_t i = 0; i < own.size(); ++i)
      result[i + space_.size() - own.size()] = own[i] > 1 || space_[i + space_.size() - own.size()] == 1;
    return result;
  }

  bool dropped(ValueId value) const {
    return std::any_of(kernel_.ops.begin(), kernel_.ops.end(),
                       [&](int i) { return is_reduce(i) && op(i).results[0] == value && !keeps(i); });
  }

  /// Reductions whose results nothing in the kernel uses on the whole space can stream their rows.
  bool streamable() const {
    bool any = false;
    for (int i : kernel_.ops) {
      if (!is_reduce(i)) continue;
      any = true;
      const std::string combiner = op(i).attributes.text("combiner");
      if (combiner == "argmax" || combiner == "argmin") return false;
      for (int other : kernel_.ops)
        for (ValueId operand : op(other).operands)
          if (operand == op(i).results[0]) return false;
    }
    if (!any) return false;
    for (ValueId output : kernel_.outputs) {
      const auto maker =
          std::find_if(kernel_.ops.begin(), kernel_.ops.end(), [&](int i) { return op(i).results[0] == output; });
      if (!is_reduce(*maker)) return false;
    }
    return true;
  }

  void make_tiles(bool rows_whole) {
    streamed_ = !rows_whole;
    TileChoice choice{space_, {}, {}, {}, {}};
    choice.whole = rows_whole ? reduced_ : std::vector<bool>(space_.size(), false);
    const auto add = [&](ValueId value, std::int64_t depth) {
      const bool placed = context_.placed(value);
      const DType dtype =
          placed ? context_.placements[static_cast<std::size_t>(value)].dtype : context_.value(value).type.dtype;
      choice.buffers.push_back({spans(value), depth * std::max(1, bits(dtype) / 8)});
    };
    for (ValueId input : kernel_.inputs) add(input, 2);
    for (ValueId output : kernel_.outputs) add(output, 2);
    for (int i : kernel_.ops)
      if (is_reduce(i)) add(op(i).results[0], 2);
    tiles_fit_ = choose_tiles(choice, context_.machine);
    tiles_ = choice.tiles;
  }

  Expr start(std::size_t axis) const {
    return tiles_[axis] >= space_[axis] ? Expr(0) : Expr::symbol("i" + std::to_string(axis)) * Expr(tiles_[axis]);
  }
  Expr extent(std::size_t axis) const {
    if (tiles_[axis] >= space_[axis]) return space_[axis];
    return space_[axis] % tiles_[axis] == 0 ? Expr(tiles_[axis])
                                            : min(Expr(tiles_[axis]), Expr(space_[axis]) - start(axis));
  }

  void wrap_loop(std::size_t axis) {
    if (tiles_[axis] >= space_[axis]) return;
    Block body = std::move(scope_.body);
    scope_.body.clear();
    scope_.body.push_back(
        loop("i" + std::to_string(axis), Expr(ceil_div(space_[axis], tiles_[axis])), std::move(body)));
  }

  Held hold(ValueId value, const std::string& slot, DType dtype, std::vector<std::string> consumers,
            std::int64_t depth = 2) {
    Held held{value, slot, spans(value), {}};
    Shape extents;
    for (std::size_t axis = 0; axis < space_.size(); ++axis)
      extents.push_back(held.spans[axis] ? std::min(tiles_[axis], space_[axis]) : 1);
    held.strides = row_major_strides(extents);
    for (std::size_t axis = 0; axis < space_.size(); ++axis)
      if (!held.spans[axis]) held.strides[axis] = 0;
    program::Slot declared;
    declared.name = slot;
    declared.dtype = dtype;
    declared.elements = std::max<std::int64_t>(1, element_count(extents));
    declared.depth = depth;
    declared.consumers = std::move(consumers);
    scope_.slots.push_back(std::move(declared));
    return held;
  }

  static DType sum_dtype(DType dtype) {
    return is_float(dtype) ? (dtype == DType::f64 ? DType::f64 : DType::f32) : DType::i64;
  }

  void make_slots() {
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      const ValueId value = kernel_.inputs[i];
      inputs_.push_back(
          hold(value, "x" + std::to_string(i), context_.placements[static_cast<std::size_t>(value)].dtype, {"vector"}));
    }
    for (int i : reduces_)
      sums_.push_back(hold(op(i).results[0], "r" + std::to_string(sums_.size()),
                           sum_dtype(context_.value(op(i).operands[0]).type.dtype), {"vector"}));
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      const ValueId value = kernel_.outputs[i];
      outputs_.push_back(
          hold(value, "y" + std::to_string(i), context_.placements[static_cast<std::size_t>(value)].dtype, {"store0"}));
    }
  }

  View view(const Held& held, bool points = false) const {
    View result{held.slot, 0, 0, {}};
    for (std::size_t axis = 0; axis < space_.size(); ++axis) {
      const bool one = points && reduced_[axis];
      result.dims.push_back({one ? Expr(1) : extent(axis), held.strides[axis]});
    }
    return result;
  }

  /// The axes of a value's own shape, as (start, extent, stride).
  program::Transfer transfer(const Held& held) const {
    const Shape& own = shape(held.value);
    std::vector<Expr> from, size;
    std::vector<std::int64_t> strides;
    const bool shrunk = dropped(held.value);
    for (std::size_t i = 0, axis = shrunk ? 0 : space_.size() - own.size(); axis < space_.size(); ++axis) {
      if (shrunk && reduced_[axis]) continue;
      from.push_back(held.spans[axis] ? start(axis) : Expr(0));
      size.push_back(held.spans[axis] ? extent(axis) : Expr(1));
      strides.push_back(held.strides[axis]);
      ++i;
    }
    return region_transfer(context_.placements[static_cast<std::size_t>(held.value)], from, size, strides, held.slot);
  }

  std::string load_queue(std::size_t i) const {
    return "load" + std::to_string(static_cast<std::int64_t>(i) % context_.machine.core.dma.load_queues);
  }

  void load_inputs(Block& block) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      block.push_back(on("", program::Acquire{inputs_[i].slot, {load_queue(i)}}));
      block.push_back(on(load_queue(i), program::Load{transfer(inputs_[i])}));
      block.push_back(on(load_queue(i), program::Commit{inputs_[i].slot, 0, 1}));
      block.push_back(on("vector", program::Wait{inputs_[i].slot, 0, {}, 0, 1}));
    }
  }

  void release_inputs(Block& block) const {
    for (const Held& held : inputs_) block.push_back(on("vector", program::Release{held.slot, 0}));
  }

  /// A compute over the tile (or, `points`, over one point per row) whose DAG may read inputs and finished reductions.
  struct Compute {
    program::VectorOp op;
    DagBuilder dag;
    explicit Compute(const Context& context) : dag(context) {}
  };

  Compute begin(bool points, std::size_t finished, bool with_inputs = true) const {
    Compute compute(context_);
    for (std::size_t axis = 0; axis < space_.size(); ++axis) {
      compute.op.extents.push_back(points && reduced_[axis] ? Expr(1) : extent(axis));
      compute.dag.axis_dim.push_back(static_cast<int>(axis));
      compute.dag.axis_start.push_back(start(axis));
    }
    compute.op.lane_dim = static_cast<int>(space_.size()) - 1;
    if (with_inputs)
      for (const Held& held : inputs_) bind(compute, held, points);
    for (std::size_t i = 0; i < finished; ++i) bind(compute, sums_[i], points);
    return compute;
  }

  void bind(Compute& compute, const Held& held, bool points) const {
    compute.dag.bind_input(held.value, static_cast<int>(compute.op.inputs.size()));
    compute.op.inputs.push_back(view(held, points));
  }

  /// Drops inputs that no node reads.
  static void finish(Compute& compute) {
    auto& nodes = compute.dag.nodes();
    std::vector<bool> used(nodes.size(), false);
    for (const auto& output : compute.op.outputs) used[at(output.node)] = true;
    for (std::size_t i = nodes.size(); i-- > 0;)
      if (used[i])
        for (int argument : nodes[i].node.arguments)
          if (argument >= 0) used[at(argument)] = true;
    std::vector<int> node_map(nodes.size(), -1), input_map(compute.op.inputs.size(), -1);
    std::vector<program::VectorNodeSpec> kept;
    std::vector<View> inputs;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!used[i]) continue;
      program::VectorNodeSpec spec = nodes[i];
      for (int& argument : spec.node.arguments)
        if (argument >= 0) argument = node_map[at(argument)];
      if (spec.node.op == VectorNode::Op::input) {
        int& mapped = input_map[at(spec.node.index)];
        if (mapped < 0) {
          mapped = static_cast<int>(inputs.size());
          inputs.push_back(compute.op.inputs[at(spec.node.index)]);
        }
        spec.node.index = mapped;
      }
      node_map[i] = static_cast<int>(kept.size());
      kept.push_back(std::move(spec));
    }
    for (auto& output : compute.op.outputs) output.node = node_map[at(output.node)];
    compute.op.nodes = std::move(kept);
    compute.op.inputs = std::move(inputs);
  }

  std::vector<int> reduced_dims() const {
    std::vector<int> dims;
    for (std::size_t axis = 0; axis < space_.size(); ++axis)
      if (reduced_[axis]) dims.push_back(static_cast<int>(axis));
    return dims;
  }

  std::int64_t row_count() const {
    std::int64_t count = 1;
    for (std::size_t axis = 0; axis < space_.size(); ++axis)
      if (reduced_[axis]) count *= space_[axis];
    return count;
  }

  static int add(std::vector<program::VectorNodeSpec>& nodes, VectorNode node) {
    nodes.push_back({node, 0});
    return static_cast<int>(nodes.size()) - 1;
  }

  /// The reduction `index` over the tile into its slot; streamed: combined with what earlier tiles left there.
  void emit_reduce(std::size_t index, Block& block, const Expr& accumulate) const {
    const Op& reduce = op(reduces_[index]);
    const std::string combiner = reduce.attributes.text("combiner");
    Compute compute = begin(false, streamed_ ? 0 : index);
    program::VectorOutputSpec output;
    output.node = compute.dag.node_of(reduce.operands[0], ops_);
    output.view = view(sums_[index]);
    output.reduce = reduced_dims();
    output.combiner = combiner == "mean" ? Combiner::add : parse_combiner(combiner);
    output.accumulate = accumulate;
    compute.op.outputs.push_back(output);
    finish(compute);
    block.push_back(on("vector", std::move(compute.op)));
  }

  /// First index of the extreme: the extreme itself first, then the smallest index that has it.
  void emit_arg(std::size_t index, Block& block) const {
    const Op& reduce = op(reduces_[index]);
    const bool largest = reduce.attributes.text("combiner") == "argmax";
    Compute first = begin(false, 0);
    program::VectorOutputSpec extreme;
    extreme.node = first.dag.node_of(reduce.operands[0], ops_);
    extreme.view = view(sums_[index]);
    extreme.reduce = reduced_dims();
    extreme.combiner = largest ? Combiner::maximum : Combiner::minimum;
    first.op.outputs.push_back(extreme);
    finish(first);
    block.push_back(on("vector", std::move(first.op)));
    block.push_back(on("vector", program::Commit{sums_[index].slot, 0, 1}));
    block.push_back(on("vector", program::Wait{sums_[index].slot, 0, {}, 0, 1}));
    Compute second = begin(false, 0);
    auto& nodes = second.dag.nodes();
    const int x = second.dag.node_of(reduce.operands[0], ops_);
    second.op.inputs.push_back(view(sums_[index]));
    const DType dtype = context_.value(reduce.operands[0]).type.dtype;
    const int best = add(
        nodes, {.op = VectorNode::Op::input, .index = static_cast<int>(second.op.inputs.size()) - 1, .dtype = dtype});
    const int same = add(nodes, {.op = VectorNode::Op::function,
                                 .function = Function::equal,
                                 .arguments = {x, best, -1},
                                 .dtype = DType::boolean});
    const int dim = reduced_dims()[0];
    const int here = add(nodes, {.op = VectorNode::Op::iota, .index = dim, .dtype = DType::i64});
    const int beyond = add(
        nodes, {.op = VectorNode::Op::constant, .number = static_cast<double>(space_[at(dim)]), .dtype = DType::i64});
    program::VectorOutputSpec output;
    output.node = add(nodes, {.op = VectorNode::Op::function,
                              .function = Function::select,
                              .arguments = {same, here, beyond},
                              .dtype = DType::i64});
    output.reduce = reduced_dims();
    output.combiner = Combiner::minimum;
    emit_outputs(second, {reduce.results[0]}, block, &output);
  }

  /// Stores of finished values: acquires, one compute, commits, stores.
  void emit_outputs(Compute& compute, const std::vector<ValueId>& values, Block& block,
                    program::VectorOutputSpec* given = nullptr) const {
    std::vector<const Held*> targets;
    for (ValueId value : values)
      for (const Held& held : outputs_)
        if (held.value == value) targets.push_back(&held);
    if (targets.empty()) return;
    for (const Held* held : targets) {
      program::VectorOutputSpec output;
      if (given)
        output = *given;
      else
        output.node = compute.dag.node_of(held->value, ops_);
      output.view = view(*held);
      for (std::size_t axis = 0; axis < space_.size(); ++axis) output.view.dims[axis].extent = compute.op.extents[axis];
      compute.op.outputs.push_back(std::move(output));
      block.push_back(on("", program::Acquire{held->slot, {"vector"}}));
    }
    finish(compute);
    block.push_back(on("vector", std::move(compute.op)));
    for (const Held* held : targets) {
      block.push_back(on("vector", program::Commit{held->slot, 0, 1}));
      block.push_back(on("store0", program::Wait{held->slot, 0, {}, 0, 1}));
      block.push_back(on("store0", program::Store{transfer(*held), {}, 0}));
      block.push_back(on("store0", program::Release{held->slot, 0}));
    }
  }

  /// Turns a finished sum into the reduction's own result (mean, rounding), in its slot's node.
  void bind_result(Compute& compute, std::size_t index) const {
    const Op& reduce = op(reduces_[index]);
    auto& nodes = compute.dag.nodes();
    const DType held = sum_dtype(context_.value(reduce.operands[0]).type.dtype),
                wanted = context_.value(reduce.results[0]).type.dtype;
    int node =
        add(nodes, {.op = VectorNode::Op::input, .index = static_cast<int>(compute.op.inputs.size()), .dtype = held});
    compute.op.inputs.push_back(view(sums_[index]));
    for (std::size_t axis = 0; axis < space_.size(); ++axis)
      compute.op.inputs.back().dims[axis].extent = compute.op.extents[axis];
    if (reduce.attributes.text("combiner") == "mean") {
      const int count =
          add(nodes, {.op = VectorNode::Op::constant, .number = static_cast<double>(row_count()), .dtype = held});
      node = add(nodes, {.op = VectorNode::Op::function,
                         .function = Function::divide,
                         .arguments = {node, count, -1},
                         .dtype = held});
    }
    if (wanted != held)
      node = add(nodes, {.op = VectorNode::Op::convert, .arguments = {node, -1, -1}, .dtype = wanted});
    compute.dag.bind_node(reduce.results[0], node);
  }

  Compute begin_with_results(bool points, std::size_t finished, bool with_inputs) const {
    Compute compute = begin(points, 0, with_inputs);
    for (std::size_t i = 0; i < finished; ++i) bind_result(compute, i);
    return compute;
  }

  void emit_resident_reduce(std::size_t index, Block& block) const {
    const Op& reduce = op(reduces_[index]);
    Compute compute = begin_with_results(false, index, true);
    program::VectorOutputSpec output;
    output.node = compute.dag.node_of(reduce.operands[0], ops_);
    output.view = view(sums_[index]);
    output.reduce = reduced_dims();
    const std::string combiner = reduce.attributes.text("combiner");
    output.combiner = combiner == "mean" ? Combiner::add : parse_combiner(combiner);
    compute.op.outputs.push_back(output);
    finish(compute);
    block.push_back(on("vector", std::move(compute.op)));
  }

  bool is_arg(std::size_t index) const {
    const std::string combiner = op(reduces_[index]).attributes.text("combiner");
    return combiner == "argmax" || combiner == "argmin";
  }

  Block resident_body() {
    Block block;
    load_inputs(block);
    for (std::size_t i = 0; i < reduces_.size(); ++i) {
      block.push_back(on("", program::Acquire{sums_[i].slot, {"vector"}}));
      if (is_arg(i)) {
        emit_arg(i, block);
        continue;
      }
      emit_resident_reduce(i, block);
      block.push_back(on("vector", program::Commit{sums_[i].slot, 0, 1}));
      block.push_back(on("vector", program::Wait{sums_[i].slot, 0, {}, 0, 1}));
    }
    std::vector<ValueId> points, full;
    for (const Held& held : outputs_) {
      bool arg = false, spans_reduced = false;
      for (std::size_t i = 0; i < reduces_.size(); ++i) arg |= is_arg(i) && op(reduces_[i]).results[0] == held.value;
      for (std::size_t axis = 0; axis < space_.size(); ++axis)
        spans_reduced |= reduced_[axis] && held.spans[axis] && space_[axis] > 1;
      if (!arg) (spans_reduced || reduces_.empty() ? full : points).push_back(held.value);
    }
    for (const auto* group : {&points, &full}) {
      if (group->empty()) continue;
      Compute compute = begin_with_results(group == &points, reduces_.size(), group == &full || points_read_inputs());
      emit_outputs(compute, *group, block);
    }
    release_inputs(block);
    for (const Held& held : sums_) block.push_back(on("vector", program::Release{held.slot, 0}));
    return block;
  }

  bool points_read_inputs() const { return true; }

  /// Rows longer than the scratchpad: tiles of the reduced axes combine into the slot of the result.
  Block streamed_body() {
    Block body;
    load_inputs(body);
    Expr before = 0;
    for (std::size_t axis = 0; axis < space_.size(); ++axis)
      if (reduced_[axis] && tiles_[axis] < space_[axis]) before = before + Expr::symbol("i" + std::to_string(axis));
    for (std::size_t i = 0; i < reduces_.size(); ++i) emit_reduce(i, body, less(Expr(0), before));
    release_inputs(body);
    scope_.body = std::move(body);
    for (std::size_t axis = space_.size(); axis-- > 0;)
      if (reduced_[axis]) wrap_loop(axis);
    Block block;
    for (const Held& held : sums_) block.push_back(on("", program::Acquire{held.slot, {"vector"}}));
    std::move(scope_.body.begin(), scope_.body.end(), std::back_inserter(block));
    scope_.body.clear();
    for (const Held& held : sums_) {
      block.push_back(on("vector", program::Commit{held.slot, 0, 1}));
      block.push_back(on("vector", program::Wait{held.slot, 0, {}, 0, 1}));
    }
    std::vector<ValueId> values;
    for (const Held& held : outputs_) values.push_back(held.value);
    Compute compute = begin_with_results(true, reduces_.size(), false);
    emit_outputs(compute, values, block);
    for (const Held& held : sums_) block.push_back(on("vector", program::Release{held.slot, 0}));
    return block;
  }

  Context& context_;
  const Kernel& kernel_;
  std::set<int> ops_;
  Shape space_, tiles_;
  std::vector<bool> reduced_;
  bool tiles_fit_ = false, streamed_ = false;
  program::Scope scope_;
  std::vector<int> reduces_;
  std::vector<Held> inputs_, sums_, outputs_;
};

}  // namespace

program::Scope lower_vector(Context& context, const Kernel& kernel) {
  const Op& first = context.function.ops[at(kernel.ops[0])];
  if (first.kind == Kind::cumulative) return lower_cumulative(context, kernel);
  if (first.kind == Kind::window_reduce) return lower_window(context, kernel);
  return VectorLowering(context, kernel).lower();
}

bool fits_resident(const Context& context, const std::vector<int>& ops) {
  Kernel kernel;
  kernel.ops = ops;
  std::sort(kernel.ops.begin(), kernel.ops.end());
  std::set<ValueId> made, read;
  for (int i : kernel.ops) {
    for (ValueId value : context.function.ops[at(i)].operands)
      if (value != no_value && !made.count(value) && !context.scalars.count(value)) read.insert(value);
    for (ValueId value : context.function.ops[at(i)].results) made.insert(value);
  }
  kernel.inputs.assign(read.begin(), read.end());
  kernel.outputs.push_back(context.function.ops[at(kernel.ops.back())].results[0]);
  Context copy{context.graph, context.function, context.machine, context.options, context.program, {}, context.scalars};
  copy.placements.assign(context.function.values.size(), {});
  return VectorLowering(copy, kernel).fits();
}

}  // namespace tilesim::lower
