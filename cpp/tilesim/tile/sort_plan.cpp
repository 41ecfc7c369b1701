#include "tilesim/tile/sort_plan.hpp"

#include <algorithm>
#include <bit>

#include "tilesim/base/shape.hpp"

namespace tilesim {

namespace {

std::int64_t power_above(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

}  // namespace

SortPlan::SortPlan(DType key, std::int64_t of_rows, std::int64_t of_extent, std::int64_t of_kept, std::int64_t elements)
    : extent(of_extent), kept(of_kept) {
  constexpr std::int64_t short_places = 1 << 14;
  word_bits = bits(key) <= 16 && extent <= short_places ? 32 : 64;
  wide = bits(key) == 64;
  const std::int64_t words = std::max<std::int64_t>(1, elements * 32 / word_bits);
  rows = std::min(words, power_above(of_rows));
  row_blocks = ceil_div(of_rows, rows);
  columns = std::min(words / rows, power_above(extent));
  registers = ceil_div(extent, columns);
  run = power_above(kept);
  if (columns > 1)
    registers = power_above(registers);
  else if (run < registers)
    registers = round_up(registers, run);
  else if (registers > block)
    registers = round_up(registers, block);
  filled = std::min(registers, ceil_div(extent, columns));
  if (columns > 1) filled = registers;
  sorted = std::min(registers, run);
}

std::vector<SortPlan> sort_plans(DType key, std::int64_t rows, std::int64_t extent, std::int64_t kept,
                                 std::int64_t elements) {
  std::vector<SortPlan> all{{key, rows, extent, kept, elements}};
  while (all.back().columns > 1) all.emplace_back(key, rows, extent, kept, elements >>= 1);
  return all;
}

}  // namespace tilesim
