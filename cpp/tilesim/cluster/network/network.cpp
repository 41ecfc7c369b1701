#include "tilesim/cluster/network/network.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/network/local_routes.hpp"

namespace tilesim::cluster {

Network Network::read(const Json& json) {
  ObjectReader reader(json);
  Network network;
  const Json* dimensions = reader.optional("dimensions");
  const Json* graph = reader.optional("graph");
  if ((dimensions == nullptr) == (graph == nullptr))
    json.fail("a network is a list of dimensions, or a graph", "dimensions or graph");
  std::int64_t product = 1;
  if (dimensions != nullptr) {
    for (const Json& item : dimensions->items()) {
      network.dimensions_.push_back(Dimension::read(item));
      const Dimension& dimension = network.dimensions_.back();
      if (dimension.rails > product || (dimension.rails > 0 && product % dimension.rails != 0))
        item.fail("rails must divide the devices of the inner dimensions", "a divisor of " + std::to_string(product));
      network.strides_.push_back(static_cast<int>(product));
      if ((product *= dimension.size()) > most_devices) item.fail("the network has too many devices", "16777216");
    }
    if (network.dimensions_.empty()) dimensions->fail("a network has a dimension", "one or more");
    network.devices_ = static_cast<int>(product);
    network.build();
  } else {
    network.read_graph(*graph);
  }
  if (const Json* faults = reader.optional("faults"); faults != nullptr && !faults->items().empty()) {
    auto healthy = std::make_shared<Network>(network);
    if (healthy->searched_) healthy->search_routes();
    network.read_faults(*faults);
    network.healthy_ = std::move(healthy);
  }
  reader.finish();
  if (network.searched_) network.search_routes();
  return network;
}

void Network::build() {
  nodes_ = devices_;
  for (int i = 0; i < static_cast<int>(dimensions_.size()); ++i) build_dimension(i);
}

/// Adds the links of every instance of a dimension: one per set of devices that differ in it only, or per shared rail.
void Network::build_dimension(int number) {
  const Dimension& dimension = dimensions_[at(number)];
  const int stride = strides_[at(number)], size = static_cast<int>(dimension.size());
  const int rails = dimension.rails > 0 ? static_cast<int>(dimension.rails) : stride;
  bases_.push_back(static_cast<int>(links_.size()));
  per_instance_.push_back(links_of_instance(dimension));
  const int outer = devices_ / (stride * size);
  if (static_cast<std::int64_t>(outer) * rails * per_instance_.back() > (std::int64_t{1} << 28))
    throw UserError(
        {"the network has too many links", dimension.name, {}, "268435456", "use a switch instead of a full network"});
  std::vector<int> nodes(at(size));
  for (int block = 0; block < outer; ++block) {
    for (int rail = 0; rail < rails; ++rail) {
      for (int c = 0; c < size; ++c) nodes[at(c)] = (block * size + c) * stride + rail * (stride / rails);
      append_links(dimension, nodes, nodes_, links_);
    }
  }
}

int Network::instance_base(int number, int device) const {
  const Dimension& dimension = dimensions_[at(number)];
  const int stride = strides_[at(number)], size = static_cast<int>(dimension.size());
  const int rails = dimension.rails > 0 ? static_cast<int>(dimension.rails) : stride;
  const int block = device / (stride * size), inner = device % stride;
  return bases_[at(number)] + (block * rails + inner / (stride / rails)) * per_instance_[at(number)];
}

void Network::route(int source, int target, std::vector<int>& links) const {
  if (source == target) return;
  if (searched_) {
    if (const auto found = stated_.find({source, target}); found != stated_.end()) {
      links.insert(links.end(), found->second.begin(), found->second.end());
      return;
    }
    const auto begin = static_cast<std::ptrdiff_t>(links.size());
    for (int node = target; node != source;) {
      const int link = before_[at(source)][at(node)];
      links.push_back(link);
      node = links_[at(link)].source;
    }
    std::reverse(links.begin() + begin, links.end());
    return;
  }
  int here = source;
  for (int i = 0; i < static_cast<int>(dimensions_.size()); ++i) {
    const int stride = strides_[at(i)], size = static_cast<int>(dimensions_[at(i)].size());
    const int from = here / stride % size, to = target / stride % size;
    if (from == to) continue;
    append_route(dimensions_[at(i)], from, to, instance_base(i, here), links);
    here += (to - from) * stride;
  }
}

int Network::dimension_of_link(int link) const {
  int number = static_cast<int>(bases_.size()) - 1;
  while (number > 0 && bases_[at(number)] > link) --number;
  return number;
}

int Network::first_of_link(int link) const {
  const int number = dimension_of_link(link), instance = (link - bases_[at(number)]) / per_instance_[at(number)];
  const Dimension& dimension = dimensions_[at(number)];
  const int stride = strides_[at(number)], size = static_cast<int>(dimension.size());
  const int rails = dimension.rails > 0 ? static_cast<int>(dimension.rails) : stride;
  return instance / rails * stride * size + instance % rails * (stride / rails);
}

int Network::local_link(int link) const {
  const int number = dimension_of_link(link);
  return (link - bases_[at(number)]) % per_instance_[at(number)];
}

}  // namespace tilesim::cluster
