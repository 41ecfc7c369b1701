#include "tilesim/tile/vector_form.hpp"

#include <algorithm>

#include "tilesim/base/shape.hpp"

namespace tilesim {

VectorForm::VectorForm(std::int64_t of_width, std::int64_t of_kept, std::int64_t of_combined, bool combines,
                       bool over_lanes, std::int64_t of_lanes, std::int64_t of_rows)
    : lanes(of_lanes), rows(of_rows), lane_reduced(over_lanes), width(of_width), kept(of_kept), combined(of_combined) {
  stretches = ceil_div(width, lanes);
  steps_reduced = lane_reduced || combined > 1;
  stretched = stretches == 1 ? Stretches::single
              : lane_reduced ? Stretches::combined
              : kept < rows  ? Stretches::rows
              : !combines    ? Stretches::steps
                             : Stretches::groups;
  const std::int64_t of_rows_kept = all_kept(), to_combine = all_combined();
  rows_reduced = combines && to_combine > 1 && of_rows_kept < rows && to_combine > of_rows_kept;
  groups =
      (rows_reduced ? of_rows_kept : ceil_div(of_rows_kept, rows)) * (stretched == Stretches::groups ? stretches : 1);
  steps = (rows_reduced ? ceil_div(to_combine, rows) : to_combine) * (stretched == Stretches::steps ? stretches : 1);
  last_rows = rows_reduced ? rows : of_rows_kept - (ceil_div(of_rows_kept, rows) - 1) * rows;
}

VectorForm::Reach VectorForm::reach(unsigned where) const {
  const bool of_lane = (where & along_lanes) != 0;
  const bool of_kept = (where & along_kept) != 0 || (of_lane && stretched == Stretches::rows),
             of_combined = (where & along_combined) != 0 || (of_lane && stretched == Stretches::combined);
  if (!of_lane && !of_kept && !of_combined) return Reach::one;
  const bool in_groups = stretched == Stretches::groups;
  // rows of one element need no spread
  if (!of_lane && !of_combined && !in_groups) return rows_reduced || width == 1 ? Reach::by_group : Reach::by_row;
  if (!of_kept && !in_groups) return Reach::by_step;
  if (!of_combined && !(of_lane && stretched == Stretches::steps)) return Reach::by_group;
  return Reach::each;
}

std::int64_t VectorForm::block_for(std::int64_t held, int lmul) const {
  constexpr std::int64_t registers = 12, most = 8;
  if (steps == 1) return 1;
  if (held == 0) return groups;
  return std::clamp<std::int64_t>((registers >> lmul) / held, 1, std::min(most, groups));
}

std::int64_t VectorForm::totals_for(std::int64_t latency, int lmul) const {
  constexpr std::int64_t most = 4;
  if (!steps_reduced) return 1;
  return std::clamp<std::int64_t>(ceil_div(latency, block << lmul), 1, std::min(most, steps));
}

}  // namespace tilesim
