// On-chip networks: topologies, measurement under synthetic traffic, and a network to drive packet by packet.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "base/cancel.hpp"
#include "tilesim/base/json/json.hpp"
#include "tilesim/engine/noc/measure.hpp"
#include "tilesim/engine/noc/traffic.hpp"

namespace py = pybind11;
using namespace tilesim;
using namespace tilesim::engine;

namespace {

void register_topology(py::module_& module) {
  using noc::Topology;
  py::class_<Topology>(module, "NetworkTopology", "Routers, links, nodes and the routing table of an on-chip network.")
      .def_static("mesh", &noc::mesh, py::arg("extents"), py::arg("concentration") = 1, py::arg("link_latency") = 1,
                  "Mesh of the given extents, `concentration` nodes at each router; links of `link_latency` cycles. "
                  "UserError for an extent below 1 or more than 4096 nodes.")
      .def_static("torus", &noc::torus, py::arg("extents"), py::arg("link_latency") = 2,
                  "Torus (one extent: ring); links of `link_latency` cycles. UserError for an extent below 2.")
      .def_static("crossbar", &noc::crossbar, py::arg("nodes"), "One router between 1 to 1024 nodes.")
      .def_static("tree", &noc::tree, py::arg("arity"), py::arg("levels"), py::arg("link_latency") = 1,
                  "Tree of routers with `arity` children each; arity^levels nodes at the leaves.")
      .def_static(
          "from_json",
          [](const std::string& text, const std::string& source) {
            return noc::graph_from_json(Json::parse(text, source));
          },
          py::arg("text"), py::arg("source") = "text",
          "Any graph: JSON text of schema tilesim.network. UserError with the place in `source`.")
      .def_static(
          "in_regions",
          [](const Topology& region, int regions, int links, int latency, int per_flit, int per_cycle,
             int buffer_flits) {
            return noc::in_regions(region, regions, {links, latency, per_flit, per_cycle, buffer_flits});
          },
          py::arg("region"), py::arg("regions"), py::arg("links") = 1, py::arg("latency") = 1, py::arg("per_flit") = 1,
          py::arg("per_cycle") = 1, py::arg("buffer_flits") = 0,
          "A copy of a network for each region, `links` side by side from each to each other one; a flit takes "
          "per_flit "
          "/ per_cycle cycles of a link. UserError for rings, tori and too few nodes.")
      .def_readonly("name", &Topology::name, "Such as 'mesh_8x8'.")
      .def_readonly("routing", &Topology::routing, "How the routing table came about.")
      .def_readonly("extents", &Topology::extents, "Digits of a node's number, lowest first.")
      .def_property_readonly(
          "nodes", [](const Topology& net) { return net.nodes.size(); }, "Number of nodes.")
      .def_property_readonly(
          "routers", [](const Topology& net) { return net.routers.size(); }, "Number of routers.")
      .def_property_readonly(
          "node_routers",
          [](const Topology& net) {
            std::vector<int> routers;
            for (const Topology::Node& node : net.nodes) routers.push_back(node.router);
            return routers;
          },
          "Router of each node.")
      .def_property_readonly(
          "links",
          [](const Topology& net) {
            std::vector<std::tuple<int, int, int>> links;
            for (const Topology::Link& link : net.links) links.emplace_back(link.from, link.to, link.latency);
            return links;
          },
          "(from router, to router, latency in cycles) of each directed link.")
      .def_property_readonly(
          "link_cycles_per_flit",
          [](const Topology& net) {
            std::vector<double> cycles;
            for (const Topology::Link& link : net.links)
              cycles.push_back(static_cast<double>(link.per_flit) / link.per_cycle);
            return cycles;
          },
          "Cycles for which a flit takes each link; 1 but where a link is slower.");
}

using ClassTuple = std::tuple<std::string, int, int>;

noc::RouterSpec router_spec(int virtual_channels, int buffer_flits, int switch_cycles, int credit_cycles,
                            const std::vector<ClassTuple>& classes) {
  noc::RouterSpec spec;
  spec.virtual_channels = virtual_channels;
  spec.buffer_flits = buffer_flits;
  spec.switch_cycles = switch_cycles;
  spec.credit_cycles = credit_cycles;
  if (!classes.empty()) spec.classes.clear();
  for (const auto& [name, first_vc, vcs] : classes) spec.classes.push_back({name, first_vc, vcs});
  return spec;
}

void register_measurement(py::module_& module) {
  using noc::Measurement;
  py::class_<noc::RouterSpec>(module, "NetworkRouter", "Virtual channels, buffers and delays of every router.")
      .def(py::init(&router_spec), py::arg("virtual_channels") = 4, py::arg("buffer_flits") = 8,
           py::arg("switch_cycles") = 1, py::arg("credit_cycles") = 1, py::arg("classes") = std::vector<ClassTuple>{},
           "`classes`: (name, first VC, VCs) of each message class; empty: one class that uses all.");
  py::class_<noc::SimpleSpec>(module, "SimpleNetwork", "Ports and buffers of the simple network.")
      .def(py::init(
               [](int flits_per_cycle, int buffer_flits) { return noc::SimpleSpec{flits_per_cycle, buffer_flits}; }),
           py::arg("flits_per_cycle") = 1, py::arg("buffer_flits") = 64,
           "Flits per cycle of a node's port, in and out; flits that a destination has place for.");
  py::class_<Measurement>(module, "NetworkMeasurement", "What a network did under synthetic traffic.")
      .def_readonly("stable", &Measurement::stable, "False: saturated.")
      .def_readonly("packet_latency", &Measurement::packet_latency, "Mean cycles from creation to the tail's arrival.")
      .def_readonly("network_latency", &Measurement::network_latency, "The same from the head's departure.")
      .def_readonly("reply_latency", &Measurement::reply_latency, "Mean cycles of the answers alone.")
      .def_readonly("hops", &Measurement::hops, "Mean number of routers passed.")
      .def_readonly("accepted", &Measurement::accepted, "Flits delivered per node and cycle.")
      .def_readonly("longest_latency", &Measurement::longest_latency, "Cycles of the slowest measured packet.")
      .def_readonly("packets", &Measurement::packets, "Number of measured packets.")
      .def_readonly("cycles", &Measurement::cycles, "Simulated cycles, all phases.")
      .def_readonly("flit_hops", &Measurement::flit_hops, "Number of flits times routers, all phases.")
      .def_readonly("seconds", &Measurement::seconds, "Wall time of the run in seconds.")
      .def_readonly("link_flits", &Measurement::link_flits, "Flits per link, all phases.");
  module.def(
      "measure_network",
      [](const noc::Topology& topology, const noc::RouterSpec& router, const std::string& traffic, double load,
         std::uint32_t packet_flits, std::uint64_t seed, std::int64_t period_cycles, int warmup_periods,
         int most_periods, std::uint32_t reply_flits, const std::optional<noc::SimpleSpec>& simple) {
        noc::Experiment experiment;
        experiment.traffic = traffic;
        experiment.load = load;
        experiment.packet_flits = packet_flits;
        experiment.seed = seed;
        experiment.period_cycles = period_cycles;
        experiment.warmup_periods = warmup_periods;
        experiment.most_periods = most_periods;
        experiment.reply_flits = reply_flits;
        experiment.simple = simple.has_value();
        if (simple) experiment.simple_spec = *simple;
        return bindings::cancellable([&](CancelToken& token) {
          experiment.cancel = &token;
          return noc::measure(topology, router, experiment);
        });
      },
      py::arg("topology"), py::arg("router"), py::arg("traffic"), py::arg("load"), py::arg("packet_flits"),
      py::arg("seed"), py::arg("period_cycles") = 10000, py::arg("warmup_periods") = 3, py::arg("most_periods") = 15,
      py::arg("reply_flits") = 0, py::arg("simple") = py::none(),
      "Open-loop measurement with Bernoulli injection of `load` flits per node and cycle.");
  module.def("network_traffic_names", &noc::pattern_names, "Names of synthetic traffic.");
  module.def(
      "network_destinations",
      [](const noc::Topology& topology, const std::string& traffic, std::uint64_t seed) {
        const auto pattern = noc::make_pattern(traffic, topology, seed);
        noc::Random random(seed, 2);
        std::vector<std::uint32_t> to;
        for (std::uint32_t s = 0; s < topology.nodes.size(); ++s) to.push_back(pattern->destination(s, random));
        return to;
      },
      py::arg("topology"), py::arg("traffic"), py::arg("seed") = 1, "One destination drawn for every source.");
}

/// A network, for one thread at a time.
class OwnNetwork {
 public:
  explicit OwnNetwork(std::unique_ptr<noc::Network> network) : network_(std::move(network)) {}

