// The fast network against the plain one: every packet leaves its source and arrives in the same cycles.
#include <boost/test/unit_test.hpp>

#include "engine/networks.hpp"
#include "engine/plain_network.hpp"
#include "shared.hpp"

namespace tilesim::engine::noc {
namespace {

/// Random traffic with pauses, then until everything has arrived. Returns the packets.
std::size_t compare(const Topology& net, const RouterSpec& spec, std::mt19937_64& random, int cycles) {
  const std::uint64_t seed = random();
  PlainNetwork plain(net, spec, seed);
  const std::unique_ptr<Network> fast = flit_network(net, spec, seed);
  const auto nodes = static_cast<int>(net.nodes.size());
  const int percent = pick(random, 1, 100), longest = pick(random, 1, 7);
  const bool hot = pick(random, 0, 3) == 0;
  std::uint64_t tag = 0;
  std::int64_t now = 0;
  for (; now < cycles || plain.outstanding > 0; ++now) {
    BOOST_REQUIRE_MESSAGE(now < 100'000, net.name << " does not drain");
    if (now < cycles && now / 64 % 3 != 2)
      for (int n = 0; n < nodes; ++n) {
        if (pick(random, 1, 100 * longest) > percent) continue;
        const Packet packet{
            static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(hot ? 0 : pick(random, 0, nodes - 1)),
            static_cast<std::uint32_t>(pick(random, 1, longest)),
            static_cast<std::uint32_t>(pick(random, 0, static_cast<int>(spec.classes.size()) - 1)), tag++};
        plain.inject(packet);
        fast->inject(packet, now);
      }
    plain.step();
    fast->advance(now + 1);
  }
  BOOST_TEST(fast->idle(), net.name);
  BOOST_TEST(fast->deliveries().size() == tag, net.name);
  std::size_t wrong = 0;
  for (const Delivery& d : fast->deliveries()) {
    const PlainNetwork::Outcome& expected = plain.outcomes[d.packet.tag];
    wrong += d.sent != expected.sent || d.delivered != expected.delivered || d.hops != expected.hops;
  }
  BOOST_TEST(wrong == 0U, net.name << ", " << spec.virtual_channels << " VCs of " << spec.buffer_flits << ", switch "
                                   << spec.switch_cycles << ", credit " << spec.credit_cycles << ": " << wrong << " of "
                                   << tag << " packets differ");
  return tag;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(noc_plain)

BOOST_AUTO_TEST_CASE(random_networks_agree_packet_by_packet) {
  std::mt19937_64 random(20);
  std::size_t packets = 0;
  const std::uint32_t many = trials(24);
  for (std::uint32_t i = 0; i < many; ++i) {
    const Topology net = random_topology(random);
    packets += compare(net, random_router(random, net), random, 400);
  }
  BOOST_TEST(packets > 130U * many);
}

BOOST_AUTO_TEST_CASE(reference_settings_agree_at_every_load) {
  std::mt19937_64 random(21);
  for (int i = 0; i < 4; ++i) {
    compare(mesh({4, 4}), RouterSpec{}, random, 600);
    compare(torus({4, 4}), RouterSpec{}, random, 600);
    compare(crossbar(8), RouterSpec{}, random, 600);
  }
}

BOOST_AUTO_TEST_CASE(routers_with_more_ports_than_a_mask_has_bits_agree) {
  std::mt19937_64 random(22);
  RouterSpec spec;
  spec.virtual_channels = 2;
  for (int i = 0; i < 3; ++i) compare(crossbar(70), spec, random, 60);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tilesim::engine::noc
