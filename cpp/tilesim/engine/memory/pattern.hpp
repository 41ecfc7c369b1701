// The addresses of a transfer: runs at regular distances, for memories whose time depends on addresses.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace tilesim::engine {

struct Pattern {
  std::int32_t tensor = -1;     ///< number among the cache's tensors
  bool known = false;           ///< false: rows with unknown indices; they bypass a cache
  std::int64_t base = 0;        ///< address of the tensor
  std::int64_t first_bits = 0;  ///< offset of the first run in the tensor
  std::int64_t run_bytes = 0;   ///< bytes moved per run, in full bursts
  std::int64_t burst = 1;
  int dims = 0;
  std::array<std::int64_t, 16> stride_bits{}, extent{};  ///< per dim of runs, innermost first
  std::vector<std::int64_t> rows_bits;                   ///< offsets of indirect rows, added to `first_bits`; outermost
  std::int64_t rows_bytes = std::numeric_limits<std::int64_t>::max();  ///< bytes of all runs; the row indices follow
  std::int64_t indices = 0;                                            ///< address of the row indices
  std::int64_t below = 0;                                              ///< bytes moved between cache and memory
  bool used = false;

  /// Visits (address, bytes) of the part [offset, offset + bytes) of the transfer, with each run in full bursts.
  template <class Visit>
  void for_runs(std::int64_t offset, std::int64_t bytes, Visit visit) const {
    for (const std::int64_t end = offset + bytes; offset < end;) {
      if (offset >= rows_bytes) return visit(indices + offset - rows_bytes, end - offset);
      std::int64_t run = offset / run_bytes, bits = first_bits;
      const std::int64_t within = offset - run * run_bytes;
      const std::int64_t size = std::min(std::min(end, rows_bytes) - offset, run_bytes - within);
      for (int d = 0; d < dims; ++d) {
        const auto at = static_cast<std::size_t>(d);
        bits += run % extent[at] * stride_bits[at];
        run /= extent[at];
      }
      if (!rows_bits.empty()) bits += rows_bits[static_cast<std::size_t>(run)];
      visit((base + bits / 8) / burst * burst + within, size);
      offset += size;
    }
  }
};

}  // namespace tilesim::engine
