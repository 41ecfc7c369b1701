#include "tilesim/graph/patterns/rewriting.hpp"

#include <algorithm>
#include <numeric>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition {

ValueId Rewriting::emit(Kind kind, std::vector<ValueId> operands, Attributes attributes) {
  Op op;
  op.kind = kind;
  op.name = names_.taken(now_->name + "." + std::string(info(kind).name));
  op.source = now_->source;
  op.operands = std::move(operands);
  op.attributes = std::move(attributes);
  op.results = {static_cast<ValueId>(function_.values.size())};
  function_.values.push_back({op.name, infer_results(graph_, function_, op)[0]});
  keep(op);
  return op.results[0];
}
void Rewriting::keep(const Op& op) {
  for (const ValueId id : op.results) producer_[id] = function_.ops.size();
  function_.ops.push_back(op);
}

void Rewriting::become(ValueId value, std::string after) {
  Op copy;
  copy.kind = Kind::copy;
  copy.name = now_->name;
  copy.source = now_->source;
  copy.operands = {value};
  copy.results = now_->results;
  keep(copy);
  changes_.push_back(
      {"indices", function_.name, now_->name, std::string(info(now_->kind).name), std::move(after), now_->source});
}

const Op* Rewriting::maker(ValueId value) const {
  const auto found = producer_.find(value);
  return found == producer_.end() ? nullptr : &function_.ops[found->second];
}

ValueId Rewriting::small(ValueId value) const {
  const auto found = small_.find(value);
  return found == small_.end() ? value : found->second;
}

void Rewriting::narrow_to(const Op& op, ValueId value) {
  if (shape(value) != shape(op.results[0])) small_[op.results[0]] = value;
}

void Rewriting::narrow(const Op& op) {
  if (op.results.size() != 1 || element_count(shape(op.results[0])) == 0) return;
  const ValueId x = op.operands.empty() ? no_value : op.operands[0];
  const Shape to = shape(op.results[0]);
  switch (op.kind) {
    case Kind::broadcast: {
      const Integers& dims = op.attributes.integers("dims");
      const ValueId source = small(x);
      Shape shape(to.size(), 1);
      for (std::size_t i = 0; i < dims.size(); ++i) shape[at(dims[i])] = this->shape(source)[i];
      if (shape == to) return;
      return narrow_to(op, std::ranges::is_sorted(dims) ? reshape(source, shape) : broadcast(source, shape, dims));
    }
    case Kind::iota: {
      const std::int64_t dim = op.attributes.integer("dim");
      Attributes attributes = op.attributes;
      Shape shape(to.size(), 1);
      shape[at(dim)] = to[at(dim)];
      attributes.set("shape", shape);
      if (shape != to) narrow_to(op, emit(Kind::iota, {}, std::move(attributes)));
      return;
    }
    case Kind::transpose:
      if (small_.count(x)) narrow_to(op, emit(Kind::transpose, {small(x)}, op.attributes));
      return;
    case Kind::slice: {
      if (!small_.count(x)) return;
      Integers start = op.attributes.integers("start"), limit = op.attributes.integers("limit"),
               stride = op.attributes.integers("stride", Integers(to.size(), 1));
      for (std::size_t axis = 0; axis < to.size(); ++axis)
        if (shape(small(x))[axis] == 1) start[axis] = 0, limit[axis] = 1, stride[axis] = 1;
      return narrow_to(op, sliced(small(x), start, limit, stride));
    }
    case Kind::reshape:
      if (small_.count(x))
        if (const auto shape = narrow_reshaped(this->shape(x), this->shape(small(x)), to))
          narrow_to(op, reshape(small(x), *shape));
      return;
    case Kind::concat:
      return narrow_concat(op);
    default:
      return;
  }
}

void Rewriting::narrow_concat(const Op& op) {
  const Shape to = shape(op.results[0]);
  const std::size_t dim = at(op.attributes.integer("dim"));
  Shape shape(to.size(), 1);
  for (const ValueId part : op.operands)
    for (std::size_t axis = 0; axis < to.size(); ++axis)
      if (this->shape(small(part))[axis] != 1 || axis == dim) shape[axis] = to[axis];
  if (shape == to) return;
  std::vector<ValueId> parts;
  for (const ValueId part : op.operands) {
    shape[dim] = this->shape(part)[dim];
    parts.push_back(widened(small(part), shape));
  }
  return narrow_to(op, emit(Kind::concat, parts, op.attributes));
}

/// A part of x, taken before x gets axes of extent 1: a tensor with such axes has no layout of its own.
ValueId Rewriting::sliced(ValueId x, const Shape& start, const Shape& limit, const Shape& stride) {
  const Op* made = maker(x);
  if (made == nullptr || made->kind != Kind::reshape) return slice(x, start, limit, stride);
  const ValueId source = made->operands[0];
  const Shape &own = shape(source), &with_units = shape(x);
  Shape first, last, step, result;
  for (std::size_t axis = 0; axis < with_units.size(); ++axis) {
    result.push_back(ceil_div(limit[axis] - start[axis], stride[axis]));
    if (first.size() < own.size() && with_units[axis] == own[first.size()]) {
      first.push_back(start[axis]);
      last.push_back(limit[axis]);
      step.push_back(stride[axis]);
    } else if (with_units[axis] != 1) {
      return slice(x, start, limit, stride);
    }
  }
  if (first.size() < own.size()) return slice(x, start, limit, stride);
  return reshape(slice(source, first, last, step), result);
}

ValueId Rewriting::widened(ValueId x, const Shape& to) {
  Integers dims(to.size());
  std::iota(dims.begin(), dims.end(), 0);
  return broadcast(x, to, dims);
}

bool Rewriting::compute_once(const Op& op) {
  const Shape to = shape(op.results[0]);
  const std::size_t rank = to.size();
  if (element_count(to) == 0) return false;
  std::vector<ValueId> operands;
  Shape once(rank, 1);
  for (const ValueId id : op.operands) {
    operands.push_back(small(id));
    const Shape& own = shape(operands.back());
    for (std::size_t axis = 0; axis < own.size(); ++axis)
      once[rank - own.size() + axis] = std::max(once[rank - own.size() + axis], own[axis]);
  }
  if (once == to) return false;
  Op narrow = op;  // keeps its name: it is what computes
  narrow.operands = operands;
  narrow.results = {static_cast<ValueId>(function_.values.size())};
  function_.values.push_back({names_.taken(op.name + ".once"), infer_results(graph_, function_, narrow)[0]});
  keep(narrow);
  const ValueId value = reshape(narrow.results[0], once);
  Op wide;
  wide.kind = Kind::broadcast;
  wide.name = names_.taken(op.name + ".broadcast");
  wide.source = op.source;
  wide.operands = {value};
  Integers dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  wide.attributes.set("shape", to);
  wide.attributes.set("dims", dims);
  wide.results = op.results;
  keep(wide);
  small_[op.results[0]] = value;
  return true;
}

}  // namespace tilesim::recognition
