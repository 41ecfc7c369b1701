#include "tilesim/graph/passes/empty.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim {

namespace {

bool is_empty(const GraphFunction& function, ValueId value) {
  return value != no_value && element_count(function.value(value).type.shape) == 0;
}

bool none_empty(const GraphFunction& function, const Op& op) {
  const auto empty = [&](ValueId id) { return is_empty(function, id); };
  return std::ranges::none_of(op.operands, empty) && std::ranges::none_of(op.results, empty);
}

bool holds_functions(Kind kind) {
  return kind == Kind::call || kind == Kind::fused || kind == Kind::while_loop || kind == Kind::branch;
}

/// Removes empty operands and results of operations with functions; `strip_signature` removes those of the functions.
int strip_calls(GraphFunction& function) {
  int changed = 0;
  for (Op& op : function.ops) {
    if (!holds_functions(op.kind)) continue;
    const auto empty = [&](ValueId id) { return is_empty(function, id); };
    changed += (std::erase_if(op.operands, empty) + std::erase_if(op.results, empty)) > 0 ? 1 : 0;
  }
  return changed;
}

/// New index of each value after empty values are removed; -1 for an empty value.
std::vector<std::int32_t> kept_places(const GraphFunction& function, const std::vector<ValueId>& values) {
  std::vector<std::int32_t> places;
  std::int32_t next = 0;
  for (const ValueId value : values) places.push_back(is_empty(function, value) ? -1 : next++);
  return places;
}

void strip_signature(GraphFunction& function) {
  const auto empty = [&](ValueId id) { return is_empty(function, id); };
  const std::vector<std::int32_t> inputs = kept_places(function, function.inputs),
                                  outputs = kept_places(function, function.outputs);
  for (Alias& alias : function.aliases) alias = {outputs[at(alias.output)], inputs[at(alias.input)]};
  std::erase_if(function.aliases, [](const Alias& alias) { return alias.output < 0 || alias.input < 0; });
  std::erase_if(function.inputs, empty);
  std::erase_if(function.outputs, empty);
}

bool all_alike(const Array& array) {
  const auto bytes = at(host_bytes(array.dtype()));
  for (std::int64_t i = 1; i < array.size(); ++i)
    if (std::memcmp(array.bytes(), array.bytes() + at(i) * bytes, bytes) != 0) return false;
  return true;
}

/// Removes the empty tensors of one function, operation by operation.
class EmptyFolding {
 public:
  EmptyFolding(Graph& graph, GraphFunction& function, const Evaluator& evaluate)
      : graph_(graph), function_(function), evaluate_(evaluate), names_(function) {}

  int run() {
    std::vector<Op> ops = std::move(function_.ops);
    function_.ops.clear();
    for (Op& op : ops) {
      if (none_empty(function_, op) || info(op.kind).effect != Effect::pure || !fold(op))
        function_.ops.push_back(std::move(op));
      else
        ++folded_;
    }
    return folded_;
  }

 private:
  bool empty(ValueId value) const { return is_empty(function_, value); }

  /// Replaces or removes an operation. Returns false if it stays because its result depends on nonempty operands.
  bool fold(const Op& op) {
    if (std::ranges::all_of(op.results, [&](ValueId id) { return empty(id); })) return true;
    switch (op.kind) {
      case Kind::concat:
        return join(op), true;
      case Kind::scatter:
      case Kind::dynamic_update:
        return !empty(op.operands[0]) && (replace(op, Kind::copy, {op.operands[0]}, {}), true);
      case Kind::contract:
      case Kind::convolution:
        return sum(op), true;
      case Kind::pad:
        return pad(op);
      case Kind::ragged_contract:
        return values(op), true;
      default:
        break;
    }
    const bool nothing = std::ranges::all_of(op.operands, [&](ValueId id) { return id == no_value || empty(id); });
    return nothing && !op.operands.empty() && !holds_functions(op.kind) && (values(op), true);
  }

  Op begin(const Op& op, Kind kind, std::vector<ValueId> operands, Attributes attributes) const {
    Op step;
    step.kind = kind;
    step.name = op.name;
    step.source = op.source;
    step.operands = std::move(operands);
    step.attributes = std::move(attributes);
    return step;
  }

  /// Replaces the operation by one that computes the same result.
  void replace(const Op& op, Kind kind, std::vector<ValueId> operands, Attributes attributes) {
    Op step = begin(op, kind, std::move(operands), std::move(attributes));
    step.results = {op.results[0]};
    function_.ops.push_back(std::move(step));
  }

  /// Adds an operation with a new value as result.
  ValueId add(const Op& op, const std::string& what, Kind kind, std::vector<ValueId> operands, Attributes attributes,
              const TensorType& type) {
    Op step = begin(op, kind, std::move(operands), std::move(attributes));
    step.name = names_.taken(op.name + "." + what);
    function_.values.push_back({step.name, type});
    step.results = {static_cast<ValueId>(function_.values.size()) - 1};
    function_.ops.push_back(step);
    return step.results[0];
  }

