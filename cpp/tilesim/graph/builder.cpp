#include "tilesim/graph/builder.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim {

Builder::Builder(Graph& graph, const std::string& name) : graph_(&graph), function_(0) {
  const auto found = std::ranges::find(graph.functions, name, &GraphFunction::name);
  function_ = static_cast<std::int32_t>(found - graph.functions.begin());
  if (found == graph.functions.end()) {
    graph.functions.emplace_back();
    graph.functions.back().name = name;
  }
  for (const Value& value : body().values) used_[value.name] = 0;
  for (const Op& op : body().ops) {
    used_[op.name] = 0;
    if (op.kind == Kind::constant) weights_.emplace(op.attributes.text("reference"), op.results[0]);
  }
}

std::string Builder::fresh(const std::string& stem) {
  if (used_.emplace(stem, 0).second) return stem;
  while (true) {
    std::string name = stem + "." + std::to_string(++used_[stem]);
    if (used_.emplace(name, 0).second) return name;
  }
}

ValueId Builder::input(const std::string& name, TensorType type) {
  if (used_.count(name))
    throw UserError({"this name is already taken",
                     "input of function \"" + body().name + "\"",
                     "'" + name + "'",
                     {},
                     "Choose another name"});
  element_count(type.shape);
  body().values.push_back({fresh(name), std::move(type)});
  body().inputs.push_back(static_cast<ValueId>(body().values.size()) - 1);
  return body().inputs.back();
}

ValueId Builder::weight(const std::string& name, Weight weight) {
  element_count(weight.type.shape);
  const auto [found, inserted] = graph_->weights.emplace(name, weight);
  if (!inserted && found->second.type != weight.type)
    throw UserError({"a weight of this name already exists with another type",
                     "weight \"" + name + "\"",
                     to_string(weight.type),
                     to_string(found->second.type),
                     {}});
  if (const auto known = weights_.find(name); known != weights_.end()) return known->second;
  Attributes attributes;
  attributes.set("reference", name);
  return weights_[name] = op(Kind::constant, {}, std::move(attributes), name)[0];
}

ValueId Builder::scalar(double value, DType dtype) {
  Array wide(DType::f64, {});
  wide.as<double>()[0] = value;
  Weight weight;
  weight.type = {dtype, {}};
  weight.source = Weight::Source::data;
  weight.data = wide.to(dtype);
  weight.trainable = false;
  char text[40];  // the shortest form that reads back, so that equal numbers share the weight
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return this->weight(std::string(tilesim::name(dtype)) + "(" + std::string(text, end) + ")", std::move(weight));
}

std::vector<ValueId> Builder::op(Kind kind, std::vector<ValueId> operands, Attributes attributes,
                                 const std::string& name, int results, std::vector<std::int32_t> functions) {
  Op op;
  op.kind = kind;
  op.name = name.empty() ? std::string(info(kind).name) : name;
  op.operands = std::move(operands);
  op.attributes = std::move(attributes);
  op.functions = std::move(functions);
  op.source = source_;
  op.results.assign(static_cast<std::size_t>(std::max(0, results)), no_value);
  for (const ValueId id : op.operands)
    if (id < no_value || id >= static_cast<ValueId>(body().values.size()))
      throw UserError({"an operand must be a value of this function",
                       rules::place_of(body(), op),
                       std::to_string(id),
                       "values of this builder",
                       {}});
  if (rules::holds_functions(kind))
    for (const std::int32_t callee : op.functions)
      if (callee == function_) throw UserError({"a function calls itself", rules::place_of(body(), op), {}, {}, {}});
  rules::check_form(body(), op);
  const std::vector<TensorType> types = infer_results(*graph_, body(), op);
  op.name = fresh(op.name);
  op.results.clear();
  for (std::size_t i = 0; i < types.size(); ++i) {
    body().values.push_back({i == 0 ? op.name : fresh(op.name + "." + std::to_string(i)), types[i]});
    op.results.push_back(static_cast<ValueId>(body().values.size()) - 1);
  }
  body().ops.push_back(op);
  return op.results;
}

ValueId Builder::elementwise(Function function, std::vector<ValueId> operands, const std::string& name) {
  const std::string text(info(function).name);
  Attributes attributes;
  attributes.set("function", text);
  return op(Kind::elementwise, std::move(operands), std::move(attributes), name.empty() ? text : name)[0];
}

