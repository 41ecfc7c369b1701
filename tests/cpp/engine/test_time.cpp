// Times that can be told by hand: transfers, overlap, products, launches; states of units.
#include <boost/test/unit_test.hpp>

#include "engine/programs.hpp"
#include "tilesim/base/error.hpp"

using namespace tilesim;
using namespace tilesim::test;

namespace {

std::int64_t cycles(const program::Program& program, const Machine& machine) {
  return simulate(program, machine).cycles;
}

void check_states(const Result& result) {
  for (const UnitUse& use : result.units) {
    std::int64_t sum = 0;
    for (const std::int64_t state : use.cycles) {
      BOOST_TEST(state >= 0);
      sum += state;
    }
    BOOST_TEST(sum == result.cycles, use.unit);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(timing)

BOOST_AUTO_TEST_CASE(one_load_by_hand) {
  // There in 10 cycles, 4096 bytes at one a cycle, 100 cycles of latency, 10 back.
  const Result result = simulate(transfer(1024, "load0"), plain_machine());
  BOOST_TEST(result.cycles == 10 + 4096 + 100 + 10);
  BOOST_TEST(result.memory_read_bytes == 4096);
  BOOST_TEST(result.memory_written_bytes == 0);
  BOOST_TEST(unit(result, "core0.load0").bytes == 4096);
  BOOST_TEST(unit(result, "core0.load0").operations == 1);
  BOOST_TEST(unit(result, "memory.channel0").cycles[0] == 4096);
  BOOST_TEST(result.bottleneck == "memory");
  check_states(result);
}

BOOST_AUTO_TEST_CASE(one_store_ends_at_the_memory) {
  const Result result = simulate(transfer(1024, "store0"), plain_machine());
  BOOST_TEST(result.cycles == 10 + 4096 + 100);  // nothing comes back
  BOOST_TEST(result.memory_written_bytes == 4096);
  check_states(result);
}

BOOST_AUTO_TEST_CASE(issue_and_latency_of_the_dma_add_up) {
  Machine machine = plain_machine();
  machine.core.dma.issue_cycles = 7;
  machine.core.dma.latency_cycles = 5;
  BOOST_TEST(cycles(transfer(1024, "load0"), machine) == 7 + 10 + 4096 + 100 + 10 + 5);
}

BOOST_AUTO_TEST_CASE(bursts_are_whole) {
  const Result result = simulate(transfer(17, "load0"), plain_machine());  // 68 bytes: two bursts of 64
  BOOST_TEST(result.memory_read_bytes == 128);
  BOOST_TEST(result.cycles == 10 + 128 + 100 + 10);
}

BOOST_AUTO_TEST_CASE(successive_loads_stream) {
  // The latency is paid once: the second transfer is on its way while the first arrives.
  BOOST_TEST(cycles(transfer(1024, "load0", 2), plain_machine()) == 10 + 2 * 4096 + 100 + 10);
}

BOOST_AUTO_TEST_CASE(clocks_convert_exactly) {
  Machine machine = plain_machine();
  machine.core.clock = {3000000000};  // 3 core cycles a nanosecond
  BOOST_TEST(cycles(transfer(1024, "load0"), machine) == 3 * (10 + 4096 + 100 + 10));
  machine.core.clock = {700000000};  // 0.7: every term rounds up
  const std::int64_t found = cycles(transfer(1024, "load0"), machine);
  BOOST_TEST(found >= 7 * (10 + 4096 + 100 + 10) / 10);
  BOOST_TEST(found <= 7 * (10 + 4096 + 100 + 10) / 10 + 4);
}

BOOST_AUTO_TEST_CASE(ideal_memory_takes_the_time_of_the_port) {
  Machine machine = plain_machine();
  machine.memory.kind = "ideal";
  BOOST_TEST(cycles(transfer(1024, "load0"), machine) == 4096 / machine.core.dma.bytes_per_cycle);
  BOOST_TEST(simulate(transfer(1024, "load0"), machine).memory_read_bytes == 4096);
}

BOOST_AUTO_TEST_CASE(perfect_overlap_is_the_longer_part) {
  const Machine machine = plain_machine();
  for (const auto& [a, b] : {std::pair{10, 7}, std::pair{7, 10}, std::pair{10, 10}, std::pair{1, 1000}}) {
    const std::int64_t longer = std::max(a, b), shorter = std::min(a, b);
    for (const std::int64_t trips : {1, 2, 50}) {
      BOOST_TEST(cycles(pipeline(trips, a, b, 2), machine) == trips * longer + shorter);
      BOOST_TEST(cycles(pipeline(trips, a, b, 5), machine) == trips * longer + shorter);
      BOOST_TEST(cycles(pipeline(trips, a, b, 1), machine) == trips * (a + b));  // one buffer: they take turns
    }
  }
}

BOOST_AUTO_TEST_CASE(states_of_a_pipeline_by_hand) {
  const Result result = simulate(pipeline(10, 3, 8, 2), plain_machine());
  BOOST_TEST(result.cycles == 3 + 10 * 8);
  const UnitUse &first = unit(result, "core0.first"), &second = unit(result, "core0.second");
  const auto state = [](const UnitUse& use, UnitState which) { return use.cycles[static_cast<int>(which)]; };
  BOOST_TEST(state(first, UnitState::busy) == 10 * 3);
  BOOST_TEST(state(second, UnitState::busy) == 10 * 8);
  // The first unit runs two buffers ahead, then waits 8 - 3 cycles for each of the other eight.
  BOOST_TEST(state(first, UnitState::wait_store) == 5 + 7 * 5);
  BOOST_TEST(state(second, UnitState::wait_dependency) == 3);
  check_states(result);
}

BOOST_AUTO_TEST_CASE(a_finite_queue_pushes_back) {
  // With one entry per queue the program still runs, and its time is the same: work does not wait for hand-over.
  Machine machine = plain_machine();
  machine.core.dma.queue_entries = 1;
  BOOST_TEST(cycles(pipeline(20, 10, 7, 2), machine) == 20 * 10 + 7);
}

BOOST_AUTO_TEST_CASE(launch_and_barrier) {
  const auto kernel = [](const std::string& name, const std::string& barrier) {
    return R"({"scope": ")" + name + R"(", "launch_cycles": 100, "barrier": )" + barrier + R"(, "do": [)" +
           opaque(name, 50) + "]}";
  };
  const std::string none = R"("tensors": [], )";
  const Result apart = simulate(parse(kernel("a", "true") + ", " + kernel("b", "true"), none), plain_machine());
  BOOST_TEST(apart.cycles == 2 * (100 + 50));
  BOOST_TEST(apart.operations.size() == 2U);
  BOOST_TEST(apart.operations[0].launch == 100);
  BOOST_TEST(apart.operations[0].exclusive + apart.operations[1].exclusive == apart.cycles);
  // Without barriers the second launch runs while the first kernel works.
  const Result together = simulate(parse(kernel("a", "false") + ", " + kernel("b", "false"), none), plain_machine());
  BOOST_TEST(together.cycles == 100 + 100 + 50);
}

BOOST_AUTO_TEST_CASE(fractions_of_a_run_are_seconds) {
  const Result result = simulate(parse(opaque("unit", 1000), R"("tensors": [], )"), plain_machine());
  BOOST_TEST(result.seconds() == 1e-6);
}

BOOST_AUTO_TEST_CASE(a_late_acquire_of_another_queue_does_not_take_the_buffer_back) {
  // "second" never uses the ring; its acquires pass long after the buffer has gone on to later versions.
  const std::string body = opaque("second", 500) + R"(, {"for": "i", "extent": 9, "do": [
      {"acquire": "s", "queues": ["first", "second"]}, )" +
                           opaque("first", 10) + R"(, {"commit": "s", "queue": "first"},
      {"wait": "s", "queue": "third"}, )" +
                           opaque("third", 1) + R"(, {"release": "s", "queue": "third"}]})";
  const std::string slot = R"("tensors": [], "slots": [{"name": "s", "dtype": "f32", "elements": 1, "depth": 2,
      "consumers": ["third"]}], )";
  BOOST_TEST(cycles(parse(body, slot), plain_machine()) == 500);
}

BOOST_AUTO_TEST_SUITE_END()
