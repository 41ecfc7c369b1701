// Turns known indices into views, windows and pads.
#include <algorithm>
#include <span>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/patterns/indices.hpp"

namespace tilesim::recognition {

namespace {

Attributes with(const std::string& name, const std::vector<std::int64_t>& value) {
  Attributes attributes;
  attributes.set(name, value);
  return attributes;
}

bool all_are(const Shape& values, std::int64_t wanted) {
  return std::ranges::all_of(values, [&](std::int64_t value) { return value == wanted; });
}

}  // namespace

ValueId Emitter::reshape(ValueId x, Shape to) {
  return shape(x) == to ? x : emit(Kind::reshape, {x}, with("shape", to));
}

ValueId Emitter::transpose(ValueId x, const std::vector<std::int64_t>& permutation) {
  return std::ranges::is_sorted(permutation) ? x : emit(Kind::transpose, {x}, with("permutation", permutation));
}

ValueId Emitter::broadcast(ValueId x, Shape to, const std::vector<std::int64_t>& dims) {
  if (std::ranges::is_sorted(dims) && element_count(shape(x)) == element_count(to)) return reshape(x, to);
  Attributes attributes = with("shape", to);
  attributes.set("dims", dims);
  return emit(Kind::broadcast, {x}, std::move(attributes));
}

ValueId Emitter::slice(ValueId x, const Shape& start, const Shape& limit, const Shape& stride) {
  if (all_are(start, 0) && all_are(stride, 1) && limit == shape(x)) return x;
  Attributes attributes = with("start", start);
  attributes.set("limit", limit);
  attributes.set("stride", stride);
  return emit(Kind::slice, {x}, std::move(attributes));
}

ValueId Emitter::pad(ValueId x, const Shape& low, const Shape& high, const Shape& interior) {
  if (all_are(low, 0) && all_are(high, 0) && all_are(interior, 0)) return x;
  Attributes attributes = with("low", low);
  attributes.set("high", high);
  attributes.set("interior", interior);
  return emit(Kind::pad, {x}, std::move(attributes));
}

ValueId Emitter::reverse(ValueId x, const std::vector<std::int64_t>& dims) {
  return dims.empty() ? x : emit(Kind::reverse, {x}, with("dims", dims));
}

namespace {

using MapTerm = AxisMap::Term;

constexpr std::int64_t most_parts = 64;  ///< of a window, each a separate slice

std::int64_t reach(std::span<const MapTerm> terms) {
  std::int64_t sum = 0;
  for (const MapTerm& term : terms) sum += term.coefficient * (term.extent - 1);
  return sum;
}

/// Reverses digits with negative coefficients: they then count from their last position.
Order turn_falling(std::vector<AxisMap>& maps) {
  Order falling;
  for (AxisMap& map : maps)
    for (MapTerm& term : map.terms)
      if (term.coefficient < 0) {
        map.constant += term.coefficient * (term.extent - 1);
        term.coefficient = -term.coefficient;
        falling.push_back(term.digit);
      }
  return falling;
}

/// Sorts terms in descending order. Removes the terms, shortest first, that let positions overlap.
std::vector<std::pair<std::size_t, MapTerm>> take_overlapping(std::vector<AxisMap>& maps) {
  std::vector<std::pair<std::size_t, MapTerm>> taken;
  for (std::size_t axis = 0; axis < maps.size(); ++axis) {
    std::vector<MapTerm>& terms = maps[axis].terms;
    std::ranges::stable_sort(terms, std::ranges::greater{}, &MapTerm::coefficient);
    for (std::size_t i = 0; i + 1 < terms.size(); ++i) {
      if (reach(std::span(terms).subspan(i + 1)) < terms[i].coefficient) continue;
      const auto shortest = std::ranges::min_element(terms, {}, &MapTerm::extent);
      taken.emplace_back(axis, *shortest);
      terms.erase(shortest);
      i = static_cast<std::size_t>(-1);  // from the front again
    }
  }
  return taken;
}

std::int64_t parts_of(const std::vector<std::pair<std::size_t, MapTerm>>& taken) {
  std::int64_t parts = 1;
  for (const auto& entry : taken) parts = std::min(parts * entry.second.extent, most_parts + 1);
  return parts;
}

/// The maps of part number `part` of the removed digits, of which the last one varies fastest.
std::vector<AxisMap> part_of(std::vector<AxisMap> maps, const std::vector<std::pair<std::size_t, MapTerm>>& taken,
                             std::int64_t part) {
  for (auto entry = taken.rbegin(); entry != taken.rend(); ++entry) {
    maps[entry->first].constant += part % entry->second.extent * entry->second.coefficient;
    part /= entry->second.extent;
  }
  return maps;
}

/// Splits each axis of x into its digits, first digit first. The digits do not overlap.
ValueId plain_view(Emitter& out, ValueId x, std::vector<AxisMap> maps, Order& order) {
  while (true) {
    Shape start, limit, stride, low, high, cut;
    std::vector<AxisMap> next;
    bool again = false;
    for (std::size_t axis = 0; axis < maps.size(); ++axis) {
      AxisMap& map = maps[axis];
      const std::int64_t extent = out.shape(x)[axis];
      const bool several = map.terms.size() > 1;
      const std::int64_t step = map.terms.empty() ? 1 : map.terms[0].coefficient;
      const std::int64_t count = map.terms.empty() ? 1 : map.terms[0].extent;
      std::int64_t first = map.constant, end = first + (several ? count * step : step * (count - 1) + 1);
      if (several) first = std::max<std::int64_t>(0, first - std::max<std::int64_t>(0, end - extent));
      if (several && map.constant - first + reach(std::span(map.terms).subspan(1)) >= step) first = map.constant;
      end = several ? first + count * step : end;
      low.push_back(0);
      high.push_back(std::max<std::int64_t>(0, end - extent));
      start.push_back(first);
      limit.push_back(end);
      stride.push_back(several ? 1 : step);
      cut.push_back(count);
      if (!several) {
        next.push_back({0, map.terms});
        if (!map.terms.empty()) next.back().terms[0].coefficient = 1;
        continue;
      }
      again = true;
      cut.push_back(step);
      next.push_back({0, {{map.terms[0].digit, count, 1}}});
      next.push_back({map.constant - first, {map.terms.begin() + 1, map.terms.end()}});
    }
    x = out.pad(x, low, high, Shape(low.size(), 0));
    x = out.reshape(out.slice(x, start, limit, stride), cut);
    maps = std::move(next);
    if (!again) break;
  }
  Shape kept;
  order.clear();
  for (std::size_t axis = 0; axis < maps.size(); ++axis)
    if (!maps[axis].terms.empty()) kept.push_back(out.shape(x)[axis]), order.push_back(maps[axis].terms[0].digit);
  return out.reshape(x, kept);
}

std::vector<std::int64_t> axes_of(const Order& digits, const Order& order) {
  std::vector<std::int64_t> axes;
  for (std::size_t axis = 0; axis < order.size(); ++axis)
    if (std::ranges::count(digits, order[axis])) axes.push_back(static_cast<std::int64_t>(axis));
  return axes;
}

/// Axes of strided windows, in which a tap reads every n-th element.
std::vector<std::size_t> strided_axes(const std::vector<AxisMap>& maps,
                                      const std::vector<std::pair<std::size_t, MapTerm>>& taken) {
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < maps.size(); ++axis) {
    const bool window = std::ranges::any_of(taken, [&](const auto& entry) { return entry.first == axis; });
    const std::vector<MapTerm>& terms = maps[axis].terms;
    const auto whole = [&](const MapTerm& term) { return term.coefficient % terms.back().coefficient == 0; };
    if (window && !terms.empty() && terms.back().coefficient > 1 && std::ranges::all_of(terms, whole))
      axes.push_back(axis);
  }
  return axes;
}

/// Changes a map to one over a phase, whose elements are contiguous. Returns the phase.
std::int64_t to_phase(AxisMap& map) {
  const std::int64_t step = map.terms.back().coefficient, first = floor_div(map.constant, step);
  const std::int64_t phase = map.constant - first * step;
  map.constant = first;
  for (MapTerm& term : map.terms) term.coefficient /= step;
  return phase;
}

}  // namespace

