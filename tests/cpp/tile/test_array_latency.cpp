// Closed forms of systolic arrays: figures by hand, and a register-by-register model of the array for tiles of any
// size.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/tile/tile.hpp"

using namespace tilesim;

namespace {

Machine array_of(std::int64_t rows, std::int64_t columns, Dataflow dataflow, bool double_buffer) {
  Machine machine;
  machine.name = "test";
  ArraySpec& array = machine.core.array;
  array.rows = rows;
  array.columns = columns;
  array.dataflow = dataflow;
  array.weight_double_buffer = double_buffer;
  array.rates = {{DType::f32, 1.0}, {DType::bf16, 2.0}, {DType::i8, 4.0}, {DType::f64, 0.5}};
  machine.core.isa.accumulates = Accumulates::array;  // the array alone, ports wide enough
  return machine;
}

Descriptor product(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::f32) {
  Descriptor d;
  d.kind = ComputeKind::mma;
  d.dtype = d.second = dtype;
  d.m = m;
  d.n = n;
  d.k = k;
  return d;
}

TileLatency latency(const Machine& machine, const Descriptor& descriptor, const History& history = {}) {
  return ClosedForm(machine).latency(descriptor, history);
}

/// Cells with registers, stepped cycle by cycle: weights shift in from the top one row per cycle, the moving rows enter
/// skewed from the left, sums go down. Returns the cycle at which the last sum has left, and whether all sums are
/// right.
struct Stepped {
  std::int64_t cycles;
  bool right;
};
Stepped weight_stationary_stepped(std::int64_t rows, std::int64_t columns, std::int64_t m) {
  const auto weight = [](std::int64_t r, std::int64_t c) { return r * 7 + c * 3 + 1; };
  const auto moving = [](std::int64_t i, std::int64_t r) { return i * 5 + r * 2 + 1; };
  const auto at = [&](std::int64_t r, std::int64_t c) { return static_cast<std::size_t>(r * columns + c); };
  std::vector<std::int64_t> weights(static_cast<std::size_t>(rows * columns), 0), left = weights, above = weights;
  std::int64_t cycle = 0;
  for (std::int64_t step = 0; step < rows; ++step, ++cycle) {  // the last row of weights enters first
    for (std::int64_t r = rows - 1; r > 0; --r)
      for (std::int64_t c = 0; c < columns; ++c) weights[at(r, c)] = weights[at(r - 1, c)];
    for (std::int64_t c = 0; c < columns; ++c) weights[at(0, c)] = weight(rows - 1 - step, c);
  }
  std::int64_t received = 0;
  bool right = true;
  for (std::int64_t step = 0; received < m * columns; ++step, ++cycle) {
    std::vector<std::int64_t> next_left = left, next_above = above;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t row = step - r;  // enters row r one cycle after row r - 1
        const std::int64_t from_left = c > 0 ? left[at(r, c - 1)] : row >= 0 && row < m ? moving(row, r) : 0;
        next_left[at(r, c)] = from_left;
        next_above[at(r, c)] = (r > 0 ? above[at(r - 1, c)] : 0) + weights[at(r, c)] * from_left;
      }
    left = next_left;
    above = next_above;
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t row = step - (rows - 1) - c;
      if (row < 0 || row >= m) continue;
      std::int64_t wanted = 0;
      for (std::int64_t r = 0; r < rows; ++r) wanted += weight(r, c) * moving(row, r);
      right &= above[at(rows - 1, c)] == wanted;
      ++received;
    }
  }
  return {cycle, right};
}

/// Sums stay in the cells; operands enter skewed from the left and the top. Returns the cycle after the last product.
Stepped output_stationary_stepped(std::int64_t rows, std::int64_t columns, std::int64_t k) {
  const auto a = [](std::int64_t r, std::int64_t i) { return r * 3 + i * 2 + 1; };
  const auto b = [](std::int64_t i, std::int64_t c) { return i * 5 + c + 2; };
  const auto at = [&](std::int64_t r, std::int64_t c) { return static_cast<std::size_t>(r * columns + c); };
  const std::vector<std::int64_t> zeros(static_cast<std::size_t>(rows * columns), 0);
  std::vector<std::int64_t> sums = zeros, left = zeros, above = zeros;
  std::int64_t products = 0, cycle = 0;
  for (; products < rows * columns * k; ++cycle) {
    std::vector<std::int64_t> next_left = zeros, next_above = zeros;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t i = cycle - r - c;
        next_left[at(r, c)] = c > 0 ? left[at(r, c - 1)] : cycle - r >= 0 && cycle - r < k ? a(r, cycle - r) : 0;
        next_above[at(r, c)] = r > 0 ? above[at(r - 1, c)] : cycle - c >= 0 && cycle - c < k ? b(cycle - c, c) : 0;
        sums[at(r, c)] += next_left[at(r, c)] * next_above[at(r, c)];
        products += i >= 0 && i < k;
      }
    left = next_left;
    above = next_above;
  }
  bool right = true;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      std::int64_t wanted = 0;
      for (std::int64_t i = 0; i < k; ++i) wanted += a(r, i) * b(i, c);
      right &= sums[at(r, c)] == wanted;
    }
  return {cycle, right};
}

