// Routes of a program's messages, and translations by which one device represents others.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tilesim/base/index.hpp"
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
    : network_(&network) {
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
  if (!shared && !apart(program, places)) forget();
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
bool Turns::apart(const Template& program, const std::vector<int>& places) const {
  if (inner_ == 1) return true;
  std::set<int> offsets;
  for (const auto& message : program.messages) offsets.insert(message.offset);
  std::vector<int> way;
  std::set<std::int64_t> seen;
  for (int from = 0; from < static_cast<int>(places.size()); from += inner_)
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
}

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
    const int inside = (here % block + block) % block;
    device -= (inside - inside % turn.step) * turn.stride;
  }
  return ((static_cast<std::int64_t>(number) << 26) + kind) << 32 | device;
}

bool one_class(const Template& program, const Network& network, const std::vector<int>& places, bool shared) {
  const auto n = static_cast<int>(places.size());
  return n > 1 && Turns(program, network, places, shared).inner() == n;
}

Job::Job(std::shared_ptr<const Program> made, const Network& network, std::vector<int> places, std::int64_t size,
         std::int64_t begin, const Turns* turns, Named* named)
    : shared(std::move(made)), program(*shared), bytes(size), start(begin) {
  const int inner = turns == nullptr ? 1 : turns->inner();
  copies = program.copies / inner;
  const bool list = program.copies == 1;
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
      const int from = list ? source : copy * inner, to = list ? target : program.group.add(copy * inner, target);
      network.route(places[at(from)], places[at(to)], links);
      way.end = static_cast<int>(links.size());
      for (int i = way.begin; i < way.end; ++i) {
        int& link = links[at(i)];
        way.latency += network.links()[at(link)].latency;
        if (inner > 1) link = named->try_emplace(turns->name(link), link).first->second;
      }
      way.next = list ? 0 : to / inner;
      ways.push_back(way);
    }
  }
}

}  // namespace tilesim::cluster
