#include <algorithm>
#include <map>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/propagate.hpp"

namespace tilesim::partitioning {

void join_slices_of_pads(GraphFunction& function) {
  std::map<ValueId, const Op*> pads;
  for (Op& op : function.ops) {
    if (op.kind == Kind::pad && op.attributes.text("mode", "constant") == "constant") {
      const auto& interior = op.attributes.integers("interior", {});
      if (std::ranges::all_of(interior, [](std::int64_t holes) { return holes == 0; })) pads[op.results[0]] = &op;
      continue;
    }
    const auto found = op.kind == Kind::slice ? pads.find(op.operands[0]) : pads.end();
    if (found == pads.end()) continue;
    const auto stride = op.attributes.integers("stride", {});
    if (!std::ranges::all_of(stride, [](std::int64_t step) { return step == 1; })) continue;
    const Shape& padded_shape = function.value(op.operands[0]).type.shape;
    std::vector<std::int64_t> low = found->second->attributes.integers("low"),
                              high = found->second->attributes.integers("high");
    for (std::size_t axis = 0; axis < low.size(); ++axis) {
      low[axis] -= op.attributes.integers("start")[axis];
      high[axis] -= padded_shape[axis] - op.attributes.integers("limit")[axis];
    }
    Attributes attributes;
    attributes.set("low", low);
    attributes.set("high", high);
    op.kind = Kind::pad;
    op.operands = found->second->operands;
    op.attributes = std::move(attributes);
  }
}

void leave_out_empty_pieces(GraphFunction& function) {
  for (Op& op : function.ops) {
    if (op.kind != Kind::concat) continue;
    const auto dim = at(op.attributes.integer("dim"));
    const auto empty = [&](ValueId id) { return function.value(id).type.shape[dim] == 0; };
    if (std::ranges::all_of(op.operands, empty)) continue;
    std::erase_if(op.operands, empty);
    if (op.operands.size() > 1) continue;
    op.kind = Kind::copy;
    op.attributes = {};
  }
}

void pass_state_on(Graph& graph) {
  for (std::size_t f = 0; f < graph.functions.size(); ++f)
    for (const Op& op : graph.functions[f].ops) {
      if (op.kind != Kind::while_loop) continue;
      GraphFunction& body = graph.functions[at(op.functions[1])];
      std::map<ValueId, ValueId> copies;
      for (const Op& inner : body.ops)
        if (inner.kind == Kind::copy) copies[inner.results[0]] = inner.operands[0];
      for (std::size_t i = 0; i < body.outputs.size(); ++i)
        if (const auto found = copies.find(body.outputs[i]); found != copies.end() && found->second == body.inputs[i])
          body.outputs[i] = body.inputs[i];
    }
}

namespace {

/// Passes parameters that loop and branch bodies read as state or operands, innermost bodies first.
class Lifting {
 public:
  explicit Lifting(Graph& graph) : graph_(graph), calls_(graph.functions.size(), 0) {
    for (const GraphFunction& function : graph.functions)
      for (const Op& op : function.ops) {
        regions_ = regions_ || crosses(op);
        for (const std::int32_t callee : op.functions) ++calls_[at(callee)];
      }
  }
  bool regions() const { return regions_; }

  void lift(std::int32_t index) {
    GraphFunction& function = graph_.functions[at(index)];
    for (std::size_t i = 0; i < function.ops.size(); ++i) {
      if (function.ops[i].kind != Kind::while_loop && function.ops[i].kind != Kind::branch) continue;
      const std::vector<std::int32_t> callees = function.ops[i].functions;
      for (const std::int32_t callee : callees) lift(callee);
      if (std::ranges::any_of(callees, [&](std::int32_t callee) { return calls_[at(callee)] != 1; })) continue;
      for (const std::int32_t callee : callees)
        while (const Op* constant = parameter_of(graph_.functions[at(callee)])) {
          const std::string reference = constant->attributes.text("reference");
          const ValueId value = outer(function, i, *constant);
          pass(function, function.ops[i], value, reference);
        }
    }
  }

 private:
  const Op* parameter_of(const GraphFunction& function) const {
    const auto found = std::ranges::find_if(function.ops, [&](const Op& op) {
      return op.kind == Kind::constant && is_parameter(graph_.weights.at(op.attributes.text("reference")));
    });
    return found == function.ops.end() ? nullptr : &*found;
  }

  static ValueId added(GraphFunction& function, const std::string& stem, const TensorType& type) {
    std::string name = stem;
    const auto taken = [&](const Value& value) { return value.name == name; };
    for (int i = 1; std::ranges::any_of(function.values, taken); ++i) name = stem + "." + std::to_string(i);
    function.values.push_back({name, type});
    return static_cast<ValueId>(function.values.size()) - 1;
  }

