// Queries on a function for pattern matching.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition {

namespace {

constexpr std::int64_t small = 4096;      ///< elements of a weight that are looked at
constexpr std::int64_t most_made = 4096;  ///< operations that stand in the place of one

Shape without_ones(const Shape& shape) {
  Shape result;
  std::ranges::copy_if(shape, std::back_inserter(result), [](std::int64_t extent) { return extent != 1; });
  return result;
}

}  // namespace

Reader::Reader(const Graph& graph, const GraphFunction& function)
    : graph_(graph),
      function_(function),
      producers_(function.values.size(), nullptr),
      order_(function.values.size(), -1),
      uses_(edit::use_counts(function)) {
  for (std::size_t i = 0; i < function.ops.size(); ++i)
    enter(function.ops[i], static_cast<std::int64_t>(i) * most_made);
}

void Reader::enter(const Op& op, std::int64_t order) {
  for (const ValueId id : op.results) {
    producers_[at(id)] = &op;
    order_[at(id)] = order;
  }
}

bool Reader::dead(const Op& op) const {
  return info(op.kind).effect == Effect::pure &&
         std::ranges::all_of(op.results, [&](ValueId id) { return uses(id) == 0; });
}

/// Removes the operations that only a removed operation read.
void Reader::release(const Op& op) {
  std::vector<const Op*> open{&op};
  while (!open.empty()) {
    const Op& gone = *open.back();
    open.pop_back();
    for (const ValueId id : gone.operands) {
      if (id == no_value || --uses_[at(id)] > 0) continue;
      if (const Op* before = this->op(id); before != nullptr && dead(*before)) open.push_back(before);
    }
  }
}

void Reader::replace(std::size_t place, const std::vector<Op>& ops) {
  producers_.resize(function_.values.size(), nullptr);
  order_.resize(function_.values.size(), -1);
  uses_.resize(function_.values.size(), 0);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    enter(ops[i], static_cast<std::int64_t>(place) * most_made - static_cast<std::int64_t>(ops.size() - i - 1));
    for (const ValueId id : ops[i].operands)
      if (id != no_value) ++uses_[at(id)];
  }
  release(function_.ops[place]);
}

void Reader::redirect(std::size_t place, ValueId root, ValueId leaf) {
  uses_[at(leaf)] += uses_[at(root)];
  uses_[at(root)] = 0;
  release(function_.ops[place]);
}

const Op* Reader::op(ValueId value) const { return value == no_value ? nullptr : producers_[at(value)]; }

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

const Weight* Reader::weight(ValueId value) const {
  const Op* found = op(value, Kind::constant);
  const auto weight = found ? graph_.weights.find(found->attributes.text("reference")) : graph_.weights.end();
  return weight == graph_.weights.end() ? nullptr : &weight->second;
}

namespace {

/// The value that a value broadcasts or converts; calls `visit` with the dtype of each conversion.
template <class Visit>
ValueId number_source(const Reader& reader, ValueId value, Visit&& visit) {
  while (const Op* found = reader.op(value)) {
    const bool moves = found->kind == Kind::broadcast || found->kind == Kind::reshape;
    if (!moves && !(found->kind == Kind::convert && is_float(reader.type(value).dtype))) break;
    visit(reader.type(value).dtype);
    value = found->operands[0];
  }
  return value;
}

double rounded(double value, DType dtype) {
  Array one(DType::f64, {1});
  one.as<double>()[0] = value;
  return one.to(dtype).at(0);
}

}  // namespace

std::optional<double> Reader::number(ValueId value) const {
  std::vector<DType> through;
  value = number_source(*this, value, [&](DType dtype) { through.push_back(dtype); });
  const Weight* known = weight(value);
  if (known == nullptr || known->source != Weight::Source::data || known->trainable) return std::nullopt;
  if (known->data.size() < 1 || known->data.size() > small || known->data.empty()) return std::nullopt;
  double first = known->data.at(0);
  for (std::int64_t i = 1; i < known->data.size(); ++i)
    if (known->data.at(i) != first) return std::nullopt;
  for (std::size_t i = through.size(); i-- > 0;)
    if (through[i] != type(value).dtype) first = rounded(first, through[i]);
  return first;
}

