// What a kind says in its attributes about extents, and kinds whose parts need more than the kind itself.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/body.hpp"

namespace tilesim::partitioning {

namespace {

using Integers = std::vector<std::int64_t>;

/// `values` with the extents of axes that a device has only a part of.
Integers narrowed(Integers values, const Shape& whole, const Shape& local) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (whole[i] != local[i]) values[i] = local[i];
  return values;
}

/// The operation reads all of an axis that has its borders already, from its first element on.
void read_all(const Op& op, const Halo& halo, const Borders& borders, Attributes& attributes) {
  const auto set = [&](const char* name, std::size_t index, std::size_t count, std::int64_t value) {
    Integers values = attributes.integers(name, Integers(count, 0));
    values[index] = value;
    attributes.set(name, values);
  };
  const std::size_t axis = halo.axis;
  if (op.kind == Kind::slice) {
    set("start", axis, 0, 0);
    set("limit", axis, 0, borders.length);
  } else if (op.kind == Kind::pad) {
    set("low", axis, 0, borders.low);
    set("high", axis, 0, borders.high);
  } else {
    const std::string& labels = op.attributes.text("x_labels", "");
    const bool convolution = op.kind == Kind::convolution;
    const auto before = convolution ? std::count_if(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(axis),
                                                    [](char letter) { return letter != 'N' && letter != 'C'; })
                                    : static_cast<std::ptrdiff_t>(axis);
    const std::size_t count = 2 * (convolution ? labels.size() - 2 : attributes.integers("window").size());
    set("pads", 2 * at(before), count, borders.low);
    set("pads", 2 * at(before) + 1, count, borders.high);
  }
}

/// Axis of a label ("NCHW").
std::size_t label(const Op& op, const char* attribute, char letter) {
  return op.attributes.text(attribute).find(letter);
}

}  // namespace

Attributes Body::localized(const Op& op, const std::vector<ValueId>& operands, const std::vector<TensorType>& results) {
  Attributes attributes = op.attributes;
  const auto local = [&](std::size_t i) -> const Shape& { return builder_.type(operands[i]).shape; };
  const auto all = [&](std::size_t i) -> const Shape& { return type(op.operands[i]).shape; };
  switch (op.kind) {
    case Kind::reshape:
    case Kind::broadcast:
    case Kind::iota:
      attributes.set("shape", results[0].shape);
      break;
    case Kind::dynamic_slice:
      attributes.set("sizes", results[0].shape);
      break;
    case Kind::slice:
      attributes.set("limit", narrowed(attributes.integers("limit"), all(0), local(0)));
      break;
    case Kind::gather: {
      Integers sizes = attributes.integers("slice_sizes");
      for (std::size_t i = 0; i < sizes.size(); ++i)
        if (sizes[i] == all(0)[i]) sizes[i] = std::min(sizes[i], local(0)[i]);
      attributes.set("slice_sizes", sizes);
      break;
    }
    case Kind::convolution:
      if (attributes.integer("groups", 1) > 1)
        attributes.set("groups", local(0)[label(op, "x_labels", 'C')] / local(1)[label(op, "w_labels", 'I')]);
      if (attributes.integer("batch_groups", 1) > 1)
        attributes.set("batch_groups",
                       local(0)[label(op, "x_labels", 'N')] / results[0].shape[label(op, "y_labels", 'N')]);
      break;
    case Kind::normalize:
      if (attributes.text("mode") == "group")
        attributes.set("groups", attributes.integer("groups", 1) * local(0)[1] / all(0)[1]);
      break;
    default:
      break;
  }
  return attributes;
}

