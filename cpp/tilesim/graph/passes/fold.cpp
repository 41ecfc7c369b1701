// Passes that compute with weights: constant folding, folding of batch normalization into weights.
#include <algorithm>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/builder.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim {

namespace {

using Integers = std::vector<std::int64_t>;

Weight data_weight(Array data, bool trainable) {
  Weight weight;
  weight.type = {data.dtype(), data.shape()};
  weight.source = Weight::Source::data;
  weight.data = std::move(data);
  weight.trainable = trainable;
  return weight;
}

std::int64_t elements(const GraphFunction& function, ValueId value) {
  return element_count(function.value(value).type.shape);
}

/// Folds one function. `producer`: current producer of each value.
class ConstantFolding {
 public:
  ConstantFolding(Graph& graph, std::size_t function, const Evaluator& evaluate, std::int64_t limit, bool trainable)
      : graph_(graph),
        function_(graph.functions[function]),
        evaluate_(evaluate),
        limit_(limit),
        trainable_(trainable),
        names_(function_) {}

  int run() {
    std::vector<Op> ops = std::move(function_.ops);
    function_.ops.clear();
    for (Op& op : ops) {
      if (op.kind == Kind::constant) constants_.emplace(op.results[0], op.attributes.text("reference"));
      if (foldable(op) && !widens_quantized(op)) {
        replace(op);
        ++folded_;
      } else {
        function_.ops.push_back(std::move(op));
      }
    }
    edit::order_values(function_);
    return folded_;
  }

 private:
  /// Whether folding would widen a quantized weight. Weights stay narrow, because integer products are recognised by
  /// them and loads are shorter. Small zero points and scales may be folded.
  bool widens_quantized(const Op& op) const {
    if (op.kind != Kind::convert) return false;
    constexpr std::int64_t small = 4096;  // elements
    const DType from = function_.value(op.operands[0]).type.dtype, to = function_.value(op.results[0]).type.dtype;
    if (from == DType::boolean || bits(from) > 8 || bits(to) <= bits(from)) return false;
    return elements(function_, op.operands[0]) > (trainable_ ? small : 1);
  }

  /// Whether an operation may be folded. iota and broadcast may not, because as operations they need no memory.
  bool foldable(const Op& op) const {
    if (op.operands.empty() || info(op.kind).effect != Effect::pure) return false;
    std::int64_t read = 0, written = 0;
    for (const ValueId id : op.operands) {
      if (id == no_value) continue;
      if (!constants_.count(id)) return false;
      read += elements(function_, id);
      if (elements(function_, id) > limit_) return false;
      if (!trainable_ && graph_.weights.at(constants_.at(id)).trainable) return false;
    }
    for (const ValueId id : op.results) {
      written += elements(function_, id);
      if (elements(function_, id) > limit_) return false;
    }
    return op.kind != Kind::broadcast || written <= read;
  }

  void replace(const Op& op) {
    std::vector<Array> operands;
    bool trainable = false;
    for (const ValueId id : op.operands) {
      operands.emplace_back();
      if (id == no_value) continue;
      const std::string& name = constants_.at(id);
      operands.back() = graph_.weights.at(name).load(name);
      trainable |= graph_.weights.at(name).trainable;
    }
    const std::vector<Array> results = evaluate_(graph_, function_, op, operands);
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      const std::string stem = function_.name + "." + function_.value(op.results[i]).name + ".folded";
      const std::string name = edit::fresh_weight(graph_, stem);
      graph_.weights.emplace(name, data_weight(results[i].clone(), trainable));
      Op constant;
      constant.kind = Kind::constant;
      constant.name = i == 0 ? op.name : names_.taken(op.name + "." + std::to_string(i));
      constant.source = op.source;
      constant.results = {op.results[i]};
      constant.attributes.set("reference", name);
      function_.ops.push_back(std::move(constant));
      constants_.emplace(op.results[i], name);
    }
  }

