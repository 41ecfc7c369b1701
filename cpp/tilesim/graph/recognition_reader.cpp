// Reading a function for patterns.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/recognition.hpp"

namespace tilesim::recognition {

namespace {

constexpr std::int64_t small = 4096;  ///< elements of a weight that are looked at

Shape without_ones(const Shape& shape) {
  Shape result;
  std::ranges::copy_if(shape, std::back_inserter(result), [](std::int64_t extent) { return extent != 1; });
  return result;
}

}  // namespace

Reader::Reader(const Graph& graph, const GraphFunction& function)
    : graph_(graph), function_(function), producers_(edit::producers(function)), uses_(edit::use_counts(function)) {}

const Op* Reader::op(ValueId value) const {
  if (value == no_value || producers_[at(value)] < 0) return nullptr;
  return &function_.ops[at(producers_[at(value)])];
}

const Op* Reader::op(ValueId value, Kind kind) const {
  const Op* found = op(value);
  return found != nullptr && found->kind == kind ? found : nullptr;
}

const Op* Reader::elementwise(ValueId value, Function function) const {
  return function_of(value) == function ? op(value) : nullptr;
}

std::optional<Function> Reader::function_of(ValueId value) const {
  const Op* found = op(value, Kind::elementwise);
  if (found == nullptr) return std::nullopt;
  return parse_function(found->attributes.text("function"));
}

const Weight* Reader::weight(ValueId value) const { return edit::weight_of(graph_, function_, producers_, value); }

std::optional<double> Reader::number(ValueId value) const {
  while (const Op* found = op(value)) {
    if (found->kind == Kind::broadcast || found->kind == Kind::reshape) {
      value = found->operands[0];
    } else if (found->kind == Kind::convert && is_float(type(value).dtype)) {
      value = found->operands[0];
    } else {
      break;
    }
  }
  const Weight* known = weight(value);
  if (known == nullptr || known->source != Weight::Source::data || known->trainable) return std::nullopt;
  if (known->data.size() < 1 || known->data.size() > small || known->data.empty()) return std::nullopt;
  const double first = known->data.at(0);
  for (std::int64_t i = 1; i < known->data.size(); ++i)
    if (known->data.at(i) != first) return std::nullopt;
  return first;
}

ValueId Reader::unconverted(ValueId value) const {
  while (const Op* found = op(value, Kind::convert)) {
    if (!is_float(type(value).dtype) || !is_float(type(found->operands[0]).dtype)) break;
    value = found->operands[0];
  }
  return value;
}

ValueId Reader::peeled(ValueId value) const {
  while (true) {
    value = unconverted(value);
    const Op* found = op(value);
    if (found == nullptr) return value;
    const bool ones =
        found->kind == Kind::reshape && without_ones(shape(value)) == without_ones(shape(found->operands[0]));
    if (found->kind != Kind::broadcast && !ones) return value;
    value = found->operands[0];
  }
}

std::optional<std::vector<const Op*>> cone(const Reader& reader, const Candidate& candidate) {
  constexpr std::size_t limit = 96;
  std::vector<const Op*> ops;
  std::vector<ValueId> open{candidate.root};
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (value == no_value || std::ranges::find(candidate.leaves, value) != candidate.leaves.end()) continue;
    const Op* op = reader.op(value);
    if (op == nullptr || info(op->kind).effect != Effect::pure || !op->functions.empty() || op->results.size() != 1)
      return std::nullopt;
    if (std::ranges::find(ops, op) != ops.end()) continue;
    if (op->kind == Kind::constant && !reader.number(value)) {
      const Weight* weight = reader.weight(value);
      const bool small_data = weight && weight->source == Weight::Source::data && weight->data.size() <= small;
      if (!candidate.whole || !small_data) return std::nullopt;
    }
    ops.push_back(op);
    if (ops.size() > limit) return std::nullopt;
    open.insert(open.end(), op->operands.begin(), op->operands.end());
  }
  std::ranges::sort(ops);  // operations of one vector: their order is that of the function
  if (candidate.shared_inside) return ops;
  for (const Op* op : ops) {
    const bool cheap =
        op->kind == Kind::constant || op->kind == Kind::iota || info(op->kind).movement || op->kind == Kind::convert;
    if (cheap || op->results[0] == candidate.root) continue;
    int inside = 0;
    for (const Op* reading : ops) inside += static_cast<int>(std::ranges::count(reading->operands, op->results[0]));
    if (inside != reader.uses(op->results[0])) return std::nullopt;
  }
  return ops;
}

}  // namespace tilesim::recognition
