// Kinds with positions on a sharded axis: each device reads or writes the positions in its part; attentions with
// sharded queries or keys.
#include <algorithm>
#include <limits>
#include <numeric>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/body.hpp"
#include "tilesim/graph/attention.hpp"

namespace tilesim::partitioning {

namespace {

using Integers = std::vector<std::int64_t>;

}  // namespace

Atoms atoms_of(const Rule& rule, const Division& division, std::size_t operand, std::size_t axis) {
  for (const int factor : rule.operands[operand][axis])
    if (!division[at(factor)].empty()) return division[at(factor)];
  return {};
}

ValueId Body::clamped(std::int64_t low, ValueId x, std::int64_t high) {
  return builder_.elementwise(Function::clamp, {whole_number(low), x, whole_number(high)});
}

/// A constant list along one axis.
ValueId Body::listed(const Integers& values, std::size_t rank, std::size_t axis) {
  Weight list;
  Shape shape(rank, 1);
  shape[axis] = static_cast<std::int64_t>(values.size());
  list.type = {DType::i64, shape};
  list.source = Weight::Source::data;
  list.trainable = false;
  list.data = Array(DType::i64, shape);
  std::string name = "list.axis" + std::to_string(axis) + "of" + std::to_string(rank);
  for (std::size_t i = 0; i < values.size(); ++i) {
    list.data.as<std::int64_t>()[i] = values[i];
    name += "." + std::to_string(values[i]);
  }
  return builder_.weight(name, std::move(list));
}

/// 0, 1, ... along one axis.
ValueId Body::places(std::size_t rank, std::size_t axis, std::int64_t extent) {
  Shape shape(rank, 1);
  shape[axis] = extent;
  Attributes attributes;
  attributes.set("shape", shape);
  attributes.set("dtype", DType::i64);
  attributes.set("dim", static_cast<std::int64_t>(axis));
  return builder_.op(Kind::iota, {}, std::move(attributes))[0];
}

ValueId Body::taken(ValueId x, std::size_t axis, ValueId start, std::int64_t size) {
  Integers sizes = builder_.type(x).shape;
  sizes[axis] = size;
  const ValueId zero = sizes.size() > 1 ? whole_number(0) : no_value;
  std::vector<ValueId> operands{x};
  for (std::size_t i = 0; i < sizes.size(); ++i) operands.push_back(i == axis ? start : zero);
  Attributes attributes;
  attributes.set("sizes", sizes);
  return builder_.op(Kind::dynamic_slice, std::move(operands), std::move(attributes))[0];
}

/// Pads both ends of an axis with zeros.
ValueId Body::padded_around(ValueId x, std::size_t axis, std::int64_t by) {
  Integers wide(builder_.type(x).shape.size(), 0);
  wide[axis] = by;
  Attributes attributes;
  attributes.set("low", wide);
  attributes.set("high", wide);
  return builder_.op(Kind::pad, {x}, std::move(attributes))[0];
}

/// Start of a piece of `size` elements, relative to a device's first element.
ValueId Body::start_of(const Op& op, const std::vector<ValueId>& operands, std::size_t axis, std::int64_t size,
                       const Atoms& atoms, std::int64_t part) {
  const std::int64_t extent = type(op.operands[0]).shape[axis];
  const std::size_t first = op.kind == Kind::dynamic_update ? 2 : 1;
  const ValueId start = op.kind == Kind::slice
                            ? whole_number(op.attributes.integers("start")[axis])
                            : clamped(0, builder_.convert(operands[first + axis], DType::i64), extent - size);
  return binary(Function::subtract, start, shard_index(atoms, part));
}

/// The elements of a piece of a sharded axis that a device holds; zeros elsewhere.
ValueId Body::piece(const Op& op, const Rule& rule, const Division& division, const std::vector<ValueId>& operands) {
  const Shape& wanted = type(op.results[0]).shape;
  const Shape local = builder_.type(operands[0]).shape;
  const auto rank = local.size();
  Attributes attributes = op.attributes;
  Integers sizes = local, starts(rank, 0), limits = local, strides(rank, 1);
  std::vector<ValueId> others = operands;
  std::vector<std::size_t> pieces;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const bool apart = std::ranges::any_of(rule.operands[0][axis], [&](int factor) {
      return rule.factors[at(factor)].instead && !division[at(factor)].empty();
    });
    if (apart) {
      pieces.push_back(axis);
      if (op.kind == Kind::dynamic_slice) others[axis + 1] = whole_number(0);
      continue;
    }
    if (wanted[axis] != type(op.operands[0]).shape[axis]) sizes[axis] = wanted[axis];
    if (op.kind != Kind::slice) continue;
    const bool divided = wanted[axis] != type(op.operands[0]).shape[axis] && !atoms_of(rule, division, 0, axis).empty();
    starts[axis] = divided ? 0 : op.attributes.integers("start")[axis];
    limits[axis] = divided || local[axis] != type(op.operands[0]).shape[axis] ? local[axis]
                                                                              : op.attributes.integers("limit")[axis];
    strides[axis] = op.attributes.integers("stride", Integers(rank, 1))[axis];
  }
  ValueId x = operands[0];
  if (op.kind == Kind::slice) {
    attributes.set("start", starts);
    attributes.set("limit", limits);
    attributes.set("stride", strides);
    x = builder_.op(op.kind, {x}, std::move(attributes))[0];
  } else if (sizes != local) {
    attributes.set("sizes", sizes);
    x = builder_.op(op.kind, std::move(others), std::move(attributes))[0];
  }
  for (const std::size_t axis : pieces) {
    const std::int64_t size = wanted[axis], part = local[axis], window = std::min(size, part);
    const ValueId start = start_of(op, operands, axis, size, atoms_of(rule, division, 0, axis), part);
    const ValueId own = clamped(0, start, part - window);
    x = padded_around(taken(x, axis, own, window), axis, size);
    const ValueId shift = binary(Function::add, binary(Function::subtract, start, own), whole_number(size));
    x = taken(x, axis, shift, size);  // a piece on other devices only: clamped into the zeros
  }
  return x;
}

