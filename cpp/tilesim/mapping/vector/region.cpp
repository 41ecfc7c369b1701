#include "tilesim/mapping/vector/region.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "tilesim/base/shape.hpp"

namespace tilesim::mapping {

std::vector<std::int64_t> strides_of(const VectorOperand& operand) {
  std::vector<std::int64_t> result;
  std::int64_t stride = bits(operand.dtype);
  for (std::size_t i = 0; i < operand.axes.size(); ++i) {
    result.push_back(stride);
    const bool padded = operand.layout.size() == 2 && operand.axes.size() >= 2 && i < 2;
    const std::int64_t extent = padded ? round_up(operand.extents[i], operand.layout[1 - i]) : operand.extents[i];
    stride = saturating(stride, std::max<std::int64_t>(1, extent));
  }
  return result;
}

TensorMap::TensorMap(const VectorProblem& problem, const VectorOperand& operand, const Share& machine)
    : problem_(problem),
      operand_(operand),
      burst_(machine.memory.burst_bytes),
      tiled_(operand.layout.size() == 2 && operand.access.size() >= 2),
      strides_(strides_of(operand)) {
  for (std::size_t place = 0; place < operand.access.size(); ++place) {
    const AxisAccess& access = operand.access[place];
    for (const AxisAccess::Term& term : access.terms)
      dims_.push_back({static_cast<std::size_t>(term.dim), place, term.coefficient, term.coefficient * strides_[place],
                       access.terms.size() == 1});
    if (access.terms.size() != 1) begin_ += access.constant * strides_[place];
  }
  std::stable_sort(dims_.begin(), dims_.end(),
                   [](const Dim& a, const Dim& b) { return std::abs(a.stride) < std::abs(b.stride); });
}

/// The elements of the value that a tile with its taps reads along an axis of the space.
Stretch TensorMap::taken(std::size_t axis, const Stretch& tile, const Stretch* tap) const {
  Stretch result = tile;
  if (!operand_.most.empty()) result.size = std::min(tile.size, operand_.most[axis]);
  const std::int64_t step = operand_.step[axis];
  if (operand_.dilation.empty()) return result;
  const std::int64_t dilation = operand_.dilation[axis], taps = tap ? tap->size : problem_.taps[axis];
  result.start = tile.start * step + (tap ? tap->start : 0) * dilation - operand_.before[axis];
  result.size = (result.size - 1) * step + (taps - 1) * dilation + 1;
  result.distance = tile.distance * step;
  return result;
}

std::vector<Stretch> TensorMap::all_taken(std::size_t axis, const Cuts& tiles, const Cuts& taps) const {
  std::vector<Stretch> result;
  for (const Stretch& tile : tiles[axis]) {
    if (taps.empty() || operand_.dilation.empty()) {
      result.push_back(taken(axis, tile, nullptr));
      continue;
    }
    for (Stretch tap : taps[axis])
      for (std::int64_t i = 0; i < tap.count; ++i, tap.start += tap.distance) result.push_back(taken(axis, tile, &tap));
  }
  return result;
}

/// The range of a tile along a dim, clipped to the tensor if the dim is alone on its axis; length 0: outside.
TensorMap::Span TensorMap::span(const Dim& dim, std::int64_t start, std::int64_t size) const {
  const std::int64_t from = dim.coefficient * start, reach = dim.coefficient * (size - 1);
  Span span{from + std::min<std::int64_t>(0, reach), from + std::max<std::int64_t>(0, reach), size};
  if (!dim.alone) return span;
  const std::int64_t constant = operand_.access[dim.place].constant;
  span.low = std::max<std::int64_t>(0, span.low + constant);
  span.high = std::min(operand_.extents[dim.place] - 1, span.high + constant);
  span.length = span.high < span.low ? 0 : (span.high - span.low) / std::abs(dim.coefficient) + 1;
  return span;
}

TensorMap::Class TensorMap::class_of(const Dim& dim, const Span& span) const {
  if (!tiled_) {
    const std::int64_t period = 8 * burst_, place = span.low * strides_[dim.place] % period;
    return {span.length, place < 0 ? place + period : place, false, 1};
  }
  const std::int64_t granule = dim.place < 2 ? operand_.layout[1 - dim.place] : 1;
  return {span.length == 0 ? 0 : span.high - span.low + 1, span.low % granule,
          span.high + 1 == operand_.extents[dim.place], 1};
}

/// Groups the tiles of stretches by length and alignment; tiles inside the tensor repeat periodically.
TensorMap::Classes TensorMap::classes(const Dim& dim, const std::vector<Stretch>& stretches) const {
  Classes result;
  const auto add = [&](Class next, std::int64_t count) {
    for (Class& known : result)
      if (known.length == next.length && known.place == next.place && known.to_end == next.to_end) {
        known.count += static_cast<double>(count);
        return;
      }
    next.count = static_cast<double>(count);
    result.push_back(next);
  };
  const std::int64_t period = tiled_ ? (dim.place < 2 ? operand_.layout[1 - dim.place] : 1) : 8 * burst_;
  for (const Stretch& stretch : stretches) {
    const auto at = [&](std::int64_t i) { return span(dim, stretch.start + i * stretch.distance, stretch.size); };
    const auto plain = [&](std::int64_t i) {
      const Span here = at(i);
      const bool whole = here.high - here.low == std::abs(dim.coefficient) * (stretch.size - 1);
      return whole && !(tiled_ && here.high + 1 == operand_.extents[dim.place]);
    };
    std::int64_t first = 0, last = stretch.count;
    while (first < last && !plain(first)) add(class_of(dim, at(first++)), 1);
    while (last > first && !plain(last - 1)) add(class_of(dim, at(--last)), 1);
    const std::int64_t moves = std::abs(dim.coefficient * stretch.distance) * (tiled_ ? 1 : strides_[dim.place]);
    const std::int64_t turns = period / std::gcd(moves % period, period), left = last - first;
    for (std::int64_t i = 0; i < std::min(turns, left); ++i)
      add(class_of(dim, at(first + i)), (left - i + turns - 1) / turns);
  }
  return result;
}

/// Bytes of all tiles with these lengths along each dim, by their positions within a burst.
double TensorMap::dense_bytes(const std::vector<std::int64_t>& lengths, const Classes& places) const {
  std::int64_t run = bits(operand_.dtype), runs = 1;
  bool contiguous = true, aligned = true;
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    if (lengths[i] == 1) continue;
    const std::int64_t stride = std::abs(dims_[i].stride);
    contiguous = contiguous && stride == run;
    (contiguous ? run : runs) = saturating(contiguous ? run : runs, lengths[i]);
    if (!contiguous) aligned &= stride / 8 % burst_ == 0;
  }
  const std::int64_t bytes = ceil_div(run, 8);
  double total = 0;
  for (const Class& at : places) {
    const std::int64_t skew = aligned || runs == 1 ? at.place / 8 % burst_ : (burst_ - 1) / 2;
    total += at.count * static_cast<double>(runs) * static_cast<double>(round_up(skew + bytes, burst_));
  }
  return total;
}

