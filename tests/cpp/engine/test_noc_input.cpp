// Topologies from files, static checks, traffic patterns, random numbers, wrong input.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>

#include "engine/networks.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/engine/noc/measure.hpp"
#include "tilesim/engine/noc/traffic.hpp"

namespace tilesim::engine::noc {
namespace {

Topology graph(const std::string& rest) {
  return graph_from_json(Json::parse(R"({"schema":"tilesim.network","version":1,"name":"g",)" + rest + "}", "g.json"));
}

/// Runs `call`, expects UserError whose whole message holds every word.
template <class Call>
void refused(Call&& call, const std::vector<std::string>& words) {
  try {
    call();
    BOOST_ERROR("accepted; expected: " << words[0]);
  } catch (const UserError& error) {
    for (const std::string& word : words)
      BOOST_TEST(std::string(error.what()).find(word) != std::string::npos,
                 "'" << error.what() << "' lacks '" << word << "'");
  }
}

void build(const std::function<void(RouterSpec&)>& change) {
  RouterSpec spec;
  change(spec);
  flit_network(mesh({2, 2}), spec, 1);
}

void experiment(const std::function<void(Experiment&)>& change) {
  Experiment wrong;
  change(wrong);
  measure(mesh({3, 3}), RouterSpec{}, wrong);
}

const std::string ring =
    R"("routers":4,"nodes":[0,1,2,3],"links":[{"from":0,"to":1},{"from":1,"to":2},{"from":2,"to":3},{"from":3,"to":0}])";
const std::string five =
    R"("routers":5,"nodes":[0,1,2,3,4],"links":[{"between":[0,1]},{"between":[1,2]},{"between":[2,3]},{"between":[3,4]},{"between":[4,0]}])";
const std::string two_way =
    R"("routers":4,"nodes":[0,1,2,3],"links":[{"between":[0,1]},{"between":[1,2]},{"between":[2,3]},{"between":[3,0]}])";

std::vector<std::uint32_t> table(const std::string& name, const Topology& net) {
  const std::unique_ptr<Pattern> pattern = make_pattern(name, net, 1);
  Random random(1, 1);
  std::vector<std::uint32_t> to;
  for (std::uint32_t s = 0; s < net.nodes.size(); ++s) to.push_back(pattern->destination(s, random));
  return to;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(noc_input)

BOOST_AUTO_TEST_CASE(cyclic_channel_dependencies_are_refused) {
  const RouterSpec spec;
  // One way round: packets of two hops fill the circle. Two ways round, shortest routes: the same in either direction.
  refused([&] { check_no_deadlock(graph(ring + R"(,"routing":"shortest")"), spec); },
          {"circle", "router 0 output 0", "up_down"});
  refused([&] { flit_network(graph(five + R"(,"routing":"shortest")"), spec, 1); }, {"circle"});
  BOOST_CHECK_NO_THROW(check_no_deadlock(graph(five), spec));
  BOOST_CHECK_NO_THROW(check_no_deadlock(graph(two_way), spec));
  // A torus whose packets might use every VC at any place has circles; the rule for its classes has none.
  for (const Topology& good : {torus({4, 4}), torus({5, 3}), torus({8}), torus({2, 2}), mesh({4, 4}), tree(3, 3)}) {
    check_no_deadlock(good, spec);
    Topology all = good;
    for (Hop& hop : all.hops) hop.group = all_vcs, hop.shift = hop.shift == Hop::no_choice ? hop.shift : Hop::no_choice;
    if (good.wraps && good.extents[0] > 3) refused([&] { check_no_deadlock(all, spec); }, {"circle"});
  }
}

BOOST_AUTO_TEST_CASE(tables_route_as_written) {
  const Topology net = graph(two_way + R"(,"routing":{"table":[[0,1,1,1],[0,1,2,2],[1,1,2,3],[2,2,2,3]]})");
  const std::unique_ptr<Network> network = flit_network(net, RouterSpec{}, 1);
  network->inject({0, 3, 1, 0, 0}, 0);
  network->advance(1000);
  BOOST_TEST(network->deliveries().at(0).hops == 4U);
  BOOST_TEST(network->deliveries().at(0).delivered == 6 + 3 * 4);
}

BOOST_AUTO_TEST_CASE(networks_that_are_not_connected_are_refused) {
  refused([] { graph(R"("routers":2,"nodes":[0,1],"links":[])"); }, {"not connected", "node"});
  refused([] { graph(R"("routers":2,"nodes":[0,1],"links":[{"from":0,"to":1}],"routing":"shortest")"); },
          {"node 1 cannot reach node 0"});
  refused([] { graph(R"("routers":2,"nodes":[],"links":[])"); }, {"needs a node", "g.json"});
  refused([] { graph(two_way + R"(,"routing":{"table":[[0,1,1,1],[0,1,0,2],[1,1,2,3],[2,2,2,3]]})"); }, {"circle"});
  refused([] { graph(two_way + R"(,"routing":{"table":[[0,2,1,1],[0,1,2,2],[1,1,2,3],[2,2,2,3]]})"); },
          {"no link to router 2", "g.json"});
  Topology cut = mesh({2, 2});
  cut.hop(0, 3).port = Hop::no_route;
  refused([&] { check(cut); }, {"node 0 cannot reach node 3"});
  Topology twice = mesh({2, 2});
  twice.nodes[1] = twice.nodes[0];
  refused([&] { check(twice); }, {"used twice", "router 0"});
}

BOOST_AUTO_TEST_CASE(files_are_read_strictly) {
  refused([] { graph(two_way + R"(,"link":[])"); }, {"link", "g.json"});
  refused([] { graph(R"("routers":2,"nodes":[0,2],"links":[{"between":[0,1]}])"); }, {"g.json", "2"});
  refused([] { graph(R"("routers":2,"nodes":[0,1],"links":[{"between":[0,0]}])"); }, {"two routers"});
  refused([] { graph(R"("routers":2,"nodes":[0,1],"links":[{"between":[0,1],"latency":0}])"); }, {"0"});
  refused([] { graph(R"("routers":2,"nodes":[0,1],"links":[{"between":[0,1]},{"from":0,"to":1}])"); }, {"already"});
  refused([] { graph(two_way + R"(,"routing":"shortes")"); }, {"shortest"});
  refused([] { graph_from_json(Json::parse(R"({"schema":"tilesim.graph"})")); }, {"not a network"});
}

BOOST_AUTO_TEST_CASE(settings_out_of_range_are_refused) {
  refused([&] { build([](RouterSpec& s) { s.buffer_flits = 0; }); }, {"buffer", "0"});
  refused([&] { build([](RouterSpec& s) { s.virtual_channels = 0; }); }, {"virtual channels", "0"});
  refused([&] { build([](RouterSpec& s) { s.virtual_channels = 33; }); }, {"33"});
  refused([&] { build([](RouterSpec& s) { s.credit_cycles = -1; }); }, {"credit"});
  refused([&] { build([](RouterSpec& s) { s.classes = {{"big", 2, 3}}; }); }, {"big", "do not exist"});
  refused([&] { build([](RouterSpec& s) { s.classes.clear(); }); }, {"classes"});
  RouterSpec one;
  one.virtual_channels = 1;
  refused([&] { flit_network(torus({4}), one, 1); }, {"two virtual channels"});
  refused([] { mesh({0, 4}); }, {"dimension", "0"});
  refused([] { torus({1, 4}); }, {"1"});
  refused([] { mesh({1000, 1000}); }, {"too large"});
  refused([] { crossbar(0); }, {"0"});
  refused([] { tree(1, 3); }, {"branches"});
  const std::unique_ptr<Network> network = flit_network(mesh({2, 2}), RouterSpec{}, 1);
  network->advance(10);
  refused([&] { network->inject({4, 0, 1, 0, 0}, 10); }, {"source", "4"});
  refused([&] { network->inject({0, 9, 1, 0, 0}, 10); }, {"destination", "9"});
  refused([&] { network->inject({0, 1, 0, 0, 0}, 10); }, {"flits"});
  refused([&] { network->inject({0, 1, 1, 1, 0}, 10); }, {"class"});
  refused([&] { network->inject({0, 1, 1, 0, 0}, 9); }, {"past"});
}

BOOST_AUTO_TEST_CASE(experiments_out_of_range_are_refused) {
  refused([&] { experiment([](Experiment& e) { e.load = -0.1; }); }, {"load"});
  refused([&] { experiment([](Experiment& e) { e.load = 1.1; }); }, {"load"});
  refused([&] { experiment([](Experiment& e) { e.load = std::nan(""); }); }, {"load"});
  refused([&] { experiment([](Experiment& e) { e.packet_flits = 0; }); }, {"flits"});
  refused([&] { experiment([](Experiment& e) { e.traffic = "unifrom"; }); }, {"uniform"});
  refused([&] { experiment([](Experiment& e) { e.traffic = "bitcomp"; }); }, {"power of two", "mesh_3x3"});
  refused([&] { experiment([](Experiment& e) { e.traffic = "hotspot(9)"; }); }, {"hot"});
  refused([&] { experiment([](Experiment& e) { e.traffic = "hotspot(a)"; }); }, {"numbers"});
  refused([&] { experiment([](Experiment& e) { e.traffic = "asymmetric"; }); }, {"even"});
  refused([&] { experiment([](Experiment& e) { e.period_cycles = 0; }); }, {"period"});
  refused([&] { experiment([](Experiment& e) { e.most_periods = 3; }); }, {"period"});
}

BOOST_AUTO_TEST_CASE(patterns_send_where_they_say) {
  using Table = std::vector<std::uint32_t>;
  const auto is = [](const std::string& name, const Topology& net, const Table& expected) {
    BOOST_TEST(table(name, net) == expected, boost::test_tools::per_element());
  };
  is("transpose", mesh({4, 4}), {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15});
  is("transpose", mesh({3, 3}), {0, 3, 6, 1, 4, 7, 2, 5, 8});
  is("transpose", crossbar(4), {0, 2, 1, 3});
  is("bitcomp", crossbar(8), {7, 6, 5, 4, 3, 2, 1, 0});
  is("bitrev", crossbar(8), {0, 4, 2, 6, 1, 5, 3, 7});
  is("shuffle", crossbar(8), {0, 2, 4, 6, 1, 3, 5, 7});
  is("tornado", crossbar(8), {3, 4, 5, 6, 7, 0, 1, 2});
  is("tornado", torus({5, 2}), {2, 3, 4, 0, 1, 7, 8, 9, 5, 6});
  is("neighbor", mesh({3, 2}), {4, 5, 3, 1, 2, 0});
  is("hotspot", crossbar(3), {0, 0, 0});
  is("hotspot(2)", crossbar(3), {2, 2, 2});
  is("hotspot({1})", crossbar(3), {1, 1, 1});
  Table shuffled = table("permutation", mesh({4, 4}));
  std::sort(shuffled.begin(), shuffled.end());
  for (std::uint32_t i = 0; i < 16; ++i) BOOST_TEST(shuffled[i] == i);
}

BOOST_AUTO_TEST_CASE(random_patterns_have_their_shares) {
  const Topology net = crossbar(8);
  const auto share = [&](const std::string& name, std::uint32_t source, std::uint32_t target) {
    const std::unique_ptr<Pattern> pattern = make_pattern(name, net, 1);
    Random random(5, 1);
    int hits = 0;
    for (int i = 0; i < 40'000; ++i) hits += pattern->destination(source, random) == target;
    return hits / 40'000.0;
  };
  const double spread = 0.012;  // five standard deviations of the widest
  BOOST_TEST(std::abs(share("uniform", 3, 3) - 1.0 / 8) < spread);
  BOOST_TEST(std::abs(share("diagonal", 7, 7) - 2.0 / 3) < spread);
  BOOST_TEST(std::abs(share("diagonal", 7, 0) - 1.0 / 3) < spread);
  BOOST_TEST(std::abs(share("asymmetric", 6, 2) - 0.5) < spread);
  BOOST_TEST(std::abs(share("asymmetric", 6, 6) - 0.5) < spread);
  BOOST_TEST(std::abs(share("hotspot(2,5)", 0, 5) - 0.5) < spread);
}

BOOST_AUTO_TEST_CASE(the_logarithm_is_a_logarithm) {
  Random random(1, 1);
  for (int i = 0; i < 10'000; ++i) {
    const double x = random.unit() * std::ldexp(1.0, -static_cast<int>(random.below(60)));
    BOOST_TEST(std::abs(portable_log(x) - std::log(x)) <= 1e-13 * std::abs(std::log(x)) + 1e-15);
  }
}

BOOST_AUTO_TEST_CASE(bernoulli_trials_have_their_rate_and_are_independent) {
  for (const double p : {1.0, 0.7, 0.1, 0.004, 0.0002}) {
    Random random(11, 1);
    const Bernoulli trial(p);
    const int successes = 50'000;
    std::int64_t trials = 0, in_a_row = 0;
    for (int i = 0; i < successes; ++i) {
      const std::int64_t failures = trial.failures(random);
      trials += failures + 1;
      in_a_row += failures == 0;
    }
    // A gap has mean 1/p and deviation sqrt(1-p)/p; right after a success the next trial succeeds with p again.
    BOOST_TEST(std::abs(static_cast<double>(trials) * p / successes - 1) <=
               5 * std::sqrt(1 - p) / std::sqrt(successes));
    BOOST_TEST(std::abs(static_cast<double>(in_a_row) / successes - p) <= 5 * std::sqrt(p * (1 - p) / successes));
  }
  Random random(1, 1);
  BOOST_TEST(Bernoulli(0).failures(random) > 1'000'000'000'000);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tilesim::engine::noc
