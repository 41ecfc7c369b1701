#include "tilesim/analytic/stream.hpp"

#include <algorithm>
#include <cmath>

namespace tilesim::analytic {

StreamTerms StreamModel::repeated(const StreamCall& call) const {
  const StreamConstants& c = constants;
  const double elements = call.rows * (call.width + (call.by_row ? c.narrow : 0));
  const double size = elements * call.tensors * call.bytes;
  const double usable = shared_bytes * c.cache_fill;
  const double hits = 1 / (1 + std::exp(std::min(500.0, (size / usable - 1) / c.cache_edge)));
  const double memory = size * ((1 - hits) / (memory_bytes_per_second * c.memory_share) +
                                hits / (shared_bytes_per_second * c.cache_share));
  const double compute = elements * call.operations / (lanes_per_second * c.lanes_share);
  const double each = call.by_row ? call.rows * c.row / units : 0;
  const double core = overlapped(memory, compute, each, std::max(std::max(memory, compute), each), c.overlap);
  // The start of the launch hides the first bytes.
  const double total =
      c.overlap > 1 ? power(power(c.launch, c.overlap) + power(core, c.overlap), 1 / c.overlap) : c.launch + core;
  return {c.launch, memory, compute, each, total};
}

StreamTerms StreamModel::once(const StreamWork& work) const {
  const StreamConstants& c = constants;
  const double memory = work.bytes / (memory_bytes_per_second * c.memory_share);
  const double compute = work.operations / (lanes_per_second * c.lanes_share);
  const double each = work.rows * c.row / units, launch = work.launch ? c.launch : 0;
  const double longest = std::max({memory, compute, each});
  double core = 0;
  if (longest > 0)
    for (const double term : {memory, compute, each}) core += std::pow(term / longest, c.overlap);
  core = longest * std::pow(core, 1 / c.overlap);
  return {launch, memory, compute, each, launch + core};
}

std::span<const ConstantInfo<StreamConstants>> stream_constants() {
  static const std::array table{
#define TILESIM_ROW(name, value, low, high, unit) \
  ConstantInfo<StreamConstants>{#name, &StreamConstants::name, value, low, high, unit},
      TILESIM_STREAM_CONSTANTS(TILESIM_ROW)
#undef TILESIM_ROW
  };
  return table;
}

std::span<const std::string_view> stream_term_names() {
  static constexpr std::array<std::string_view, stream_term_count> names{"launch", "memory", "compute", "rows",
                                                                         "total"};
  return names;
}

}  // namespace tilesim::analytic