std::vector<ValueId> Body::emit(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId> operands,
                                const std::vector<TensorType>& results, const Atoms& partial) {
  Attributes attributes = localized(op, operands, results);
  for (const Halo& halo : rule.halos)
    if (const std::int64_t parts = module_.grid.parts(division[at(halo.factor)]); parts > 1)
      read_all(op, halo, borders_of(halo, rule.factors[at(halo.factor)].extent, parts), attributes);
  if (op.kind == Kind::scatter) operands[1] = own_rows(rule, division, operands);
  if (!partial.empty()) {
    if (op.kind == Kind::embedding || op.kind == Kind::gather) {
      const auto rows = std::ranges::find(rule.factors, "rows", &Factor::name);
      return {rows_of_table(op, operands, std::move(attributes), division[at(rows - rule.factors.begin())])};
    }
    const bool biased = (op.kind == Kind::contract || op.kind == Kind::convolution) && operands.size() > 2;
    if (biased && operands[2] != no_value) operands[2] = once(operands[2], partial);
    if (op.kind == Kind::scatter) operands[0] = once(operands[0], partial);
    if (op.kind == Kind::reduce && attributes.text("combiner") == "mean") return {counted(op, operands[0], partial)};
  }
  std::vector<std::int32_t> functions;
  for (const std::int32_t callee : op.functions) functions.push_back(module_.copy_function(callee));
  if (op.kind == Kind::constant) {
    const std::string& reference = attributes.text("reference");
    return {builder_.weight(reference, module_.source.weights.at(reference))};
  }
  std::vector<ValueId> made = builder_.op(op.kind, std::move(operands), std::move(attributes), op.name,
                                          static_cast<int>(op.results.size()), std::move(functions));
  if (op.kind == Kind::iota) {
    const auto dim = at(op.attributes.integer("dim"));
    const Atoms& atoms = division[at(rule.results[0][dim][0])];
    if (!atoms.empty()) {
      const ValueId start = builder_.convert(shard_index(atoms, results[0].shape[dim]), results[0].dtype);
      made[0] = binary(Function::add, made[0], start);
    }
  }
  return made;
}

/// Rows that a device has not are zero; one device has each.
ValueId Body::rows_of_table(const Op& op, const std::vector<ValueId>& operands, Attributes attributes,
                            const Atoms& atoms) {
  const bool gather = op.kind == Kind::gather;
  const auto axis = gather ? at(op.attributes.integers("start_index_map")[0]) : 0;
  const std::int64_t rows = builder_.type(operands[0]).shape[axis], all = type(op.operands[0]).shape[axis];
  const auto whole_number = [&](std::int64_t value) { return number(static_cast<double>(value), DType::i64); };
  ValueId ids = builder_.convert(operands[1], DType::i64);
  if (gather) ids = builder_.elementwise(Function::clamp, {whole_number(0), ids, whole_number(all - 1)});
  const ValueId own = binary(Function::subtract, ids, shard_index(atoms, rows));
  const ValueId inside = binary(Function::logical_and, binary(Function::greater_equal, own, whole_number(0)),
                                binary(Function::less, own, whole_number(rows)));
  const ValueId legal = builder_.elementwise(Function::select, {inside, own, whole_number(0)});
  const ValueId found = builder_.op(op.kind, {operands[0], legal}, std::move(attributes), op.name)[0];
  // Axes of the result that the indices have not are 1.
  Shape wide(builder_.type(found).shape.size(), 1);
  Shape batch = builder_.type(inside).shape;
  Integers offsets{static_cast<std::int64_t>(wide.size()) - 1};
  if (gather) {
    offsets = op.attributes.integers("offset_dims");
    const auto vector = op.attributes.integer("index_vector_dim");
    if (vector < static_cast<std::int64_t>(batch.size())) batch.erase(batch.begin() + vector);
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < wide.size(); ++i)
    if (std::ranges::find(offsets, static_cast<std::int64_t>(i)) == offsets.end()) wide[i] = batch[next++];
  return builder_.elementwise(Function::select,
                              {builder_.reshape(inside, wide), found, number(0, builder_.type(found).dtype)});
}

/// Indices of a scatter from the first row on that a device has.
ValueId Body::own_rows(const Rule& rule, const Division& division, const std::vector<ValueId>& operands) {
  for (std::size_t axis = 0; axis < rule.operands[0].size(); ++axis)
    for (const int factor : rule.operands[0][axis]) {
      const Atoms& atoms = division[at(factor)];
      if (rule.factors[at(factor)].name != "rows" || atoms.empty()) continue;
      const std::int64_t rows = builder_.type(operands[0]).shape[axis];
      return binary(Function::subtract, builder_.convert(operands[1], DType::i64), shard_index(atoms, rows));
    }
  return operands[1];
}

/// A part of a mean: the sum of what is here, over the count of all.
ValueId Body::counted(const Op& op, ValueId local, const Atoms&) {
  const TensorType& whole_type = type(op.operands[0]);
  double count = 1;
  for (const std::int64_t dim : op.attributes.integers("dims")) count *= static_cast<double>(whole_type.shape[at(dim)]);
  Attributes attributes = op.attributes;
  attributes.set("combiner", std::string("add"));
  const ValueId sum = builder_.op(Kind::reduce, {local}, std::move(attributes), op.name)[0];
  return binary(Function::divide, sum, number(count, builder_.type(sum).dtype));
}

}  // namespace tilesim::partitioning