/// An update of a sharded axis: each device writes the elements in its part and keeps the others.
ValueId Body::own_update(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId> operands) {
  const Shape local = builder_.type(operands[0]).shape;
  const auto rank = local.size();
  ValueId update = operands[1], all = no_value;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t size = type(op.operands[1]).shape[axis], part = local[axis];
    const Atoms atoms = atoms_of(rule, division, 0, axis);
    if (atoms.empty() || size == type(op.operands[0]).shape[axis]) continue;
    const std::int64_t window = std::min(size, part);
    const ValueId start = start_of(op, operands, axis, size, atoms, part), own = clamped(0, start, part - window);
    const ValueId shift = binary(Function::subtract, own, start);  // start of the window in the update
    update =
        taken(padded_around(update, axis, window), axis, binary(Function::add, shift, whole_number(window)), window);
    const ValueId place = binary(Function::add, places(rank, axis, window), shift);
    const ValueId inside = binary(Function::logical_and, binary(Function::greater_equal, place, whole_number(0)),
                                  binary(Function::less, place, whole_number(size)));
    all = all == no_value ? inside : binary(Function::logical_and, all, inside);
    operands[axis + 2] = own;
  }
  if (all != no_value) {
    Attributes attributes;
    attributes.set("sizes", builder_.type(update).shape);
    std::vector<ValueId> there{operands[0]};
    // Starts must have one dtype: all get that of the sharded axes.
    for (std::size_t i = 2; i < operands.size(); ++i) {
      operands[i] = builder_.convert(operands[i], DType::i64);
      there.push_back(operands[i]);
    }
    const ValueId before = builder_.op(Kind::dynamic_slice, std::move(there), std::move(attributes))[0];
    operands[1] = builder_.elementwise(Function::select, {all, update, before});
  }
  return builder_.op(op.kind, std::move(operands), op.attributes, op.name)[0];
}

