// Closed forms of the vector and cross-lane units, and the store of latencies.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/tile/latency.hpp"

namespace tilesim {

namespace {

/// Class costs as thousandths of a cycle: integers, so that sums do not depend on their order.
std::int64_t milli(double cycles) { return static_cast<std::int64_t>(std::llround(cycles * 1000)); }

/// Cycles of the cross-lane unit for registers of 32-bit results, one per row of lanes, in a reduction or a scan step:
/// full registers, or only the lanes that the layout's rows fill.
std::int64_t register_passes(const Share& machine, const Descriptor& d, std::int64_t count) {
  const VectorSpec& vector = machine.core.vector;
  const Shape& tile = machine.layout.tile;
  const std::int64_t lanes = tile.size() == 2 ? std::min(vector.lanes, round_up(d.lane_extent, tile[1])) : vector.lanes;
  return ceil_div(count * lanes * vector.sublanes * 4, machine.core.cross_lane.bytes_per_cycle);
}

/// Steps of a running sum over one row of lanes, each a shift and an addition (Hillis, Steele, "Data parallel
/// algorithms", 1986).
std::int64_t scan_steps(const VectorSpec& vector, const Descriptor& d) {
  const auto lanes = static_cast<std::uint64_t>(std::clamp<std::int64_t>(d.lane_extent, 1, vector.lanes));
  return static_cast<std::int64_t>(std::bit_width(lanes - 1));
}

/// Cycles of the cross-lane unit for a vector compute: registers of partial results pass its reduction network once per
/// row; a running sum shifts every register in each of its steps, and spreads the last lane to the next register.
std::int64_t cross_lane_cycles(const Share& machine, const Descriptor& d, std::int64_t count) {
  if (d.lane_extent <= 1 || d.lane_reductions + d.lane_scans == 0) return 0;
  const VectorSpec& vector = machine.core.vector;
  const std::int64_t rows = ceil_div(ceil_div(d.elements, d.lane_extent), vector.sublanes);
  const std::int64_t carried = d.lane_extent > vector.lanes ? 1 : 0;
  return register_passes(machine, d, d.lane_reductions * rows) +
         register_passes(machine, d, d.lane_scans * count * (scan_steps(vector, d) + carried));
}

/// Registers that the iteration space fills: whole registers along the lanes; elements below 32 bits are packed if the
/// unit supports it.
std::int64_t registers(const VectorSpec& vector, const Descriptor& d) {
  const std::int64_t lane = std::max<std::int64_t>(1, d.lane_extent);
  const std::int64_t outer = ceil_div(d.elements, lane);
  const int width = bits(d.dtype);
  std::int64_t per_register = vector.sublanes;
  if (vector.packs_narrow && width < 32) per_register *= 32 / std::max(8, width);
  const std::int64_t rows = outer * ceil_div(lane, vector.lanes);  // rows of lanes
  return ceil_div(rows, per_register) * (width > 32 ? 2 : 1);
}

}  // namespace

TileLatency vector_latency(const Share& machine, const Descriptor& d) {
  const VectorSpec& vector = machine.core.vector;
  if (d.elements <= 0) return {};
  if (d.moves.known())
    if (const std::optional<TileLatency> latency = kernel_latency(machine, d)) return *latency;
  const std::int64_t count = registers(vector, d);
  const std::int64_t costs[4] = {milli(vector.simple), milli(vector.multiply), milli(vector.divide),
                                 milli(vector.transcendental)};
  std::int64_t per_register = 0;
  static const char* const limits[4] = {"simple", "multiply", "divide", "transcendental"};
  std::size_t largest = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    per_register += costs[i] * d.functions[i];
    if (costs[i] * d.functions[i] > costs[largest] * d.functions[largest]) largest = i;
  }
  if (d.lane_extent > 1) per_register += costs[0] * d.lane_scans * scan_steps(vector, d);
  per_register += d.custom.shared;
  per_register = std::max<std::int64_t>(per_register, milli(1));  // a copy still passes through the unit
  TileLatency latency;
  latency.busy = std::max<std::int64_t>(1, ceil_div(count * per_register, vector.issue * 1000));
  const std::int64_t crossing = cross_lane_cycles(machine, d, count) + ceil_div(count * d.custom.crossing, 1000);
  const std::int64_t apart = ceil_div(count * d.custom.apart, 1000);
  const bool crosses = crossing > latency.busy, is_apart = apart > std::max(latency.busy, crossing);
  latency.busy = std::max({latency.busy, crossing, apart}) + d.lane_reductions * vector.reduce_latency;
  if (d.lane_scans > 0 && d.lane_extent > 1)
    latency.busy += d.lane_scans * scan_steps(vector, d) * machine.core.cross_lane.latency;
  latency.consumed = latency.weights_consumed = latency.busy;
  const std::int64_t results = std::max(vector.latency, d.custom.latency);
  latency.first = std::min(latency.busy, per_register / 1000) + results;
  latency.done = latency.busy + results;
  const bool is_own = d.custom.shared > costs[largest] * d.functions[largest];
  latency.limit = is_apart || (is_own && !crosses) ? "own instruction" : crosses ? "lanes" : limits[largest];
  return latency;
}

