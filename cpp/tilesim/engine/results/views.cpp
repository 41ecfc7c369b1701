// Adds memory channels and network to a Result, without busy times.
#include <algorithm>

#include "tilesim/engine/results/results.hpp"

namespace tilesim::engine {

namespace {

Json pair(std::int64_t a, std::int64_t b) {
  Json json = Json::array();
  json.push(a);
  json.push(b);
  return json;
}

Json memory_json(const BandwidthSeries& series, const std::vector<MemorySystem::Bank>& banks) {
  Json json = Json::object(), channels = Json::array(), commands = Json::array();
  json.set("hertz", series.hertz());
  json.set("step_cycles", series.step_cycles());
  for (const std::vector<std::int64_t>& bytes : series.bytes()) {
    Json row = Json::array();
    for (const std::int64_t value : bytes) row.push(value);
    channels.push(std::move(row));
  }
  json.set("channel_bytes", std::move(channels));
  const std::size_t per_channel = banks.size() / std::max<std::size_t>(1, series.bytes().size());
  for (std::size_t i = 0; per_channel != 0 && i < banks.size(); i += per_channel) {
    Json row = Json::array();
    for (std::size_t b = i; b < i + per_channel; ++b) row.push(pair(banks[b].activates, banks[b].columns));
    commands.push(std::move(row));
  }
  json.set("banks", std::move(commands));
  return json;
}

Json endpoint(const std::string& name, const noc::Topology& net, std::uint32_t node,
              const std::vector<noc::Network::NodeFlits>& flits) {
  Json json = Json::object();
  json.set("name", name);
  json.set("router", std::int64_t{net.nodes[node].router});
  json.set("sent", flits[node].sent);
  json.set("taken", flits[node].taken);
  return json;
}

Json network_json(const RoutedMemory& routed, const Machine& machine) {
  const noc::Topology& net = routed.topology();
  Json json = Json::object(), links = Json::array(), endpoints = Json::array(), messages = Json::array();
  json.set("topology", net.name);
  json.set("hertz", machine.network.clock.hertz);
  json.set("cycles", routed.network().now());
  json.set("flit_bytes", machine.network.flit_bytes);
  json.set("routers", static_cast<std::int64_t>(net.routers.size()));
  Json extents = Json::array();
  for (const int extent : net.extents) extents.push(std::int64_t{extent});
  json.set("extents", std::move(extents));
  const std::vector<std::int64_t> flits = routed.network().link_flits();
  for (std::size_t i = 0; i < flits.size(); ++i) {
    Json link = pair(net.links[i].from, net.links[i].to);
    link.push(flits[i]);
    links.push(std::move(link));
  }
  json.set("links", std::move(links));
  const auto nodes = routed.network().node_flits();
  const std::int64_t ports = machine.network.ports_per_core, cores = machine.core.count;
  for (std::size_t i = 0; i < routed.places().size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::string name = at < cores * ports
                                 ? "core" + std::to_string(at / ports) + ".port" + std::to_string(at % ports)
                                 : "channel" + std::to_string(at - cores * ports);
    endpoints.push(endpoint(name, net, routed.places()[i], nodes));
  }
  json.set("endpoints", std::move(endpoints));
  for (std::size_t c = 0; c < 2; ++c) {
    Json message = Json::object();
    message.set("class", c == 0 ? "requests" : "answers and sends");
    message.set("packets", routed.traffic(c).packets);
    message.set("latency_cycles", routed.traffic(c).latency_cycles);
    messages.push(std::move(message));
  }
  json.set("messages", std::move(messages));
  return json;
}

}  // namespace

void add_views(const RunState& run, Result& result) {
  if (const BandwidthSeries* series = run.memory.port().series())
    result.memory = memory_json(*series, run.memory.port().banks());
  if (run.memory.routed()) result.network = network_json(*run.memory.routed(), run.chip.machine);
}

}  // namespace tilesim::engine
