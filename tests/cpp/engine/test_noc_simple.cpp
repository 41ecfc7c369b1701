// The simple network, a network behind another clock, answers.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "engine/networks.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/engine/noc/measure.hpp"

namespace tilesim::engine::noc {
namespace {

std::vector<Delivery> deliver(Network& network, const std::vector<std::pair<Packet, std::int64_t>>& packets) {
  for (const auto& [packet, cycle] : packets) network.inject(packet, cycle);
  network.advance(1'000'000);
  BOOST_TEST(network.idle());
  BOOST_TEST(network.deliveries().size() == packets.size());
  return network.deliveries();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(noc_simple)

BOOST_AUTO_TEST_CASE(an_empty_network_is_as_fast_as_the_flit_level_one) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 60; ++i) {
    const Topology net = random_topology(random);
    const RouterSpec spec = random_router(random, net);
    const auto nodes = static_cast<std::uint32_t>(net.nodes.size());
    // Bodies never stall behind heads where buffers cover the credits' way round; heads never do.
    const Packet packet{static_cast<std::uint32_t>(random() % nodes), static_cast<std::uint32_t>(random() % nodes), 1,
                        0, 0};
    const auto flit = flit_network(net, spec, 1), simple = simple_network(net, spec, SimpleSpec{});
    const std::int64_t expected = 5 + head_latency(net, spec, packet.source, packet.destination);
    BOOST_TEST(deliver(*flit, {{packet, 5}})[0].delivered == expected, net.name);
    BOOST_TEST(deliver(*simple, {{packet, 5}})[0].delivered == expected, net.name);
  }
  const auto flit = flit_network(mesh({4, 4}), RouterSpec{}, 1);
  const auto simple = simple_network(mesh({4, 4}), RouterSpec{}, SimpleSpec{});
  const std::vector<std::pair<Packet, std::int64_t>> stream{
      {{0, 15, 20, 0, 0}, 0}, {{0, 15, 7, 0, 1}, 0}, {{0, 3, 9, 0, 2}, 0}};
  const std::vector<Delivery> a = deliver(*flit, stream), b = deliver(*simple, stream);
  for (std::size_t k = 0; k < a.size(); ++k) {
    BOOST_TEST(a[k].packet.tag == b[k].packet.tag);
    BOOST_TEST(a[k].delivered == b[k].delivered);
  }
}

BOOST_AUTO_TEST_CASE(ports_have_their_bandwidth) {
  SimpleSpec wide;
  wide.flits_per_cycle = 4, wide.buffer_flits = 1000;
  const auto network = simple_network(3, 10, wide);
  // 10 flits take 3 cycles at 4 per cycle; two sources meet at one sink.
  const std::vector<Delivery> done =
      deliver(*network, {{{0, 2, 10, 0, 0}, 0}, {{0, 2, 10, 0, 1}, 0}, {{1, 2, 10, 0, 2}, 0}});
  BOOST_TEST(done[0].delivered == 10 + 3 - 1);
  BOOST_TEST(done[1].delivered == done[0].delivered + 3);
  BOOST_TEST(done[2].delivered == done[1].delivered + 3);
  BOOST_TEST(done[2].packet.tag == 1U);
  BOOST_TEST(done[2].sent == 3);
}

BOOST_AUTO_TEST_CASE(a_full_buffer_holds_packets_at_their_source) {
  SimpleSpec small;
  small.buffer_flits = 8;
  const auto network = simple_network(3, 20, small);
  const std::vector<Delivery> done =
      deliver(*network, {{{0, 2, 5, 0, 0}, 0}, {{1, 2, 5, 0, 1}, 0}, {{1, 0, 1, 0, 2}, 0}});
  const auto find = [&](std::uint64_t tag) {
    return *std::find_if(done.begin(), done.end(), [&](const Delivery& d) { return d.packet.tag == tag; });
  };
  BOOST_TEST(find(0).delivered == 24);
  BOOST_TEST(find(1).sent == 24);  // 8 places: the second five fit when the first five have left
  BOOST_TEST(find(2).sent == 29);  // and the packet behind waits in line
  small.buffer_flits = 10;
  const auto enough = simple_network(3, 20, small);
  BOOST_TEST(deliver(*enough, {{{0, 2, 5, 0, 0}, 0}, {{1, 2, 5, 0, 1}, 0}})[1].delivered == 29);
}

BOOST_AUTO_TEST_CASE(nothing_is_lost_and_steps_change_nothing) {
  std::mt19937_64 random(4);
  SimpleSpec spec;
  spec.buffer_flits = 9;
  const Topology net = torus({3, 3});
  const auto whole = simple_network(net, RouterSpec{}, spec), steps = simple_network(net, RouterSpec{}, spec);
  std::int64_t flits = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const Packet packet{static_cast<std::uint32_t>(random() % 9),
                        static_cast<std::uint32_t>(random() % (i % 3 ? 9 : 2)),
                        1 + static_cast<std::uint32_t>(random() % 9), 0, i};
    whole->inject(packet, static_cast<std::int64_t>(i)), steps->inject(packet, static_cast<std::int64_t>(i));
    flits += packet.flits;
  }
  whole->advance(10'000'000);
  while (!steps->idle()) {
    if (random() % 2 == 0) steps->advance_to_delivery(10'000'000);
    steps->advance(steps->now() + static_cast<std::int64_t>(random() % 5));
  }
  BOOST_TEST(whole->idle());
  BOOST_TEST(whole->flits_delivered() == flits);
  BOOST_REQUIRE(whole->deliveries().size() == steps->deliveries().size());
  for (std::size_t i = 0; i < 2000; ++i) {
    BOOST_TEST(whole->deliveries()[i].packet.tag == steps->deliveries()[i].packet.tag);
    BOOST_TEST(whole->deliveries()[i].delivered == steps->deliveries()[i].delivered);
  }
}