std::string_view name(ComputeKind kind) {
  static constexpr std::array<std::string_view, 6> names{"mma", "vector", "permute", "indexed", "sort", "opaque"};
  return names[static_cast<std::size_t>(kind)];
}

/// Compare-exchange passes over all elements that leave the first `kept` of `extent` in order; each is a comparison and
/// a selection. If all are kept: a bitonic network, L (L + 1) / 2 with L = log2 of the extent (Batcher, "Sorting
/// networks and their applications", 1968). If few are kept: runs of that length are sorted, then merged in pairs whose
/// better half is kept and put in order, so that each round halves the work (Shanbhag, Pirahesh, Madden, "Efficient
/// top-k query processing on GPUs", 2018): l (l + 1) / 2 + sum of (1 + l / 2) / 2^i.
std::int64_t compare_exchanges(std::int64_t extent, std::int64_t kept) {
  const auto levels = [](std::int64_t n) {
    return static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, n) - 1)));
  };
  const std::int64_t all = levels(extent), few = levels(kept);
  const std::int64_t whole = std::max<std::int64_t>(1, all * (all + 1) / 2);
  if (kept >= extent) return whole;
  return std::min(whole, few * (few + 1) / 2 + 2 + few);
}

TileLatency ClosedForm::latency(const Descriptor& descriptor, const History& history, const ComputeSource&) {
  Descriptor d = descriptor;
  switch (d.kind) {
    case ComputeKind::mma:
      return array_latency(machine_, d, history);
    case ComputeKind::vector:
      return vector_latency(machine_, d);
    case ComputeKind::permute:
      return permute_latency(machine_, d);
    case ComputeKind::indexed:
      return indexed_latency(machine_, d);
    case ComputeKind::sort:
      if (value_bits(d.dtype) >= 8 && bits(d.dtype) <= 64 && !is_two_of_four(d.dtype)) return sort_latency(machine_, d);
      d.functions = {2 * static_cast<std::int32_t>(compare_exchanges(d.lane_extent, d.k)), 0, 0, 0};
      return vector_latency(machine_, d);
    case ComputeKind::opaque:
      break;
  }
  TileLatency latency;
  latency.busy = latency.done = latency.consumed = latency.weights_consumed = latency.first =
      std::max<std::int64_t>(0, d.duration);
  latency.limit = "declared";
  return latency;
}

namespace {

std::size_t mix(std::size_t hash, std::int64_t value) {
  return (hash ^ static_cast<std::size_t>(value)) * 0x9E3779B97F4A7C15ULL + (hash >> 29);
}

std::size_t hash_of(const Descriptor& d, const History& h) {
  std::size_t hash = static_cast<std::size_t>(d.kind) * 64 + static_cast<std::size_t>(d.dtype);
  for (std::int64_t value :
       {d.batch, d.m, d.n, d.k, d.k_outer, d.elements, d.lane_extent, d.lane_reductions, d.lane_scans, d.duration,
        std::int64_t{d.stationary_a} + 2 * std::int64_t{d.accumulate} + 4 * d.run})
    hash = mix(hash, value);
  for (std::int32_t count : d.functions) hash = mix(hash, count);
  if (d.custom != CustomWork{})
    for (std::int64_t value : {d.custom.shared, d.custom.crossing, d.custom.apart, d.custom.latency})
      hash = mix(hash, value);
  if (d.moves.known()) {
    hash = mix(hash, d.combined);
    for (const std::uint16_t one : d.moves.counts) hash = mix(hash, one);
  }
  if (d.signature != 0) hash = mix(hash, static_cast<std::int64_t>(d.signature));
  return mix(hash, (h.weights_resident ? 1 : 0) + (h.pipelined ? 2 : 0) + 4 * static_cast<int>(d.second));
}

}  // namespace

/// Direct-mapped: a collision recomputes an entry and never returns a wrong one.
TileLatency LatencyStore::latency(const Descriptor& descriptor, const History& history, const ComputeSource& source) {
  if (table_.empty()) table_.resize(entries_);
  CachedLatency& entry = table_[hash_of(descriptor, history) % entries_];
  if (entry.used && entry.descriptor == descriptor && entry.history.weights_resident == history.weights_resident &&
      entry.history.pipelined == history.pipelined) {
    ++hits_;
    ++entry.asked;
    return entry.latency;
  }
  ++misses_;
  const TileLatency latency = model_.latency(descriptor, history, source);
  if (counted_ && entry.asked > 0) counted_(entry.descriptor, entry.history, entry.asked);
  entry = {descriptor, history, latency, true, 1};
  return latency;
}

void LatencyStore::tell_counts() {
  for (CachedLatency& entry : table_) {
    if (counted_ && entry.asked > 0) counted_(entry.descriptor, entry.history, entry.asked);
    entry.asked = 0;
  }
}

}  // namespace tilesim