/// Registers of 128 bytes: 16 rows of i8, and a fourth of their sums.
Machine with_ports(bool double_buffer = true) {
  Machine chip = array_of(8, 8, Dataflow::weight_stationary, double_buffer);
  chip.core.vector.lanes = 8, chip.core.vector.sublanes = 4, chip.core.vector.latency = 5;
  chip.core.isa.accumulates = Accumulates::vector;
  return chip;
}

constexpr History behind{false, true};

}  // namespace

BOOST_AUTO_TEST_SUITE(array_latency)

BOOST_AUTO_TEST_CASE(weight_stationary_one_tile_by_hand) {
  // 4x3 array: 4 cycles to shift the weights in, 10 rows, 4 + 3 - 2 cycles of skew.
  const Machine chip = array_of(4, 3, Dataflow::weight_stationary, false);
  const TileLatency t = latency(chip, product(10, 3, 4));
  BOOST_TEST(t.busy == 4 + 10 + 5);
  BOOST_TEST(t.done == 4 + 10 + 5);
  BOOST_TEST(t.consumed == t.busy);
  BOOST_TEST(t.first == 4 + 5 + 1);  // loaded, through the skew, one row
  BOOST_TEST(t.weights_consumed <= t.consumed);
  BOOST_TEST(t.limit == std::string("rows"));
  BOOST_TEST(latency(chip, product(2, 3, 4)).limit == std::string("weights"));
}

BOOST_AUTO_TEST_CASE(weight_stationary_equals_the_stepped_array) {
  for (const std::int64_t rows : {1, 2, 5, 8})
    for (const std::int64_t columns : {1, 3, 8})
      for (const std::int64_t m : {1, 2, 7, 20}) {
        const Stepped stepped = weight_stationary_stepped(rows, columns, m);
        BOOST_TEST(stepped.right);
        const Machine chip = array_of(rows, columns, Dataflow::weight_stationary, false);
        BOOST_TEST(latency(chip, product(m, columns, rows)).done == stepped.cycles);
      }
}

BOOST_AUTO_TEST_CASE(output_stationary_equals_the_stepped_array_and_its_drain) {
  for (const std::int64_t rows : {1, 2, 5, 8})
    for (const std::int64_t columns : {1, 3, 8})
      for (const std::int64_t k : {1, 4, 30}) {
        const Stepped stepped = output_stationary_stepped(rows, columns, k);
        BOOST_TEST(stepped.right);
        // Sums leave down the columns, one row per cycle, once the last product is done.
        const Machine chip = array_of(rows, columns, Dataflow::output_stationary, false);
        BOOST_TEST(latency(chip, product(rows, columns, k)).done == stepped.cycles + rows);
      }
}

BOOST_AUTO_TEST_CASE(ragged_tiles_fill_the_whole_array) {
  const Machine chip = array_of(4, 3, Dataflow::weight_stationary, false);
  // k 5 -> 2 tiles, n 4 -> 2 tiles; each costs the full 4 + 10 + 5.
  BOOST_TEST(latency(chip, product(10, 4, 5)).busy == 4 * 19);
  BOOST_TEST(latency(chip, product(10, 3, 4)).busy == latency(chip, product(10, 1, 1)).busy);
  const Machine os = array_of(4, 3, Dataflow::output_stationary, false);
  BOOST_TEST(latency(os, product(5, 4, 10)).busy == 4 * (10 + 2 * 4 + 3 - 2));
}

