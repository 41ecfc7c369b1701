// Algorithms executed on sets, alone and over several axes; a fault in any of them is noticed.
#include <boost/test/unit_test.hpp>
#include <string>

#include "tilesim/base/error.hpp"
#include "tilesim/cluster/collective/collective.hpp"

namespace tilesim::cluster {

namespace {

const Operation operations[] = {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter};

std::string network_text(const std::string& kind, int size) {
  return R"({"dimensions": [{"kind": ")" + kind + R"(", "size": )" + std::to_string(size) +
         R"(, "bandwidth_bytes_per_second": 1e9, "latency_seconds": 1e-6}]})";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(schedule)

BOOST_AUTO_TEST_CASE(spreads_mean_their_operation_over_two_axes_in_any_order) {
  for (const Operation operation : operations)
    for (const Walk inner : {Walk::ring, Walk::direct, Walk::bruck})
      for (int a = 2; a <= 5; ++a)
        for (int b = 2; b <= 4; ++b) {
          const std::vector<PartRoute> parts{{{0, 1}, {1, b - 1}}, {{1, 0}, {a - 1, 1}}};
          BOOST_CHECK_NO_THROW(check_on_sets(expand(spread(operation, {{a, inner}, {b, Walk::ring}}, parts))));
        }
}

BOOST_AUTO_TEST_CASE(every_transfer_is_needed) {
  for (int n = 2; n <= 6; ++n)
    for (const Schedule& whole : {tree_reduce(n, 2), folded_halving(n), broadcast_ring(n, 1, 2, true)})
      for (std::size_t i = 0; i < whole.transfers.size(); ++i) {
        Schedule less = whole;
        less.transfers.erase(less.transfers.begin() + static_cast<std::ptrdiff_t>(i));
        BOOST_CHECK_NO_THROW(check_on_sets(whole));
        BOOST_CHECK_THROW(check_on_sets(less), UserError);
      }
}

BOOST_AUTO_TEST_CASE(a_contribution_twice_is_an_error_also_where_sets_are_sums) {
  for (const int n : {3, 1100}) {  // the second has more bits than are kept
    Schedule schedule = expand(spread(Operation::all_reduce, {{n, Walk::bruck}}, {{{0}, {1}}}));
    if (n > 1000) schedule = broadcast_tree(n, 0);
    BOOST_CHECK_NO_THROW(check_on_sets(schedule));
    Transfer again = schedule.transfers.front();
    again.combine = true;
    again.step = 1 << 20;
    schedule.transfers.push_back(again);
    BOOST_CHECK_THROW(check_on_sets(schedule), UserError);
  }
}

BOOST_AUTO_TEST_CASE(one_message_takes_its_bytes_and_its_way) {
  const Network ring = Network::read(Json::parse(network_text("ring", 8)));
  std::vector<int> way;
  ring.route(7, 1, way);
  BOOST_TEST(way.size() == 2U);  // over the wrap
  Request request;
  request.operation = Operation::permute_devices;
  request.bytes = 1000;
  request.places = {7, 1};
  request.pairs = {{0, 1}};
  const Answers answers = *price(ring, {request}, Model::chunks, true);
  BOOST_TEST(answers.each[0].picoseconds == 1000000 + 2 * 1000000);
  BOOST_TEST(answers.messages == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tilesim::cluster
