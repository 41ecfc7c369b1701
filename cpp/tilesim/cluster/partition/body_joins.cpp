// Assembles parts from pieces: each device gets the pieces of its part of a result.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/body.hpp"

namespace tilesim::partitioning {

namespace {

using Integers = std::vector<std::int64_t>;

Attributes between(Integers starts, Integers limits) {
  Attributes attributes;
  attributes.set("start", std::move(starts));
  attributes.set("limit", std::move(limits));
  return attributes;
}

bool alike(const Integers& values) { return std::ranges::count(values, values[0]) == std::ssize(values); }

/// Whether all devices take the same segments, without gaps.
bool same_for_all(const Route& route, std::int64_t length) {
  std::int64_t next = 0;
  for (const Segment& segment : route.segments[0]) {
    if (segment.place != next) return false;
    next += segment.rows;
  }
  return next == length &&
         std::ranges::all_of(route.segments, [&](const auto& own) { return own == route.segments[0]; });
}

/// One segment of a tensor per device: source offset, position, number of rows (0: none).
struct Layer {
  std::size_t tensor;
  Integers offsets, places, rows;
};

std::vector<Layer> layers_of(const Route& route) {
  std::vector<Layer> layers;
  const std::size_t parts = route.segments.size();
  for (std::size_t i = 0; i < parts; ++i)
    for (const Segment& segment : route.segments[i]) {
      auto layer = std::ranges::find_if(
          layers, [&](const Layer& known) { return known.tensor == segment.tensor && known.rows[i] == 0; });
      const std::int64_t offset = segment.start - segment.place;
      if (layer == layers.end())  // devices without a segment copy the first one that has one
        layer = layers.insert(
            layer, {segment.tensor, Integers(parts, offset), Integers(parts, segment.place), Integers(parts, 0)});
      layer->offsets[i] = offset;
      layer->places[i] = segment.place;
      layer->rows[i] = segment.rows;
    }
  return layers;
}

}  // namespace

ValueId Body::cut(ValueId x, std::size_t axis, std::int64_t from, std::int64_t to) {
  Integers starts(builder_.type(x).shape.size(), 0), limits = builder_.type(x).shape;
  if (from == 0 && to == limits[axis]) return x;
  starts[axis] = from;
  limits[axis] = to;
  return builder_.op(Kind::slice, {x}, between(std::move(starts), std::move(limits)))[0];
}

ValueId Body::together(std::vector<ValueId> pieces, std::size_t axis, const std::string& name) {
  if (pieces.size() == 1) return pieces[0];
  Attributes attributes;
  attributes.set("dim", static_cast<std::int64_t>(axis));
  return builder_.op(Kind::concat, std::move(pieces), std::move(attributes), name)[0];
}

/// The number for a device's part, from one number per part.
ValueId Body::by_part(const Integers& values, const Atoms& atoms) {
  if (alike(values)) return whole_number(values[0]);
  return builder_.reshape(taken(listed(values, 1, 0), 0, shard_index(atoms, 1), 1), {});
}

/// The piece that each device sends in a hop.
ValueId Body::hop_piece(const Assembly& made, const Hop& hop) {
  Integers chosen(hop.first.size(), -1);  // source of each sender; devices that send nothing use another sender's
  const auto some = std::ranges::find_if(hop.first, [](std::int64_t first) { return first >= 0; });
  for (std::size_t i = 0; i < chosen.size(); ++i)
    chosen[i] = static_cast<std::int64_t>(hop.source[hop.first[i] < 0 ? at(some - hop.first.begin()) : i]);
  ValueId piece = no_value;
  for (std::size_t source = 0; source < made.sources.size(); ++source) {
    if (std::ranges::find(chosen, static_cast<std::int64_t>(source)) == chosen.end()) continue;
    Integers starts(chosen.size(), -1);
    for (std::size_t i = 0; i < starts.size(); ++i)
      if (hop.source[i] == source) starts[i] = hop.first[i];
    const std::int64_t other = *std::ranges::max_element(starts);
    for (std::int64_t& start : starts) start = start < 0 ? other : start;
    const ValueId x = made.sources[source];
    const ValueId own = alike(starts) ? cut(x, made.axis, other, other + hop.rows)
                                      : taken(x, made.axis, by_part(starts, made.atoms), hop.rows);
    if (piece == no_value) {
      piece = own;
      continue;
    }
    const ValueId mine =
        binary(Function::equal, by_part(chosen, made.atoms), whole_number(static_cast<std::int64_t>(source)));
    piece = builder_.elementwise(Function::select, {mine, own, piece});
  }
  return piece;
}

/// Sends the pieces of all hops; the tensors are in the order of segment indices.
std::vector<ValueId> Body::sent_hops(const Op& op, const Assembly& made, const Route& route) {
  const std::int64_t parts = module_.grid.parts(made.atoms);
  const Integers groups = module_.grid.groups(made.atoms);
  std::vector<ValueId> tensors = made.sources;
  for (const Hop& hop : route.hops) {
    Integers pairs;
    std::size_t source = 0;
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::int64_t sender = hop.from[at(i)];
      if (sender < 0) continue;
      source = hop.source[at(sender)];
      for (std::size_t start = 0; start < groups.size(); start += at(parts))
        pairs.insert(pairs.end(), {groups[start + at(sender)], groups[start + at(i)]});
    }
    tensors.push_back(sent_piece(op, made.operands[source], made.axis, pairs, parts, hop_piece(made, hop), hop.rows,
                                 "of other devices' parts"));
  }
  return tensors;
}

