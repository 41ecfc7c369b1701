#include "tilesim/compile/layouts/wishes.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::lower {

Order last_axis_minor(std::size_t rank) {
  Order order;
  for (std::size_t axis = rank; axis-- > 0;) order.push_back(static_cast<int>(axis));
  return order;
}

Order largest_minor(const Shape& shape) {
  Order order = last_axis_minor(shape.size());
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return shape[at(a)] > shape[at(b)]; });
  return order;
}

Order unit_axes_major(const Shape& shape) {
  Order order = last_axis_minor(shape.size());
  std::stable_partition(order.begin(), order.end(), [&](int axis) { return shape[at(axis)] != 1; });
  return order;
}

double padded_elements(const Shape& shape, const Order& order, const Shape& tile) {
  double elements = 1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t extent = std::max<std::int64_t>(1, shape[at(order[i])]);
    elements *= static_cast<double>(i < 2 ? round_up(extent, tile[1 - i]) : extent);
  }
  return elements;
}

namespace {

/// Order of the axes of `labels`: `minor`, `second`, then the spatial axes, the last one first.
Order by_labels(const std::string& labels, char minor, char second, bool columns_second) {
  Order space;
  for (std::size_t axis = labels.size(); axis-- > 0;)
    if (labels[axis] != minor && labels[axis] != second) space.push_back(static_cast<int>(axis));
  Order order{static_cast<int>(labels.find(minor)), static_cast<int>(labels.find(second))};
  order.insert(order.end(), space.begin(), space.end());
  if (columns_second && order.size() > 2) std::swap(order[1], order[2]);
  return order;
}

/// The densest order of weights with output channels on the lanes or, unless grouped, input channels. Ties go to the
/// compilers' usual order [..][I][O].
Order densest_weights(const Shape& shape, const Shape& tile, const std::string& labels, bool grouped) {
  Order best = by_labels(labels, 'O', 'I', false);
  const auto consider = [&](char minor) {
    for (const char second : labels) {
      if (second == minor) continue;
      Order order = by_labels(labels, minor, second, false);
      if (padded_elements(shape, order, tile) < padded_elements(shape, best, tile)) best = std::move(order);
    }
  };
  consider('O');
  if (!grouped) consider('I');
  return best;
}

/// Whether axis i is the same axis in all operands and results of that rank.
bool side_by_side(const Op& op) {
  switch (op.kind) {
    case Kind::copy:
      return !op.attributes.flag("layout");  // a layout copy changes the order
    case Kind::elementwise:
    case Kind::convert:
    case Kind::reduce:
    case Kind::cumulative:
    case Kind::window_reduce:
    case Kind::window_scatter:
    case Kind::pad:
    case Kind::slice:
    case Kind::reverse:
    case Kind::concat:
    case Kind::dynamic_slice:
    case Kind::dynamic_update:
      return true;
    default:
      return false;
  }
}

/// The order of a reshaped value whose axes of more than one element are the same; empty for other reshapes.
Order with_units(const Order& order, const Shape& from, const Shape& to) {
  std::vector<int> place(from.size(), -1);
  Order units, result;
  std::size_t next = 0;
  for (std::size_t axis = to.size(); axis-- > 0;)
    if (to[axis] == 1) units.push_back(static_cast<int>(axis));
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] == 1) continue;
    while (next < to.size() && to[next] == 1) ++next;
    if (next == to.size() || to[next] != from[axis]) return {};
    place[axis] = static_cast<int>(next++);
  }
  for (const int axis : order)
    if (place[at(axis)] >= 0) result.push_back(place[at(axis)]);
  result.insert(result.end(), units.begin(), units.end());
  return result;
}

}  // namespace

