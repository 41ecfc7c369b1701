// Closed forms of systolic arrays and the ports around them. Fill and drain follow SCALE-Sim (weight, output and input
// stationary), arXiv 1811.02883.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/tile/around_array.hpp"
#include "tilesim/tile/compute.hpp"
#include "tilesim/tile/latency.hpp"
#include "tilesim/tile/sparse/core.hpp"

namespace tilesim {

namespace {

/// Cycles that `rows` operand rows take to stream when the array needs 1/rate cycles per row.
std::int64_t stretched(std::int64_t rows, double rate) {
  if (rate == 1.0) return rows;
  const auto milli = static_cast<std::int64_t>(std::llround(1000.0 / rate));
  return ceil_div(rows * milli, 1000);
}

std::int64_t whole(double cycles) { return static_cast<std::int64_t>(std::ceil(cycles - 1e-6)); }

/// Weight stationary: each set of the stationary operand is loaded, then the moving rows stream, at the slowest rate of
/// the array, the supply of rows and the removal of sums.
class WeightStationary {
 public:
  WeightStationary(const Share& machine, const Descriptor& d, double rate)
      : array_(machine.core.array),
        d_(d),
        load_(ceil_div(array_.rows, array_.weight_rows_per_cycle)),
        stream_(stretched(d.stationary_a ? d.n : d.m, rate)),
        fill_(array_.rows + array_.columns - 2),
        deep_(d.k_outer * ceil_div(d.k, array_.rows)),
        blocks_(d.batch * ceil_div(d.stationary_a ? d.m : d.n, array_.columns)),
        start_(array_start(machine)),
        end_(array_end(machine, d.accumulate || deep_ > 1)),
        machine_(machine) {}

  TileLatency latency(const History& history) const {
    TileLatency latency;
    const AroundArray last = around_array(machine_, d_, d_.accumulate || deep_ > 1, false);
    const double rows = std::max(static_cast<double>(stream_), last.longest());
    latency.busy = array_.weight_double_buffer ? overlapped(history) : one_by_one(history);
    latency.done = latency.busy + end_ + (array_.weight_double_buffer ? fill_ : 0);
    latency.weights_consumed = std::max<std::int64_t>(0, latency.busy - whole(rows));
    latency.consumed = latency.busy;
    latency.first = std::min(latency.done, start_ + load_ + fill_ + 1 + end_);
    latency.limit = limit();
    return latency;
  }

 private:
  /// Sum over all sets of weights, those that begin sums and those that add to them. `weights`: includes their loads.
  template <class Each>
  double over_sets(bool weights, Each each) const {
    const double first = each(around_array(machine_, d_, d_.accumulate, weights));
    if (deep_ == 1) return static_cast<double>(blocks_) * first;
    const double rest = each(around_array(machine_, d_, true, weights));
    return static_cast<double>(blocks_) * (first + static_cast<double>(deep_ - 1) * rest);
  }

  /// The next set is loaded while the current one streams, so that each set takes the longer of both. Nothing streams
  /// during the first load, unless an earlier compute still does; nothing is loaded during the last stream. Resident
  /// weights do not shorten later sets.
  std::int64_t overlapped(const History& history) const {
    const std::int64_t set = std::max(stream_, load_);
    const double all = over_sets(
        true, [&](const AroundArray& around) { return std::max(static_cast<double>(set), around.longest()); });
    if (history.pipelined || history.weights_resident) return whole(all);
    return start_ + std::max(load_ + (deep_ * blocks_ - 1) * set + stream_, whole(all));
  }

  /// Load, stream and drain follow each other for every set.
  std::int64_t one_by_one(const History& history) const {
    return (history.pipelined ? 0 : start_) + whole(over_sets(false, [&](const AroundArray& around) {
             return static_cast<double>(load_ + fill_) + std::max(static_cast<double>(stream_), around.longest());
           }));
  }

  const char* limit() const {
    const AroundArray around = around_array(machine_, d_, d_.accumulate || deep_ > 1, true);
    if (around.longest() > static_cast<double>(std::max(stream_, load_))) return around.limit();
    return stream_ >= load_ ? "rows" : "weights";
  }

