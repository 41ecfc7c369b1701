#include "tilesim/graph/passes/devices.hpp"

#include "tilesim/base/index.hpp"
#include "tilesim/graph/builder.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim {

bool between_devices(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::all_gather || kind == Kind::reduce_scatter ||
         kind == Kind::all_to_all || kind == Kind::permute_devices || kind == Kind::broadcast_devices ||
         kind == Kind::device_index;
}

namespace {

using Integers = std::vector<std::int64_t>;

/// Replaces one operation by new operations at its place.
class Replacement {
 public:
  Replacement(Graph& graph, GraphFunction& function, edit::Names& names, edit::Names& weights, const Op& op,
              std::vector<Op>& ops)
      : graph_(graph), function_(function), names_(names), weights_(weights), op_(op), ops_(ops) {}

  void build() {
    const std::int64_t size = op_.attributes.integer("group_size", 1);
    switch (op_.kind) {
      case Kind::device_index:
        return finish(number(0, DType::u32, {}));
      case Kind::all_reduce:
        return finish(combined(op_.operands[0], size));
      case Kind::all_gather:
        return finish(repeated(op_.operands[0], op_.attributes.integer("dim"), size));
      case Kind::reduce_scatter:
        return finish(first_part(combined(op_.operands[0], size), op_.attributes.integer("dim"), size));
      case Kind::all_to_all:
        return finish(repeated(first_part(op_.operands[0], op_.attributes.integer("split_dim"), size),
                               op_.attributes.integer("concat_dim"), size));
      default:
        return finish(op_.operands[0]);
    }
  }

 private:
  ValueId add(Kind kind, std::vector<ValueId> operands, Attributes attributes, TensorType type) {
    Op made;
    made.kind = kind;
    made.name = names_.taken(op_.name + "." + std::string(info(kind).name));
    made.source = op_.source;
    made.operands = std::move(operands);
    made.attributes = std::move(attributes);
    function_.values.push_back({made.name, std::move(type)});
    made.results = {static_cast<ValueId>(function_.values.size()) - 1};
    ops_.push_back(std::move(made));
    return ops_.back().results[0];
  }

  ValueId number(double value, DType dtype, const Shape& shape) {
    Weight weight;
    weight.type = {dtype, {}};
    weight.source = Weight::Source::data;
    weight.data = Array(DType::f64, {});
    weight.data.as<double>()[0] = value;
    weight.data = weight.data.to(dtype);
    weight.trainable = false;
    const std::string name = weights_.taken("devices");
    graph_.weights.emplace(name, std::move(weight));
    ops_.push_back(edit::constant(function_, names_, name, {dtype, {}}));
    const ValueId made = ops_.back().results[0];
    if (shape.empty()) return made;
    Attributes attributes;
    attributes.set("shape", shape);
    attributes.set("dims", Integers{});
    return add(Kind::broadcast, {made}, std::move(attributes), {dtype, shape});
  }

  ValueId combined(ValueId x, std::int64_t size) {
    const std::string& combiner = op_.attributes.text("combiner");
    const TensorType type = function_.value(x).type;
    if (size == 1 || (combiner != "add" && combiner != "multiply") || type.dtype == DType::boolean) return x;
    Attributes attributes;
    attributes.set("function", std::string(combiner == "add" ? "multiply" : "power"));
    return add(Kind::elementwise, {x, number(static_cast<double>(size), type.dtype, {})}, std::move(attributes), type);
  }

  ValueId repeated(ValueId x, std::int64_t dim, std::int64_t size) {
    TensorType type = function_.value(x).type;
    type.shape[at(dim)] *= size;
    Attributes attributes;
    attributes.set("dim", dim);
    return add(Kind::concat, std::vector<ValueId>(at(size), x), std::move(attributes), type);
  }

  ValueId first_part(ValueId x, std::int64_t dim, std::int64_t size) {
    TensorType type = function_.value(x).type;
    type.shape[at(dim)] /= size;
    Attributes attributes;
    attributes.set("start", Integers(type.shape.size(), 0));
    attributes.set("limit", Integers(type.shape.begin(), type.shape.end()));
    return add(Kind::slice, {x}, std::move(attributes), type);
  }

  void finish(ValueId value) {
    Op copy;
    copy.kind = Kind::copy;
    copy.name = op_.name;
    copy.source = op_.source;
    copy.operands = {value};
    copy.results = op_.results;
    ops_.push_back(std::move(copy));
  }

  Graph& graph_;
  GraphFunction& function_;
  edit::Names &names_, &weights_;
  const Op& op_;
  std::vector<Op>& ops_;
};

}  // namespace

std::vector<std::string> one_of_alike_devices(Graph& graph) {
  std::vector<std::string> replaced;
  edit::Names weights(graph.weights);
  for (GraphFunction& function : graph.functions) {
    edit::Names names(function);
    std::vector<Op> before = std::move(function.ops), after;
    function.ops.clear();
    for (Op& op : before) {
      if (!between_devices(op.kind)) {
        after.push_back(std::move(op));
        continue;
      }
      replaced.push_back(op.name);
      Replacement(graph, function, names, weights, op, after).build();
    }
    function.ops = std::move(after);
  }
  if (!replaced.empty()) check(graph);
  return replaced;
}

}  // namespace tilesim