/// Sums over all combinations of lengths, each with all positions of its tiles within a burst.
void TensorMap::add_dense(const std::vector<Classes>& of_dims, std::vector<std::int64_t>& lengths,
                          std::vector<Classes>& chosen, Sweep& total) const {
  const std::size_t dim = lengths.size();
  if (dim < of_dims.size()) {
    std::vector<std::int64_t> seen;
    for (const Class& first : of_dims[dim]) {
      if (first.length == 0 || std::find(seen.begin(), seen.end(), first.length) != seen.end()) continue;
      seen.push_back(first.length);
      lengths.push_back(first.length);
      Classes& own = chosen.emplace_back();
      for (const Class& other : of_dims[dim])
        if (other.length == first.length) own.push_back(other);
      add_dense(of_dims, lengths, chosen, total);
      lengths.pop_back();
      chosen.pop_back();
    }
    return;
  }
  const std::int64_t period = 8 * burst_;
  Classes places{{1, ((begin_ % period) + period) % period, false, 1}};
  for (const Classes& own : chosen) {
    Classes next;
    for (const Class& at : places)
      for (const Class& other : own) {
        const std::int64_t place = (at.place + other.place) % period;
        const auto known = std::find_if(next.begin(), next.end(), [&](const Class& c) { return c.place == place; });
        if (known == next.end())
          next.push_back({1, place, false, at.count * other.count});
        else
          known->count += at.count * other.count;
      }
    places = std::move(next);
  }
  total.bytes += dense_bytes(lengths, places);
  for (const Class& at : places) total.transfers += at.count;
}

/// Elements that move along an axis of a tiled tensor: full rows of lanes; full tiles if the region starts at a tile
/// and ends with the tensor.
std::int64_t TensorMap::tiled_length(std::size_t place, std::int64_t low, std::int64_t high) const {
  const std::int64_t length = high - low + 1;
  if (place >= 2) return length;
  const std::int64_t granule = operand_.layout[1 - place];
  if (place == 0) return (high / granule - low / granule + 1) * granule;
  return low % granule == 0 && high + 1 == operand_.extents[1] ? round_up(length, granule) : length;
}