BOOST_AUTO_TEST_CASE(wrong_settings_are_refused) {
  BOOST_CHECK_THROW(simple_network(0, 1, SimpleSpec{}), UserError);
  BOOST_CHECK_THROW(simple_network(2, 0, SimpleSpec{}), UserError);
  BOOST_CHECK_THROW(simple_network(2, 1, SimpleSpec{0, 8}), UserError);
  BOOST_CHECK_THROW(simple_network(2, 1, SimpleSpec{1, 0}), UserError);
  const auto network = simple_network(2, 1, SimpleSpec{1, 8});
  BOOST_CHECK_THROW(network->inject({0, 1, 9, 0, 0}, 0), UserError);
  BOOST_CHECK_THROW(network->inject({2, 1, 1, 0, 0}, 0), UserError);
  network->advance(5);
  BOOST_CHECK_THROW(network->inject({0, 1, 1, 0, 0}, 4), UserError);
  BOOST_CHECK_THROW(ClockedNetwork(simple_network(2, 1, SimpleSpec{}), Clock{0}, Clock{1}), UserError);
}

BOOST_AUTO_TEST_CASE(another_clock_converts_exactly) {
  // Network at 3 GHz, caller at 2 GHz: caller's cycle 1 is network cycle 1.5, seen at 2; 6 cycles later it is 8,
  // at 5.33.
  ClockedNetwork network(flit_network(crossbar(2), RouterSpec{}, 1), Clock{3'000'000'000}, Clock{2'000'000'000});
  network.inject({0, 1, 1, 0, 0}, 1);
  network.advance(5);
  BOOST_TEST(network.deliveries().empty());
  network.advance(6);
  BOOST_REQUIRE(network.deliveries().size() == 1U);
  BOOST_TEST(network.deliveries()[0].created == 2);
  BOOST_TEST(network.deliveries()[0].delivered == 6);
  // A thousand packets through a clock of an awkward ratio arrive no earlier than they should and less than a cycle
  // later.
  ClockedNetwork odd(flit_network(crossbar(2), RouterSpec{}, 1), Clock{940'000'001}, Clock{1'234'567'891});
  for (std::int64_t i = 0; i < 1000; ++i) odd.inject({0, 1, 1, 0, 0}, 100 * i);
  odd.advance(200'000);
  BOOST_REQUIRE(odd.deliveries().size() == 1000U);
  for (std::int64_t i = 0; i < 1000; ++i) {
    const double exact = (std::ceil(100.0 * static_cast<double>(i) * 940'000'001 / 1'234'567'891 - 1e-9) + 6) *
                         1'234'567'891 / 940'000'001;
    const auto seen = static_cast<double>(odd.deliveries()[static_cast<std::size_t>(i)].delivered);
    BOOST_TEST((seen >= exact - 1e-6 && seen < exact + 1));
  }
}

BOOST_AUTO_TEST_CASE(every_packet_is_answered) {
  Experiment experiment;
  experiment.load = 0.02, experiment.packet_flits = 1, experiment.reply_flits = 4, experiment.period_cycles = 2000;
  RouterSpec two;
  two.classes = {{"packet", 0, 2}, {"reply", 2, 2}};
  for (const bool simple : {false, true}) {
    experiment.simple = simple;
    const Measurement seen = measure(mesh({4, 4}), two, experiment);
    BOOST_TEST(seen.stable);
    BOOST_TEST(seen.accepted == 0.02 * 5, boost::test_tools::tolerance(0.1));
    // Three flits more than a packet, and less than a cycle of waiting at this load.
    const double packets = 2 * seen.packet_latency - seen.reply_latency;
    BOOST_TEST(seen.reply_latency - packets > 2.9);
    BOOST_TEST(seen.reply_latency - packets < 4);
  }
  BOOST_CHECK_THROW(measure(mesh({4, 4}), RouterSpec{}, experiment), UserError);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tilesim::engine::noc