  Graph& graph_;
  GraphFunction& function_;
  const Evaluator& evaluate_;
  std::int64_t limit_;
  bool trainable_;
  edit::Names names_;
  std::map<ValueId, std::string> constants_;
  int folded_ = 0;
};

}  // namespace

int fold_constants(Graph& graph, const Evaluator& evaluate, std::int64_t max_elements, bool trainable) {
  int folded = 0;
  for (std::size_t f = 0; f < graph.functions.size(); ++f)
    folded += ConstantFolding(graph, f, evaluate, max_elements, trainable).run();
  return folded;
}

std::vector<Array> evaluate_entry(const Graph& graph, const std::vector<Array>& inputs, const Evaluator& evaluate) {
  const GraphFunction& function = graph.functions[0];
  std::vector<Array> values(function.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[at(function.inputs[i])] = inputs[i];
  for (const Op& op : function.ops) {
    std::vector<Array> operands;
    for (const ValueId id : op.operands) operands.push_back(id == no_value ? Array() : values[at(id)]);
    std::vector<Array> results = evaluate(graph, function, op, operands);
    for (std::size_t i = 0; i < results.size(); ++i) values[at(op.results[i])] = results[i];
  }
  std::vector<Array> outputs;
  for (const ValueId id : function.outputs) outputs.push_back(values[at(id)]);
  return outputs;
}

namespace {

/// A product, and the batch_norm that is its only reader.
struct Match {
  std::size_t product, norm;
  std::int64_t feature_axis;  ///< axis of the weights
};

/// Axis of the weights that becomes the batch_norm's feature axis; -1: none.
std::int64_t feature_axis(const GraphFunction& function, const Op& product, const Op& norm) {
  const std::int64_t dim = norm.attributes.integer("feature_dim");
  if (product.kind == Kind::convolution) {
    const bool features = product.attributes.text("y_labels").find('C') == at(dim);
    return features ? static_cast<std::int64_t>(product.attributes.text("w_labels").find('O')) : -1;
  }
  const Integers batch = product.attributes.integers("b_batch", {}),
                 contracted = product.attributes.integers("b_contract", {});
  const auto rank = static_cast<std::int64_t>(function.value(product.operands[1]).type.shape.size());
  std::int64_t free = -1, count = 0;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    if (std::ranges::count(batch, axis) + std::ranges::count(contracted, axis) > 0) continue;
    free = axis;
    ++count;
  }
  const auto last = static_cast<std::int64_t>(function.value(product.results[0]).type.shape.size()) - 1;
  return count == 1 && dim == last ? free : -1;
}

std::optional<Match> match_norm(const Graph& graph, const GraphFunction& function, std::size_t norm) {
  const Op& op = function.ops[norm];
  if (op.kind != Kind::batch_norm) return std::nullopt;
  const std::vector<int> producer = edit::producers(function);
  const int number = producer[at(op.operands[0])];
  if (number < 0 || edit::use_counts(function)[at(op.operands[0])] != 1) return std::nullopt;
  const Op& product = function.ops[at(number)];
  if (product.kind != Kind::convolution && product.kind != Kind::contract) return std::nullopt;
  const auto constant = [&](ValueId id) { return edit::weight_of(graph, function, producer, id) != nullptr; };
  if (!constant(product.operands[1])) return std::nullopt;
  const bool biased = product.operands.size() > 2 && product.operands[2] != no_value;
  if (biased && (!constant(product.operands[2]) || function.value(product.operands[2]).type.shape.size() != 1))
    return std::nullopt;
  for (std::size_t i = 1; i < op.operands.size(); ++i)
    if (!constant(op.operands[i])) return std::nullopt;
  const std::int64_t axis = feature_axis(function, product, op);
  if (axis < 0) return std::nullopt;
  return Match{at(number), norm, axis};
}

/// A function of (weights, scale, bias, mean, variance, [product bias]) that returns folded weights and bias.
Graph folding_graph(const std::vector<Array>& inputs, std::int64_t axis, double epsilon) {
  Graph graph;
  Builder builder(graph, "folding");
  std::vector<ValueId> in;
  for (const Array& input : inputs)
    in.push_back(builder.input("x" + std::to_string(in.size()), {input.dtype(), input.shape()}));
  const DType wide = inputs[0].dtype() == DType::f64 ? DType::f64 : DType::f32;
  const auto widened = [&](std::size_t i) { return builder.convert(in[i], wide); };
  using enum Function;
  const ValueId variance = builder.elementwise(add, {widened(4), builder.scalar(epsilon, wide)});
  const ValueId factor = builder.elementwise(multiply, {widened(1), builder.elementwise(rsqrt, {variance})});
  Shape along(inputs[0].shape().size(), 1);
  along[at(axis)] = inputs[0].shape()[at(axis)];
  const ValueId weights = builder.elementwise(multiply, {widened(0), builder.reshape(factor, along)});
  ValueId shift = builder.elementwise(negate, {widened(3)});
  if (in.size() > 5) shift = builder.elementwise(add, {shift, widened(5)});
  const ValueId bias = builder.elementwise(add, {builder.elementwise(multiply, {shift, factor}), widened(2)});
  builder.output(builder.convert(weights, inputs[0].dtype()));
  builder.output(builder.convert(bias, inputs[2].dtype()));
  builder.finish();
  return graph;
}

/// Loads the arrays of the folding function's inputs. `evaluate` computes constants of the scratch graph.
std::vector<Array> loaded(const Graph& graph, const GraphFunction& function, const std::vector<ValueId>& values) {
  const std::vector<int> producer = edit::producers(function);
  std::vector<Array> arrays;
  for (const ValueId id : values) {
    const std::string& name = function.ops[at(producer[at(id)])].attributes.text("reference");
    arrays.push_back(graph.weights.at(name).load(name));
  }
  return arrays;
}

void fold_match(Graph& graph, GraphFunction& function, edit::Names& names, const Match& match,
                const Evaluator& evaluate) {
  const Op norm = function.ops[match.norm];
  Op product = function.ops[match.product];
  std::vector<ValueId> values{product.operands[1]};
  values.insert(values.end(), norm.operands.begin() + 1, norm.operands.end());
  if (product.operands.size() > 2 && product.operands[2] != no_value) values.push_back(product.operands[2]);
  const std::vector<Array> inputs = loaded(graph, function, values);
  const Graph folding = folding_graph(inputs, match.feature_axis, norm.attributes.number("epsilon"));
  const std::vector<Array> folded = evaluate_entry(folding, inputs, evaluate);
  const std::vector<int> producer = edit::producers(function);
  product.operands.resize(3, no_value);
  std::vector<Op> constants;
  for (std::size_t i = 0; i < 2; ++i) {
    const Op& before = function.ops[at(producer[at(values[i == 0 ? 0 : 2])])];
    const std::string name = edit::fresh_weight(graph, before.attributes.text("reference") + ".folded");
    graph.weights.emplace(name, data_weight(folded[i].clone(), true));
    constants.push_back(edit::constant(function, names, name, graph.weights.at(name).type));
    product.operands[1 + i] = constants.back().results[0];
  }
  product.results = norm.results;
  function.ops[match.product] = std::move(product);
  function.ops.erase(function.ops.begin() + static_cast<std::ptrdiff_t>(match.norm));
  function.ops.insert(function.ops.begin() + static_cast<std::ptrdiff_t>(match.product), constants.begin(),
                      constants.end());
}

}  // namespace

int fold_batch_norm(Graph& graph, const Evaluator& evaluate) {
  int folded = 0;
  for (GraphFunction& function : graph.functions) {
    edit::Names names(function);
    for (std::size_t i = 0; i < function.ops.size(); ++i) {
      const std::optional<Match> match = match_norm(graph, function, i);
      if (!match) continue;
      fold_match(graph, function, names, *match, evaluate);
      ++folded;
    }
    edit::order_values(function);
  }
  return folded;
}

}  // namespace tilesim