BOOST_AUTO_TEST_CASE(double_buffered_weights_hide_the_load) {
  const Machine chip = array_of(4, 3, Dataflow::weight_stationary, true);
  // First tile: 4 cycles of load are exposed; then rows stream; the drain does not occupy the array.
  BOOST_TEST(latency(chip, product(10, 3, 4)).busy == 4 + 10);
  BOOST_TEST(latency(chip, product(10, 3, 4)).done == 4 + 10 + 5);
  // Three tiles of weights: only the first load is exposed.
  BOOST_TEST(latency(chip, product(10, 3, 12)).busy == 4 + 3 * 10);
  // Two rows only: the next load (4 cycles) takes longer than the rows; nothing is loaded behind the last.
  const TileLatency starved = latency(chip, product(2, 3, 12));
  BOOST_TEST(starved.busy == 4 + 2 * 4 + 2);
  BOOST_TEST(latency(chip, product(2, 3, 12), {false, true}).busy ==
             3 * 4);  // one like it behind: 4 for each of its sets
  BOOST_TEST(starved.limit == std::string("weights"));
}

BOOST_AUTO_TEST_CASE(resident_weights_and_successive_tiles_pay_no_load) {
  const Machine chip = array_of(4, 3, Dataflow::weight_stationary, true);
  for (const History history : {History{true, false}, History{false, true}, History{true, true}}) {
    const TileLatency t = latency(chip, product(10, 3, 4), history);
    BOOST_TEST(t.busy == 10);
    BOOST_TEST(t.done == 10 + 5);
  }
}

BOOST_AUTO_TEST_CASE(wider_weight_port) {
  Machine chip = array_of(8, 3, Dataflow::weight_stationary, false);
  chip.core.array.weight_rows_per_cycle = 2;
  BOOST_TEST(latency(chip, product(10, 3, 8)).busy == 4 + 10 + (8 + 3 - 2));
  chip.core.array.weight_rows_per_cycle = 3;  // 8 rows at 3 a cycle: 3 cycles
  BOOST_TEST(latency(chip, product(10, 3, 8)).busy == 3 + 10 + (8 + 3 - 2));
}

BOOST_AUTO_TEST_CASE(rates_of_dtypes) {
  const Machine chip = array_of(4, 3, Dataflow::weight_stationary, false);
  const auto busy = [&](DType dtype) { return latency(chip, product(10, 3, 4, dtype)).busy; };
  BOOST_TEST(busy(DType::f32) == 4 + 10 + 5);
  BOOST_TEST(busy(DType::bf16) == 4 + 5 + 5);  // two a cycle
  BOOST_TEST(busy(DType::i8) == 4 + 3 + 5);    // four a cycle: 2.5 cycles, whole ones
  BOOST_TEST(busy(DType::f64) == 4 + 20 + 5);  // two passes
}

BOOST_AUTO_TEST_CASE(input_stationary_is_weight_stationary_with_operands_exchanged) {
  for (const bool buffered : {false, true}) {
    const Machine is = array_of(4, 3, Dataflow::input_stationary, buffered);
    const Machine ws = array_of(4, 3, Dataflow::weight_stationary, buffered);
    for (const std::int64_t m : {1, 3, 10})
      for (const std::int64_t n : {2, 6, 30})
        for (const std::int64_t k : {1, 4, 9}) {
          const TileLatency a = latency(is, product(m, n, k)), b = latency(ws, product(n, m, k));
          BOOST_TEST(a.busy == b.busy);
          BOOST_TEST(a.done == b.done);
        }
  }
  // By hand: 30 columns of the moving operand stream, m = 3 fits the columns.
  BOOST_TEST(latency(array_of(4, 3, Dataflow::input_stationary, false), product(3, 30, 4)).busy == 4 + 30 + 5);
}

BOOST_AUTO_TEST_CASE(stationary_a_exchanges_the_operands) {
  const Machine chip = array_of(4, 3, Dataflow::weight_stationary, false);
  Descriptor d = product(3, 30, 4);
  d.stationary_a = true;
  BOOST_TEST(latency(chip, d).busy == 4 + 30 + 5);
}

BOOST_AUTO_TEST_CASE(output_stationary_overlaps_the_drain) {
  const Machine chip = array_of(4, 3, Dataflow::output_stationary, true);
  BOOST_TEST(latency(chip, product(4, 3, 10)).busy == 10 + 4 + 3 - 2);
  BOOST_TEST(latency(chip, product(8, 3, 10)).busy == 2 * 10 + 4 + 3 - 2);
  BOOST_TEST(latency(chip, product(8, 3, 2)).busy == 2 * 4 + 4 + 3 - 2);  // shifting 4 rows out takes longer than k
}

