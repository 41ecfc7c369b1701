// Adjusts extents in attributes, and writes kinds whose parts need further operations.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/body.hpp"

namespace tilesim::partitioning {

namespace {

using Integers = std::vector<std::int64_t>;

/// `values` with the local extents of sharded axes.
Integers narrowed(Integers values, const Shape& whole, const Shape& local) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (whole[i] != local[i]) values[i] = local[i];
  return values;
}

/// Makes the operation read the full local axis, which includes the borders already.
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

/// Axis of a label such as "NCHW".
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
  if (op.kind == Kind::scatter) operands = own_windows(op, rule, division, std::move(operands), attributes);
  if (op.kind == Kind::attention) look_from_place(op, rule, division, operands, attributes);
  if (rule.keys >= 0 && !division[at(rule.keys)].empty())
    return attended(op, division[at(rule.keys)], std::move(operands), std::move(attributes));
  if (rule.scan >= 0 && !division[at(rule.scan)].empty())
    return {scanned(op, operands[0], division[at(rule.scan)], rule.factors[at(rule.scan)].extent)};
  if (rule.join.factor >= 0) return {joined(op, rule, division, operands)};
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
    if (op.kind == Kind::reduce && is_place(attributes.text("combiner")))
      return {
          place_of_extreme(op, operands[0], division[at(rule.operands[0][at(op.attributes.integers("dims")[0])][0])])};
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

/// A device's part of a mean: the sum of its elements over the count of all.
ValueId Body::counted(const Op& op, ValueId local, const Atoms&) {
  const TensorType& whole_type = type(op.operands[0]);
  double count = 1;
  for (const std::int64_t dim : op.attributes.integers("dims")) count *= static_cast<double>(whole_type.shape[at(dim)]);
  Attributes attributes = op.attributes;
  attributes.set("combiner", std::string("add"));
  const ValueId sum = builder_.op(Kind::reduce, {local}, std::move(attributes), op.name)[0];
  return binary(Function::divide, sum, number(count, builder_.type(sum).dtype));
}

/// Bytes that a kind sends within its operation.
double Body::inner_bytes(const Op& op, const Rule& rule, const Division& division) const {
  if (rule.keys >= 0) return attention_bytes(op, rule, division);
  const auto of = [&](const TensorType& local, std::size_t axis) {
    double bytes = static_cast<double>(bits(local.dtype)) / 8;
    for (std::size_t i = 0; i < local.shape.size(); ++i)
      if (i != axis) bytes *= static_cast<double>(local.shape[i]);
    return bytes;
  };
  const bool place = op.kind == Kind::reduce && is_place(op.attributes.text("combiner"));
  if (rule.scan < 0 && !place) return 0;
  const std::size_t axis = at(place ? op.attributes.integers("dims")[0] : op.attributes.integer("dim"));
  const auto parts =
      static_cast<double>(module_.grid.parts(place ? produced(rule, 0, division).partial : division[at(rule.scan)]));
  const Layout layout = layout_of(module_.grid, rule, rule.operands[0], division);
  const double one = of(local_type(module_.grid, type(op.operands[0]), layout), axis);
  return place ? 2 * one * (parts - 1) / parts : one * (parts - 1);
}

/// Adds a collective within an operation, over devices that differ in `atoms`.
ValueId Body::inner(const Op& op, Kind kind, ValueId x, const Atoms& atoms, Attributes attributes,
                    const std::string& why, double bytes) {
  attributes.set("partitions", true);
  attributes.set("groups", module_.grid.groups(atoms));
  attributes.set("group_size", module_.grid.parts(atoms));
  const std::string name = op.name + "." + std::string(info(kind).name);
  const ValueId result = builder_.op(kind, {x}, std::move(attributes), name)[0];
  const GraphFunction& function = module_.out.functions[at(builder_.function_index())];
  module_.inserted.push_back({function.name, function.ops.back().name, std::string(info(kind).name),
                              stem(op.operands[0]), op.name, op.name + " " + why, module_.grid.parts(atoms), bytes});
  return result;
}

/// Index of the extreme over all devices: the lowest index on devices whose extreme equals the global one.
ValueId Body::place_of_extreme(const Op& op, ValueId x, const Atoms& atoms) {
  const bool most = op.attributes.text("combiner") == "argmax";
  const TensorType whole_type = type(op.operands[0]);
  const auto axis = at(op.attributes.integers("dims")[0]);
  Attributes places = op.attributes, values = op.attributes, over;
  places.set("dtype", DType::i64);
  values.set("combiner", std::string(most ? "maximum" : "minimum"));
  values.set("dtype", whole_type.dtype);
  over.set("combiner", std::string(most ? "maximum" : "minimum"));
  const ValueId place = builder_.op(Kind::reduce, {x}, std::move(places), op.name)[0];
  const ValueId own = builder_.op(Kind::reduce, {x}, std::move(values), op.name + ".extreme")[0];
  double bytes = static_cast<double>(bits(whole_type.dtype)) / 8;
  for (const std::int64_t extent : builder_.type(own).shape) bytes *= static_cast<double>(extent);
  const auto parts = static_cast<double>(module_.grid.parts(atoms));
  const ValueId best = inner(op, Kind::all_reduce, own, atoms, std::move(over), "reduces the extreme over all parts",
                             2 * bytes * (parts - 1) / parts);
  ValueId here = binary(Function::equal, own, best);
  if (is_float(whole_type.dtype))  // NaN wins, but equals nothing
    here = binary(Function::logical_or, here, binary(Function::not_equal, own, own));
  // Other devices contribute the last index, which is the largest.
  const ValueId last = whole_number(whole_type.shape[axis] - 1);
  const ValueId found = binary(Function::add, place, shard_index(atoms, builder_.type(x).shape[axis]));
  const ValueId first = builder_.elementwise(Function::select, {here, binary(Function::minimum, found, last), last});
  return builder_.convert(first, type(op.results[0]).dtype);
}

/// Running combination of a device's elements, on top of the totals of preceding devices (reverse: following ones).
ValueId Body::scanned(const Op& op, ValueId x, const Atoms& atoms, std::int64_t extent) {
  const std::string& combiner = op.attributes.text("combiner");
  const bool reverse = op.attributes.flag("reverse");
  const auto axis = at(op.attributes.integer("dim"));
  const std::int64_t parts = module_.grid.parts(atoms), own = builder_.type(x).shape[axis];
  const DType dtype = builder_.type(x).dtype;
  const double neutral = neutral_of(combiner, dtype);
  const auto combined = [&](ValueId a, ValueId b) {
    if (combiner == "add") return binary(Function::add, a, b);
    if (combiner == "multiply") return binary(Function::multiply, a, b);
    return binary(combiner == "maximum" ? Function::maximum : Function::minimum, a, b);
  };
  if (reverse && extent % parts != 0) x = masked(x, axis, atoms, extent, neutral);
  const ValueId local = builder_.op(Kind::cumulative, {x}, op.attributes, op.name)[0];
  const std::int64_t end = reverse ? 0 : own - 1;
  ValueId total = cut(local, axis, end, end + 1);
  if (op.attributes.flag("exclusive")) total = combined(total, cut(x, axis, end, end + 1));
  double bytes = static_cast<double>(bits(dtype)) / 8 * static_cast<double>(parts - 1);
  for (const std::int64_t size : builder_.type(total).shape) bytes *= static_cast<double>(size);
  Attributes gathered, over;
  gathered.set("dim", static_cast<std::int64_t>(axis));
  const ValueId totals =
      inner(op, Kind::all_gather, total, atoms, std::move(gathered), "continues from the totals of other parts", bytes);
  const ValueId place = places(builder_.type(x).shape.size(), axis, parts);
  const ValueId before = binary(reverse ? Function::greater : Function::less, place, shard_index(atoms, 1));
  over.set("dims", Integers{static_cast<std::int64_t>(axis)});
  over.set("combiner", combiner);
  over.set("keep_dims", true);
  const ValueId kept = builder_.elementwise(Function::select, {before, totals, number(neutral, dtype)});
  return combined(builder_.op(Kind::reduce, {kept}, std::move(over))[0], local);
}

}  // namespace tilesim::partitioning