/// Moves a tensor's elements to their positions in a part of `length`; other elements are undefined.
ValueId Body::shifted(ValueId x, const Assembly& made, const Integers& offsets) {
  const std::int64_t extent = builder_.type(x).shape[made.axis];
  const auto [least, most] = std::ranges::minmax(offsets);
  const std::int64_t before = std::max<std::int64_t>(0, -least),
                     behind = std::max<std::int64_t>(0, most + made.length - extent);
  if (before > 0 || behind > 0) {
    Integers low(builder_.type(x).shape.size(), 0), high = low;
    low[made.axis] = before;
    high[made.axis] = behind;
    Attributes attributes;
    attributes.set("low", low);
    attributes.set("high", high);
    x = builder_.op(Kind::pad, {x}, std::move(attributes))[0];
  }
  if (alike(offsets)) return cut(x, made.axis, least + before, least + before + made.length);
  Integers starts = offsets;
  for (std::int64_t& start : starts) start += before;
  return taken(x, made.axis, by_part(starts, made.atoms), made.length);
}

/// Assembles the part; positions without segments are zero.
ValueId Body::assembled(const Op& op, const Assembly& made, const Route& route, const std::string& name) {
  const std::vector<ValueId> tensors = sent_hops(op, made, route);
  if (same_for_all(route, made.length)) {
    std::vector<ValueId> pieces;
    for (const Segment& segment : route.segments[0])
      pieces.push_back(cut(tensors[segment.tensor], made.axis, segment.start, segment.start + segment.rows));
    return together(std::move(pieces), made.axis, name);
  }
  const TensorType local = builder_.type(tensors[0]);
  const ValueId place = places(local.shape.size(), made.axis, made.length);
  ValueId all = number(0, local.dtype);
  for (const Layer& layer : layers_of(route)) {
    const ValueId piece = shifted(tensors[layer.tensor], made, layer.offsets);
    Integers ends = layer.places;
    for (std::size_t i = 0; i < ends.size(); ++i) ends[i] += layer.rows[i];
    const ValueId inside =
        binary(Function::logical_and, binary(Function::greater_equal, place, by_part(layer.places, made.atoms)),
               binary(Function::less, place, by_part(ends, made.atoms)));
    all = builder_.elementwise(Function::select, {inside, piece, all});
  }
  return all;
}

/// A concat; operands are cut to the range that the result takes.
ValueId Body::joined(const Op& op, const Rule& rule, const Division& division, const std::vector<ValueId>& operands) {
  const Join& join = rule.join;
  const Atoms& atoms = division[at(join.factor)];
  if (!atoms.empty()) {
    const std::int64_t parts = module_.grid.parts(atoms);
    Assembly made{join.axis, ceil_div(join.extent, parts), atoms, operands, {}};
    for (std::size_t k = 0; k < operands.size(); ++k) made.operands.push_back(k);
    return assembled(op, made, route_of(join, parts), op.name);
  }
  std::vector<ValueId> pieces;
  for (std::size_t k = 0; k < operands.size(); ++k)
    pieces.push_back(cut(operands[k], join.axis, join.stretches[k].from, join.stretches[k].to));
  return builder_.op(op.kind, std::move(pieces), op.attributes, op.name)[0];
}

}  // namespace tilesim::partitioning
