// Nodes with a finite memory: packets wait in the network until they have a place.
#include <boost/test/unit_test.hpp>
#include <map>
#include <queue>

#include "engine/networks.hpp"
#include "tilesim/base/error.hpp"

namespace tilesim::engine::noc {
namespace {

/// Every node takes up to `places` packets and gives each back `delay` cycles after its arrival; until all are there.
std::int64_t run_limited(Network& network, std::uint32_t nodes, std::uint32_t classes, std::int64_t places,
                         std::int64_t delay, std::size_t packets) {
  using Due = std::pair<std::int64_t, std::pair<std::uint32_t, std::uint32_t>>;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> held;
  std::size_t delivered = 0;
  for (std::int64_t cycle = 0; cycle < 400'000 && (delivered < packets || !due.empty()); ++cycle) {
    for (; !due.empty() && due.top().first <= cycle; due.pop()) {
      --held[due.top().second];
      network.give_back(due.top().second.first, due.top().second.second);
    }
    network.advance(cycle + 1);
    for (const Delivery& d : network.deliveries()) {
      const auto key = std::pair{d.packet.destination, d.packet.message_class};
      BOOST_TEST(++held[key] <= places);
      due.push({cycle + delay, key});
      ++delivered;
    }
    network.deliveries().clear();
  }
  BOOST_TEST(delivered == packets);
  BOOST_TEST(network.idle());
  BOOST_TEST(nodes * classes > 0U);
  return network.now();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(noc_gates)

BOOST_AUTO_TEST_CASE(random_networks_deliver_everything_however_few_places_there_are) {
  std::mt19937_64 random(17);
  for (int i = 0; i < 150; ++i) {
    const Topology net = random_topology(random);
    const RouterSpec spec = random_router(random, net);
    const auto nodes = static_cast<std::uint32_t>(net.nodes.size());
    const auto classes = static_cast<std::uint32_t>(spec.classes.size());
    const std::unique_ptr<Network> network = flit_network(net, spec, random());
    const int places = pick(random, 1, 3);
    for (std::uint32_t n = 0; n < nodes; ++n)
      for (std::uint32_t c = 0; c < classes; ++c) network->limit(n, c, places);
    const int count = pick(random, 1, 60);
    std::int64_t flits = 0;
    for (int k = 0; k < count; ++k) {
      const Packet packet{static_cast<std::uint32_t>(random() % nodes), static_cast<std::uint32_t>(random() % nodes),
                          static_cast<std::uint32_t>(pick(random, 1, 20)),
                          static_cast<std::uint32_t>(random() % classes), 0};
      flits += packet.flits;
      network->inject(packet, pick(random, 0, 50));
    }
    run_limited(*network, nodes, classes, places, pick(random, 1, 40), static_cast<std::size_t>(count));
    std::int64_t sent = 0, taken = 0;
    for (const Network::NodeFlits& node : network->node_flits()) sent += node.sent, taken += node.taken;
    BOOST_TEST(sent == flits);
    BOOST_TEST(taken == flits);
    BOOST_TEST(network->flits_delivered() == flits);
  }
}

/// Where places are never short, nothing changes.
BOOST_AUTO_TEST_CASE(many_places_are_as_good_as_no_limit) {
  std::mt19937_64 random(23);
  for (int i = 0; i < 60; ++i) {
    const Topology net = random_topology(random);
    const RouterSpec spec = random_router(random, net);
    const auto nodes = static_cast<std::uint32_t>(net.nodes.size());
    const auto limited = flit_network(net, spec, 5), open = flit_network(net, spec, 5);
    for (std::uint32_t n = 0; n < nodes; ++n) limited->limit(n, 0, 1000);
    for (int k = 0; k < 100; ++k) {
      const Packet packet{static_cast<std::uint32_t>(random() % nodes), static_cast<std::uint32_t>(random() % nodes),
                          static_cast<std::uint32_t>(pick(random, 1, 9)), 0, static_cast<std::uint64_t>(k)};
      limited->inject(packet, k);
      open->inject(packet, k);
    }
    limited->advance(50'000);
    open->advance(50'000);
    BOOST_TEST(limited->deliveries().size() == open->deliveries().size());
    for (std::size_t k = 0; k < std::min(limited->deliveries().size(), open->deliveries().size()); ++k) {
      BOOST_TEST(limited->deliveries()[k].packet.tag == open->deliveries()[k].packet.tag);
      BOOST_TEST(limited->deliveries()[k].delivered == open->deliveries()[k].delivered);
    }
  }
}

/// One place, given back d cycles after the arrival: packets follow each other at the time that takes, and those that
/// wait block the way of a packet behind them in the same virtual channel.
BOOST_AUTO_TEST_CASE(a_full_node_pushes_back) {
  for (const bool simple : {false, true}) {
    const auto network = simple ? simple_network(2, 6, SimpleSpec{}) : flit_network(crossbar(2), RouterSpec{}, 1);
    network->limit(1, 0, 1);
    for (int k = 0; k < 100; ++k) network->inject({0, 1, 1, 0, 0}, 0);
    network->advance(1000);
    BOOST_TEST(network->deliveries().size() == 1U);
    // At most two buffers of every virtual channel lie on the way; the others wait at the source.
    BOOST_TEST(network->line(0, 0) >= (simple ? 99 : 99 - 4 * 8 * 2));
    network->deliveries().clear();
    network->give_back(1, 0);
    network->advance(2000);
    BOOST_TEST(network->deliveries().size() == 1U);
    for (int k = 0; k < 98; ++k) {
      network->give_back(1, 0);
      network->advance(network->now() + 50);
    }
    BOOST_TEST(network->idle());
  }
}

BOOST_AUTO_TEST_CASE(a_node_needs_a_place) {
  BOOST_CHECK_THROW(flit_network(crossbar(2), RouterSpec{}, 1)->limit(0, 0, 0), UserError);
  BOOST_CHECK_THROW(simple_network(2, 6, SimpleSpec{})->limit(0, 0, 0), UserError);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tilesim::engine::noc
