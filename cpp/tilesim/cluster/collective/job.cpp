// Routes of a program's messages, and when one device stands for all.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/collective/program.hpp"
#include "tilesim/cluster/network/local_routes.hpp"

namespace tilesim::cluster {

namespace {

/// To position 0 a link is like another one if a translation of the group takes one to the other.
std::tuple<int, int, int> class_of(const Network& network, int link, const Group& group, int origin) {
  const int number = network.dimension_of_link(link);
  const Dimension& dimension = network.dimensions()[at(number)];
  const bool by_xor = std::any_of(group.axes.begin(), group.axes.end(), [](const auto& axis) { return axis.by_xor; });
  // A member that only passes messages on is not like one that takes part: links of a grid are told apart by where
  // they start between two that do.
  int between = 0;
  if (dimension.grid()) {
    const int axis = network.local_link(link) % (2 * static_cast<int>(dimension.sizes.size())) / 2;
    int stride = network.stride(number);
    for (int a = 0; a < axis; ++a) stride *= static_cast<int>(dimension.sizes[at(a)]);
    const auto size = static_cast<int>(dimension.sizes[at(axis)]);
    between = (network.links()[at(link)].source / stride % size - origin / stride % size + size) % size;
    const int members = group.axes.empty() ? 1 : group.axes[0].size;
    if (group.axes.size() == 1)
      between %= std::max(1, size / std::max(members, 1));
    else
      between = 0;
  }
  return {number, class_of_link(dimension, network.local_link(link), by_xor), between};
}

/// Coordinates of the devices that take part, per axis of the network; empty where they are no box of even steps.
bool alike_everywhere(const Network& network, const Group& group, const std::vector<int>& places) {
  if (!network.regular()) return false;
  int position_stride = 1;
  std::size_t used = 0;
  for (std::size_t i = 0; i < network.dimensions().size(); ++i) {
    const Dimension& dimension = network.dimensions()[i];
    std::vector<std::int64_t> sizes = dimension.sizes;
    if (!dimension.grid()) sizes = {dimension.size()};
    int stride = network.stride(static_cast<int>(i));
    for (const std::int64_t wide : sizes) {
      const int size = static_cast<int>(wide);
      std::set<int> coordinates;
      for (const int place : places) coordinates.insert(place / stride % size);
      const int count = static_cast<int>(coordinates.size());
      if (count > 1) {
        if (used >= group.axes.size() || group.axes[used].size != count) return false;
        const int step = *std::next(coordinates.begin()) - *coordinates.begin();
        for (int p = 0; p < static_cast<int>(places.size()); ++p) {
          const int mine = places[at(p)] / stride % size - *coordinates.begin();
          if (mine != p / position_stride % count * step) return false;
        }
        if (dimension.grid() &&
            (group.axes[used].by_xor || dimension.kind == DimensionKind::mesh || step * count != size))
          return false;
        const bool tree = dimension.kind == DimensionKind::fat_tree;
        if (tree && places.back() / stride % size / dimension.leaf != places.front() / stride % size / dimension.leaf)
          return false;
        if (dimension.kind == DimensionKind::dragonfly) return false;
        if (dimension.rails > 0 && dimension.rails < network.stride(static_cast<int>(i)) && position_stride > 1)
          return false;  // several devices of a node share a port
        position_stride *= count;
        ++used;
      }
      stride *= size;
    }
  }
  return used == group.axes.size() && position_stride == static_cast<int>(places.size());
}

}  // namespace

bool one_class(const Template& program, const Network& network, const std::vector<int>& places, bool shared) {
  Group group = program.group;
  std::erase_if(group.axes, [](const Group::Axis& axis) { return axis.size == 1; });
  if (!alike_everywhere(network, group, places)) return false;
  if (shared) return true;
  std::set<int> offsets;
  for (const auto& message : program.messages) offsets.insert(message.offset);
  std::vector<int> way;
  for (const int offset : offsets) {
    way.clear();
    network.route(places[0], places[at(offset)], way);
    std::set<std::tuple<int, int, int>> seen;
    for (const int link : way)
      if (!seen.insert(class_of(network, link, group, places[0])).second) return false;
  }
  return true;
}

Job::Job(Program made, const Network& network, std::vector<int> places, std::int64_t size, std::int64_t begin,
         bool one_of_class)
    : program(std::move(made)), bytes(size), start(begin) {
  copies = one_of_class ? 1 : program.copies;
  const bool list = program.copies == 1;
  std::map<std::pair<int, int>, int> kinds;
  std::vector<std::pair<int, int>> pairs;
  for (std::size_t m = 0; m < program.size(); ++m) {
    const auto [found, fresh] =
        kinds.try_emplace({program.source[m], program.target[m]}, static_cast<int>(pairs.size()));
    if (fresh) pairs.push_back(found->first);
    kind_of_message.push_back(found->second);
  }
  std::map<std::tuple<int, int, int>, int> classes;
  for (const auto& [source, target] : pairs) {
    for (int copy = 0; copy < copies; ++copy) {
      Way way;
      way.begin = static_cast<int>(links.size());
      const int from = list ? source : copy, to = list ? target : program.group.add(copy, target);
      network.route(places[at(from)], places[at(to)], links);
      way.end = static_cast<int>(links.size());
      for (int i = way.begin; i < way.end; ++i) {
        int& link = links[at(i)];
        way.latency += network.links()[at(link)].latency;
        if (one_of_class)  // the first link that is seen stands for its class
          link = classes.try_emplace(class_of(network, link, program.group, places[0]), link).first->second;
      }
      way.next = list || one_of_class ? 0 : to;
      ways.push_back(way);
    }
  }
}

}  // namespace tilesim::cluster
