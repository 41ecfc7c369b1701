// What a Result says about memory channels and network beside their busy times.
#include "tilesim/base/error.hpp"
#include "tilesim/engine/simulator.hpp"

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

void Simulator::add_views(Result& result) const {
  if (routed_) {
    result.memory = memory_json(routed_->memory().series, routed_->memory().banks());
    result.network = network_json(*routed_, machine_);
  } else if (const BandwidthSeries* series = memory_->series()) {
    result.memory = memory_json(*series, memory_->banks());
  }
}

void Simulator::add_fidelity(Result& result) const {
  const std::string& memory = machine_.memory.kind;
  const bool ideal = memory == "ideal";
  const std::string network = routed_ ? routed_->topology().name : ideal ? "none" : "simple";
  result.fidelity = {
      {"memory", memory}, {"network", network}, {"tile latency", std::string(kinds_.front()->latencies().name())}};
  std::vector<std::string>& said = result.approximations;
  if (ideal) {
    said.emplace_back("memory: ideal, no latency, no queueing, unlimited bandwidth");
  } else if (memory == "bank") {
    said.emplace_back("memory: DRAM channels of " + options_.dram->name + " with banks, rows, queues and refresh; " +
                      (routed_ ? "a write is acknowledged up to a read's latency after its acceptance"
                               : "when a read returns is told when it is accepted, so later requests do not delay it"));
  } else {
    said.emplace_back(
        "memory: latency plus bandwidth per channel, first come first served; banks, rows and refresh are an "
        "efficiency factor of " +
        std::to_string(machine_.memory.efficiency));
  }
  if (!ideal && !banks_ && tensors_ == nullptr)
    said.emplace_back(
        "memory: a transfer of pieces that lie apart takes as many bursts as its pieces, at consecutive addresses: "
        "which "
        "channels and banks the pieces themselves fall on is not looked up");
  add_cache_fidelity(result);
  if (memory == "bank") {
    const Int128 capacity = static_cast<Int128>(options_.dram->capacity_bytes()) * machine_.memory.channels;
    std::int64_t end = 0;
    for (const auto& job : jobs_) end = std::max(end, job->map->end);
    if (end > capacity)
      said.emplace_back("memory: tensors take " + std::to_string(end) + " B, the parts of all channels hold " +
                        std::to_string(static_cast<std::int64_t>(capacity)) +
                        " B: what lies beyond shares rows with what lies at the beginning");
  }
  if (memory == "bank" && options_.dram->energy.known() && options_.dram->energy.refresh_all < 0)
    said.emplace_back("DRAM energy: activations and bursts; the part states none for refresh");
  if (memory == "bank" && !options_.dram->energy.known())
    said.emplace_back("DRAM energy: no figures per command of " + options_.dram->name + " are known; " +
                      (machine_.energy.memory_byte > 0 ? "bytes count with energy.memory_byte"
                                                       : "memory bytes are listed without energy"));
  if (routed_)
    said.emplace_back("network: " + network + ", every flit of " + std::to_string(machine_.network.flit_bytes) +
                      " B in every router; a multicast is one packet per destination and piece, DMA engines give a "
                      "packet to each port at any time");
  else if (!ideal)
    said.emplace_back("network: latency and bandwidth per core port; no routers, requests are not counted");
  if (machine_.memory.regions > 1 && routed_)
    said.emplace_back(
        "memory regions: of links side by side a packet takes the one of its destination's part of the region; "
        "requests, "
        "answers and sends share them");
  if (machine_.memory.regions > 1 && !ideal && !routed_) {
    said.emplace_back("memory regions: links carry data and sends, not requests");
    if (!banks_ && tensors_ == nullptr)
      said.emplace_back(
          "memory regions: a strided transfer counts as the same number of contiguous bytes from its start when they "
          "are looked up");
  }
  if (!machine_.sorts.empty())
    said.emplace_back(
        "cores of several sorts: cycles are those of core.clock; crossing from one core's clock to another takes no "
        "further time");
  said.emplace_back("tile computes: closed forms; scratchpad ports and bank conflicts are not modelled");
  said.emplace_back("handing statements to queues takes no time");
}

}  // namespace tilesim::engine
