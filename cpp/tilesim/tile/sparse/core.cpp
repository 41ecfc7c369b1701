#include "tilesim/tile/sparse/core.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/tile/sparse/inner.hpp"

namespace tilesim::sparse {

namespace {

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }
double divided_up(double value, std::int64_t by) { return std::ceil(value / static_cast<double>(by)); }

/// Cycles of sums beyond the accumulators: they leave through the write ports and return through the read ports.
double spilling(const SparseCore& core, double sums, SparseTime& time) {
  if (core.accumulators == 0) return 0;
  const double beyond = std::max(0.0, sums - static_cast<double>(core.accumulators));
  time.spilled += beyond;
  return divided_up(beyond, core.write_ports) + divided_up(beyond, core.read_ports);
}

SparseTime outer_time(const SparseCore& core, const BitMatrix& a, const BitMatrix& b) {
  SparseTime time;
  const BitMatrix columns = a.transposed();
  const std::int64_t high = core.tile_m > 0 ? core.tile_m : std::max<std::int64_t>(a.rows(), 1);
  const std::int64_t wide = core.tile_n > 0 ? core.tile_n : std::max<std::int64_t>(b.columns(), 1);
  for (std::int64_t k = 0; k < a.columns(); ++k) {
    worked((a.rows() / high + 1) * (b.columns() / wide + 1));
    // Each block of a column is multiplied with each block of a row.
    double steps_a = 0, steps_b = 0, pairs = 0;
    std::vector<std::int64_t> counts_b;
    for (std::int64_t c = 0; c < b.columns(); c += wide)
      counts_b.push_back(b.count(k, c, std::min(c + wide, b.columns())));
    for (std::int64_t r = 0; r < a.rows(); r += high) {
      const std::int64_t of_a = columns.count(k, r, std::min(r + high, a.rows()));
      if (core.lanes_a > 0)
        steps_a += static_cast<double>(divided_up(of_a, core.lanes_a));
      else
        for (const std::int64_t of_b : counts_b)
          pairs += static_cast<double>(divided_up(of_a * of_b, core.multipliers));
    }
    if (core.lanes_a > 0)
      for (const std::int64_t of_b : counts_b) steps_b += static_cast<double>(divided_up(of_b, core.lanes_b));
    time.cycles += pairs + steps_a * steps_b;
    time.products += static_cast<double>(columns.count_row(k)) * static_cast<double>(b.count_row(k));
  }
  if (core.tile_m > 0) return time;
  time.partial_sums = time.products;
  time.cycles += divided_up(time.partial_sums, core.write_ports) + spilling(core, time.partial_sums, time);
  return time;
}

/// Cycles for which one row of b occupies the multipliers.
std::int64_t row_cycles(const SparseCore& core, const BitMatrix& b, std::int64_t k) {
  if (core.segment == 0) return divided_up(b.count_row(k), core.multipliers);
  std::int64_t cycles = 0;
  for (std::int64_t c = 0; c < b.columns(); c += core.segment) {
    const std::int64_t some = b.count(k, c, std::min(c + core.segment, b.columns()));
    cycles += std::max<std::int64_t>(1, divided_up(some, core.multipliers));
  }
  return cycles;
}

/// A row is merged while the next one is multiplied.
SparseTime row_time(const SparseCore& core, const BitMatrix& a, const BitMatrix& b) {
  SparseTime time;
  std::vector<std::int64_t> cycles(static_cast<std::size_t>(b.rows())), nonzeros(cycles.size());
  for (std::int64_t k = 0; k < b.rows(); ++k) {
    cycles[static_cast<std::size_t>(k)] = row_cycles(core, b, k);
    nonzeros[static_cast<std::size_t>(k)] = b.count_row(k);
  }
  std::vector<std::int32_t> found;
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    found.clear();
    a.positions(i, found);
    worked(static_cast<std::int64_t>(found.size()));
    std::int64_t busy = 0, sums = 0;
    for (const std::int32_t k : found) {
      busy += cycles[static_cast<std::size_t>(k)];
      sums += nonzeros[static_cast<std::size_t>(k)];
    }
    time.products += static_cast<double>(sums);
    time.cycles += std::max(static_cast<double>(busy), divided_up(static_cast<double>(sums), core.write_ports)) +
                   spilling(core, static_cast<double>(sums), time);
  }
  time.partial_sums = time.products;
  return time;
}

/// Calls use(probability, x) for each number x of nonzeros among `drawn` of `all` elements with `nonzeros` nonzeros.
template <class Use>
void hypergeometric(std::int64_t all, std::int64_t nonzeros, std::int64_t drawn, Use use) {
  const std::int64_t low = std::max<std::int64_t>(0, drawn - (all - nonzeros)), high = std::min(drawn, nonzeros);
  const auto next = [&](std::int64_t x) {  // probability of x + 1 over that of x
    return static_cast<double>(nonzeros - x) * static_cast<double>(drawn - x) /
           (static_cast<double>(x + 1) * static_cast<double>(all - nonzeros - drawn + x + 1));
  };
  const auto middle = static_cast<std::int64_t>(static_cast<double>(drawn + 1) * static_cast<double>(nonzeros + 1) /
                                                static_cast<double>(all + 2));
  const std::int64_t mode = std::clamp(middle, low, high);
  std::vector<double> up{1}, down;
  constexpr double nothing = 1e-18;
  for (std::int64_t x = mode; x < high && up.back() > nothing; ++x) up.push_back(up.back() * next(x));
  double weight = 1;
  for (std::int64_t x = mode; x > low && weight > nothing; --x) down.push_back(weight /= next(x - 1));
  double sum = 0;
  for (const double w : up) sum += w;
  for (const double w : down) sum += w;
  for (std::size_t i = 0; i < up.size(); ++i) use(up[i] / sum, mode + static_cast<std::int64_t>(i));
  for (std::size_t i = 0; i < down.size(); ++i) use(down[i] / sum, mode - 1 - static_cast<std::int64_t>(i));
}

