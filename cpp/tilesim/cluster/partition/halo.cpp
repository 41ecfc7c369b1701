#include "tilesim/cluster/partition/halo.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"

namespace tilesim::partitioning {

namespace {

struct HaloMessage {
  Need need;
  std::int64_t sender, receiver, start;
  std::int64_t rows() const { return need.to - need.from; }
};

/// Turns a device's own elements into segments, and the others into messages.
std::vector<HaloMessage> split(const std::vector<Source>& sources, const std::vector<std::vector<Need>>& needs,
                               Route& found) {
  std::vector<HaloMessage> pieces;
  for (std::size_t i = 0; i < needs.size(); ++i)
    for (const Need& need : needs[i]) {
      const Source& source = sources[need.source];
      if (!source.divided) {
        found.segments[i].push_back({need.source, need.from, need.place, need.to - need.from});
        continue;
      }
      for (std::int64_t j = need.from / source.part; j * source.part < need.to; ++j) {
        const std::int64_t low = std::max(need.from, j * source.part), high = std::min(need.to, (j + 1) * source.part);
        const std::int64_t start = low - j * source.part, place = need.place + low - need.from;
        if (at(j) == i)
          found.segments[i].push_back({need.source, start, place, high - low});
        else
          pieces.push_back({{need.source, low, high, place}, j, static_cast<std::int64_t>(i), start});
      }
    }
  return pieces;
}

/// Index of the first hop with a free sender and a free receiver, and with at most the rows of the sender's part.
std::size_t hop_for(const HaloMessage& piece, std::int64_t part, std::size_t parts, std::vector<Hop>& hops) {
  const auto free = [&](const Hop& hop) {
    return hop.from[at(piece.receiver)] < 0 && hop.first[at(piece.sender)] < 0 && hop.rows <= part;
  };
  const auto found = std::ranges::find_if(hops, free) - hops.begin();
  if (at(found) == hops.size()) {
    const std::vector<std::int64_t> none(parts, -1);
    hops.push_back({piece.rows(), none, none, std::vector<std::size_t>(parts, piece.need.source)});
  }
  return at(found);
}

}  // namespace

Route route(const std::vector<Source>& sources, const std::vector<std::vector<Need>>& needs) {
  Route found;
  found.segments.resize(needs.size());
  std::vector<HaloMessage> pieces = split(sources, needs, found);
  std::ranges::stable_sort(pieces, [](const HaloMessage& a, const HaloMessage& b) {
    if (a.rows() != b.rows()) return a.rows() > b.rows();
    return a.sender - a.receiver < b.sender - b.receiver;
  });
  for (const HaloMessage& piece : pieces) {
    const std::int64_t part = sources[piece.need.source].part;
    const std::size_t index = hop_for(piece, part, needs.size(), found.hops);
    Hop& hop = found.hops[index];
    // A shorter piece is sent together with adjacent elements.
    const std::int64_t first = std::min(piece.start, part - hop.rows);
    hop.from[at(piece.receiver)] = piece.sender;
    hop.first[at(piece.sender)] = first;
    hop.source[at(piece.sender)] = piece.need.source;
    found.segments[at(piece.receiver)].push_back(
        {sources.size() + index, piece.start - first, piece.need.place, piece.rows()});
  }
  for (std::vector<Segment>& own : found.segments) std::ranges::sort(own, {}, &Segment::place);
  return found;
}

Route route_of(const Join& join, std::int64_t parts) {
  const std::int64_t own = ceil_div(join.extent, parts);
  std::vector<Source> sources;
  for (const Stretch& stretch : join.stretches)
    sources.push_back({stretch.divided ? ceil_div(stretch.extent, parts) : stretch.extent, stretch.divided});
  // Equal operands share a source.
  std::vector<std::size_t> first(sources.size());
  for (std::size_t k = 0; k < first.size(); ++k) first[k] = join.stretches[k].same;
  std::vector<std::vector<Need>> needs(at(parts));
  for (std::int64_t i = 0; i < parts; ++i)
    for (std::size_t k = 0; k < sources.size(); ++k) {
      const Stretch& stretch = join.stretches[k];
      const std::int64_t low = std::max(stretch.place, i * own),
                         high = std::min(stretch.place + stretch.to - stretch.from, (i + 1) * own);
      const std::int64_t shift = stretch.from - stretch.place;
      if (low < high) needs[at(i)].push_back({first[k], low + shift, high + shift, low - i * own});
    }
  return route(sources, needs);
}

std::int64_t received(const Borders& borders) {
  if (borders.route.hops.empty()) return borders.left + borders.right;
  return received(borders.route);
}

std::int64_t received(const Route& route) {
  std::int64_t rows = 0;
  for (const Hop& hop : route.hops) rows += hop.rows;
  return rows;
}

Borders borders_of(const Halo& halo, std::int64_t extent, std::int64_t parts) {
  Borders borders;
  const std::int64_t own = ceil_div(extent, parts), holes = halo.divisor;
  if (parts > extent || parts > halo.extent || halo.step * own % holes != 0) return borders;
  borders.part = ceil_div(halo.extent, parts);
  borders.first = halo.constant / holes + (halo.constant % holes > 0 ? 1 : 0);
  borders.low = borders.first * holes - halo.constant;
  borders.step = halo.step * own / holes;
  const std::int64_t last = halo.step * (own - 1) + halo.reach - borders.low;
  if (last < 0) return borders;  // some devices would read only holes
  borders.length = last / holes + 1;
  borders.high = last - (borders.length - 1) * holes;
  const auto length_of = [&](std::int64_t count) {
    const std::int64_t reach = halo.step * (count - 1) + halo.reach - borders.low;
    return reach < 0 ? 0 : reach / holes + 1;
  };
  std::vector<std::vector<Need>> needs(at(parts));
  for (std::int64_t i = 0; i < parts; ++i) {
    // Padding of the factor needs no elements, but padding that is summed must not read NaN.
    const std::int64_t count = std::min(own, extent - i * own), begin = borders.first + i * borders.step;
    const std::int64_t read = halo.sums ? borders.length : count > 0 ? length_of(count) : 0;
    if (read > 0 && (begin < 0 || begin + read > halo.extent)) borders.leaves = true;
    if (count <= 0) continue;
    const std::int64_t from = std::max<std::int64_t>(begin, 0), to = std::min(begin + length_of(count), halo.extent);
    if (from >= to) continue;
    needs[at(i)].push_back({0, from, to, from - begin});
    borders.left = std::max(borders.left, i * borders.part - from);
    borders.right = std::max(borders.right, to - (i + 1) * borders.part);
  }
  if (borders.step != borders.part) {
    Route found = route({{borders.part, true}}, needs);
    if (received(found) < borders.left + borders.right) borders.route = std::move(found);
  }
  borders.possible = received(borders) < (parts - 1) * borders.part || parts == 1;
  return borders;
}

bool halos_fit(const Rule& rule, int factor, std::int64_t parts) {
  if (parts == 1) return true;
  const Join& join = rule.join;
  const auto fits = [&](const Stretch& stretch) { return !stretch.divided || stretch.extent >= parts; };
  if (join.factor == factor && (join.extent < parts || (join.settled && !std::ranges::all_of(join.stretches, fits))))
    return false;
  return std::ranges::all_of(rule.halos, [&](const Halo& halo) {
    return halo.factor != factor || borders_of(halo, rule.factors[at(factor)].extent, parts).possible;
  });
}

const Halo* find_halo(const Rule& rule, std::size_t operand, std::size_t axis) {
  for (const Halo& halo : rule.halos)
    if (halo.operand == operand && halo.axis == axis) return &halo;
  return nullptr;
}

}  // namespace tilesim::partitioning
