// Extracts the part of a function that a pattern covers as a separate graph. Axes that must be equal form a class; a
// class whose extent no attribute depends on becomes small, so that a check costs the same at every size.
#include <algorithm>
#include <map>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition {

namespace {

class ExtentClasses {
 public:
  explicit ExtentClasses(const Reader& reader) : reader_(reader) {}

  int class_of(ValueId value, std::size_t axis) {
    const auto [entry, inserted] = classes_.emplace(std::pair{value, axis}, static_cast<int>(parent_.size()));
    if (inserted) {
      parent_.push_back(entry->second);
      extent_.push_back(reader_.shape(value)[axis]);
      fixed_.push_back(false);
    }
    return find(entry->second);
  }
  /// Makes two extents equal; does not join extents that differ (a repeated 1).
  void join(ValueId a, std::size_t a_axis, ValueId b, std::size_t b_axis) {
    const int left = class_of(a, a_axis), right = class_of(b, b_axis);
    if (left == right) return;
    if (extent_[at(left)] != extent_[at(right)]) return;
    parent_[at(right)] = left;
    fixed_[at(left)] = fixed_[at(left)] || fixed_[at(right)];
  }
  void join(ValueId a, ValueId b) {
    for (std::size_t axis = 0; axis < reader_.shape(a).size(); ++axis) join(a, axis, b, axis);
  }
  /// Sets a lower bound on the extent to build.
  void at_least(ValueId value, std::size_t axis, std::int64_t extent) {
    least_.emplace_back(std::pair{value, axis}, extent);
  }
  void fix(ValueId value, std::size_t axis) { fixed_[at(class_of(value, axis))] = true; }
  void fix(ValueId value) {
    for (std::size_t axis = 0; axis < reader_.shape(value).size(); ++axis) fix(value, axis);
  }

  Shape shape(ValueId value) {
    for (const auto& [place, extent] : least_) {  // classes are joined by now
      const int number = class_of(place.first, place.second);
      std::int64_t& size = sizes_.emplace(number, small(number)).first->second;
      size = std::max(size, extent);
    }
    least_.clear();
    Shape result;
    for (std::size_t axis = 0; axis < reader_.shape(value).size(); ++axis) {
      const int number = class_of(value, axis);
      const std::int64_t extent = extent_[at(number)];
      const bool kept = fixed_[at(number)] || extent <= 1;
      result.push_back(kept ? extent : std::min(extent, small(number)));
    }
    return result;
  }

 private:
  int find(int number) const {
    while (parent_[at(number)] != number) number = parent_[at(number)];
    return number;
  }
  /// A small extent, different for each class, so that the check notices swapped axes.
  std::int64_t small(int number) {
    return sizes_.emplace(number, 3 + static_cast<std::int64_t>(sizes_.size()) % 6).first->second;
  }

  const Reader& reader_;
  std::map<std::pair<ValueId, std::size_t>, int> classes_;
  std::vector<int> parent_;
  std::vector<std::int64_t> extent_;
  std::vector<bool> fixed_;
  std::map<int, std::int64_t> sizes_;
  std::vector<std::pair<std::pair<ValueId, std::size_t>, std::int64_t>> least_;
};

/// Joins a reshape's groups of axes with equal products, if a group has one axis on each side.
void join_reshape(const Reader& reader, ExtentClasses& extents, ValueId from, ValueId to) {
  const Shape &a = reader.shape(from), &b = reader.shape(to);
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    std::vector<std::size_t> left, right;
    std::int64_t products[2] = {1, 1};
    do {
      const bool take_left = j >= b.size() || (i < a.size() && products[0] <= products[1]);
      if (take_left) {
        products[0] *= a[i];
        if (a[i] != 1) left.push_back(i);
        ++i;
      } else {
        products[1] *= b[j];
        if (b[j] != 1) right.push_back(j);
        ++j;
      }
    } while (products[0] != products[1] && (i < a.size() || j < b.size()));
    if (left.size() == 1 && right.size() == 1) {
      extents.join(from, left[0], to, right[0]);
      continue;
    }
    for (const std::size_t axis : left) extents.fix(from, axis);
    for (const std::size_t axis : right) extents.fix(to, axis);
  }
}