ValueId Builder::matmul(ValueId a, ValueId b, ValueId bias, const std::string& name) {
  const auto rank = [&](ValueId value) { return static_cast<std::int64_t>(type(value).shape.size()); };
  if (rank(a) == 0 || rank(b) == 0)
    throw UserError({"matmul needs at least one axis",
                     name.empty() ? "matmul" : name,
                     to_string(type(a)) + " and " + to_string(type(b)),
                     {},
                     {}});
  const std::int64_t a_batch = std::max<std::int64_t>(0, rank(a) - 2), b_batch = std::max<std::int64_t>(0, rank(b) - 2);
  // Batch axes broadcast as in numpy. If b has no batch axes, those of a become rows.
  const Shape a_lead(type(a).shape.begin(), type(a).shape.begin() + a_batch);
  const Shape b_lead(type(b).shape.begin(), type(b).shape.begin() + b_batch);
  const Shape lead = b_batch == 0 ? Shape{} : broadcast_shapes(a_lead, b_lead);
  const auto widen = [&](ValueId value, const Shape& own, std::int64_t matrix_axes) {
    if (own == lead) return value;
    Shape shape = lead;
    shape.insert(shape.end(), type(value).shape.end() - matrix_axes, type(value).shape.end());
    std::vector<std::int64_t> dims(type(value).shape.size());
    std::iota(dims.begin(), dims.end(), static_cast<std::int64_t>(shape.size() - dims.size()));
    Attributes attributes;
    attributes.set("shape", shape);
    attributes.set("dims", dims);
    return op(Kind::broadcast, {value}, std::move(attributes))[0];
  };
  if (b_batch > 0) {
    a = widen(a, a_lead, std::min<std::int64_t>(2, rank(a)));
    b = widen(b, b_lead, std::min<std::int64_t>(2, rank(b)));
  }
  std::vector<std::int64_t> batch(lead.size());
  std::iota(batch.begin(), batch.end(), 0);
  Attributes attributes;
  attributes.set("a_batch", batch);
  attributes.set("b_batch", batch);
  attributes.set("a_contract", std::vector<std::int64_t>{rank(a) - 1});
  attributes.set("b_contract", std::vector<std::int64_t>{std::max(rank(b) - 2, std::int64_t{0})});
  std::vector<ValueId> operands{a, b};
  if (bias != no_value) operands.push_back(bias);
  return op(Kind::contract, std::move(operands), std::move(attributes), name.empty() ? "matmul" : name)[0];
}

ValueId Builder::convert(ValueId x, DType dtype) {
  if (type(x).dtype == dtype) return x;
  Attributes attributes;
  attributes.set("dtype", dtype);
  return op(Kind::convert, {x}, std::move(attributes))[0];
}

ValueId Builder::reshape(ValueId x, Shape shape) {
  Attributes attributes;
  attributes.set("shape", std::move(shape));
  return op(Kind::reshape, {x}, std::move(attributes))[0];
}

ValueId Builder::transpose(ValueId x, std::vector<std::int64_t> permutation) {
  Attributes attributes;
  attributes.set("permutation", std::move(permutation));
  return op(Kind::transpose, {x}, std::move(attributes))[0];
}

void Builder::output(ValueId value, const std::string& name) {
  type(value);
  const auto named = [&] { return name.empty() || name == body().value(value).name; };
  const bool kept = std::ranges::count(body().inputs, value) > 0 || std::ranges::count(body().outputs, value) > 0;
  if (kept && !named()) value = op(Kind::copy, {value})[0];  // inputs and other outputs keep their names
  if (!named()) body().values[static_cast<std::size_t>(value)].name = fresh(name);
  body().outputs.push_back(value);
}

void Builder::alias(int output, int input) { body().aliases.push_back({output, input}); }

const TensorType& Builder::type(ValueId value) const {
  if (value < 0 || value >= static_cast<ValueId>(body().values.size()))
    throw UserError(
        {"not a value of this function", "function \"" + body().name + "\"", std::to_string(value), {}, {}});
  return body().value(value).type;
}

void Builder::finish() {
  graph_->main = function_;
  check(*graph_);
}

}  // namespace tilesim
