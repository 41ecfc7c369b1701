// Closed forms of the vector and cross-lane units by hand; the store of latencies.
#include <boost/test/unit_test.hpp>
#include <random>

#include "tilesim/base/error.hpp"
#include "tilesim/tile/tile.hpp"

using namespace tilesim;

namespace {

/// 8 lanes x 4 sublanes: a register holds 32 elements of 32 bit.
Machine chip_of_units() {
  Machine machine;
  VectorSpec& vector = machine.core.vector;
  vector.lanes = 8;
  vector.sublanes = 4;
  vector.issue = 1;
  vector.latency = 5;
  vector.simple = 1;
  vector.multiply = 2;
  vector.divide = 8;
  vector.transcendental = 4.5;
  vector.reduce_latency = 6;
  machine.core.cross_lane = {64, 10};
  machine.core.array.rates = {{DType::f32, 1.0}};
  machine.core.array.rows = machine.core.array.columns = 4;
  return machine;
}

Descriptor vector(std::int64_t elements, std::int64_t lane_extent, std::array<std::int32_t, 4> functions,
                  DType dtype = DType::f32) {
  Descriptor d;
  d.kind = ComputeKind::vector;
  d.dtype = dtype;
  d.elements = elements;
  d.lane_extent = lane_extent;
  d.functions = functions;
  return d;
}

TileLatency latency_of(const Machine& machine, const Descriptor& descriptor) {
  return ClosedForm(machine).latency(descriptor, {});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(vector_latency)

BOOST_AUTO_TEST_CASE(whole_registers_by_hand) {
  const Machine chip = chip_of_units();
  // 64 elements in rows of 16: 8 rows of lanes, 2 registers.
  BOOST_TEST(latency_of(chip, vector(64, 16, {3, 0, 0, 0})).busy == 2 * 3);
  BOOST_TEST(latency_of(chip, vector(64, 16, {0, 2, 0, 0})).busy == 2 * 2 * 2);
  BOOST_TEST(latency_of(chip, vector(64, 16, {0, 0, 1, 0})).busy == 2 * 8);
  BOOST_TEST(latency_of(chip, vector(64, 16, {0, 0, 0, 1})).busy == 9);  // 2 registers x 4.5
  const TileLatency all = latency_of(chip, vector(64, 16, {3, 2, 1, 1}));
  BOOST_TEST(all.busy == 2 * 3 + 2 * 4 + 2 * 8 + 9);
  BOOST_TEST(all.done == all.busy + 5);
  BOOST_TEST(all.consumed == all.busy);
  BOOST_TEST(all.limit == std::string("divide"));
}

BOOST_AUTO_TEST_CASE(ragged_lanes_cost_a_full_register) {
  const Machine chip = chip_of_units();
  // Rows of 9 elements take two rows of lanes each, as rows of 16 do.
  BOOST_TEST(latency_of(chip, vector(36, 9, {1, 0, 0, 0})).busy == latency_of(chip, vector(64, 16, {1, 0, 0, 0})).busy);
  // One element per row: 64 rows of lanes, 16 registers.
  BOOST_TEST(latency_of(chip, vector(64, 1, {1, 0, 0, 0})).busy == 16);
  // 5 rows of lanes fill a register and one row of the next.
  BOOST_TEST(latency_of(chip, vector(40, 8, {1, 0, 0, 0})).busy == 2);
}

BOOST_AUTO_TEST_CASE(dtypes_pack_where_the_unit_can) {
  Machine chip = chip_of_units();
  const auto busy = [&](DType dtype) { return latency_of(chip, vector(256, 8, {1, 0, 0, 0}, dtype)).busy; };
  BOOST_TEST(busy(DType::f32) == 8);
  BOOST_TEST(busy(DType::bf16) == 8);
  BOOST_TEST(busy(DType::f64) == 16);
  BOOST_TEST(busy(DType::i64) == 16);
  chip.core.vector.packs_narrow = true;
  BOOST_TEST(busy(DType::f32) == 8);
  BOOST_TEST(busy(DType::bf16) == 4);
  BOOST_TEST(busy(DType::i8) == 2);
  BOOST_TEST(busy(DType::i4) == 2);  // held as bytes
}

BOOST_AUTO_TEST_CASE(issue_reductions_copies_and_nothing) {
  Machine chip = chip_of_units();
  Descriptor d = vector(256, 8, {1, 0, 0, 0});
  d.lane_reductions = 3;
  // 32 rows are 8 registers of 128 bytes, which pass the cross-lane unit at 64 a cycle, three times.
  BOOST_TEST(latency_of(chip, d).busy == 3 * 8 * 2 + 3 * 6);
  BOOST_TEST(latency_of(chip, d).limit == std::string("lanes"));
  d.elements = 256 * 64, d.lane_extent = 8 * 64;  // as many rows, 64 times as long: 512 additions
  BOOST_TEST(latency_of(chip, d).busy == 512 + 3 * 6);
  d.lane_extent = 1;  // nothing to combine
  d.elements = 256;
  BOOST_TEST(latency_of(chip, d).busy == 64 + 3 * 6);
  BOOST_TEST(latency_of(chip, vector(256, 8, {0, 0, 0, 0})).busy == 8);  // a copy passes through the unit
  BOOST_TEST(latency_of(chip, vector(0, 8, {1, 1, 1, 1})).done == 0);
  BOOST_TEST(latency_of(chip, vector(1, 1, {1, 0, 0, 0})).busy == 1);
  chip.core.vector.issue = 2;
  BOOST_TEST(latency_of(chip, vector(256, 8, {1, 0, 0, 0})).busy == 4);
  BOOST_TEST(latency_of(chip, vector(288, 8, {1, 0, 0, 0})).busy == 5);  // 9 registers at 2 a cycle
}

BOOST_AUTO_TEST_CASE(running_sums_along_lanes_take_their_steps) {
  Machine chip = chip_of_units();
  Descriptor d = vector(256, 8, {1, 0, 0, 0});
  d.lane_scans = 1;
  // 8 registers, 3 steps: 24 shifts of 128 bytes at 64 a cycle beside 8 * (1 + 3) additions; each step's latency.
  BOOST_TEST(latency_of(chip, d).busy == 48 + 3 * 10);
  chip.core.cross_lane.bytes_per_cycle = 128;
  BOOST_TEST(latency_of(chip, d).busy == 32 + 3 * 10);
  chip.core.cross_lane.bytes_per_cycle = 64;
  d.lane_extent = 16;  // the sum of the first 8 lanes goes on to the others: one more shift of each register
  BOOST_TEST(latency_of(chip, d).busy == 64 + 3 * 10);
  d.lane_extent = 5;  // ragged: 52 rows are 13 registers
  d.elements = 260;
  BOOST_TEST(latency_of(chip, d).busy == 13 * 3 * 2 + 3 * 10);
  d.lane_extent = 1;
  BOOST_TEST(latency_of(chip, d).busy == latency_of(chip, vector(260, 1, {1, 0, 0, 0})).busy);
}

BOOST_AUTO_TEST_CASE(permutes_by_hand) {
  const Machine chip = chip_of_units();
  Descriptor d;
  d.kind = ComputeKind::permute;
  d.elements = 4096, d.lane_extent = 64;
  BOOST_TEST(latency_of(chip, d).busy == 4096 / 8);  // apart from each other: one for each lane and cycle
  d.batch = 2;
  BOOST_TEST(latency_of(chip, d).busy == 4096 / 8 + 4096 / 32);  // in place: registers of 32 pass the ports again
  d.batch = 0;
  BOOST_TEST(latency_of(chip, d).busy == 1);  // nothing moves
  d.batch = 1, d.k = 64;
  BOOST_TEST(latency_of(chip, d).busy == 64 * 2);  // rows of two registers each
  d.k = 4;
  BOOST_TEST(latency_of(chip, d).busy == 4096 / 2 / 8);  // two neighbours are a piece
  d.k = 1, d.dtype = DType::i8;
  BOOST_TEST(latency_of(chip, d).busy == 4096 / 8);
  d.k_outer = 8;  // squares: 64 bytes a cycle over the lanes, 64 in pieces; three tables and two loads before
  BOOST_TEST(latency_of(chip, d).busy == 4096 / 64 + 3 + 2 * 4);
  d.elements = 0;
  BOOST_TEST(latency_of(chip, d).busy == 1);
}

BOOST_AUTO_TEST_CASE(indexed_and_sort_by_hand) {
  const Machine chip = chip_of_units();
  Descriptor d;
  d.kind = ComputeKind::indexed, d.second = DType::i32;
  d.elements = d.m = 256;
  // one for each lane and cycle, and the indices; the next kernel comes when all indices were checked
  BOOST_TEST(latency_of(chip, d).busy >= 256 / 8 + 256 / 32);
  d.elements = d.m = 4096;
  BOOST_TEST(latency_of(chip, d).busy >= 4096 / 8 + 4096 / 32);
  BOOST_TEST(latency_of(chip, d).busy <= 1.2 * (4096 / 8 + 4096 / 32));
  d.m = 256, d.elements = 256 * 64, d.k = 64;
  // Three addresses of four instructions, then eight rows at a time: their indices one a cycle, the last of which is
  // there after 3 cycles, multiplied after 3 more, added in one; eight stores wait for the step of their pointer.
  BOOST_TEST(latency_of(chip, d).busy == 9 + 256 / 8 * (7 + 3 + 3 + 1 + 1 + 8));
  d.functions = {1, 0, 0, 0};
  BOOST_TEST(latency_of(chip, d).busy == 2 * 256 * 2);  // what they are added to is loaded too
  d = {};
  d.elements = 64;
  d.kind = ComputeKind::sort;
  d.lane_extent = d.k = 8;  // all are kept
  // Bitonic: 3 levels, 3 * 4 / 2 passes of 32 comparisons; a comparison is a minimum and a maximum of words of a key
  // and its place, 64 bits each, of which a register holds 16.
  const std::int64_t words = latency_of(chip, d).busy;
  BOOST_TEST(words >= 6 * 2 * 32 / 16);
  d.dtype = DType::i16;  // words of 32 bits are compared twice as many at once
  BOOST_TEST(latency_of(chip, d).busy < words);
}

BOOST_AUTO_TEST_CASE(opaque_takes_what_it_declares) {
  Descriptor d;
  d.kind = ComputeKind::opaque;
  d.duration = 1234;
  const TileLatency t = latency_of(chip_of_units(), d);
  BOOST_TEST(t.busy == 1234);
  BOOST_TEST(t.done == 1234);
  d.duration = -1;
  BOOST_TEST(latency_of(chip_of_units(), d).busy == 0);
}

BOOST_AUTO_TEST_CASE(the_store_answers_as_the_model_does) {
  const Machine own = chip_of_units();
  ClosedForm direct(own);
  LatencyStore store(direct);
  std::mt19937 random(7);
  const auto below = [&](int bound) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(bound)); };
  std::vector<std::pair<Descriptor, History>> keys;
  for (int i = 0; i < 20000; ++i) {  // more than the table holds: entries collide
    Descriptor d;
    d.kind = below(2) == 0 ? ComputeKind::mma : ComputeKind::vector;
    d.m = 1 + below(50), d.n = 1 + below(50), d.k = 1 + below(50), d.batch = 1 + below(2);
    d.k_outer = 1 + below(2), d.stationary_a = below(2) == 0;
    d.elements = below(1000), d.lane_extent = 1 + below(40), d.lane_reductions = below(3);
    d.functions = {static_cast<std::int32_t>(below(4)), 0, static_cast<std::int32_t>(below(2)), 0};
    keys.emplace_back(d, History{below(2) == 0, below(2) == 0});
  }
  for (int round = 0; round < 2; ++round)
    for (const auto& [d, history] : keys) {
      const TileLatency a = store.latency(d, history), b = direct.latency(d, history);
      BOOST_REQUIRE(a.busy == b.busy);
      BOOST_REQUIRE(a.done == b.done);
      BOOST_REQUIRE(a.consumed == b.consumed);
      BOOST_REQUIRE(a.weights_consumed == b.weights_consumed);
      BOOST_REQUIRE(a.first == b.first);
    }
  BOOST_TEST(store.hits() + store.misses() == 40000);
  const std::int64_t before = store.hits();
  store.latency(keys[0].first, keys[0].second);
  store.latency(keys[0].first, keys[0].second);
  BOOST_TEST(store.hits() >= before + 1);
  BOOST_TEST(store.name() == direct.name());
}

BOOST_AUTO_TEST_SUITE_END()