double Reader::rounding(ValueId value) const {
  const std::optional<double> known = number(value);
  if (!known || *known == 0 || !std::isfinite(*known)) return 0;
  double coarsest = 0;
  const auto visit = [&](DType dtype) { coarsest = std::max(coarsest, unit_roundoff(dtype)); };
  visit(type(number_source(*this, value, visit)).dtype);
  return std::ldexp(coarsest, std::ilogb(*known));
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

namespace {

/// Follows axes from a value down to `base`; `top[i]`: axis of the first value that axis i of this one is, or -1.
class Descent {
 public:
  Descent(const Reader& reader, ValueId base) : reader_(reader), base_(base) {}

  std::optional<Integers> from(ValueId value, Integers top, int depth) const {
    const Shape& shape = reader_.shape(value);
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] == 1) top[axis] = -1;
    if (value == base_) return top;
    const Op* op = reader_.op(value);
    if (op == nullptr || depth == 0) return std::nullopt;
    for (const ValueId operand : op->operands) {
      if (operand == no_value || (op->kind == Kind::elementwise && reader_.number(operand))) continue;
      const auto mapped = step(*op, operand, top);
      if (!mapped) return std::nullopt;
      if (auto found = from(operand, *mapped, depth - 1)) return found;
    }
    return std::nullopt;
  }

 private:
  std::optional<Integers> step(const Op& op, ValueId operand, const Integers& top) const {
    const Shape& shape = reader_.shape(operand);
    Integers mapped(shape.size(), -1);
    switch (op.kind) {
      case Kind::convert:
        return top;
      case Kind::elementwise: {
        const std::size_t lead = top.size() - shape.size();
        for (std::size_t i = 0; i < shape.size(); ++i) mapped[i] = top[i + lead];
        return mapped;
      }
      case Kind::transpose:
        for (std::size_t i = 0; i < top.size(); ++i) mapped[at(op.attributes.integers("permutation")[i])] = top[i];
        return mapped;
      case Kind::broadcast:
        for (std::size_t i = 0; i < shape.size(); ++i) mapped[i] = top[at(op.attributes.integers("dims")[i])];
        return mapped;
      case Kind::reshape: {
        const Shape& after = reader_.shape(op.results[0]);
        if (without_ones(shape) != without_ones(after)) return std::nullopt;
        std::size_t next = 0;
        for (std::size_t i = 0; i < shape.size(); ++i) {
          if (shape[i] == 1) continue;
          while (after[next] == 1) ++next;
          mapped[i] = top[next++];
        }
        return mapped;
      }
      default:
        return std::nullopt;
    }
  }

  const Reader& reader_;
  ValueId base_;
};

}  // namespace

std::optional<Integers> Reader::places(ValueId value, ValueId base) const {
  Integers top(shape(value).size());
  std::iota(top.begin(), top.end(), 0);
  constexpr int deepest = 16;
  return Descent(*this, base).from(value, std::move(top), deepest);
}

bool Reader::repeats(ValueId value, const Op& reduce, std::int64_t rank, const Integers& where) const {
  const auto found = places(value, reduce.results[0]);
  if (!found) return false;
  const Integers& dims = reduce.attributes.integers("dims");
  const Shape& before = shape(reduce.operands[0]);
  const std::int64_t lead = rank - static_cast<std::int64_t>(shape(value).size());
  std::size_t next = 0;
  for (std::size_t axis = 0; axis < before.size(); ++axis) {
    const auto own = static_cast<std::int64_t>(axis);
    const bool reduced = std::ranges::count(dims, own) > 0;
    if (!reduced && before[axis] != 1 && (*found)[next] + lead != (where.empty() ? own : where[axis])) return false;
    if (!reduced && before[axis] != 1 && (*found)[next] < 0) return false;
    if (!reduced || reduce.attributes.flag("keep_dims")) ++next;
  }
  return true;
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
  std::ranges::sort(ops, {}, [&](const Op* op) { return reader.order(op->results[0]); });
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