void join_contract(const Reader& reader, ExtentClasses& extents, const Op& op) {
  const Integers a_batch = op.attributes.integers("a_batch", {}), b_batch = op.attributes.integers("b_batch", {});
  const Integers a_sum = op.attributes.integers("a_contract", {}), b_sum = op.attributes.integers("b_contract", {});
  const ValueId a = op.operands[0], b = op.operands[1], y = op.results[0];
  std::size_t axis = 0;
  for (std::size_t i = 0; i < a_batch.size(); ++i) {
    extents.join(a, at(a_batch[i]), b, at(b_batch[i]));
    extents.join(a, at(a_batch[i]), y, axis++);
  }
  for (std::size_t i = 0; i < a_sum.size(); ++i) extents.join(a, at(a_sum[i]), b, at(b_sum[i]));
  const auto free = [&](ValueId x, const Integers& batch, const Integers& sum) {
    for (std::int64_t i = 0; i < reader.rank(x); ++i)
      if (!std::ranges::count(batch, i) && !std::ranges::count(sum, i)) extents.join(x, at(i), y, axis++);
  };
  free(a, a_batch, a_sum);
  free(b, b_batch, b_sum);
  if (op.operands.size() > 2) {
    for (std::size_t i = 2; i < op.operands.size(); ++i)
      if (op.operands[i] != no_value) extents.fix(op.operands[i]);
    extents.fix(y);
  }
}

/// Joins batch, channel and spatial axes; an image gets the extent of a few windows.
void join_convolution(const Reader& reader, ExtentClasses& extents, const Op& op) {
  const Attributes& attributes = op.attributes;
  const std::string &xs = attributes.text("x_labels"), &ws = attributes.text("w_labels"),
                    &ys = attributes.text("y_labels");
  const ValueId x = op.operands[0], w = op.operands[1], y = op.results[0];
  const bool grouped = attributes.integer("groups", 1) != 1 || attributes.integer("batch_groups", 1) != 1;
  extents.join(x, xs.find('N'), y, ys.find('N'));
  extents.join(w, ws.find('O'), y, ys.find('C'));
  extents.join(x, xs.find('C'), w, ws.find('I'));
  if (grouped) {
    extents.fix(x, xs.find('C'));
    extents.fix(w, ws.find('I'));
    extents.fix(w, ws.find('O'));
    extents.fix(x, xs.find('N'));
  }
  std::size_t spatial = 0;
  const Integers strides = attributes.integers("strides", {}), dilations = attributes.integers("window_dilation", {});
  for (const char letter : xs) {
    if (letter == 'N' || letter == 'C') continue;
    extents.fix(w, ws.find(letter));
    const std::int64_t taps = reader.shape(w)[ws.find(letter)];
    const std::int64_t reach = (taps - 1) * (dilations.empty() ? 1 : dilations[spatial]) + 1;
    extents.at_least(x, xs.find(letter), reach + 2 * (strides.empty() ? 1 : strides[spatial]));
    ++spatial;
  }
  if (op.operands.size() > 2 && op.operands[2] != no_value) extents.join(op.operands[2], 0, y, ys.find('C'));
}

void join_aligned(const Reader& reader, ExtentClasses& extents, const Op& op) {
  const ValueId y = op.results[0];
  for (const ValueId x : op.operands) {
    const auto lead = at(reader.rank(y) - reader.rank(x));
    for (std::size_t axis = 0; axis < reader.shape(x).size(); ++axis) extents.join(x, axis, y, axis + lead);
  }
}

void join_reduce(const Reader& reader, ExtentClasses& extents, const Op& op) {
  const Integers dims = op.attributes.integers("dims");
  const bool keep = op.attributes.flag("keep_dims");
  std::size_t axis = 0;
  for (std::int64_t i = 0; i < reader.rank(op.operands[0]); ++i) {
    const bool reduced = std::ranges::count(dims, i) > 0;
    if (!reduced) extents.join(op.operands[0], at(i), op.results[0], axis);
    if (!reduced || keep) ++axis;
  }
  const std::string& combiner = op.attributes.text("combiner");
  if (combiner == "add" || combiner == "multiply")  // a mean may divide by the extent
    for (const std::int64_t dim : dims) extents.fix(op.operands[0], at(dim));
}

void join_normalize(ExtentClasses& extents, const Op& op) {
  const Integers dims = op.attributes.integers("dims", {});
  extents.join(op.operands[0], op.results[0]);
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i] == no_value) continue;
    if (dims.empty()) extents.fix(op.operands[i]);  // by groups
    for (std::size_t k = 0; i > 0 && k < dims.size(); ++k) extents.join(op.operands[i], k, op.operands[0], at(dims[k]));
  }
}

