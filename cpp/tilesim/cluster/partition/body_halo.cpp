// Borders of sharded axes: joins a device's part with pieces of adjacent parts, and with padding at the ends of the
// axis.
#include <algorithm>
#include <cstdlib>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/body.hpp"

namespace tilesim::partitioning {

namespace {

using Integers = std::vector<std::int64_t>;

Attributes range(const Shape& shape, std::size_t axis, std::int64_t start, std::int64_t limit) {
  Attributes attributes;
  Integers starts(shape.size(), 0), limits = shape;
  starts[axis] = start;
  limits[axis] = limit;
  attributes.set("start", starts);
  attributes.set("limit", limits);
  return attributes;
}

/// Pairs from each device of a group to the one at `distance` (negative: before it); devices at the end get none.
Integers shifted_pairs(const Integers& groups, std::int64_t size, std::int64_t distance) {
  Integers pairs;
  for (std::size_t start = 0; start < groups.size(); start += at(size))
    for (std::int64_t i = std::max<std::int64_t>(0, distance); i < size + std::min<std::int64_t>(0, distance); ++i)
      pairs.insert(pairs.end(), {groups[start + at(i - distance)], groups[start + at(i)]});
  return pairs;
}

double border_size(const TensorType& local, std::size_t axis, std::int64_t rows) {
  double elements = static_cast<double>(rows);
  for (std::size_t i = 0; i < local.shape.size(); ++i)
    if (i != axis) elements *= static_cast<double>(local.shape[i]);
  return elements * static_cast<double>(bits(local.dtype)) / 8;
}

}  // namespace

double Body::border_bytes(const Op& op, const Rule& rule, const Division& division) const {
  double bytes = 0;
  for (const Halo& halo : rule.halos) {
    const Atoms& atoms = division[at(halo.factor)];
    if (atoms.empty()) continue;
    const Layout layout = layout_of(module_.grid, rule, rule.operands[halo.operand], division);
    const TensorType local = local_type(module_.grid, type(op.operands[halo.operand]), layout);
    const Borders borders = borders_of(halo, rule.factors[at(halo.factor)].extent, module_.grid.parts(atoms));
    bytes += border_size(local, halo.axis, received(borders));
  }
  const Join& join = rule.join;
  if (join.factor >= 0 && !division[at(join.factor)].empty()) {
    const Layout layout = layout_of(module_.grid, rule, rule.results[0], division);
    const TensorType local = local_type(module_.grid, type(op.results[0]), layout);
    bytes += border_size(local, join.axis, received(route_of(join, module_.grid.parts(division[at(join.factor)]))));
  }
  return bytes;
}

/// Adds one collective that fetches pieces of an operand's axis, with its record.
ValueId Body::sent_piece(const Op& op, std::size_t operand, std::size_t axis, const Integers& pairs, std::int64_t parts,
                         ValueId piece, std::int64_t rows, const std::string& where) {
  const std::string of = stem(op.operands[operand]);
  const double bytes = border_size(builder_.type(piece), axis, rows);
  Attributes attributes;
  attributes.set("partitions", true);
  attributes.set("pairs", pairs);
  const ValueId result = builder_.op(Kind::permute_devices, {piece}, std::move(attributes), of + ".halo")[0];
  const GraphFunction& function = module_.out.functions[at(builder_.function_index())];
  module_.inserted.push_back(
      {function.name, function.ops.back().name, "permute_devices", of, op.name,
       op.name + " reads " + std::to_string(rows) + " elements of axis " + std::to_string(axis) + " " + where, parts,
       bytes});
  return result;
}

/// Fetches `reach` elements from before (distance 1) or after (-1) a device's part, from as many devices as needed.
void Body::neighbours(const Op& op, const Halo& halo, const Atoms& atoms, int distance, std::int64_t reach, ValueId x,
                      std::vector<ValueId>& pieces) {
  const TensorType local = builder_.type(x);
  const std::int64_t part = local.shape[halo.axis], parts = module_.grid.parts(atoms);
  const Integers groups = module_.grid.groups(atoms);
  const std::string of = stem(op.operands[halo.operand]);
  std::vector<ValueId> found;
  for (std::int64_t hop = 1; (hop - 1) * part < reach; ++hop) {
    const std::int64_t rows = std::min(part, reach - (hop - 1) * part);
    const std::int64_t start = distance > 0 ? part - rows : 0;
    ValueId piece = x;
    if (rows < part)
      piece = builder_.op(Kind::slice, {x}, range(local.shape, halo.axis, start, start + rows), of + ".border")[0];
    found.push_back(sent_piece(op, halo.operand, halo.axis, shifted_pairs(groups, parts, distance * hop), parts, piece,
                               rows, std::string(distance > 0 ? "before" : "behind") + " a device's part"));
  }
  if (distance > 0) std::ranges::reverse(found);
  pieces.insert(pieces.end(), found.begin(), found.end());
}

/// Cuts a part with borders to the elements that a device reads, at a device-dependent position; pads the axis's ends.
ValueId Body::cut_borders(const Borders& borders, std::size_t axis, const Atoms& atoms, ValueId x) {
  const std::int64_t parts = module_.grid.parts(atoms), drift = borders.step - borders.part;
  const std::int64_t start = borders.first + borders.left, last = start + (parts - 1) * drift;
  const std::int64_t before = std::max<std::int64_t>(0, -std::min(start, last));
  const std::int64_t behind =
      std::max<std::int64_t>(0, std::max(start, last) + borders.length - builder_.type(x).shape[axis]);
  const std::size_t rank = builder_.type(x).shape.size();
  if (before > 0 || behind > 0) {
    Integers low(rank, 0), high(rank, 0);
    low[axis] = before;
    high[axis] = behind;
    Attributes attributes;
    attributes.set("low", low);
    attributes.set("high", high);
    x = builder_.op(Kind::pad, {x}, std::move(attributes))[0];
  }
  const Shape shape = builder_.type(x).shape;
  if (drift == 0) {
    if (shape[axis] == borders.length) return x;
    const std::int64_t from = start + before;
    return builder_.op(Kind::slice, {x}, range(shape, axis, from, from + borders.length))[0];
  }
  Integers sizes = shape;
  sizes[axis] = borders.length;
  Attributes attributes;
  attributes.set("sizes", sizes);
  const ValueId zero = rank > 1 ? number(0, DType::i64) : no_value;
  std::vector<ValueId> operands{x};
  for (std::size_t i = 0; i < rank; ++i) operands.push_back(zero);
  operands[axis + 1] =
      binary(Function::add, shard_index(atoms, drift), number(static_cast<double>(start + before), DType::i64));
  return builder_.op(Kind::dynamic_slice, std::move(operands), std::move(attributes))[0];
}

/// Replaces elements outside the axis by `fill`.
ValueId Body::filled(const Borders& borders, const Halo& halo, const Atoms& atoms, ValueId x, ValueId fill) {
  Shape shape(builder_.type(x).shape.size(), 1);
  shape[halo.axis] = borders.length;
  Attributes attributes;
  attributes.set("shape", shape);
  attributes.set("dtype", DType::i64);
  attributes.set("dim", static_cast<std::int64_t>(halo.axis));
  const auto whole_number = [&](std::int64_t value) { return number(static_cast<double>(value), DType::i64); };
  const ValueId place = binary(Function::add, builder_.op(Kind::iota, {}, std::move(attributes))[0],
                               binary(Function::add, shard_index(atoms, borders.step), whole_number(borders.first)));
  const ValueId inside = binary(Function::logical_and, binary(Function::greater_equal, place, whole_number(0)),
                                binary(Function::less, place, whole_number(halo.extent)));
  return builder_.elementwise(Function::select, {inside, x, fill});
}

/// Joins a part with its borders, and cuts the result to the elements that the device reads.
ValueId Body::with_borders(const Op& op, const Halo& halo, const Borders& borders, const Atoms& atoms, ValueId x) {
  std::vector<ValueId> pieces;
  neighbours(op, halo, atoms, 1, borders.left, x, pieces);
  pieces.push_back(x);
  neighbours(op, halo, atoms, -1, borders.right, x, pieces);
  if (pieces.size() > 1) {
    Attributes attributes;
    attributes.set("dim", static_cast<std::int64_t>(halo.axis));
    x = builder_.op(Kind::concat, std::move(pieces), std::move(attributes))[0];
  }
  return cut_borders(borders, halo.axis, atoms, x);
}

void Body::take_borders(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId>& operands) {
  for (const Halo& halo : rule.halos) {
    const Atoms& atoms = division[at(halo.factor)];
    if (atoms.empty()) continue;
    const Borders borders = borders_of(halo, rule.factors[at(halo.factor)].extent, module_.grid.parts(atoms));
    ValueId& x = operands[halo.operand];
    x = borders.route.hops.empty()
            ? with_borders(op, halo, borders, atoms, x)
            : assembled(op, {halo.axis, borders.length, atoms, {x}, {halo.operand}}, borders.route);
    const DType dtype = builder_.type(x).dtype;
    double outside = 0;
    if (op.kind == Kind::window_reduce) outside = neutral_of(op.attributes.text("combiner"), dtype);
    const bool given = op.kind == Kind::pad && operands.size() > 1 && operands[1] != no_value;
    // End devices receive zeros, so only other padding values or unevenly sharded axes need a fill.
    const bool zeros = outside == 0 && !given && halo.extent % module_.grid.parts(atoms) == 0;
    if (op.kind == Kind::slice || !borders.leaves || zeros) continue;
    x = filled(borders, halo, atoms, x, given ? operands[1] : number(outside, dtype));
  }
}

}  // namespace tilesim::partitioning
