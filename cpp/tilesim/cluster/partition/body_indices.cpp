// Gathers and scatters with sharded indexed axes: each device reads or writes its own rows.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/body.hpp"

namespace tilesim::partitioning {

namespace {

using Integers = std::vector<std::int64_t>;

/// Names of equivalent attributes of gather and scatter.
struct Names { const char *map, *windows, *single; };
Names names_of(const Op& op) {
  if (op.kind == Kind::gather) return {"start_index_map", "offset_dims", "collapsed_slice_dims"};
  return {"scatter_dims_to_operand_dims", "update_window_dims", "inserted_window_dims"};
}

}  // namespace

/// Extents of the indexed axes minus `beyond`: one number, or one per component.
ValueId Body::limits_of_indices(const Attributes& attributes, const char* map, ValueId x, std::size_t rank,
                                std::int64_t beyond) {
  Integers limits;
  for (const std::int64_t axis : attributes.integers(map)) limits.push_back(builder_.type(x).shape[at(axis)] - beyond);
  return limits.size() == 1 ? whole_number(limits[0])
                            : listed(limits, rank, at(attributes.integer("index_vector_dim")));
}

/// Number of elements that each index selects along an axis.
std::int64_t Body::window_of(const Op& op, std::size_t axis) const {
  if (op.kind == Kind::gather) return op.attributes.integers("slice_sizes")[axis];
  const Integers &single = op.attributes.integers("inserted_window_dims"),
                 &windows = op.attributes.integers("update_window_dims");
  if (std::ranges::find(single, static_cast<std::int64_t>(axis)) != single.end()) return 1;
  const auto before = std::ranges::count_if(single, [&](std::int64_t one) { return at(one) < axis; });
  return type(op.operands[2]).shape[at(windows[axis - at(before)])];
}

/// Sharded axes with windows of several elements but not all: a window may cross parts.
std::vector<std::size_t> Body::window_axes(const Op& op, const Rule& rule, const Division& division) const {
  std::vector<std::size_t> axes;
  for (const std::int64_t axis : op.attributes.integers(names_of(op).map))
    if (const std::int64_t window = window_of(op, at(axis));
        window > 1 && window < type(op.operands[0]).shape[at(axis)] && !atoms_of(rule, division, 0, at(axis)).empty())
      axes.push_back(at(axis));
  return axes;
}

/// Moves a window axis of updates behind the axes of the indices; returns its new position.
std::int64_t Body::moved_behind(ValueId& updates, Integers& windows, std::int64_t dim) {
  const auto rank = static_cast<std::int64_t>(builder_.type(updates).shape.size());
  std::int64_t last = rank - 1;
  while (std::ranges::find(windows, last) != windows.end()) --last;
  if (last < dim) return dim;
  Integers order;
  for (std::int64_t i = 0; i < rank; ++i)
    if (i != dim) order.push_back(i);
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(last), dim);
  updates = builder_.transpose(updates, order);
  for (std::int64_t& window : windows) {
    if (window == dim)
      window = last;
    else if (window > dim && window < last)
      --window;
  }
  return last;
}

/// Replaces windows along an axis by one index per element, also in `attributes`. All rows of a window must be written
/// before the next window, so their axis goes behind those of the indices.
void Body::by_rows(const Op& op, std::size_t axis, std::vector<ValueId>& operands, Attributes& attributes) {
  const Names names = names_of(op);
  const Integers map = attributes.integers(names.map);
  Integers windows = attributes.integers(names.windows), single = attributes.integers(names.single);
  std::int64_t vector = attributes.integer("index_vector_dim");
  const auto number = static_cast<std::int64_t>(axis);
  const auto before = std::ranges::count_if(single, [&](std::int64_t one) { return one < number; });
  std::int64_t dim = windows[axis - at(before)];
  if (op.kind == Kind::scatter) dim = moved_behind(operands[2], windows, dim);
  // The window's axis of result or updates becomes an axis of the indices.
  const std::int64_t batch = dim - std::ranges::count_if(windows, [&](std::int64_t other) { return other < dim; });
  const std::size_t place = at(batch <= vector ? batch : batch + 1);
  if (batch <= vector) ++vector;
  Shape wide = builder_.type(operands[1]).shape;
  wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(place), 1);
  ValueId step = places(wide.size(), place, window_of(op, axis));
  if (map.size() > 1) {
    Integers only(map.size(), 0);
    only[at(std::ranges::find(map, number) - map.begin())] = 1;
    step = binary(Function::multiply, step, listed(only, wide.size(), at(vector)));
  }
  std::erase(windows, dim);
  single.insert(std::ranges::upper_bound(single, number), number);
  attributes.set(names.windows, windows);
  attributes.set(names.single, single);
  attributes.set("index_vector_dim", vector);
  if (op.kind == Kind::gather) {
    Integers sizes = attributes.integers("slice_sizes");
    sizes[axis] = 1;
    attributes.set("slice_sizes", sizes);
  }
  operands[1] = binary(Function::add, builder_.reshape(builder_.convert(operands[1], DType::i64), wide), step);
}

