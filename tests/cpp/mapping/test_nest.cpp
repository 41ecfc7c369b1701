// Nests: legality with reasons, exact traffic against a walk over all tiles, the heuristic.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <random>

#include "tilesim/base/error.hpp"
#include "tilesim/mapping/nest.hpp"

namespace tilesim::mapping {
namespace {

AxisAccess axis(std::initializer_list<AxisAccess::Term> terms, std::int64_t constant = 0, bool may_leave = false) {
  AxisAccess access;
  access.terms = terms;
  access.constant = constant;
  access.may_leave = may_leave;
  return access;
}

Access access(std::initializer_list<AxisAccess> axes) {
  Access result;
  result.axes = axes;
  return result;
}

/// c[m, n] += a[m, k] * b[k, n]
Problem matmul(std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem problem;
  problem.operation = "matmul";
  problem.domain.extents = {m, n, k};
  problem.domain.names = {"m", "n", "k"};
  problem.domain.reduction = {false, false, true};
  problem.domain.operands = {access({axis({{0, 1}}), axis({{2, 1}})}), access({axis({{2, 1}}), axis({{1, 1}})})};
  problem.domain.results = {access({axis({{0, 1}}), axis({{1, 1}})})};
  problem.dtypes = {DType::f32, DType::f32, DType::f32};
  problem.memory_dtypes = problem.dtypes;
  problem.shapes = {{m, k}, {k, n}, {m, n}};
  problem.minor_to_major = {{}, {}, {}};
  problem.m_dims = {0};
  problem.n_dims = {1};
  problem.k_dims = {2};
  return problem;
}

/// y[p, o] += x[p*stride + r - pad, i] * w[r, i, o]: a 1-D convolution with padding.
Problem convolution(std::int64_t length, std::int64_t stride, std::int64_t pad, std::int64_t taps, std::int64_t in,
                    std::int64_t out) {
  Problem problem;
  const std::int64_t outputs = (length + 2 * pad - taps) / stride + 1;
  problem.operation = "conv";
  problem.domain.extents = {outputs, out, taps, in};
  problem.domain.names = {"p", "o", "r", "i"};
  problem.domain.reduction = {false, false, true, true};
  problem.domain.operands = {access({axis({{0, stride}, {2, 1}}, -pad, true), axis({{3, 1}})}),
                             access({axis({{2, 1}}), axis({{3, 1}}), axis({{1, 1}})})};
  problem.domain.results = {access({axis({{0, 1}}), axis({{1, 1}})})};
  problem.dtypes = {DType::f32, DType::f32, DType::f32};
  problem.memory_dtypes = problem.dtypes;
  problem.shapes = {{length, in}, {taps, in, out}, {outputs, out}};
  problem.minor_to_major = {{}, {}, {}};
  problem.m_dims = {0};
  problem.n_dims = {1};
  problem.k_dims = {2, 3};
  return problem;
}

/// Elements loaded by walking the nest as the program does: an operand is fetched whenever a loop it depends on moves.
std::int64_t walked(const Problem& problem, const Nest& nest, std::size_t operand) {
  const Access& map = operand < 2 ? problem.domain.operands[operand] : problem.domain.results[0];
  std::vector<std::int64_t> index(nest.order.size(), 0), last(nest.order.size(), -1);
  std::size_t level = 0;
  const auto trips = [&](std::size_t i) {
    const auto d = static_cast<std::size_t>(nest.order[i]);
    return ceil_div(problem.domain.extents[d], nest.tiles[d]);
  };
  for (std::size_t i = 0; i < nest.order.size(); ++i)
    for (const AxisAccess& a : map.axes)
      for (const auto& term : a.terms)
        if (term.dim == nest.order[i] && trips(i) > 1) level = i + 1;
  std::int64_t total = 0;
  const std::function<void(std::size_t)> walk = [&](std::size_t depth) {
    if (depth == level) {
      std::int64_t elements = 1;
      for (std::size_t x = 0; x < map.axes.size(); ++x) {
        std::int64_t low = map.axes[x].constant, high = low;
        for (const auto& term : map.axes[x].terms) {
          const auto d = static_cast<std::size_t>(term.dim);
          std::int64_t i = 0;
          for (std::size_t l = 0; l < nest.order.size(); ++l)
            if (nest.order[l] == term.dim) i = index[l];
          const std::int64_t begin = i * nest.tiles[d],
                             end = std::min(problem.domain.extents[d], begin + nest.tiles[d]) - 1;
          low += term.coefficient * begin;
          high += term.coefficient * end;
        }
        elements *= std::max<std::int64_t>(
            0, std::min(high, problem.shapes[operand][x] - 1) - std::max<std::int64_t>(low, 0) + 1);
      }
      total += elements;
      return;
    }
    for (index[depth] = 0; index[depth] < trips(depth); ++index[depth]) walk(depth + 1);
    index[depth] = 0;
  };
  walk(0);
  return total;
}

BOOST_AUTO_TEST_SUITE(nest)

BOOST_AUTO_TEST_CASE(traffic_by_hand) {
  // 4x6 by 8: tiles 2,3,8 in order m,n: a is fetched once per m (32 in all), b for every (m, n): 2 * 48.
  const Problem problem = matmul(4, 6, 8);
  const Nest nest{{2, 3, 8}, {0, 1, 2}, {2, 2, 2}};
  const Traffic moved = traffic(problem, nest);
  BOOST_TEST(moved.elements[0] == 32);
  BOOST_TEST(moved.elements[1] == 96);
  BOOST_TEST(moved.elements[2] == 24);
  BOOST_TEST(moved.transfers[0] == 2);
  BOOST_TEST(moved.transfers[1] == 4);
  BOOST_TEST(moved.transfers[2] == 4);
}

BOOST_AUTO_TEST_CASE(traffic_equals_a_walk) {
  std::mt19937 random(7);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 500; ++round) {
    const bool conv = round % 2;
    const Problem problem = conv ? convolution(draw(3, 20), draw(1, 3), draw(0, 2), draw(1, 3), draw(1, 6), draw(1, 6))
                                 : matmul(draw(1, 20), draw(1, 20), draw(1, 20));
    Nest nest{{}, {}, {1, 1, 1}};
    for (std::size_t d = 0; d < problem.domain.extents.size(); ++d) {
      nest.tiles.push_back(draw(1, problem.domain.extents[d]));
      nest.order.push_back(static_cast<int>(d));
    }
    std::shuffle(nest.order.begin(), nest.order.end(), random);
    const Traffic moved = traffic(problem, nest);
    for (std::size_t operand = 0; operand < 2; ++operand)
      BOOST_TEST(moved.elements[operand] == walked(problem, nest, operand));
  }
}

BOOST_AUTO_TEST_CASE(legality_names_the_rule) {
  const Problem problem = matmul(512, 512, 512);
  Machine machine;
  machine.core.scratchpad.bytes = 64 << 10;
  Nest nest{{512, 512, 512}, {0, 1, 2}, {2, 2, 2}};
  BOOST_TEST(legal(problem, nest, machine).reason.find("bytes of scratchpad") != std::string::npos);
  nest.tiles = {16, 16, 16};
  BOOST_TEST(legal(problem, nest, machine).legal);
  // 2 buffers each of 16x16 f32 for a, b and c.
  BOOST_TEST(scratchpad_bytes(problem, nest, machine) == 6 * 16 * 16 * 4);
  nest.tiles[1] = 0;
  BOOST_TEST(legal(problem, nest, machine).reason.find("tile size of n") != std::string::npos);
  nest.tiles = {16, 16};
  BOOST_TEST(!legal(problem, nest, machine).legal);
  nest = {{16, 16, 16}, {0, 0, 2}, {2, 2, 2}};
  BOOST_TEST(!legal(problem, nest, machine).legal);
}

BOOST_AUTO_TEST_CASE(capacity_is_met_at_n_and_refused_below) {
  const Problem problem = matmul(64, 64, 64);
  const Nest nest{{64, 64, 64}, {0, 1, 2}, {1, 1, 1}};
  Machine machine;
  machine.core.scratchpad.bytes = 3 * 64 * 64 * 4;
  BOOST_TEST(legal(problem, nest, machine).legal);
  machine.core.scratchpad.bytes -= 1;
  BOOST_TEST(!legal(problem, nest, machine).legal);
}

BOOST_AUTO_TEST_CASE(a_sum_of_split_contraction_stays_on_chip) {
  // Columns inside the contraction loop: the accumulator holds all columns of the row tile.
  const Problem problem = matmul(8, 32, 64);
  const Nest nest{{8, 8, 16}, {0, 2, 1}, {1, 1, 1}};
  BOOST_TEST(tile_elements(problem, nest, 2) == 8 * 32);
  const Nest inner{{8, 8, 16}, {0, 1, 2}, {1, 1, 1}};
  BOOST_TEST(tile_elements(problem, inner, 2) == 8 * 8);
}

BOOST_AUTO_TEST_CASE(heuristic_is_legal_for_any_shape) {
  Machine machine;
  machine.core.array.rates[DType::f32] = 1;
  machine.memory.bytes_per_second = 100'000'000'000;
  machine.core.clock = {1'000'000'000};
  for (const std::int64_t bytes : {4096L, 65536L, 1L << 24})
    for (const std::int64_t m : {1L, 7L, 128L, 1L << 20})
      for (const std::int64_t n : {1L, 333L, 1L << 20})
        for (const std::int64_t k : {1L, 129L, 1L << 20}) {
          machine.core.scratchpad.bytes = bytes;
          const Problem problem = matmul(m, n, k);
          BOOST_TEST(legal(problem, heuristic(problem, machine), machine).legal);
        }
}

BOOST_AUTO_TEST_CASE(no_tile_fits) {
  Machine machine;
  machine.core.array.rates[DType::f32] = 1;
  machine.memory.bytes_per_second = 1'000'000'000;
  machine.core.scratchpad.bytes = 128;  // three buffers of 64 bytes at least
  BOOST_CHECK_THROW(heuristic(matmul(4, 4, 4), machine), UserError);
  machine.core.scratchpad.bytes = 192;
  BOOST_CHECK_NO_THROW(heuristic(matmul(4, 4, 4), machine));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace tilesim::mapping