ValueId viewed(Emitter& out, ValueId x, std::vector<AxisMap> maps, Order& order) {
  const Order falling = turn_falling(maps);
  const auto taken = take_overlapping(maps);
  const std::int64_t parts = parts_of(taken);
  if (parts > most_parts) return no_value;
  if (taken.empty()) {
    x = plain_view(out, x, std::move(maps), order);
    return out.reverse(x, axes_of(falling, order));
  }
  std::size_t first = taken[0].second.digit;
  for (const auto& entry : taken) first = std::min(first, entry.second.digit);
  std::vector<ValueId> beside;
  std::size_t place = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    ValueId one = plain_view(out, x, part_of(maps, taken, part), order);
    for (place = 0; place + 1 < order.size() && order[place] < first;) ++place;  // slices are stored in runs
    Shape shape = out.shape(one);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(place), 1);
    beside.push_back(out.reshape(one, shape));
  }
  Attributes attributes;
  attributes.set("dim", static_cast<std::int64_t>(place));
  x = parts == 1 ? beside[0] : out.emit(Kind::concat, beside, std::move(attributes));
  Shape shape = out.shape(x);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(place));
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const auto where = static_cast<std::ptrdiff_t>(place + i);
    shape.insert(shape.begin() + where, taken[i].second.extent);
    order.insert(order.begin() + where, taken[i].second.digit);
  }
  x = out.reshape(x, shape);
  return out.reverse(x, axes_of(falling, order));
}