/// Indices and updates for a device's rows of scattered windows; a window that exceeds x is dropped completely.
std::vector<ValueId> Body::own_windows(const Op& op, const Rule& rule, const Division& division,
                                       std::vector<ValueId> operands, Attributes& attributes) {
  const ValueId all = operands[1];
  operands[1] = own_indices(op, rule, division, operands);
  const std::vector<std::size_t> axes = window_axes(op, rule, division);
  const Integers& map = op.attributes.integers("scatter_dims_to_operand_dims");
  const auto vector = at(op.attributes.integer("index_vector_dim"));
  for (const std::size_t axis : axes) {
    const std::int64_t component = std::ranges::find(map, static_cast<std::int64_t>(axis)) - map.begin();
    const ValueId start =
        builder_.convert(map.size() > 1 ? cut(all, vector, component, component + 1) : all, DType::i64);
    const ValueId last = whole_number(type(op.operands[0]).shape[axis] - window_of(op, axis));
    const ValueId inside = binary(Function::logical_and, binary(Function::greater_equal, start, whole_number(0)),
                                  binary(Function::less_equal, start, last));
    // A position that no device has.
    const ValueId nowhere = whole_number(-type(op.operands[0]).shape[axis]);
    operands[1] = builder_.elementwise(Function::select, {inside, operands[1], nowhere});
  }
  for (const std::size_t axis : axes) by_rows(op, axis, operands, attributes);
  return operands;
}

/// Index vectors relative to the first elements of a device's part.
ValueId Body::own_indices(const Op& op, const Rule& rule, const Division& division,
                          const std::vector<ValueId>& operands) {
  const bool gathers = op.kind == Kind::gather;
  const Integers& map = op.attributes.integers(gathers ? "start_index_map" : "scatter_dims_to_operand_dims");
  const auto vector = at(op.attributes.integer("index_vector_dim"));
  const std::size_t rank = type(op.operands[1]).shape.size();
  const Shape& whole_shape = type(op.operands[0]).shape;
  ValueId from = no_value;
  for (std::size_t i = 0; i < map.size(); ++i) {
    const auto axis = at(map[i]);
    const std::int64_t part = builder_.type(operands[0]).shape[axis];
    const Atoms atoms = atoms_of(rule, division, 0, axis);
    // A window over a full axis starts at 0.
    if (atoms.empty() || (window_of(op, axis) == whole_shape[axis] && whole_shape[axis] > 1)) continue;
    ValueId first = shard_index(atoms, part);
    Integers only(map.size(), 0);
    only[i] = 1;
    if (map.size() > 1) first = binary(Function::multiply, listed(only, rank, vector), first);
    from = from == no_value ? first : binary(Function::add, from, first);
  }
  if (from == no_value) return operands[1];
  ValueId indices = builder_.convert(operands[1], DType::i64);
  if (gathers) {
    Integers last;
    for (const std::int64_t axis : map)
      last.push_back(whole_shape[at(axis)] - op.attributes.integers("slice_sizes")[at(axis)]);
    const ValueId end = map.size() == 1 ? whole_number(last[0]) : listed(last, rank, vector);
    indices = builder_.elementwise(Function::clamp, {whole_number(0), indices, end});
  }
  return binary(Function::subtract, indices, from);
}

/// Reads the rows of a device's part, and zeros for others; each row is on one device.
ValueId Body::rows_of_table(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId> operands,
                            Attributes attributes) {
  const bool gather = op.kind == Kind::gather;
  ValueId own = no_value, end = no_value, last = no_value;
  if (gather) {
    operands[1] = own_indices(op, rule, division, operands);
    for (const std::size_t axis : window_axes(op, rule, division)) by_rows(op, axis, operands, attributes);
    own = operands[1];
    const std::size_t rank = builder_.type(own).shape.size();
    end = limits_of_indices(attributes, "start_index_map", operands[0], rank, 0);
    last = limits_of_indices(attributes, "start_index_map", operands[0], rank, 1);
  } else {
    const std::int64_t rows = builder_.type(operands[0]).shape[0];
    own = binary(Function::subtract, builder_.convert(operands[1], DType::i64),
                 shard_index(atoms_of(rule, division, 0, 0), rows));
    end = whole_number(rows);
    last = whole_number(rows - 1);
  }
  ValueId inside = binary(Function::logical_and, binary(Function::greater_equal, own, whole_number(0)),
                          binary(Function::less, own, end));
  operands[1] = builder_.elementwise(Function::clamp, {whole_number(0), own, last});
  const ValueId found = builder_.op(op.kind, std::move(operands), attributes, op.name)[0];
  // Axes of the result that the indices lack have extent 1.
  Shape wide(builder_.type(found).shape.size(), 1);
  Integers offsets{static_cast<std::int64_t>(wide.size()) - 1};
  if (gather) {
    offsets = attributes.integers("offset_dims");
    const auto vector = attributes.integer("index_vector_dim");
    if (vector < static_cast<std::int64_t>(builder_.type(inside).shape.size())) {
      Attributes all;
      all.set("dims", Integers{vector});
      all.set("combiner", std::string("logical_and"));
      inside = builder_.op(Kind::reduce, {inside}, std::move(all))[0];
    }
  }
  const Shape batch = builder_.type(inside).shape;
  std::size_t next = 0;
  for (std::size_t i = 0; i < wide.size(); ++i)
    if (std::ranges::find(offsets, static_cast<std::int64_t>(i)) == offsets.end()) wide[i] = batch[next++];
  return builder_.elementwise(Function::select,
                              {builder_.reshape(inside, wide), found, number(0, builder_.type(found).dtype)});
}

}  // namespace tilesim::partitioning