  /// Runs `call(network)`, without the GIL; Ctrl-C ends it between two cycles, and the network can go on.
  template <class Call>
  auto run(const Call& call) {
    const bindings::Exclusive own(busy_, "a network");
    return bindings::cancellable([&] { return call(*network_); });
  }
  /// The same for what is quick, with the GIL.
  template <class Call>
  auto ask(const Call& call) {
    const bindings::Exclusive own(busy_, "a network");
    return call(*network_);
  }

 private:
  std::unique_ptr<noc::Network> network_;
  bool busy_ = false;
};

py::list take_deliveries(OwnNetwork& own) {
  py::list list;
  own.ask([&](noc::Network& network) {
    for (const noc::Delivery& d : network.deliveries())
      list.append(
          py::make_tuple(d.packet.tag, d.packet.source, d.packet.destination, d.created, d.sent, d.delivered, d.hops));
    network.deliveries().clear();
  });
  return list;
}

void register_network(py::module_& module) {
  using noc::Network;
  using Own = OwnNetwork;
  py::class_<Own>(module, "Network", "A network in progress, in cycles of its clock.")
      .def(
          "inject",
          [](Own& own, std::uint32_t source, std::uint32_t destination, std::uint32_t flits, std::int64_t cycle,
             std::uint32_t message_class, std::uint64_t tag) {
            own.ask([&](Network& net) { net.inject({source, destination, flits, message_class, tag}, cycle); });
          },
          py::arg("source"), py::arg("destination"), py::arg("flits"), py::arg("cycle"), py::arg("message_class") = 0,
          py::arg("tag") = 0, "Puts a packet into its source's queue at `cycle`, not before `now`.")
      .def(
          "advance", [](Own& own, std::int64_t until) { own.run([&](Network& net) { net.advance(until); }); },
          py::arg("until"), "Runs the cycles before `until`.")
      .def(
          "advance_to_delivery",
          [](Own& own, std::int64_t limit) {
            return own.run([&](Network& net) { return net.advance_to_delivery(limit); });
          },
          py::arg("limit"), "Runs until something is delivered or `limit`; returns `now`.")
      .def_property_readonly(
          "now", [](Own& own) { return own.ask([](Network& net) { return net.now(); }); }, "The next cycle to run.")
      .def_property_readonly(
          "idle", [](Own& own) { return own.ask([](Network& net) { return net.idle(); }); }, "No packet anywhere.")
      .def_property_readonly(
          "flit_hops", [](Own& own) { return own.ask([](Network& net) { return net.flit_hops(); }); },
          "Number of flits times routers so far.")
      .def_property_readonly(
          "link_flits", [](Own& own) { return own.ask([](Network& net) { return net.link_flits(); }); },
          "Flits per link so far.")
      .def("take_deliveries", &take_deliveries,
           "(tag, source, destination, created, sent, delivered, routers passed) since the last call, in cycles.");
  module.def(
      "flit_network",
      [](const noc::Topology& topology, const noc::RouterSpec& router, std::uint64_t seed) {
        return Own(noc::flit_network(topology, router, seed));
      },
      py::arg("topology"), py::arg("router"), py::arg("seed") = 1,
      "A network decided flit by flit. UserError if packets could wait for each other in a circle.");
  module.def(
      "simple_network",
      [](const noc::Topology& topology, const noc::RouterSpec& router, const noc::SimpleSpec& simple) {
        return Own(noc::simple_network(topology, router, simple));
      },
      py::arg("topology"), py::arg("router"), py::arg("simple"),
      "Latencies of the empty network, bandwidth of the nodes' ports, finite buffers; no contention inside.");
}

}  // namespace

void init_noc(py::module_& module) {
  register_topology(module);
  register_measurement(module);
  register_network(module);
}