  const ArraySpec& array_;
  const Descriptor& d_;
  std::int64_t load_, stream_, fill_, deep_, blocks_, start_, end_;
  const Share& machine_;
};

/// Output stationary: sums stay in the cells while k streams; then they are shifted out.
TileLatency output_stationary(const ArraySpec& array, const Descriptor& d, double rate) {
  const std::int64_t tiles = d.batch * ceil_div(d.m, array.rows) * ceil_div(d.n, array.columns);
  const std::int64_t stream = stretched(d.k * d.k_outer, rate);
  const std::int64_t rows = std::min(d.m, array.rows);
  TileLatency latency;
  latency.busy = tiles * (stream + 2 * array.rows + array.columns - 2);
  if (array.weight_double_buffer) latency.busy = tiles * std::max(stream, rows) + array.rows + array.columns - 2;
  latency.done = latency.busy;
  latency.weights_consumed = latency.consumed = std::max<std::int64_t>(0, latency.busy - rows);
  latency.first = std::min(latency.done, stream + array.rows + array.columns - 2);
  latency.limit = "k";
  return latency;
}

/// Dense operands on a core that skips zeros. Inner: one placement as in docs/explanation/compute_and_fusion.md.
double dense_on_sparse(const SparseSpec& spec, std::int64_t held, std::int64_t streamed, std::int64_t k) {
  if (spec.dataflow != SparseFlow::inner)
    return sparse::expected_sparse_time(spec, {held, streamed, k, held * k, k * streamed}).cycles;
  const std::int64_t most = spec.multipliers, block = most / spec.read_ports;
  const auto levels = static_cast<double>(std::bit_width(static_cast<std::uint64_t>(most)) - 1);
  constexpr double pipeline = 4;
  const auto placement = [&](std::int64_t words, std::int64_t indices) {
    return static_cast<double>(words + streamed * indices) + levels + pipeline;
  };
  if (k <= most) {
    const std::int64_t placed = most / k, words = std::min(block, k * std::min(placed, held));
    return static_cast<double>(ceil_div(held, placed)) * placement(words, std::min(words, k));
  }
  return static_cast<double>(held * ceil_div(k - 1, most - 1)) * placement(block, block);
}

TileLatency sparse_latency(const ArraySpec& array, const Descriptor& d, double rate) {
  const std::int64_t held = d.stationary_a ? d.m : d.n, streamed = d.stationary_a ? d.n : d.m;
  const double one = dense_on_sparse(array.sparse, held, streamed, d.k);
  TileLatency latency;
  latency.busy = std::llround(std::ceil(static_cast<double>(d.batch * d.k_outer) * one / rate));
  latency.done = latency.first = latency.consumed = latency.weights_consumed = latency.busy;
  latency.limit = "multipliers";
  return latency;
}

/// Elements of the contraction along the array's rows: for a 2:4 operand only the kept ones.
std::int64_t rows_over(const Descriptor& d) {
  constexpr std::int64_t kept = pattern_neighbours / pattern_values;
  return is_two_of_four(d.second) ? ceil_div(d.k, kept) : d.k;
}

Descriptor in_pattern(const Share& machine, Descriptor work) {
  if (!machine.core.array.two_of_four)
    throw Unsupported({"the arrays of " + machine.name + " take no operand in the pattern 2:4",
                       {},
                       std::string(name(work.second)),
                       std::string(name(plain_of(work.second))),
                       "set core.array.pattern to 2:4"});
  work.k = rows_over(work);
  return work;
}

}  // namespace

int kept_operand(const ArraySpec& array, bool stationary_a) {
  if (array.dataflow == Dataflow::output_stationary || array.sparse.present()) return -1;
  return stationary_a == (array.dataflow == Dataflow::weight_stationary) ? 0 : 1;
}

bool kept_whole(const ArraySpec& array, const Descriptor& d) {
  const int kept = kept_operand(array, d.stationary_a);
  return kept >= 0 && d.batch == 1 && d.k_outer == 1 && rows_over(d) <= array.rows &&
         (kept == 0 ? d.m : d.n) <= array.columns;
}

double array_multiply_adds(const ArraySpec& array, const Descriptor& d) {
  if (d.m <= 0 || d.n <= 0 || d.batch <= 0 || d.k <= 0 || d.k_outer <= 0) return 0;
  if (array.sparse.present()) return static_cast<double>(d.batch * d.m * d.n) * static_cast<double>(d.k * d.k_outer);
  const auto cells = static_cast<double>(array.rows) * static_cast<double>(array.columns);
  const auto steps = [&](std::int64_t down, std::int64_t across, std::int64_t streamed) {
    return static_cast<double>(d.batch * ceil_div(down, array.rows)) *
           static_cast<double>(ceil_div(across, array.columns) * streamed);
  };
  const int kept = kept_operand(array, d.stationary_a);
  const std::int64_t k = rows_over(d);
  if (kept < 0) return cells * steps(d.m, d.n, k * d.k_outer);
  const auto passes = static_cast<double>(d.k_outer);
  return cells * passes * (kept == 0 ? steps(k, d.m, d.n) : steps(k, d.n, d.m));
}

TileLatency array_latency(const Share& machine, const Descriptor& d, const History& history) {
  const ArraySpec& array = machine.core.array;
  const auto rate = array.rates.find(d.dtype);
  if (rate == array.rates.end() || rate->second <= 0) {
    std::vector<std::string> allowed;
    for (const auto& [dtype, value] : array.rates)
      if (value > 0) allowed.emplace_back(name(dtype));
    throw Unsupported({"the arrays of " + machine.name + " do not multiply this type",
                       {},
                       std::string(name(d.dtype)),
                       join(allowed),
                       "convert the operands first"});
  }
  if (d.m <= 0 || d.n <= 0 || d.batch <= 0) return {};
  Descriptor work = d;
  work.k = std::max<std::int64_t>(1, d.k);
  work.k_outer = std::max<std::int64_t>(1, d.k_outer);
  if (array.sparse.present()) return sparse_latency(array, work, rate->second);
  if (is_two_of_four(d.second)) work = in_pattern(machine, work);
  const int kept = kept_operand(array, d.stationary_a);
  if (kept < 0) return output_stationary(array, work, rate->second);
  work.stationary_a = kept == 0;
  return WeightStationary(machine, work, rate->second).latency(history);
}

}  // namespace tilesim
