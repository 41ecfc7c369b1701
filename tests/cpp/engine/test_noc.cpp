// Closed forms, pairs, conservation, deadlock and determinism of the flit-level network.
#include <boost/test/unit_test.hpp>
#include <chrono>

#include "engine/networks.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/engine/noc/measure.hpp"
#include "tilesim/engine/noc/traffic.hpp"

namespace tilesim::engine::noc {
namespace {

constexpr std::int64_t drained = 1'000'000'000;

/// Latencies of packets injected at the given cycles into an otherwise empty network.
std::vector<Delivery> deliver(const Topology& net, const RouterSpec& spec,
                              const std::vector<std::pair<Packet, std::int64_t>>& packets) {
  const std::unique_ptr<Network> network = flit_network(net, spec, 1);
  for (const auto& [packet, cycle] : packets) network->inject(packet, cycle);
  network->advance(drained);
  BOOST_TEST(network->idle());
  BOOST_TEST(network->deliveries().size() == packets.size());
  return network->deliveries();
}

/// Routers on the way and the sum of the link latencies between them, by walking the table.
std::pair<std::int64_t, std::int64_t> way(const Topology& net, std::size_t from, std::size_t to) {
  const std::uint32_t code =
      net.code(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), [] { return false; });
  std::int64_t routers = 1, latency = 0;
  for (int r = net.nodes[from].router; r != net.nodes[to].router; ++routers) {
    const int output = static_cast<int>(net.hop(static_cast<std::size_t>(r), to).output(code));
    for (const Topology::Link& link : net.links)
      if (link.from == r && link.output == output) {
        latency += link.latency, r = link.to;
        break;
      }
  }
  return {routers, latency};
}

void unloaded(const Topology& net) {
  for (std::size_t from = 0; from < net.nodes.size(); ++from)
    for (std::size_t to = 0; to < net.nodes.size(); ++to)
      for (const std::uint32_t flits : {1U, 4U}) {
        const auto [routers, latency] = way(net, from, to);
        const std::vector<Delivery> done = deliver(
            net, RouterSpec{}, {{{static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), flits, 0, 0}, 7}});
        // 6 cycles for one router and both of its nodes' links, 3 more per further router beside the link, 1 per flit.
        BOOST_TEST(done[0].delivered - done[0].created == 6 + 3 * (routers - 1) + latency + flits - 1, net.name);
        BOOST_TEST(done[0].hops == routers);
      }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(noc)

BOOST_AUTO_TEST_CASE(unloaded_latency_is_the_closed_form) {
  for (const Topology& net : {mesh({4, 3}), torus({4, 4}), torus({5}), crossbar(5), mesh({2, 2}, 3), tree(2, 3),
                              mesh({2, 2, 2}), mesh({3, 2}, 1, 4)})
    unloaded(net);
  const auto across = [](const Topology& net, std::uint32_t to) {
    return deliver(net, RouterSpec{}, {{{0, to, 1, 0, 0}, 0}})[0].delivered;
  };
  BOOST_TEST(across(crossbar(16), 9) == 6);
  BOOST_TEST(across(mesh({8, 8}), 63) == 6 + 14 * 4);
  BOOST_TEST(across(torus({8, 8}), 63) == 6 + 2 * 5);
}

BOOST_AUTO_TEST_CASE(one_input_channel_passes_a_packet_every_second_cycle) {
  RouterSpec one;
  one.virtual_channels = 1;
  for (const auto& [spec, gap] : {std::pair{one, 2}, std::pair{RouterSpec{}, 1}}) {
    const std::vector<Delivery> done =
        deliver(crossbar(4), spec, {{{0, 1, 1, 0, 0}, 0}, {{0, 2, 1, 0, 1}, 0}, {{0, 3, 1, 0, 2}, 0}});
    BOOST_TEST(done[1].delivered - done[0].delivered == gap);
    BOOST_TEST(done[2].delivered - done[1].delivered == gap);
  }
}

BOOST_AUTO_TEST_CASE(a_freed_channel_can_be_taken_in_the_next_cycle) {
  // Two inputs, one output with one VC: the second packet gets the VC the cycle after the first one's tail has won the
  // switch, asks for the switch one later, and so follows two cycles behind.
  RouterSpec one;
  one.virtual_channels = 1;
  const std::vector<Delivery> done = deliver(crossbar(3), one, {{{0, 2, 3, 0, 0}, 0}, {{1, 2, 3, 0, 1}, 0}});
  BOOST_TEST(done[0].delivered == 8);
  BOOST_TEST(done[1].delivered == 8 + 2 + 2);
}

BOOST_AUTO_TEST_CASE(buffers_as_deep_as_the_credit_loop_stream_and_shallower_ones_do_not) {
  // Loop of a body flit: 2d + 4 cycles. With b < 2d + 4 slots, b flits pass in each loop.
  for (const int latency : {1, 2, 4}) {
    const int loop = 2 * latency + 4;
    for (const int buffer : {loop + 1, loop, loop - 1, loop / 2}) {
      RouterSpec spec;
      spec.virtual_channels = 1;
      spec.buffer_flits = buffer;
      const std::uint32_t flits = 40;
      const std::int64_t cycles = deliver(mesh({2}, 1, latency), spec, {{{0, 1, flits, 0, 0}, 0}})[0].delivered;
      const std::int64_t head = 6 + latency + 3, last = flits - 1;
      const std::int64_t stall = buffer >= loop ? 0 : last / buffer * (loop - buffer);
      BOOST_TEST(cycles == head + last + stall, "latency " << latency << ", buffer " << buffer);
    }
  }
}

BOOST_AUTO_TEST_CASE(round_robin_serves_all_inputs_alike) {
  // Five sources keep one output busy; each gets its share to within a packet per source.
  const std::unique_ptr<Network> network = flit_network(crossbar(6), RouterSpec{}, 1);
  for (std::uint32_t source = 0; source < 5; ++source)
    for (int i = 0; i < 400; ++i) network->inject({source, 5, 1, 0, 0}, 0);
  network->advance(1006);
  std::vector<int> served(5);
  for (const Delivery& d : network->deliveries()) ++served[d.packet.source];
  for (const int count : served) BOOST_TEST(std::abs(count - 200) <= 4);
  BOOST_TEST(network->deliveries().size() >= 998U);
}

BOOST_AUTO_TEST_CASE(flits_are_conserved_on_every_link_under_back_pressure) {
  std::mt19937_64 random(5);
  const RegionLinks slow{2, 7, 5, 2, 3};
  for (const Topology& net :
       {mesh({4, 4}), torus({3, 5}), mesh({2, 2}, 4), tree(3, 2), in_regions(mesh({3, 2}), 3, slow)}) {
    RouterSpec tight;
    tight.buffer_flits = 2, tight.virtual_channels = 2;
    const std::unique_ptr<Network> network = flit_network(net, tight, 3);
    const auto nodes = static_cast<std::uint32_t>(net.nodes.size());
    std::vector<std::int64_t> expected(net.links.size());
    std::int64_t flits_in = 0, hops = 0;
    for (int i = 0; i < 3000; ++i) {
      const auto from = static_cast<std::uint32_t>(random() % nodes),
                 to = static_cast<std::uint32_t>(random() % (i % 2 ? 2 : nodes));
      const std::uint32_t flits = 1 + static_cast<std::uint32_t>(random() % 6);
      network->inject({from, to, flits, 0, 0}, i / 8);
      flits_in += flits;
      const std::uint32_t code = net.code(from, to, [] { return false; });
      for (int r = net.nodes[from].router;; hops += flits) {
        const int output = static_cast<int>(net.hop(static_cast<std::size_t>(r), to).output(code));
        std::size_t link = 0;
        while (link < net.links.size() && (net.links[link].from != r || net.links[link].output != output)) ++link;
        if (link == net.links.size()) break;
        expected[link] += flits;
        r = net.links[link].to;
      }
    }
    network->advance(drained);
    BOOST_TEST(network->idle());
    BOOST_TEST(network->flits_delivered() == flits_in);
    if (net.name != "torus_3x5") BOOST_TEST(network->link_flits() == expected, boost::test_tools::per_element());
    BOOST_TEST(network->flit_hops() == hops + flits_in);
  }
}

BOOST_AUTO_TEST_CASE(a_full_destination_pushes_back_to_the_sources) {
  const std::unique_ptr<Network> network = flit_network(mesh({4, 4}), RouterSpec{}, 1);
  for (std::uint32_t source = 0; source < 16; ++source)
    for (int i = 0; i < 100; ++i) network->inject({source, 5, 5, 0, 0}, 0);
  network->advance(4000);
  // One flit per cycle is all that a node takes; the network holds at most its buffers, the rest waits outside.
  BOOST_TEST(network->flits_delivered() <= 4000);
  BOOST_TEST(network->flits_delivered() >= 3980);
  const std::int64_t buffers = 16 * 5 * 4 * 8;
  BOOST_TEST(network->queued() * 5 >= 16 * 100 * 5 - 4000 - buffers - 16 * 5);
  network->advance(8100);
  BOOST_TEST(network->idle());
}

BOOST_AUTO_TEST_CASE(the_smallest_queues_do_not_deadlock) {
  for (const Topology& net :
       {mesh({4, 4}), torus({4, 4}), torus({5}), torus({8}), torus({2, 3}), crossbar(8), mesh({2, 2}, 2), tree(2, 3),
        in_regions(mesh({2, 2}), 2, {}), in_regions(crossbar(3), 3, {2, 5, 3, 2, 1})}) {
    RouterSpec least;
    least.virtual_channels = net.wraps || !net.router_regions.empty() ? 2 : 1;
    least.buffer_flits = 1;
    for (const char* pattern : {"uniform", "tornado", "neighbor", "hotspot(0)", "permutation", "reverse"}) {
      const std::unique_ptr<Network> network = flit_network(net, least, 7);
      const auto nodes = static_cast<std::uint32_t>(net.nodes.size());
      Random random(1, 9);
      const bool reverse = std::string(pattern) == "reverse";
      const std::unique_ptr<Pattern> traffic = make_pattern(reverse ? "uniform" : pattern, net, 1);
      for (int i = 0; i < 60; ++i)
        for (std::uint32_t s = 0; s < nodes; ++s)
          network->inject({s, reverse ? nodes - 1 - s : traffic->destination(s, random), 1 + s % 7, 0, 0}, 0);
      network->advance(200'000);
      BOOST_TEST(network->idle(), net.name << " " << pattern);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_thousand_random_networks_deliver_everything) {
  std::mt19937_64 random(99);
  std::int64_t packets = 0;
  for (int i = 0; i < 1000; ++i) {
    const Topology net = random_topology(random);
    const RouterSpec spec = random_router(random, net);
    const std::unique_ptr<Network> network = flit_network(net, spec, random());
    const auto nodes = static_cast<std::uint32_t>(net.nodes.size());
    const int count = pick(random, 1, 80), span = pick(random, 1, 100);
    for (int k = 0; k < count; ++k)
      network->inject(
          {static_cast<std::uint32_t>(random() % nodes), static_cast<std::uint32_t>(random() % nodes),
           1 + static_cast<std::uint32_t>(random() % 9), static_cast<std::uint32_t>(random() % spec.classes.size()), 0},
          k * span / count);
    network->advance(1'000'000);
    BOOST_REQUIRE_MESSAGE(network->idle(), net.name);
    BOOST_REQUIRE(network->deliveries().size() == static_cast<std::size_t>(count));
    for (const Delivery& d : network->deliveries()) {
      const auto [routers, latency] = way(net, d.packet.source, d.packet.destination);
      const std::int64_t best = 3 + 2 * net.node_latency + spec.switch_cycles +
                                (routers - 1) * (2 + spec.switch_cycles) + latency + d.packet.flits - 1;
      if (d.delivered - d.sent < best || d.hops != routers) BOOST_ERROR(net.name << " too fast");
    }
    packets += count;
  }
  BOOST_TEST(packets > 30'000);
}

BOOST_AUTO_TEST_CASE(a_slow_link_has_its_rate_exactly) {
  // Two sources stream over one link of 5 / 3 cycles per flit: 3 flits every 5 cycles, and no more than one ahead.
  for (const auto& [per_flit, per_cycle] : {std::pair(5, 3), std::pair(4, 1), std::pair(16, 15)}) {
    const Topology net = in_regions(crossbar(2), 2, {1, 4, per_flit, per_cycle, 64});
    const std::unique_ptr<Network> network = flit_network(net, RouterSpec{}, 1);
    for (std::uint32_t source : {0U, 1U})
      for (int i = 0; i < 1000; ++i) network->inject({source, 2 + source, 3, 0, 0}, 0);
    network->advance(1000);
    const std::int64_t before = network->link_flits()[0];
    network->advance(1000 + 100 * per_flit);
    BOOST_TEST(std::abs(network->link_flits()[0] - before - 100 * per_cycle) <= 1);
    network->advance(100'000);
    BOOST_TEST(network->idle());
    BOOST_TEST(network->link_flits()[0] == 6000);
  }
}

BOOST_AUTO_TEST_CASE(regions_need_channels_for_those_that_have_crossed) {
  // With one class of channels a circle could lead over one link, through the region, and back over another.
  Topology net = in_regions(mesh({3, 3}), 2, {2, 1, 1, 1, 0});
  RouterSpec one;
  one.virtual_channels = 1;
  BOOST_CHECK_THROW(check(one, net), UserError);
  for (Hop& hop : net.hops) hop.group = all_vcs, hop.shift = Hop::no_choice;
  BOOST_CHECK_THROW(check_no_deadlock(net, RouterSpec{}), UserError);
  BOOST_CHECK_NO_THROW(check_no_deadlock(in_regions(mesh({3, 3}), 2, {2, 1, 1, 1, 0}), RouterSpec{}));
  BOOST_CHECK_THROW(in_regions(torus({4}), 2, {}), UserError);
  BOOST_CHECK_THROW(in_regions(crossbar(2), 2, {3, 1, 1, 1, 0}), UserError);
  BOOST_CHECK_THROW(in_regions(crossbar(2), 1, {}), UserError);
  BOOST_CHECK_THROW(in_regions(crossbar(2), 2, {1, 1, 1, 2, 0}), UserError);
}

BOOST_AUTO_TEST_CASE(a_torus_separates_those_that_wrap) {
  // Going right along a ring of 8: those that pass the wrap-around link use the upper VCs all the way, the others the
  // lower.
  const Topology ring = torus({8});
  const RouterSpec spec;
  const auto right = [](std::uint32_t code) { return (code & 1U) == 0; };
  for (std::uint32_t from = 0; from < 8; ++from)
    for (std::uint32_t to = 0; to < 8; ++to) {
      if (from == to) continue;
      const std::uint32_t code = ring.code(from, to, [] { return false; });
      std::uint32_t at = from;
      for (; at != to; at = right(code) ? (at + 1) % 8 : (at + 7) % 8) {
        const std::uint32_t mask = spec.mask(0, ring.hop(at, to).vc_group(code));
        BOOST_TEST(mask == (from > to ? 0b1100U : 0b0011U));
      }
      BOOST_TEST(spec.mask(0, ring.hop(at, to).vc_group(code)) == 0b1111U);
    }
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_run_and_another_does_not) {
  Experiment experiment;
  experiment.load = 0.5, experiment.packet_flits = 3, experiment.period_cycles = 500;
  const auto run = [&](std::uint64_t seed) {
    experiment.seed = seed;
    return measure(torus({4, 4}), RouterSpec{}, experiment);
  };
  const Measurement a = run(4), b = run(4), c = run(5);
  BOOST_TEST(a.packet_latency == b.packet_latency);
  BOOST_TEST(a.link_flits == b.link_flits, boost::test_tools::per_element());
  BOOST_TEST(a.packet_latency != c.packet_latency);
}

BOOST_AUTO_TEST_CASE(advancing_in_steps_changes_nothing_and_idle_time_costs_nothing) {
  const std::unique_ptr<Network> whole = flit_network(mesh({4, 4}), RouterSpec{}, 1),
                                 steps = flit_network(mesh({4, 4}), RouterSpec{}, 1);
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    const Packet packet{static_cast<std::uint32_t>(random() % 16), static_cast<std::uint32_t>(random() % 16),
                        1 + static_cast<std::uint32_t>(i) % 5, 0, static_cast<std::uint64_t>(i)};
    const std::int64_t cycle = i < 200 ? i / 4 : 1'000'000'000'000 * (i - 199);
    whole->inject(packet, cycle), steps->inject(packet, cycle);
  }
  whole->advance(200'000'000'000'000);
  while (steps->now() < 1000) steps->advance(steps->now() + 1 + static_cast<std::int64_t>(random() % 3));
  while (!steps->idle()) steps->advance_to_delivery(200'000'000'000'000);
  BOOST_TEST(whole->idle());
  BOOST_REQUIRE(whole->deliveries().size() == steps->deliveries().size());
  for (std::size_t i = 0; i < 300; ++i) {
    BOOST_TEST(whole->deliveries()[i].packet.tag == steps->deliveries()[i].packet.tag);
    BOOST_TEST(whole->deliveries()[i].delivered == steps->deliveries()[i].delivered);
  }
}

BOOST_AUTO_TEST_CASE(classes_do_not_block_each_other) {
  // Requests saturate one node; a reply on its own channels passes through the same routers nearly as if they were
  // empty.
  RouterSpec spec;
  spec.classes = {{"request", 0, 2}, {"reply", 2, 2}};
  const std::unique_ptr<Network> network = flit_network(mesh({4}), spec, 1);
  for (std::uint32_t source = 0; source < 3; ++source)
    for (int i = 0; i < 50; ++i) network->inject({source, 3, 8, 0, 0}, 0);
  network->inject({0, 2, 4, 1, 42}, 200);
  network->advance(drained);
  for (const Delivery& d : network->deliveries())
    if (d.packet.tag == 42) BOOST_TEST(d.delivered - d.created <= 2 * (6 + 2 * 4 + 3) + 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tilesim::engine::noc