/// Sends parts of reversed axes to the devices at the other end, for all axes at once.
ValueId Body::mirrored(const Op& op, const Rule& rule, const Division& division, ValueId x) {
  const double bytes = mirror_bytes(op, rule, division);
  if (bytes == 0) return x;
  const Grid& grid = module_.grid;
  Integers target(at(grid.devices()));
  std::iota(target.begin(), target.end(), 0);
  std::int64_t parts = 1;
  std::string axes;
  for (const std::int64_t axis : op.attributes.integers("dims")) {
    const Atoms atoms = atoms_of(rule, division, 0, at(axis));
    if (atoms.empty()) continue;
    const Integers groups = grid.groups(atoms);
    const std::int64_t own = grid.parts(atoms);
    Integers opposite(target.size());
    for (std::size_t start = 0; start < groups.size(); start += at(own))
      for (std::int64_t i = 0; i < own; ++i) opposite[at(groups[start + at(i)])] = groups[start + at(own - 1 - i)];
    for (std::int64_t& device : target) device = opposite[at(device)];
    parts *= own;
    axes += (axes.empty() ? " " : ", ") + std::to_string(axis);
  }
  Integers pairs;
  for (std::size_t device = 0; device < target.size(); ++device)
    pairs.insert(pairs.end(), {static_cast<std::int64_t>(device), target[device]});
  Attributes attributes;
  attributes.set("partitions", true);
  attributes.set("pairs", pairs);
  const std::string of = stem(op.results[0]);
  x = builder_.op(Kind::permute_devices, {x}, std::move(attributes), of + ".mirror")[0];
  const GraphFunction& function = module_.out.functions[at(builder_.function_index())];
  module_.inserted.push_back({function.name, function.ops.back().name, "permute_devices", of, op.name,
                              op.name + " turns axis" + axes + ", whose parts change places", parts, bytes});
  return x;
}

double Body::mirror_bytes(const Op& op, const Rule& rule, const Division& division) const {
  if (op.kind != Kind::reverse || std::ranges::all_of(op.attributes.integers("dims"), [&](std::int64_t axis) {
        return atoms_of(rule, division, 0, at(axis)).empty();
      }))
    return 0;
  const TensorType local =
      local_type(module_.grid, type(op.operands[0]), layout_of(module_.grid, rule, rule.operands[0], division));
  double bytes = static_cast<double>(bits(local.dtype)) / 8;
  for (const std::int64_t extent : local.shape) bytes *= static_cast<double>(extent);
  return bytes;
}

// --- attentions: visibility, and split keys ---

/// Replaces attributes by a mask of global positions if queries or keys are sharded, and counts the number of keys from
/// a part's first key.
void Body::look_from_place(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId>& operands,
                           Attributes& attributes) {
  const auto factor = [&](const char* name) {
    return at(std::ranges::find(rule.factors, name, &Factor::name) - rule.factors.begin());
  };
  if (rule.factors.empty()) return;
  const Atoms &of_queries = division[factor("s")], &of_keys = division[factor("t")];
  if (of_queries.empty() && of_keys.empty()) return;
  const std::int64_t all = type(op.operands[attention_q]).shape[2], room = type(op.operands[attention_k]).shape[2],
                     queries = builder_.type(operands[attention_q]).shape[2],
                     keys = builder_.type(operands[attention_k]).shape[2], window = op.attributes.integer("window", 0);
  const std::int64_t most = op.attributes.integer("kv_len", room);
  const auto placed = [&](ValueId place, const Atoms& atoms, std::int64_t part) {
    return atoms.empty() ? place : binary(Function::add, place, shard_index(atoms, part));
  };
  ValueId lengths = no_value;
  if (operands.size() > attention_kv_len && operands[attention_kv_len] != no_value)
    lengths = builder_.convert(operands[attention_kv_len], DType::i64);
  if (rules_of_kinds::sees_by_place(op)) {
    const ValueId key = placed(places(2, 1, keys), of_keys, keys);
    ValueId last = placed(places(2, 0, queries), of_queries, queries);
    if (lengths != no_value && op.attributes.find("causal_offset") == nullptr) {  // last positions of each row
      const ValueId rows = builder_.reshape(lengths, {builder_.type(lengths).shape[0], 1, 1, 1});
      last = binary(Function::add, last, binary(Function::subtract, rows, whole_number(all)));
    } else {
      last = binary(Function::add, last, whole_number(op.attributes.integer("causal_offset", most - all)));
    }
    see(op, key, last, window, operands, attributes);
  }
  if (!of_keys.empty() && attributes.find("kv_len") != nullptr) attributes.set("kv_len", keys);
  if (of_keys.empty() || (lengths == no_value && most == keys * module_.grid.parts(of_keys))) return;
  // Number of valid keys in a part; the others are padding.
  const ValueId length = lengths == no_value ? whole_number(most) : lengths;
  ValueId own = clamped(0, binary(Function::subtract, length, shard_index(of_keys, keys)), keys);
  if (lengths == no_value) {
    Attributes rows;
    rows.set("shape", Integers{builder_.type(operands[attention_q]).shape[0]});
    rows.set("dims", Integers{});
    own = builder_.op(Kind::broadcast, {own}, std::move(rows))[0];
  }
  if (operands.size() <= attention_kv_len) operands.resize(attention_kv_len + 1, no_value);
  operands[attention_kv_len] = own;
}

