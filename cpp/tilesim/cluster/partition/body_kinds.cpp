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
  if (op.kind == Kind::scatter) operands[1] = own_indices(op, rule, division, operands);
  if (op.kind == Kind::attention && rules_of_kinds::sees_by_place(op)) {
    const auto queries = std::ranges::find(rule.factors, "s", &Factor::name);
    look_from_place(op, division[at(queries - rule.factors.begin())], operands, attributes);
  }
  if (op.kind == Kind::dynamic_update) return {own_update(op, rule, division, std::move(operands))};
  if (!partial.empty()) {
    if (op.kind == Kind::slice || op.kind == Kind::dynamic_slice) return {piece(op, rule, division, operands)};
    if (op.kind == Kind::embedding || op.kind == Kind::gather)
      return {rows_of_table(op, rule, division, std::move(operands), std::move(attributes))};
    const bool biased = (op.kind == Kind::contract || op.kind == Kind::convolution) && operands.size() > 2;
    if (biased && operands[2] != no_value) operands[2] = once(operands[2], partial);
    if (op.kind == Kind::scatter) {
      const double neutral = neutral_of(attributes.text("combiner"), builder_.type(operands[0]).dtype);
      operands[0] = once(operands[0], partial, neutral);
    }
    if (op.kind == Kind::reduce && attributes.text("combiner") == "mean") return {counted(op, operands[0], partial)};
  }
  if (op.kind == Kind::gather) operands[1] = own_indices(op, rule, division, operands);
  std::vector<std::int32_t> functions;
  for (const std::int32_t callee : op.functions) functions.push_back(module_.copy_function(callee));
  if (op.kind == Kind::constant) {
    const std::string& reference = attributes.text("reference");
    return {builder_.weight(reference, module_.source.weights.at(reference))};
  }
  std::vector<ValueId> made = builder_.op(op.kind, std::move(operands), std::move(attributes), op.name,
                                          static_cast<int>(op.results.size()), std::move(functions));
  if (op.kind == Kind::reverse) made[0] = mirrored(op, rule, division, made[0]);
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