void join(const Reader& reader, ExtentClasses& extents, const Op& op) {
  const ValueId y = op.results[0], x = op.operands.empty() ? no_value : op.operands[0];
  switch (op.kind) {
    case Kind::elementwise:
      return join_aligned(reader, extents, op);
    case Kind::convert:
    case Kind::softmax:
    case Kind::log_softmax:
    case Kind::reverse:
      return extents.join(x, y);
    case Kind::transpose: {
      const Integers& permutation = op.attributes.integers("permutation");
      for (std::size_t i = 0; i < permutation.size(); ++i) extents.join(x, at(permutation[i]), y, i);
      return;
    }
    case Kind::broadcast: {
      const Integers& dims = op.attributes.integers("dims");
      for (std::size_t i = 0; i < dims.size(); ++i) extents.join(x, i, y, at(dims[i]));
      return;
    }
    case Kind::reduce:
      return join_reduce(reader, extents, op);
    case Kind::contract:
      return join_contract(reader, extents, op);
    case Kind::convolution:
      return join_convolution(reader, extents, op);
    case Kind::reshape:
      return join_reshape(reader, extents, x, y);
    case Kind::slice: {
      for (std::size_t i = 0; i < reader.shape(x).size(); ++i) {
        extents.join(x, i, y, i);
        if (reader.shape(x)[i] == reader.shape(y)[i]) continue;
        extents.fix(x, i);
        extents.fix(y, i);
      }
      return;
    }
    case Kind::concat: {
      const auto dim = at(op.attributes.integer("dim"));
      for (const ValueId part : op.operands) {
        extents.join(part, y);
        extents.fix(part, dim);
      }
      return extents.fix(y, dim);
    }
    case Kind::normalize:
      return join_normalize(extents, op);
    default:
      for (const ValueId value : op.operands)
        if (value != no_value) extents.fix(value);
      extents.fix(y);
  }
}

/// Changes the attributes that contain extents to the new extents.
void resize(const Reader& reader, ExtentClasses& extents, const Op& op, Attributes& attributes) {
  if (op.results.empty()) return;
  if (op.kind == Kind::broadcast || op.kind == Kind::reshape || op.kind == Kind::iota)
    attributes.set("shape", extents.shape(op.results[0]));
  if (op.kind != Kind::slice) return;
  Integers limit = op.attributes.integers("limit");
  const Shape before = reader.shape(op.operands[0]), now = extents.shape(op.operands[0]);
  for (std::size_t i = 0; i < limit.size(); ++i)
    if (limit[i] == before[i]) limit[i] = now[i];
  attributes.set("limit", limit);
}

DType widened(DType dtype, bool wide) { return wide && is_float(dtype) ? DType::f64 : dtype; }

}  // namespace

std::optional<Graph> extracted(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops,
                               bool wide) {
  ExtentClasses extents(reader);
  for (const Op* op : ops) {
    join(reader, extents, *op);
    if (candidate.whole)
      for (const ValueId value : op->results) extents.fix(value);
  }
  if (candidate.whole)
    for (const ValueId value : candidate.leaves) extents.fix(value);
  Graph graph;
  Builder builder(graph, "part");
  std::map<ValueId, ValueId> made;
  for (const ValueId leaf : candidate.leaves)
    made.emplace(leaf, builder.input("x" + std::to_string(made.size()),
                                     {widened(reader.type(leaf).dtype, wide), extents.shape(leaf)}));
  try {
    for (const Op* op : ops) {
      const ValueId result = op->results[0];
      const DType dtype = widened(reader.type(result).dtype, wide);
      if (op->kind == Kind::constant) {
        if (!reader.number(result)) {
          Weight own = *reader.weight(result);
          own.data = own.data.to(dtype);
          own.type.dtype = dtype;
          made[result] = builder.weight("w" + std::to_string(made.size()), std::move(own));
          continue;
        }
        const Shape& shape = reader.shape(result);
        const ValueId number = builder.scalar(*reader.number(result), dtype);
        Attributes attributes;
        attributes.set("shape", extents.shape(result));
        attributes.set("dims", Integers{});
        made[result] = shape.empty() ? number : builder.op(Kind::broadcast, {number}, attributes)[0];
        continue;
      }
      Values operands;
      for (const ValueId id : op->operands) operands.push_back(id == no_value ? no_value : made.at(id));
      if (op->kind == Kind::convert && wide && is_float(dtype) && builder.type(operands[0]).dtype == dtype) {
        made[result] = operands[0];
        continue;
      }
      Attributes attributes = op->attributes;
      resize(reader, extents, *op, attributes);
      if (const Attribute* named = attributes.find("dtype"); wide && named && is_float(std::get<DType>(*named)))
        attributes.set("dtype", DType::f64);
      made[result] = builder.op(op->kind, operands, attributes)[0];
    }
    builder.output(made.at(candidate.root));
    builder.finish();
  } catch (const UserError&) {  // extents that belong together in a way that is not known here
    return std::nullopt;
  }
  return graph;
}

Graph replacement(const Candidate& candidate, const std::vector<TensorType>& leaves) {
  Graph graph;
  Builder builder(graph, "replacement");
  Values inputs;
  for (const TensorType& type : leaves) inputs.push_back(builder.input("x" + std::to_string(inputs.size()), type));
  ValueId made = candidate.build(builder, inputs);
  if (std::ranges::find(inputs, made) != inputs.end()) made = builder.op(Kind::copy, {made})[0];
  builder.output(made);
  builder.finish();
  return graph;
}

}  // namespace tilesim::recognition