BOOST_AUTO_TEST_CASE(batches_and_window_taps_are_passes_of_their_own) {
  const Machine ws = array_of(4, 3, Dataflow::weight_stationary, false);
  Descriptor d = product(10, 3, 4);
  d.batch = 5;
  BOOST_TEST(latency(ws, d).busy == 5 * 19);
  d.batch = 1;
  d.k_outer = 9;
  BOOST_TEST(latency(ws, d).busy == 9 * 19);
  const Machine os = array_of(4, 3, Dataflow::output_stationary, false);
  d = product(4, 3, 4);
  d.k_outer = 9;  // sums stay: the taps only lengthen k
  BOOST_TEST(latency(os, d).busy == 36 + 2 * 4 + 3 - 2);
}

BOOST_AUTO_TEST_CASE(nothing_to_do_takes_no_time) {
  const Machine chip = array_of(4, 3, Dataflow::weight_stationary, true);
  for (const auto& [m, n] : {std::pair{0, 3}, std::pair{3, 0}}) {
    BOOST_TEST(latency(chip, product(m, n, 4)).busy == 0);
    BOOST_TEST(latency(chip, product(m, n, 4)).done == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_dtype_that_the_array_lacks_is_named) {
  const Machine chip = array_of(4, 3, Dataflow::weight_stationary, true);
  try {
    latency(chip, product(1, 1, 1, DType::f16));
    BOOST_TEST(false, "f16 was accepted");
  } catch (const Unsupported& error) {
    BOOST_TEST(error.parts().value == "f16");
    BOOST_TEST(error.parts().allowed.find("bf16") != std::string::npos);
    BOOST_TEST(std::string(error.what()).find("test") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(never_faster_than_the_cells_and_consistent) {
  for (const Dataflow dataflow : {Dataflow::weight_stationary, Dataflow::output_stationary, Dataflow::input_stationary})
    for (const bool buffered : {false, true})
      for (const std::int64_t m : {1, 5, 64})
        for (const std::int64_t n : {1, 7, 50})
          for (const std::int64_t k : {1, 6, 33}) {
            const Machine chip = array_of(4, 3, dataflow, buffered);
            const TileLatency t = latency(chip, product(m, n, k), {true, true});
            BOOST_TEST(t.done * 4 * 3 >= m * n * k);
            BOOST_TEST((t.busy <= t.done && t.first <= t.done && t.consumed <= t.done));
            BOOST_TEST((t.weights_consumed >= 0 && t.first >= 0));
          }
}

BOOST_AUTO_TEST_CASE(sums_pass_the_ports_where_the_vector_unit_adds) {
  Machine chip = with_ports();
  Descriptor d = product(64, 8, 16, DType::i8);
  // 64 rows in 16 cycles. A set: 4 registers of rows and 1 of weights in, 16 of sums out; the second reads sums too.
  BOOST_TEST(latency(chip, d, behind).busy == 16 + (4 + 1 + 16));
  BOOST_TEST(latency(chip, d, behind).limit == std::string("load port"));
  d.accumulate = true;
  BOOST_TEST(latency(chip, d, behind).busy == 2 * (4 + 1 + 16));
  chip.core.isa.accumulates = Accumulates::array;
  BOOST_TEST(latency(chip, d, behind).busy == 2 * 16);
  chip.core.isa.accumulates = Accumulates::by_memory;
  BOOST_TEST(latency(chip, d, behind).busy == 2 * 21);
  chip.core.scratchpad.accumulator_bytes = 1 << 16;
  BOOST_TEST(latency(chip, d, behind).busy == 2 * 16);
  chip = with_ports();
  chip.core.isa.loads = 2;  // 10.5 cycles of loads for each set
  BOOST_TEST(latency(chip, d, behind).busy == 2 * 16);
  chip.core.isa.port_bytes = 64;  // two beats for a register: 42 registers in over two ports, 16 out over one
  BOOST_TEST(latency(chip, d, behind).busy == 2 * 2 * 16);
  BOOST_TEST(latency(chip, d, behind).limit == std::string("store port"));
  chip.core.isa.stores = 2;
  BOOST_TEST(latency(chip, d, behind).busy == 42);
  chip = with_ports();
  chip.core.vector.simple = 3;  // 16 registers of sums
  BOOST_TEST(latency(chip, d, behind).busy == 2 * 3 * 16);
  BOOST_TEST(latency(chip, d, behind).limit == std::string("vector"));
  chip.core.vector.issue = 2;
  BOOST_TEST(latency(chip, d, behind).busy == 2 * 24);
}

BOOST_AUTO_TEST_CASE(rows_and_weights_pass_the_ports_whoever_adds) {
  Machine chip = with_ports();
  chip.core.isa.accumulates = Accumulates::array, chip.core.isa.port_bytes = 16;
  // 8 cycles for a register: 4 of rows and 1 of weights for each set
  BOOST_TEST(latency(chip, product(64, 8, 16, DType::i8), behind).busy == 2 * 5 * 8);
  chip.core.isa.port_bytes = 0, chip.core.isa.width = 1, chip.core.isa.dispatch = 1;
  // 5 instructions for a register of rows, as many for one of weights
  BOOST_TEST(latency(chip, product(64, 8, 8, DType::i8), behind).busy == 4 * 5 + 5);
  BOOST_TEST(latency(chip, product(64, 8, 8, DType::i8), behind).limit == std::string("issue"));
}

BOOST_AUTO_TEST_CASE(a_product_alone_waits_for_its_first_weights_and_its_last_sums) {
  Machine chip = with_ports();
  chip.core.isa.load_latency = 6;
  // on the way 6 + 4, 8 rows of weights, 16 cycles of rows; through the array, then taken, added, stored
  const TileLatency one = latency(chip, product(64, 8, 8, DType::i8));
  BOOST_TEST(one.busy == 10 + 8 + 16);
  BOOST_TEST(one.done == one.busy + 14 + 2);
  const TileLatency two = latency(chip, product(64, 8, 16, DType::i8));
  BOOST_TEST(two.busy == 10 + 8 + 2 * 16);
  BOOST_TEST(two.done == two.busy + 14 + 2 + 5);
  // ports are late for so long that the first weights are hidden: 7 of 8 sets read sums
  BOOST_TEST(latency(chip, product(64, 8, 64, DType::i8)).busy == 10 + 16 + 7 * 21);
  // one set of registers: load, rows at the ports' pace, drain, for each; the second's ports bring 4 registers of rows
  // and 16 of sums, its weights before
  chip = with_ports(false);
  BOOST_TEST(latency(chip, product(64, 8, 16, DType::i8)).busy == 8 + (8 + 16 + 14) + (8 + 20 + 14));
}

BOOST_AUTO_TEST_CASE(more_of_anything_is_never_slower) {
  std::mt19937 random(5);
  const auto up_to = [&](int most) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(most)) + 1; };
  for (int trial = 0; trial < 400; ++trial) {
    Machine chip = with_ports(random() % 2 == 0);
    chip.core.isa.loads = up_to(2), chip.core.isa.stores = up_to(2), chip.core.isa.width = up_to(8);
    chip.core.isa.dispatch = up_to(8), chip.core.isa.port_bytes = 16 << random() % 4, chip.core.vector.issue = up_to(2);
    chip.core.isa.accumulates = static_cast<Accumulates>(random() % 3);
    Descriptor d = product(up_to(200), up_to(40), up_to(40), std::array{DType::f32, DType::i8}[random() % 2]);
    d.k_outer = up_to(3), d.batch = up_to(2), d.accumulate = random() % 2 == 0, d.stationary_a = random() % 2 == 0;
    const History history{false, random() % 2 == 0};
    const TileLatency before = latency(chip, d, history);
    for (const auto& more :
         {+[](Machine& m) { m.core.isa.loads *= 2; }, +[](Machine& m) { m.core.isa.stores *= 2; },
          +[](Machine& m) { m.core.isa.port_bytes *= 2; }, +[](Machine& m) { m.core.isa.width *= 2; },
          +[](Machine& m) { m.core.isa.dispatch *= 2; }, +[](Machine& m) { m.core.vector.issue *= 2; },
          +[](Machine& m) { m.core.array.rates[DType::f32] *= 2, m.core.array.rates[DType::i8] *= 2; },
          +[](Machine& m) { m.core.array.weight_rows_per_cycle *= 2; },
          +[](Machine& m) { m.core.isa.accumulates = Accumulates::array; }}) {
      Machine wider = chip;
      more(wider);
      const TileLatency after = latency(wider, d, history);
      BOOST_TEST(after.busy <= before.busy);
      BOOST_TEST(after.done <= before.done);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
