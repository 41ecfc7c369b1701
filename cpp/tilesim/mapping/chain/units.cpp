#include "tilesim/mapping/chain/units.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/base/shape.hpp"
#include "tilesim/tile/compute.hpp"
#include "tilesim/tile/latency.hpp"

namespace tilesim::mapping {

double chain_bytes(std::int64_t elements, DType dtype) {
  return static_cast<double>(elements) * static_cast<double>(bits(dtype)) / 8;
}

ChainUnits::Cycles ChainUnits::product(DType a, DType b, std::int64_t rows, std::int64_t taps, std::int64_t depth,
                                       std::int64_t columns, bool rows_stay, bool adds) const {
  ProductDims dims;
  dims.a = a, dims.b = b;
  dims.stationary_a = rows_stay;
  dims.accumulate = adds;
  dims.contraction = 2;
  const std::int64_t arrays = std::max<std::int64_t>(1, machine_.core.array.count);
  const std::int64_t extents[] = {rows, taps, depth, ceil_div(columns, arrays)};
  const Descriptor tile = product_descriptor(dims, machine_.layout, [&](int i) { return extents[i]; });
  const TileLatency latency = array_latency(machine_, tile, {false, true});
  return {static_cast<double>(latency.busy), static_cast<double>(latency.done)};
}

ChainUnits::Cycles ChainUnits::vector(const std::array<std::int32_t, 4>& functions, std::int64_t channels,
                                      std::int64_t rows, std::int64_t columns, std::int64_t taps) const {
  VectorWork work;
  work.functions = functions;
  const std::int64_t extents[] = {channels, rows * taps, columns};
  Cycles least{INFINITY, INFINITY};
  for (const int lane : {0, 2}) {
    const TileLatency latency =
        vector_latency(machine_, vector_descriptor(DType::f32, work, 3, lane, [&](int i) { return extents[i]; }));
    if (static_cast<double>(latency.busy) < least.busy)
      least = {static_cast<double>(latency.busy), static_cast<double>(latency.done)};
  }
  return least;
}

DType ChainUnits::read_by(ChainStage stage) const {
  if (stage == ChainStage::last && p_.has(ChainStage::middle)) return p_.stage(ChainStage::middle).result;
  if (stage != ChainStage::first && p_.has(ChainStage::first)) return p_.stage(ChainStage::first).result;
  return p_.x;
}

ChainUnits::Cycles ChainUnits::array(ChainStage stage, std::int64_t rows, std::int64_t hidden, bool rows_stay) const {
  const DType weights = p_.stage(stage).weights;
  if (stage == ChainStage::first)
    return product(p_.x, weights, rows * p_.columns_in, p_.first_taps(), p_.in, hidden, rows_stay, false);
  return product(read_by(stage), weights, rows * p_.columns, 1, hidden, p_.out, rows_stay, hidden < p_.hidden);
}

ChainUnits::Cycles ChainUnits::behind(ChainStage stage, std::int64_t channels, std::int64_t rows) const {
  const bool first = stage == ChainStage::first;
  return vector(p_.stage(stage).functions, channels, rows, first ? p_.columns_in : p_.columns);
}

ChainUnits::Cycles ChainUnits::window(std::int64_t hidden, std::int64_t rows) const {
  return vector({1, 1, 0, 0}, hidden, rows, p_.columns, p_.row.taps * p_.column.taps);
}

double ChainUnits::weight_bytes(ChainStage stage, std::int64_t hidden) const {
  const std::int64_t each = stage == ChainStage::first    ? p_.in * p_.first_taps()
                            : stage == ChainStage::middle ? p_.row.taps * p_.column.taps
                                                          : p_.out;
  const double run = chain_bytes(hidden, p_.stage(stage).weights);
  if (!p_.stage(stage).hidden_minor || hidden == p_.hidden) return run * static_cast<double>(each);
  const auto burst = static_cast<double>(std::max<std::int64_t>(1, machine_.memory.burst_bytes));
  return std::ceil(run / burst) * burst * static_cast<double>(each);
}

double ChainUnits::leaf_bytes(ChainStage stage, std::int64_t channels, std::int64_t rows) const {
  double bytes = 0;
  for (const ChainProblem::Leaf& leaf : p_.stage(stage).leaves)
    bytes += chain_bytes(leaf.whole ? channels * rows * p_.columns : channels, leaf.dtype);
  return bytes;
}

double ChainUnits::rate(double cores) const {
  const double hertz = static_cast<double>(machine_.core.clock.hertz);
  const double all = static_cast<double>(machine_.memory.bytes_per_second) * machine_.memory.efficiency / hertz *
                     static_cast<double>(machine_.core.count);
  const double port = static_cast<double>(machine_.network.port_bytes_per_cycle) *
                      static_cast<double>(machine_.network.clock.hertz) / hertz;
  return std::min({all / cores, port, static_cast<double>(machine_.core.dma.bytes_per_cycle)});
}

double ChainUnits::alone() const {
  const DmaSpec& dma = machine_.core.dma;
  const std::int64_t chunk = std::max<std::int64_t>(16384, machine_.memory.interleave_bytes * machine_.memory.channels);
  return dma.outstanding_bytes < 2 * std::min(chunk, dma.outstanding_bytes)
             ? way() / static_cast<double>(std::max<std::int64_t>(1, dma.load_queues))
             : static_cast<double>(dma.issue_cycles);
}

double ChainUnits::way() const {
  return static_cast<double>(machine_.memory.latency_ps) * 1e-12 * static_cast<double>(machine_.core.clock.hertz) +
         2 * static_cast<double>(machine_.network.latency_cycles);
}

}  // namespace tilesim::mapping
