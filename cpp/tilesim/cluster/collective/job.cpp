// Routes of a program's messages, and translations by which one device represents others.
#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/cluster/collective/program.hpp"

namespace tilesim::cluster {

namespace {

/// An axis of a network: a dimension, or one axis of a grid.
struct Way { int dimension, stride, size; };

std::vector<Way> ways_of(const Network& network) {
  std::vector<Way> ways;
  for (int i = 0; i < static_cast<int>(network.dimensions().size()); ++i) {
    const Dimension& dimension = network.dimensions()[at(i)];
    int stride = network.stride(i);
    const std::vector<std::int64_t> whole{dimension.size()};
    for (const std::int64_t size : dimension.grid() ? dimension.sizes : whole) {
      ways.push_back({i, stride, static_cast<int>(size)});
      stride *= static_cast<int>(size);
    }
  }
  return ways;
}

}  // namespace

Turns::Turns(const Template& program, const Network& network, const std::vector<int>& places, bool shared)
    : Turns(static_cast<int>(places.size())) {
  network_ = &network;
  if (!network.regular()) return;
  Group group = program.group;
  std::erase_if(group.axes, [](const Group::Axis& axis) { return axis.size == 1; });
  std::size_t used = 0;
  for (const Way& way : ways_of(network)) {
    const Dimension& dimension = network.dimensions()[at(way.dimension)];
    std::set<int> coordinates;
    for (const int place : places) coordinates.insert(place / way.stride % way.size);
    const auto count = static_cast<int>(coordinates.size());
    if (count == 1) continue;
    if (used >= group.axes.size() || group.axes[used].size != count) break;
    const int first = *coordinates.begin(), step = *std::next(coordinates.begin()) - first;
    const bool by_xor = group.axes[used].by_xor, grid = dimension.grid();
    if (grid && (by_xor || dimension.kind == DimensionKind::mesh || step * count != way.size)) break;
    if (dimension.kind == DimensionKind::dragonfly) break;
    const int last = *coordinates.rbegin();
    if (dimension.kind == DimensionKind::fat_tree && first / dimension.leaf != last / dimension.leaf) break;
    const Turn turn{way.dimension, way.stride, way.size, step, count, first % (step * count) / step * step, by_xor};
    if (!turns(turn, places)) break;
    turns_.push_back(turn);
    inner_ *= count;
    ++used;
  }
  for (int i = 0; i < static_cast<int>(network.dimensions().size()); ++i) {  // several devices share a port
    const std::int64_t rails = network.dimensions()[at(i)].rails;
    const bool inside = !turns_.empty() && turns_[0].stride < network.stride(i);
    if (inside && ((rails > 0 && rails < network.stride(i)) || network.dimensions()[at(i)].hashed)) forget();
  }
  find_unit(group, places);
  if (!shared && !distinct(program, places)) forget();
}

/// Adds the translation by a leaf switch, or by a pod, if the outermost dimension of the members is a fat tree.
void Turns::find_unit(const Group& group, const std::vector<int>& places) {
  int outer = static_cast<int>(network_->dimensions().size()) - 1;
  const auto number = [&](int place, int stride) { return place / network_->stride(outer) / stride; };
  while (outer > 0 && number(places.front(), 1) == number(places.back(), 1)) --outer;
  const auto hashes = [](const Dimension& one) { return one.hashed; };
  const Dimension& dimension = network_->dimensions()[at(outer)];
  if (dimension.kind != DimensionKind::fat_tree || std::ranges::any_of(network_->dimensions(), hashes)) return;
  const auto pod = static_cast<int>(dimension.pod), leaf = static_cast<int>(dimension.leaf);
  const int step = pod > 0 && number(places.front(), pod) != number(places.back(), pod) ? pod : leaf;
  int unit = 0;
  while (unit < members_ && number(places[at(unit)], step) == number(places[0], step)) ++unit;
  const int last = group.axes.empty() ? 1 : group.axes.back().size, along = members_ / last;
  const bool whole = members_ % unit == 0 && unit % inner_ == 0 && unit % along == 0;
  if (unit == members_ || !whole || (group.axes.back().by_xor && !std::has_single_bit(at(unit / along)))) return;
  const int stride = network_->stride(outer);
  for (int p = unit; p < members_; ++p)
    if (places[at(p)] - places[at(p - unit)] != step * stride) return;
  const int count = members_ / unit, size = static_cast<int>(dimension.size());
  turns_.push_back({outer, stride, size, step, count, places[0] / stride % size % (step * count) / step * step, false});
  unit_ = unit;
}

Turns Turns::unfolded() const {
  Turns other = *this;
  other.turns_.clear();
  other.inner_ = 1;
  other.apart_ = members_ / unit_;
  return other;
}

/// Whether the members' positions along an axis follow their numbers, independently of their other coordinates.
bool Turns::turns(const Turn& turn, const std::vector<int>& places) const {
  for (int p = 0; p < static_cast<int>(places.size()); ++p) {
    const int more = p / inner_ % turn.count * turn.step;
    const int here = places[at(p)], first = places[at(p - p / inner_ % turn.count * inner_)];
    if (here - first != more * turn.stride || here / turn.stride % turn.size < more) return false;
  }
  return static_cast<int>(places.size()) % (inner_ * turn.count) == 0;
}

/// Whether no message shares a link with an image of it.
bool Turns::distinct(const Template& program, const std::vector<int>& places) const {
  if (!folds()) return true;
  std::set<int> offsets;
  for (const auto& message : program.messages) offsets.insert(message.offset);
  std::vector<int> way;
  std::set<std::int64_t> seen;
  for (int from = 0; from < unit_; from += inner_)
    for (const int offset : offsets) {
      way.clear();
      seen.clear();
      network_->route(places[at(from)], places[at(program.group.add(from, offset))], way);
      for (const int link : way)
        if (!seen.insert(name(link)).second) return false;
    }
  return true;
}

Turns Turns::moved(const std::vector<int>& places) const {
  Turns other = *this;
  for (Turn& turn : other.turns_)
    turn.origin = places[0] / turn.stride % turn.size % (turn.step * turn.count) / turn.step * turn.step;
  return other;
}

void Turns::forget() {
  turns_.clear();
  inner_ = 1;
  unit_ = members_;
}

namespace {

/// The trunk of a fat tree that the image of a trunk's first member uses.
template <class Image>
int trunk_image(const Dimension& dimension, int trunk, const Image& image) {
  const auto size = static_cast<int>(dimension.size()), leaf = static_cast<int>(dimension.leaf);
  const auto pod = static_cast<int>(dimension.pod);
  const auto leaves = static_cast<int>(ceil_div(size, leaf)),
             pods = static_cast<int>(pod > 0 ? ceil_div(size, pod) : 1);
  int first = 2 * size, count = leaves, wide = leaf;
  if (trunk >= first + 2 * leaves) first += 2 * leaves, count = pods, wide = pod;
  const int way = (trunk - first) / count, here = (trunk - first) % count;
  return first + way * count + image(here * wide) / wide;
}

}  // namespace

std::int64_t Turns::name(int link) const {
  const int number = network_->dimension_of_link(link), local = network_->local_link(link);
  const Dimension& dimension = network_->dimensions()[at(number)];
  const Link& one = network_->links()[at(link)];
  const bool leaves = one.source < network_->devices(), arrives = one.target < network_->devices();
  int device = leaves ? one.source : one.target, kind = leaves ? 1 : 0;
  if (!leaves && !arrives) device = network_->first_of_link(link), kind = 2 + local;  // between switches
  if (dimension.grid()) kind = local % (2 * static_cast<int>(dimension.sizes.size()));
  if (dimension.kind == DimensionKind::full) kind = local % static_cast<int>(dimension.size());
  for (const Turn& turn : turns_) {
    const int here = device / turn.stride % turn.size - turn.origin, block = turn.step * turn.count;
    if (turn.dimension == number && dimension.kind == DimensionKind::full) {
      const int there = kind - turn.origin;
      kind = turn.by_xor ? here / turn.step ^ there / turn.step : ((there - here) % block + block) % block;
    }
    const auto beyond = [&](int place) {  // distance from the image in the first unit
      const int inside = (place % block + block) % block;
      return inside - inside % turn.step;
    };
    if (leaves || arrives || turn.dimension != number)
      device -= beyond(here) * turn.stride;
    else if (dimension.kind == DimensionKind::fat_tree)
      kind = 2 + trunk_image(dimension, local, [&](int place) { return place - beyond(place - turn.origin); });
  }
  return ((static_cast<std::int64_t>(number) << 26) + kind) << 32 | device;
}

Job::Job(std::shared_ptr<const Program> made, const Network& network, std::vector<int> places, std::int64_t size,
         std::int64_t begin, const Turns* turns, Named* named)
    : shared(std::move(made)), program(*shared), bytes(size), start(begin) {
  const bool list = program.copies == 1;
  const Turns none(program.copies), &order = turns == nullptr || list ? none : *turns;
  copies = order.copies();
  Named own, &names = named == nullptr ? own : *named;
  std::map<std::pair<int, int>, int> kinds;
  std::vector<std::pair<int, int>> pairs;
  for (std::size_t m = 0; m < program.size(); ++m) {
    const auto [found, fresh] =
        kinds.try_emplace({program.source[m], program.target[m]}, static_cast<int>(pairs.size()));
    if (fresh) pairs.push_back(found->first);
    kind_of_message.push_back(found->second);
  }
  for (const auto& [source, target] : pairs) {
    for (int copy = 0; copy < copies; ++copy) {
      Way way;
      way.begin = static_cast<int>(links.size());
      const int from = list ? source : order.position(copy), to = list ? target : program.group.add(from, target);
      network.route(places[at(from)], places[at(to)], links);
      way.end = static_cast<int>(links.size());
      for (int i = way.begin; i < way.end; ++i) {
        int& link = links[at(i)];
        way.latency += network.links()[at(link)].latency;
        if (order.folds()) link = names.try_emplace(order.name(link), link).first->second;
      }
      way.next = list ? 0 : order.copy(to);
      ways.push_back(way);
    }
  }
}

}  // namespace tilesim::cluster