/// Expected value of `of` over all blocks of `block` along `extent`.
template <class Of>
double over_blocks(std::int64_t extent, std::int64_t block, std::int64_t all, std::int64_t nonzeros, Of of) {
  double sum = 0;
  const auto add = [&](std::int64_t size, std::int64_t count) {
    if (count > 0 && size > 0)
      hypergeometric(all, nonzeros, size,
                     [&](double p, std::int64_t x) { sum += static_cast<double>(count) * p * of(x); });
  };
  add(block, extent / block);
  add(extent % block, 1);
  return sum;
}

SparseTime expected_outer(const SparseCore& core, const SparseCounts& c) {
  SparseTime time;
  const std::int64_t of_a = c.m * c.k, of_b = c.k * c.n;
  if (of_a == 0 || of_b == 0) return time;
  const std::int64_t high = core.tile_m > 0 ? core.tile_m : c.m, wide = core.tile_n > 0 ? core.tile_n : c.n;
  const auto depth = static_cast<double>(c.k);
  if (core.lanes_a > 0) {
    const auto steps = [](std::int64_t lanes) {
      return [lanes](std::int64_t x) { return static_cast<double>(divided_up(x, lanes)); };
    };
    time.cycles = depth * over_blocks(c.m, high, of_a, c.a_nonzeros, steps(core.lanes_a)) *
                  over_blocks(c.n, wide, of_b, c.b_nonzeros, steps(core.lanes_b));
  } else {
    time.cycles = depth * over_blocks(c.m, high, of_a, c.a_nonzeros, [&](std::int64_t x) {
                    worked(64);
                    return over_blocks(c.n, wide, of_b, c.b_nonzeros, [&](std::int64_t y) {
                      return static_cast<double>(divided_up(x * y, core.multipliers));
                    });
                  });
  }
  time.products = static_cast<double>(c.a_nonzeros) * static_cast<double>(c.b_nonzeros) / depth;
  if (core.tile_m > 0) return time;
  time.partial_sums = time.products;
  time.cycles += divided_up(time.partial_sums, core.write_ports) + spilling(core, time.partial_sums, time);
  return time;
}

SparseTime expected_row(const SparseCore& core, const SparseCounts& c) {
  SparseTime time;
  const std::int64_t of_b = c.k * c.n;
  if (c.m * c.k == 0 || of_b == 0) return time;
  const double one_row =
      core.segment == 0
          ? over_blocks(c.n, c.n, of_b, c.b_nonzeros,
                        [&](std::int64_t x) { return static_cast<double>(divided_up(x, core.multipliers)); })
          : over_blocks(c.n, core.segment, of_b, c.b_nonzeros, [&](std::int64_t x) {
              return static_cast<double>(std::max<std::int64_t>(1, divided_up(x, core.multipliers)));
            });
  time.products = static_cast<double>(c.a_nonzeros) * static_cast<double>(c.b_nonzeros) / static_cast<double>(c.k);
  time.partial_sums = time.products;
  const auto rows = static_cast<double>(c.m);
  time.cycles =
      std::max(static_cast<double>(c.a_nonzeros) * one_row, time.partial_sums / static_cast<double>(core.write_ports));
  time.cycles += rows * spilling(core, time.partial_sums / rows, time);
  time.spilled *= rows;
  return time;
}

}  // namespace

SparseTime sparse_time(const SparseCore& core, const BitMatrix& a, const BitMatrix& b, bool hold_b) {
  core.check();
  if (a.columns() != b.rows())
    throw UserError({"the contracted extents of the patterns differ",
                     {},
                     std::to_string(a.columns()) + " and " + std::to_string(b.rows()),
                     "a: [m, k], b: [k, n]",
                     {}});
  if (hold_b) return sparse_time(core, b.transposed(), a.transposed());
  if (core.dataflow == SparseFlow::outer) return outer_time(core, a, b);
  if (core.dataflow == SparseFlow::row) return row_time(core, a, b);
  return inner_time(core, a, b.columns());
}

SparseTime expected_sparse_time(const SparseCore& core, const SparseCounts& counts, bool hold_b) {
  core.check();
  const SparseCounts& c = counts;
  if (c.m < 0 || c.n < 0 || c.k < 0 || c.a_nonzeros < 0 || c.b_nonzeros < 0 || c.a_nonzeros > c.m * c.k ||
      c.b_nonzeros > c.k * c.n)
    throw UserError({"more elements are nonzero than exist",
                     {},
                     std::to_string(c.a_nonzeros) + " and " + std::to_string(c.b_nonzeros),
                     std::to_string(c.m * c.k) + " and " + std::to_string(c.k * c.n),
                     {}});
  if (hold_b) return expected_sparse_time(core, {c.n, c.m, c.k, c.b_nonzeros, c.a_nonzeros});
  if (core.dataflow == SparseFlow::outer) return expected_outer(core, c);
  if (core.dataflow == SparseFlow::row) return expected_row(core, c);
  return expected_inner(core, c.m, c.k, c.a_nonzeros, c.n);
}

}  // namespace tilesim::sparse