/// Adds to the mask: keys up to the last one that a query sees and, with a window, only the nearest ones.
void Body::see(const Op& op, ValueId key, ValueId last, std::int64_t window, std::vector<ValueId>& operands,
               Attributes& attributes) {
  ValueId seen = no_value;
  if (op.attributes.flag("causal")) seen = binary(Function::less_equal, key, last);
  if (window > 0) {
    const ValueId near = binary(Function::greater, key, binary(Function::subtract, last, whole_number(window)));
    seen = seen == no_value ? near : binary(Function::logical_and, seen, near);
  }
  if (operands.size() <= attention_mask) operands.resize(attention_mask + 1, no_value);
  ValueId& mask = operands[attention_mask];
  if (mask == no_value) {
    mask = seen;
  } else if (builder_.type(mask).dtype == DType::boolean) {
    mask = binary(Function::logical_and, mask, seen);
  } else {
    const ValueId hidden = number(-std::numeric_limits<double>::infinity(), builder_.type(mask).dtype);
    mask = builder_.elementwise(Function::select, {seen, mask, hidden});
  }
  attributes.set("causal", false);
  attributes.set("window", std::int64_t{0});
}

/// Each device attends to its own keys; outputs are weighted by the device's share of all exponentials (the split
/// softmax of Flash-Decoding: from log-sum-exps minus the largest one), and are then summed.
std::vector<ValueId> Body::attended(const Op& op, const Atoms& atoms, std::vector<ValueId> operands,
                                    Attributes attributes) {
  const bool zero = op.attributes.text("masked_row", "zero") == "zero";
  attributes.set("masked_row", std::string("zero"));
  const std::vector<ValueId> own = builder_.op(op.kind, std::move(operands), std::move(attributes), op.name, 2);
  const DType dtype = builder_.type(own[1]).dtype;
  double bytes = static_cast<double>(bits(dtype)) / 8;
  for (const std::int64_t extent : builder_.type(own[1]).shape) bytes *= static_cast<double>(extent);
  const auto parts = static_cast<double>(module_.grid.parts(atoms));
  const auto over = [&](const char* combiner, ValueId x, const char* why) {
    Attributes combined;
    combined.set("combiner", std::string(combiner));
    return inner(op, Kind::all_reduce, x, atoms, std::move(combined), why, 2 * bytes * (parts - 1) / parts);
  };
  const ValueId best =
      over("maximum", own[1], "holds part of its keys on each device and reduces the largest exponent over all parts");
  // A row that sees no key on any device has weight exp(-inf).
  const double lowest =
      dtype == DType::f64 ? std::numeric_limits<double>::lowest() : double{std::numeric_limits<float>::lowest()};
  const ValueId base = binary(Function::maximum, best, number(lowest, dtype));
  const ValueId weight = builder_.elementwise(Function::exp, {binary(Function::subtract, own[1], base)});
  const ValueId sum =
      over("add", weight, "holds part of its keys on each device and sums the exponentials of all parts");
  // If a row sees some key, the largest weight is 1.
  const ValueId count = zero ? binary(Function::maximum, sum, number(1, dtype)) : sum;
  Shape column = builder_.type(own[1]).shape;
  column.push_back(1);
  const ValueId share = builder_.reshape(binary(Function::divide, weight, count), column);
  const ValueId out = binary(Function::multiply, builder_.convert(own[0], dtype), share);
  std::vector<ValueId> results{builder_.convert(out, builder_.type(own[0]).dtype)};
  if (op.results.size() > 1) results.push_back(binary(Function::add, best, builder_.elementwise(Function::log, {sum})));
  return results;
}

/// Bytes of two all-reduces of one number per query and head.
double Body::attention_bytes(const Op& op, const Rule& rule, const Division& division) const {
  const auto parts = static_cast<double>(module_.grid.parts(division[at(rule.keys)]));
  const TensorType local =
      local_type(module_.grid, type(op.results[0]), layout_of(module_.grid, rule, rule.results[0], division));
  const double rows =
      static_cast<double>(local.shape[0]) * static_cast<double>(local.shape[1]) * static_cast<double>(local.shape[2]);
  const double size = local.dtype == DType::f64 ? 8 : 4;  // f32, the minimum type of the log-sum-exp, or f64
  return 4 * size * rows * (parts - 1) / parts;
}

}  // namespace tilesim::partitioning