  void join(const Op& op) {
    std::vector<ValueId> parts;
    std::ranges::copy_if(op.operands, std::back_inserter(parts), [&](ValueId id) { return !empty(id); });
    if (parts.size() == 1) return replace(op, Kind::copy, parts, {});
    replace(op, Kind::concat, parts, op.attributes);
  }

  Attributes spread(const Shape& shape, std::vector<std::int64_t> dims) const {
    Attributes attributes;
    attributes.set("shape", shape);
    attributes.set("dims", std::move(dims));
    return attributes;
  }

  /// Replaces a product with an empty contraction by zeros, or by its bias.
  void sum(const Op& op) {
    const TensorType& type = function_.value(op.results[0]).type;
    if (op.operands.size() < 3 || op.operands[2] == no_value) return values(op);
    ValueId bias = op.operands[2];
    const TensorType given = function_.value(bias).type;
    std::vector<std::int64_t> dims;
    if (op.kind == Kind::convolution) {
      dims = {static_cast<std::int64_t>(op.attributes.text("y_labels").find('C'))};
    } else {
      for (std::size_t i = 0; i < given.shape.size(); ++i)
        dims.push_back(static_cast<std::int64_t>(type.shape.size() - given.shape.size() + i));
    }
    if (given.dtype != type.dtype) {
      Attributes attributes;
      attributes.set("dtype", type.dtype);
      bias = add(op, "bias", Kind::convert, {bias}, std::move(attributes), {type.dtype, given.shape});
    }
    replace(op, Kind::broadcast, {bias}, spread(type.shape, std::move(dims)));
  }

  bool pad(const Op& op) {
    if (op.operands.size() < 2 || op.operands[1] == no_value) return values(op), true;
    const Shape shape = function_.value(op.results[0]).type.shape;
    return replace(op, Kind::broadcast, {op.operands[1]}, spread(shape, {})), true;
  }

  /// Replaces an operation whose result does not depend on its operands by constants.
  void values(const Op& op) {
    std::vector<Array> operands;
    for (const ValueId id : op.operands)
      operands.push_back(id == no_value ? Array()
                                        : Array(function_.value(id).type.dtype, function_.value(id).type.shape));
    const std::vector<Array> results = evaluate_(graph_, function_, op, operands);
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      if (empty(op.results[i])) continue;
      const bool alike = all_alike(results[i]) && results[i].size() > 1;
      Array data = alike ? Array(results[i].dtype(), {}) : results[i].clone();
      if (alike) std::memcpy(data.bytes(), results[i].bytes(), at(host_bytes(data.dtype())));
      const ValueId constant = weight(op, std::move(data));
      const Shape shape = results[i].shape();
      std::vector<std::int64_t> dims;
      for (std::size_t axis = 0; axis < (alike ? 0 : shape.size()); ++axis)
        dims.push_back(static_cast<std::int64_t>(axis));
      Op step = begin(op, alike ? Kind::broadcast : Kind::copy, {constant},
                      alike ? spread(shape, std::move(dims)) : Attributes());
      if (i > 0) step.name = names_.taken(op.name + "." + std::to_string(i));
      step.results = {op.results[i]};
      function_.ops.push_back(std::move(step));
    }
  }

  ValueId weight(const Op& op, Array data) {
    const std::string name = edit::fresh_weight(graph_, function_.name + "." + op.name + ".of_nothing");
    Weight weight;
    weight.type = {data.dtype(), data.shape()};
    weight.source = Weight::Source::data;
    weight.data = std::move(data);
    weight.trainable = false;
    Op constant = edit::constant(function_, names_, name, weight.type);
    graph_.weights.emplace(name, std::move(weight));
    const ValueId value = constant.results[0];
    function_.ops.push_back(std::move(constant));
    return value;
  }

  Graph& graph_;
  GraphFunction& function_;
  const Evaluator& evaluate_;
  edit::Names names_;
  int folded_ = 0;
};

}  // namespace

int fold_empty(Graph& graph, const Evaluator& evaluate) {
  int changed = 0;
  std::set<std::int32_t> held;
  for (GraphFunction& function : graph.functions) {
    changed += strip_calls(function);
    for (const Op& op : function.ops)
      if (holds_functions(op.kind)) held.insert(op.functions.begin(), op.functions.end());
  }
  for (const std::int32_t index : held) strip_signature(graph.functions[at(index)]);
  for (GraphFunction& function : graph.functions) changed += EmptyFolding(graph, function, evaluate).run();
  return changed;
}

}  // namespace tilesim