Wishes::Wishes(const GraphFunction& function, const Shape& tile, bool native)
    : function_(function), tile_(tile), orders_(function.values.size()) {
  readers_.resize(function.values.size());
  producer_.assign(function.values.size(), nullptr);
  for (const Op& op : function.ops) {
    for (ValueId operand : op.operands)
      if (operand != no_value) readers_[at(operand)].push_back(&op);
    for (ValueId result : op.results)
      if (result != no_value) producer_[at(result)] = &op;
    if (op.kind == Kind::gather || op.kind == Kind::scatter) components_major(op);
    if (op.kind == Kind::embedding) ids_dense(op);
    if (op.kind != Kind::convolution) continue;
    const auto images = [&](ValueId value, const char* attribute) {
      const std::string& labels = op.attributes.text(attribute);
      wish(value, by_labels(labels, 'C', 'N', function.value(value).type.shape[labels.find('N')] < tile[0]));
    };
    images(op.operands[0], "x_labels");
    images(op.results[0], "y_labels");
    const std::string& labels = op.attributes.text("w_labels");
    const bool grouped = op.attributes.integer("groups", 1) > 1;
    weights_[op.operands[1]] = native
                                   ? by_labels(labels, 'O', 'I', false)
                                   : densest_weights(function.value(op.operands[1]).type.shape, tile, labels, grouped);
  }
  reach();
}

std::vector<ValueId> Wishes::add(ValueId value, Order order) {
  const std::size_t before = wished_.size();
  wish(value, std::move(order));
  reach();
  return {wished_.begin() + static_cast<std::ptrdiff_t>(before), wished_.end()};
}

void Wishes::reach() {
  while (!queue_.empty()) {
    const ValueId value = queue_.front();
    queue_.pop_front();
    if (producer_[at(value)]) spread(*producer_[at(value)], value);
    for (const Op* reader : readers_[at(value)]) spread(*reader, value);
  }
}

void Wishes::wish(ValueId value, Order order) {
  if (value == no_value || order.empty() || !orders_[at(value)].empty() ||
      function_.value(value).type.shape.size() != order.size())
    return;
  orders_[at(value)] = std::move(order);
  queue_.push_back(value);
  wished_.push_back(value);
}

/// Makes the short axis with the components of a start position major: on the lanes it would be padded.
void Wishes::components_major(const Op& op) {
  const ValueId starts = op.operands[1];
  const std::int64_t axis = op.attributes.integer("index_vector_dim");
  const Shape& shape = function_.value(starts).type.shape;
  if (shape.size() < 2 || axis >= static_cast<std::int64_t>(shape.size())) return;
  Order order = last_axis_minor(shape.size()), dense = largest_minor(shape);
  for (Order* either : {&order, &dense})
    std::stable_partition(either->begin(), either->end(), [&](int a) { return a != axis; });
  const bool pads = padded_elements(shape, order, tile_) > 2 * padded_elements(shape, dense, tile_);
  wish(starts, std::move(pads ? dense : order));
}

/// Prefers the densest order for row numbers computed here, which are read in memory order, whatever axes they were
/// computed over.
void Wishes::ids_dense(const Op& op) {
  ValueId ids = op.operands[1];
  while (producer_[at(ids)] && producer_[at(ids)]->kind == Kind::reshape) ids = producer_[at(ids)]->operands[0];
  const Shape& shape = function_.value(ids).type.shape;
  const Order dense = largest_minor(shape);
  const bool pads = padded_elements(shape, unit_axes_major(shape), tile_) > 2 * padded_elements(shape, dense, tile_);
  if (producer_[at(ids)] && shape.size() > 1 && pads) wish(ids, dense);
}

void Wishes::spread(const Op& op, ValueId from) {
  const Order order = orders_[at(from)];
  if (op.kind == Kind::transpose) {  // result axis i is axis permutation[i] of the operand
    const std::vector<std::int64_t>& permutation = op.attributes.integers("permutation");
    Order forward(order.size()), back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      back[i] = static_cast<int>(permutation[at(order[i])]);
      forward[i] = static_cast<int>(std::find(permutation.begin(), permutation.end(), order[i]) - permutation.begin());
    }
    from == op.operands[0] ? wish(op.results[0], std::move(forward)) : wish(op.operands[0], std::move(back));
  } else if (op.kind == Kind::reshape) {
    const ValueId to = from == op.operands[0] ? op.results[0] : op.operands[0];
    wish(to, with_units(order, function_.value(from).type.shape, function_.value(to).type.shape));
  } else if (side_by_side(op)) {
    // What is broadcast says nothing of the axes along which it repeats.
    const auto elements = [&](ValueId value) { return element_count(function_.value(value).type.shape); };
    if (op.kind == Kind::elementwise && elements(from) < elements(op.results[0])) return;
    for (ValueId operand : op.operands) wish(operand, order);
    for (ValueId result : op.results) wish(result, order);
  }
}

}  // namespace tilesim::lower