namespace {

/// Places `u`, whose axes are the maps' digits in the order of maps and terms. From the innermost digit on, pads each
/// digit to the distance of the next one and merges the two.
ValueId plain_place(Emitter& out, ValueId u, std::vector<AxisMap> maps, const Shape& to) {
  Shape axes;
  for (AxisMap& map : maps) {
    if (map.terms.empty()) map.terms = {{0, 1, 1}};
    for (const MapTerm& term : map.terms) axes.push_back(term.extent);
  }
  u = out.reshape(u, axes);
  while (true) {
    Shape low, high, interior, merged;
    std::vector<AxisMap> next;
    bool again = false;
    for (std::size_t axis = 0; axis < maps.size(); ++axis) {
      AxisMap map = maps[axis];
      for (std::size_t i = 0; i + 2 < map.terms.size(); ++i)
        low.push_back(0), high.push_back(0), interior.push_back(0), merged.push_back(map.terms[i].extent);
      if (map.terms.size() > 1) {
        const MapTerm inner = map.terms.back(), outer = map.terms[map.terms.size() - 2];
        low.insert(low.end(), {0, 0});
        interior.insert(interior.end(), {0, inner.coefficient - 1});
        high.insert(high.end(), {0, outer.coefficient - 1 - inner.coefficient * (inner.extent - 1)});
        merged.push_back(outer.extent * outer.coefficient);
        map.terms.pop_back();
        map.terms.back() = {outer.digit, merged.back(), 1};
        again = true;
      } else {
        low.push_back(0), high.push_back(0), interior.push_back(0), merged.push_back(map.terms[0].extent);
      }
      next.push_back(std::move(map));
    }
    if (!again) break;
    u = out.reshape(out.pad(u, low, high, interior), merged);
    maps = std::move(next);
  }
  Shape low, high, interior;
  for (std::size_t axis = 0; axis < maps.size(); ++axis) {
    const MapTerm only = maps[axis].terms[0];
    low.push_back(maps[axis].constant);
    interior.push_back(only.coefficient - 1);
    high.push_back(to[axis] - maps[axis].constant - only.coefficient * (only.extent - 1) - 1);
  }
  return out.pad(u, low, high, interior);
}

}  // namespace

namespace {

/// Updates without their overlapping digits: one part for each position of a window.
class WindowParts {
 public:
  WindowParts(Emitter& out, ValueId updates, std::vector<AxisMap> maps, const Order& order)
      : out_(out), maps_(std::move(maps)), order_(order) {
    const Order falling = turn_falling(maps_);
    taken_ = take_overlapping(maps_);
    updates_ = out.reverse(updates, axes_of(falling, order));
    for (const AxisMap& map : maps_)
      for (const MapTerm& term : map.terms) rest_.push_back(term.digit);
  }
  std::int64_t count() const { return parts_of(taken_); }
  std::vector<std::size_t> strided() const { return strided_axes(maps_, taken_); }
  std::vector<AxisMap> maps_at(std::int64_t part) const { return part_of(maps_, taken_, part); }

  /// Places a part in zeros of shape `to` and adds `sum`.
  ValueId add(ValueId sum, std::int64_t part, const std::vector<AxisMap>& maps, const Shape& to) {
    const ValueId term = plain_place(out_, at_place(part), maps, to);
    if (sum == no_value) return term;
    Attributes attributes;
    attributes.set("function", std::string("add"));
    return out_.emit(Kind::elementwise, {sum, term}, std::move(attributes));
  }

