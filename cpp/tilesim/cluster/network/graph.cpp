// Networks as graphs: files of nodes and links, faults, and routes by search.
#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <set>
#include <tuple>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/network/network.hpp"

namespace tilesim::cluster {

namespace {

std::int64_t seconds(const Json* json) {
  return json == nullptr ? 0 : static_cast<std::int64_t>(std::ceil(json->as_double() * 1e12 - 1e-3));
}

}  // namespace

void Network::read_graph(const Json& json) {
  ObjectReader reader(json);
  devices_ = static_cast<int>(reader.integer("devices", 1, most_devices));
  nodes_ = devices_ + static_cast<int>(reader.integer_or("switches", 0, 0, most_devices));
  searched_ = true;
  for (const Json& item : reader.required("links").items()) {
    ObjectReader link(item);
    const int source = static_cast<int>(link.integer("source", 0, nodes_ - 1));
    const int target = static_cast<int>(link.integer("target", 0, nodes_ - 1));
    if (source == target) item.fail("a link leads to another node", "source other than target");
    const Json& rate = link.required("bandwidth_bytes_per_second");
    if (!(rate.as_double() >= 1) || rate.as_double() > 1e18) rate.fail("a bandwidth is bytes per second", "1 ... 1e18");
    const Json* latency = link.optional("latency_seconds");
    if (latency != nullptr && !(latency->as_double() >= 0 && latency->as_double() <= 1e3))
      latency->fail("a latency is seconds", "0 ... 1000");
    const auto bandwidth = static_cast<std::int64_t>(std::llround(rate.as_double()));
    const int lanes = static_cast<int>(link.integer_or("lanes", 1, 1, 1 << 20));
    links_.push_back({source, target, bandwidth, seconds(latency), lanes, false});
    if (link.boolean_or("both_ways", true))
      links_.push_back({target, source, bandwidth, seconds(latency), lanes, false});
    link.finish();
  }
  if (const Json* routes = reader.optional("routes")) {
    for (const Json& item : routes->items()) {
      const auto& nodes = item.items();
      if (nodes.size() < 2) item.fail("a route is a list of nodes", "source, nodes between, target");
      std::vector<int> way;
      for (std::size_t i = 0; i + 1 < nodes.size(); ++i) {
        const auto from = nodes[i].as_int(0, nodes_ - 1), to = nodes[i + 1].as_int(0, nodes_ - 1);
        const auto found = std::find_if(links_.begin(), links_.end(),
                                        [&](const Link& link) { return link.source == from && link.target == to; });
        if (found == links_.end()) nodes[i + 1].fail("a route follows links", "a neighbour of " + std::to_string(from));
        way.push_back(static_cast<int>(found - links_.begin()));
      }
      stated_[{static_cast<int>(nodes.front().as_int(0, devices_ - 1)),
               static_cast<int>(nodes.back().as_int(0, devices_ - 1))}] = std::move(way);
    }
  }
  reader.finish();
}

void Network::read_faults(const Json& json) {
  for (const Json& item : json.items()) {
    ObjectReader reader(item);
    Fault fault;
    fault.share = reader.number_or("share", 0);
    if (!(fault.share >= 0) || fault.share > 1) item.fail("share is what is left of a link's rate", "0 ... 1");
    if (const Json* device = reader.optional("device")) {
      fault.source = static_cast<int>(device->as_int(0, devices_ - 1));
      if (fault.share == 0) device->fail("a device without links is not in the cluster", "share above 0");
    } else {
      fault.source = static_cast<int>(reader.integer("source", 0, nodes_ - 1));
      fault.target = static_cast<int>(reader.integer("target", 0, nodes_ - 1));
    }
    const auto most = static_cast<std::int64_t>(dimensions_.size());
    fault.dimension = static_cast<int>(reader.integer_or("dimension", -1, -1, most - 1));
    reader.finish();
    apply(fault, item);
    faults_.push_back(fault);
  }
}

void Network::apply(const Fault& fault, const Json& json) {
  int changed = 0;
  for (int i = 0; i < static_cast<int>(links_.size()); ++i) {
    Link& link = links_[at(i)];
    if (link.bytes_per_second == 0 || (fault.dimension >= 0 && dimension_of_link(i) != fault.dimension)) continue;
    const bool both = fault.target < 0 && (link.source == fault.source || link.target == fault.source);
    if (!both && !(link.source == fault.source && link.target == fault.target)) continue;
    ++changed;
    if (fault.share == 0) searched_ = true;
    link.bytes_per_second =
        fault.share == 0
            ? 0
            : std::max<std::int64_t>(
                  1, static_cast<std::int64_t>(std::llround(static_cast<double>(link.bytes_per_second) * fault.share)));
  }
  if (changed == 0)
    json.fail("there is no link to change", fault.target < 0 ? "a device with links" : "source and target of one link",
              "Ports of a switch belong to their device: {\"device\": D, \"share\": ...}");
}

/// Shortest routes by latency, then number of links, then lower node number.
void Network::search_routes() {
  if (static_cast<std::int64_t>(devices_) * nodes_ > (1 << 26))
    throw UserError({"the network is too large for routes by search",
                     {},
                     std::to_string(devices_) + " devices",
                     "devices x nodes up to 67108864",
                     {}});
  std::vector<std::vector<int>> out(at(nodes_));
  for (int i = 0; i < static_cast<int>(links_.size()); ++i)
    if (links_[at(i)].bytes_per_second > 0) out[at(links_[at(i)].source)].push_back(i);
  before_.assign(at(devices_), {});
  using OpenPath = std::tuple<std::int64_t, int, int>;  // latency, links, node
  for (int source = 0; source < devices_; ++source) {
    auto& before = before_[at(source)];
    before.assign(at(nodes_), -1);
    std::vector<std::pair<std::int64_t, int>> best(at(nodes_), {std::numeric_limits<std::int64_t>::max(), 0});
    std::priority_queue<OpenPath, std::vector<OpenPath>, std::greater<>> open;
    best[at(source)] = {0, 0};
    open.emplace(0, 0, source);
    while (!open.empty()) {
      const auto [latency, count, node] = open.top();
      open.pop();
      if (best[at(node)] != std::pair{latency, count}) continue;
      for (const int link : out[at(node)]) {
        const std::pair<std::int64_t, int> next{latency + links_[at(link)].latency, count + 1};
        const int there = links_[at(link)].target;
        if (next >= best[at(there)]) continue;
        best[at(there)] = next;
        before[at(there)] = link;
        open.emplace(next.first, next.second, there);
      }
    }
    for (int target = 0; target < devices_; ++target)
      if (target != source && before[at(target)] < 0 && !stated_.contains({source, target}))
        throw UserError({"the network is not connected",
                         {},
                         "no way from device " + std::to_string(source) + " to " + std::to_string(target),
                         "links between all devices",
                         {}});
  }
}

}  // namespace tilesim::cluster
