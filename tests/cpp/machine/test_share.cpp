// A share of a machine: what sharing changes is the share's own, all else is seen through it.
#include "tilesim/machine/share.hpp"

#include <boost/test/unit_test.hpp>

#include "tilesim/machine/settings.hpp"

using namespace tilesim;

namespace {

Machine mixed() {
  Machine machine;
  machine.core.array.rates = {{DType::f32, 1.0}};
  machine.memory.bytes_per_second = 1000000000;
  return machine.replace({{"cores", Json::parse(R"x([
    {"sort": "big", "count": 2, "core": {"array": {"rows": 64, "count": 4}, "scratchpad": {"bytes": "1 MiB"}}},
    {"sort": "small", "count": 6, "core": {"clock": "500 MHz"}}])x")}});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(share)

BOOST_AUTO_TEST_CASE(a_whole_machine_is_seen_as_it_is) {
  const Machine machine = mixed();
  const Share share = machine;
  BOOST_TEST(&share.whole == &machine);
  BOOST_TEST(&share.core.array == &machine.core.array);
  BOOST_TEST(&share.memory.placement == &machine.memory.placement);
  BOOST_TEST(share.core.count == 8);
  BOOST_TEST(share.core.scratchpad.bytes == machine.core.scratchpad.bytes);
  BOOST_TEST(share.memory.bytes_per_second == machine.memory.bytes_per_second);
  BOOST_TEST(share.network.region_bytes_per_cycle == machine.network.region_bytes_per_cycle);
  BOOST_TEST(share.sorts.size() == 2);
}

BOOST_AUTO_TEST_CASE(what_a_share_has_of_its_own_leaves_machine_and_copies_alone) {
  const Machine machine = mixed();
  const std::string before = machine.to_json().dump();
  Share part = machine;
  const Share other = part;
  part.core.count = 3;
  part.core.scratchpad.bytes /= 2;
  part.memory.bytes_per_second = 5;
  part.network.multicast = !part.network.multicast;
  BOOST_TEST(machine.to_json().dump() == before);
  BOOST_TEST(other.core.count == 8);
  BOOST_TEST(other.memory.bytes_per_second == machine.memory.bytes_per_second);
}

BOOST_AUTO_TEST_CASE(a_sort_keeps_what_is_shared) {
  const Machine machine = mixed();
  Share part = machine;
  part.memory.bytes_per_second = 5;
  part.core.count = 7;
  const Share own = Share(part.of_sort(0));  // keeps what it sees
  BOOST_TEST(own.core.array.rows == 64);
  BOOST_TEST(own.core.array.count == machine.core.array.count);  // on as many arrays as the others
  BOOST_TEST(own.core.scratchpad.bytes == 1 << 20);
  BOOST_TEST(own.core.count == 7);
  BOOST_TEST(own.memory.bytes_per_second == 5);
  BOOST_TEST(own.sorts.empty());
  BOOST_TEST(part.of_sort(1).core.clock.hertz == 500000000);
}

BOOST_AUTO_TEST_SUITE_END()