 private:
  /// One part of the updates, with axes in the order of the maps.
  ValueId at_place(std::int64_t part) {
    Shape start(order_.size(), 0), limit = out_.shape(updates_), kept;
    for (auto entry = taken_.rbegin(); entry != taken_.rend(); ++entry) {
      const auto axis = at(std::ranges::find(order_, entry->second.digit) - order_.begin());
      start[axis] = part % entry->second.extent;
      limit[axis] = start[axis] + 1;
      part /= entry->second.extent;
    }
    Order there;  // digits that the part has as axes
    for (std::size_t axis = 0; axis < order_.size(); ++axis)
      if (std::ranges::count(rest_, order_[axis])) there.push_back(order_[axis]), kept.push_back(limit[axis]);
    std::vector<std::int64_t> permutation;
    for (const std::size_t digit : rest_) permutation.push_back(std::ranges::find(there, digit) - there.begin());
    const ValueId one = out_.slice(updates_, start, limit, Shape(order_.size(), 1));
    return out_.transpose(out_.reshape(one, kept), permutation);
  }

  Emitter& out_;
  ValueId updates_ = no_value;
  std::vector<AxisMap> maps_;
  Order order_, rest_;
  std::vector<std::pair<std::size_t, MapTerm>> taken_;
};

/// Sums strided windows phase by phase, on contiguous elements, and interleaves the phases at the end. no_value if a
/// phase has no position.
ValueId placed_by_phase(Emitter& out, WindowParts& parts, const std::vector<std::size_t>& strided, const Shape& to) {
  std::int64_t phases = 1;
  Shape steps, part_shape = to;
  for (const std::size_t axis : strided) {
    steps.push_back(parts.maps_at(0)[axis].terms.back().coefficient);
    phases *= steps.back();
    part_shape[axis] = ceil_div(to[axis], steps.back());
  }
  if (phases > parts.count()) return no_value;
  std::vector<std::vector<std::pair<std::int64_t, std::vector<AxisMap>>>> members(at(phases));
  for (std::int64_t part = 0; part < parts.count(); ++part) {
    std::vector<AxisMap> maps = parts.maps_at(part);
    std::int64_t phase = 0;
    for (std::size_t i = 0; i < strided.size(); ++i) phase = phase * steps[i] + to_phase(maps[strided[i]]);
    members[at(phase)].emplace_back(part, std::move(maps));
  }
  if (std::ranges::any_of(members, [](const auto& phase) { return phase.empty(); })) return no_value;
  std::vector<ValueId> sums;
  Shape unit = part_shape;
  unit.insert(unit.begin(), 1);
  for (const auto& phase : members) {
    ValueId sum = no_value;
    for (const auto& [part, maps] : phase) sum = parts.add(sum, part, maps, part_shape);
    sums.push_back(out.reshape(sum, unit));
  }
  Attributes attributes;
  attributes.set("dim", std::int64_t{0});
  Shape shape = steps, merged = part_shape;
  shape.insert(shape.end(), part_shape.begin(), part_shape.end());
  ValueId all = out.reshape(sums.size() == 1 ? sums[0] : out.emit(Kind::concat, sums, std::move(attributes)), shape);
  std::vector<std::int64_t> permutation;
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    permutation.push_back(static_cast<std::int64_t>(steps.size() + axis));
    const auto place = std::ranges::find(strided, axis);
    if (place == strided.end()) continue;
    permutation.push_back(place - strided.begin());
    merged[axis] *= steps[at(place - strided.begin())];
  }
  all = out.reshape(out.transpose(all, permutation), merged);
  return out.slice(all, Shape(to.size(), 0), to, Shape(to.size(), 1));
}

}  // namespace

ValueId placed(Emitter& out, ValueId updates, std::vector<AxisMap> maps, const Order& order, const Shape& to,
               bool distinct) {
  WindowParts parts(out, updates, std::move(maps), order);
  if (parts.count() > most_parts || (distinct && parts.count() > 1)) return no_value;
  if (const std::vector<std::size_t> strided = parts.strided(); !strided.empty())
    if (const ValueId sum = placed_by_phase(out, parts, strided, to); sum != no_value) return sum;
  ValueId sum = no_value;
  for (std::int64_t part = 0; part < parts.count(); ++part) sum = parts.add(sum, part, parts.maps_at(part), to);
  return sum;
}

}  // namespace tilesim::recognition