/// Elements and tiles along one axis of the tensor (`bytes` counts elements).
TensorMap::Sweep TensorMap::tiled_axis(std::size_t place, const std::vector<std::vector<Stretch>>& taken) const {
  std::vector<const Dim*> own;
  for (const Dim& dim : dims_)
    if (dim.place == place) own.push_back(&dim);
  Sweep total;
  const std::int64_t constant = operand_.access[place].constant;
  if (own.size() == 1 && own[0]->alone) {
    for (const Class& at : classes(*own[0], taken[own[0]->axis])) {
      if (at.length == 0) continue;
      const std::int64_t end = operand_.extents[place];
      const std::int64_t low = at.to_end ? end - at.length : at.place;
      const double length = static_cast<double>(tiled_length(place, low, low + at.length - 1));
      // `place` is modulo the layout tile, so low + length may equal the end by coincidence, without padding after it.
      const bool seems = !at.to_end && place == 1 && low + at.length == end;
      total.bytes += at.count * (seems ? static_cast<double>(at.length) : length);
      total.transfers += at.count;
    }
    return total;
  }
  struct Interval { std::int64_t low = 0, high = 0; };
  std::vector<Interval> parts{{constant, constant}};
  for (const Dim* dim : own) {
    std::vector<Interval> next;
    for (const Interval& part : parts)
      for (const Stretch& stretch : taken[dim->axis])
        for (std::int64_t i = 0; i < stretch.count; ++i) {
          const Span here = span(*dim, stretch.start + i * stretch.distance, stretch.size);
          next.push_back({part.low + here.low, part.high + here.high});
        }
    parts = std::move(next);
  }
  const std::int64_t last = operand_.extents[place] - 1;
  for (const Interval& part : parts)
    if (const std::int64_t low = std::max<std::int64_t>(0, part.low), high = std::min(last, part.high); low <= high)
      total.bytes += static_cast<double>(tiled_length(place, low, high));
  total.transfers = static_cast<double>(parts.size());
  return total;
}

TensorMap::Sweep TensorMap::sweep(const Cuts& tiles, const Cuts& taps) const {
  std::vector<std::vector<Stretch>> regions(tiles.size());
  for (const Dim& dim : dims_) regions[dim.axis] = all_taken(dim.axis, tiles, taps);
  Sweep total;
  if (tiled_) {
    total = {static_cast<double>(bits(operand_.dtype)) / 8, 1};
    for (std::size_t place = 0; place < operand_.access.size(); ++place) {
      const Sweep along = tiled_axis(place, regions);
      total.bytes *= along.bytes;
      total.transfers *= along.transfers;
    }
    return total;
  }
  std::vector<Classes> of_dims;
  for (const Dim& dim : dims_) of_dims.push_back(classes(dim, regions[dim.axis]));
  std::vector<std::int64_t> lengths;
  std::vector<Classes> chosen;
  add_dense(of_dims, lengths, chosen, total);
  return total;
}

Moved TensorMap::moved(const std::vector<Stretch>& tile, const std::vector<Stretch>& taps) const {
  std::int64_t offset = 0;
  std::vector<std::int64_t> lengths;
  std::vector<Span> along(operand_.access.size());
  for (std::size_t place = 0; place < along.size(); ++place)
    if (const AxisAccess& access = operand_.access[place]; access.terms.size() != 1)
      along[place].low = along[place].high = access.constant;
  for (const Dim& dim : dims_) {
    const Stretch region = taken(dim.axis, tile[dim.axis], taps.empty() ? nullptr : &taps[dim.axis]);
    const Span here = span(dim, region.start, region.size);
    if (here.length == 0) return {};
    lengths.push_back(here.length);
    along[dim.place].low += here.low;
    along[dim.place].high += here.high;
  }
  for (std::size_t place = 0; place < along.size(); ++place) {
    along[place].low = std::max<std::int64_t>(0, along[place].low);
    along[place].high = std::min(operand_.extents[place] - 1, along[place].high);
    if (along[place].low > along[place].high) return {};
    offset += along[place].low * strides_[place];
  }
  if (!tiled_) {
    const std::int64_t period = 8 * burst_;
    const Classes place{{1, ((offset % period) + period) % period, false, 1}};
    return {offset / 8, static_cast<std::int64_t>(std::min(dense_bytes(lengths, place), 1e18))};
  }
  std::int64_t elements = 1;
  for (std::size_t place = 0; place < along.size(); ++place)
    elements = saturating(elements, tiled_length(place, along[place].low, along[place].high));
  const std::int64_t lanes = operand_.layout[1];
  offset -= along[0].low % lanes * strides_[0];
  return {offset / 8, packed_bytes(operand_.dtype, std::min(elements, INT64_MAX / 512))};
}

}  // namespace tilesim::mapping