  /// The constant, added before operation `before` unless the function has it; `before` then advances by one.
  ValueId outer(GraphFunction& function, std::size_t& before, const Op& constant) {
    const std::string& reference = constant.attributes.text("reference");
    for (std::size_t i = 0; i < before; ++i)
      if (function.ops[i].kind == Kind::constant && function.ops[i].attributes.text("reference") == reference)
        return function.ops[i].results[0];
    Op copy = constant;
    copy.results = {added(function, reference, graph_.weights.at(reference).type)};
    copy.name = function.values.back().name;
    const auto same = [&](const Op& op) { return op.name == copy.name; };
    while (std::ranges::any_of(function.ops, same)) copy.name += ".lifted";
    const ValueId value = copy.results[0];
    function.ops.insert(function.ops.begin() + static_cast<std::ptrdiff_t>(before++), std::move(copy));
    return value;
  }

  /// Passes the value to all functions of the operation: their constants of this reference become inputs.
  void pass(GraphFunction& function, Op& op, ValueId value, const std::string& reference) {
    const TensorType type = function.value(value).type;
    const bool loop = op.kind == Kind::while_loop;
    op.operands.push_back(value);
    if (loop) op.results.push_back(added(function, reference + ".after", type));
    for (std::size_t c = 0; c < op.functions.size(); ++c) {
      GraphFunction& callee = graph_.functions[at(op.functions[c])];
      const auto constant = std::ranges::find_if(callee.ops, [&](const Op& made) {
        return made.kind == Kind::constant && made.attributes.text("reference") == reference;
      });
      ValueId inside = no_value;
      if (constant != callee.ops.end()) {
        inside = constant->results[0];
        callee.ops.erase(constant);
      } else {
        inside = added(callee, reference, type);
      }
      callee.inputs.push_back(inside);
      if (loop && c == 1) callee.outputs.push_back(inside);
    }
  }

  Graph& graph_;
  std::vector<int> calls_;
  bool regions_ = false;
};

constexpr std::int64_t large_constant = 4096;  ///< elements from which a buffer is sharded like parameters

}  // namespace

bool is_parameter(const Weight& weight) {
  return weight.trainable || element_count(weight.type.shape) >= large_constant;
}

void lift_from_loops(Graph& graph) {
  Lifting lifting(graph);
  if (!lifting.regions()) lifting.lift(graph.main);
}

namespace {

using Producers = std::map<ValueId, const Op*>;

Producers slices_of(const GraphFunction& function) {
  Producers slices;
  for (const Op& op : function.ops)
    if (op.kind == Kind::slice) slices[op.results[0]] = &op;
  return slices;
}

/// Whether a slice cuts only this axis, with stride 1.
bool cuts_only(const Op& op, std::size_t axis, const Shape& whole_shape) {
  const auto &start = op.attributes.integers("start"), &limit = op.attributes.integers("limit");
  const auto stride = op.attributes.integers("stride", std::vector<std::int64_t>(start.size(), 1));
  for (std::size_t i = 0; i < start.size(); ++i)
    if (stride[i] != 1 || (i != axis && (start[i] != 0 || limit[i] != whole_shape[i]))) return false;
  return true;
}

void take_slices(const Grid& grid, const GraphFunction& function, const std::vector<Layout>& layouts,
                 const Producers& slices, Op& op, Rule& rule) {
  Join& join = rule.join;
  join.settled = true;
  const std::int64_t parts = grid.parts(layouts[at(op.results[0])].axes[join.axis]);
  if (parts == 1) return;
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    Stretch& stretch = join.stretches[k];
    const auto found = slices.find(op.operands[k]);
    if (found != slices.end()) {
      const Op& slice = *found->second;
      const Shape& shape = function.value(slice.operands[0]).type.shape;
      const bool apart = !layouts[at(slice.operands[0])].axes[join.axis].empty();
      if (apart && shape[join.axis] >= parts && cuts_only(slice, join.axis, shape)) {
        stretch.from = slice.attributes.integers("start")[join.axis];
        stretch.to = slice.attributes.integers("limit")[join.axis];
        stretch.extent = shape[join.axis];
        op.operands[k] = slice.operands[0];
      }
    }
    stretch.divided = !layouts[at(op.operands[k])].axes[join.axis].empty() && stretch.extent >= parts;
    stretch.same = at(std::ranges::find(op.operands, op.operands[k]) - op.operands.begin());
    rule.operands[k][join.axis].clear();
    if (stretch.divided) rule.operands[k][join.axis].push_back(join.factor);
  }
}

}  // namespace

void take_slices_into_joins(const Grid& grid, Graph& graph, Spread& spread) {
  for (std::size_t f = 0; f < graph.functions.size(); ++f) {
    GraphFunction& function = graph.functions[f];
    Producers slices;
    for (std::size_t i = 0; i < function.ops.size(); ++i) {
      Rule& rule = spread.rules[f][i];
      if (rule.join.factor < 0) continue;
      if (slices.empty()) slices = slices_of(function);
      take_slices(grid, function, spread.layouts[f], slices, function.ops[i], rule);
    }
  }
}

}  // namespace tilesim::partitioning
