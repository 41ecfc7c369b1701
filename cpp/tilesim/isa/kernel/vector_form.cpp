#include "tilesim/isa/kernel/vector_form.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::isa {

/// Finds running sums. All must go along one dim in one direction, and results must reduce along it too.
void RegisterForm::find_scans(const VectorCompute& compute, const std::vector<int>& combined_dims) {
  int along = -1;
  std::vector<bool> summed;
  for (const VectorNode& node : compute.nodes) {
    bool of_sums = false;
    for (const int argument : node.arguments) of_sums |= argument >= 0 && summed[static_cast<std::size_t>(argument)];
    summed.push_back(of_sums || node.op == VectorNode::Op::scan);
    if (node.op != VectorNode::Op::scan) continue;
    nested_ |= of_sums;
    if (along >= 0 && (along != node.index || backwards_ != node.reverse))
      throw Unsupported({"no kernel has running sums along several dims or both ways", {}, {}, {}, {}});
    along = node.index, backwards_ = node.reverse;
  }
  if (along < 0) return;
  for (const int dim : combined_dims)
    if (dim != along && extents_[static_cast<std::size_t>(dim)] > 1)
      throw Unsupported({"no kernel has running sums along one dim and reduces another", {}, {}, {}, {}});
  lane_scanned = along == lane_dim_, steps_scanned = !lane_scanned;
  if (steps_scanned) reduced_[static_cast<std::size_t>(along)] = true;
}

/// Marks outer dims along which operands of one element per row are constant; none if all dims are.
void RegisterForm::find_shared(const VectorCompute& compute) {
  std::vector<bool> differs(extents_.size());
  for (const TileView& input : compute.inputs) {
    const auto differs_along = [&](std::size_t dim) { return extents_[dim] > 1 && input.dims[dim].stride != 0; };
    if (input.dims.empty() || differs_along(static_cast<std::size_t>(lane_dim_))) continue;
    for (std::size_t i = 0; i < differs.size(); ++i) differs[i] = differs[i] || differs_along(i);
  }
  if (std::find(differs.begin(), differs.end(), true) == differs.end()) return;
  for (std::size_t i = 0; i < differs.size(); ++i)
    reduced_[i] = static_cast<int>(i) != lane_dim_ && extents_[i] > 1 && !differs[i];
}

void RegisterForm::cut_rows(bool combines) {
  if (!scanned() || nested_ || steps == 1 || (combines && kept > 1)) return;
  chunks = std::clamp<std::int64_t>(rows / kept, 1, steps);
  if (chunks == 1) return;
  const std::int64_t all = steps;
  steps = ceil_div(all, chunks);
  chunks = ceil_div(all, steps);
  last_rows = kept * chunks;
  rows_reduced = combines;
  // all groups but the last have full registers
  ragged |= combines && (all % steps != 0 || (groups > 1 && last_rows < rows));
}

RegisterForm::RegisterForm(const VectorCompute& compute, std::int64_t of_lanes, std::int64_t of_rows,
                           std::int64_t of_side, bool cut, bool share)
    : side(of_side), extents_(compute.extents), reduced_(compute.extents.size()) {
  if (extents_.empty()) extents_.push_back(1), reduced_.push_back(false);
  lane_dim_ = compute.lane >= 0 ? compute.lane : static_cast<int>(extents_.size()) - 1;
  bool plain = false, over_lanes = false;
  std::vector<int> first;
  for (const VectorOutput& output : compute.outputs) {
    if (output.reduce.empty()) {
      plain = true;
      continue;
    }
    std::vector<int> dims = output.reduce;
    std::sort(dims.begin(), dims.end());
    if (!first.empty() && dims != first)
      throw Unsupported({"no kernel combines over several sets of dimensions", {}, {}, {}, {}});
    first = dims;
    for (const int dim : dims) (dim == lane_dim_ ? over_lanes = true : reduced_[static_cast<std::size_t>(dim)] = true);
  }
  find_scans(compute, first);
  if (share && first.empty() && !scanned()) find_shared(compute);
  std::int64_t sizes[2] = {1, 1};
  for (std::size_t i = 0; i < extents_.size(); ++i)
    if (static_cast<int>(i) != lane_dim_) sizes[reduced_[i] ? 1 : 0] *= extents_[i];
  const std::int64_t of_width = extents_[static_cast<std::size_t>(lane_dim_)];
  static_cast<VectorForm&>(*this) =
      VectorForm(of_width, sizes[0], sizes[1], !first.empty(), over_lanes, of_lanes, of_rows);
  over_combined_ = rows_reduced;
  if (scanned())
    lay_scans(!first.empty());
  else
    find_ragged();
  if (plain && over_combined_ && scanned())
    throw Unsupported({"no kernel combines rows of a register beside results of each element", {}, {}, {}, {}});
  if (cut) cut_rows(!first.empty());
  for (const TileView& input : compute.inputs) reaches.push_back(reach_of(input));
}

void RegisterForm::find_ragged() {
  const bool rows_ragged = rows_reduced && all_combined() % rows != 0,
             lanes_ragged = lane_reduced && width % lanes != 0;
  const std::int64_t last_stretch = (stretches - 1) * combined / (rows_reduced ? rows : 1);
  lanes_at_end = lanes_ragged && stretches == 1 && steps > 1;
  ragged = rows_ragged || (lanes_ragged && !lanes_at_end);
  ragged_from = std::min(rows_ragged ? steps - 1 : steps, lanes_ragged && !lanes_at_end ? last_stretch : steps);
}

/// Sets the loops for running sums: stretches of lanes are steps if sums or reductions go along the lanes.
void RegisterForm::lay_scans(bool combines) {
  scan_lanes = std::min(width, lanes);
  before_ = lane_scanned && backwards_ ? stretches * lanes - width : 0;
  const bool in_steps = lane_reduced || lane_scanned || (!combines && !steps_scanned && stretches > 1);
  stretched = stretches == 1 ? Stretches::single : in_steps ? Stretches::steps : Stretches::groups;
  over_combined_ = rows_reduced = combined > 1 && kept < rows && combined > kept && !steps_scanned;
  const std::int64_t in_step = over_combined_ ? ceil_div(combined, rows) : combined;
  groups = (over_combined_ ? kept : ceil_div(kept, rows)) * (in_steps ? 1 : stretches);
  steps = in_step * (in_steps ? stretches : 1);
  last_rows = over_combined_ ? rows : kept - (ceil_div(kept, rows) - 1) * rows;
  if (side > 1) groups = ceil_div(groups, side), last_rows = rows;
  ragged = (lane_reduced && width % lanes != 0) || (over_combined_ && combined % rows != 0);
}

RegisterForm::ElementPosition RegisterForm::place(const std::vector<std::int64_t>& index) const {
  std::int64_t of_kept = 0, of_combined = 0, lane = 0;
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    const std::int64_t at = i < index.size() ? index[i] : 0;
    if (static_cast<int>(i) == lane_dim_)
      lane = at;
    else if (reduced_[i])
      of_combined = of_combined * extents_[i] + at;
    else
      of_kept = of_kept * extents_[i] + at;
  }
  lane += before_;
  ElementPosition found;
  found.lane = lane % lanes;
  std::int64_t stretch = lane / lanes;
  if (backwards_ && lane_scanned) stretch = stretches - 1 - stretch;
  if (backwards_ && steps_scanned) of_combined = combined - 1 - of_combined;
  if (stretched == Stretches::combined) of_combined += stretch * combined;
  if (stretched == Stretches::rows) of_kept = of_kept * stretches + stretch;
  found.row = over_combined_ ? of_combined % rows : of_kept % rows;
  found.group = over_combined_ ? of_kept : of_kept / rows;
  found.step = over_combined_ ? of_combined / rows : of_combined;
  if (stretched == Stretches::steps) found.step += stretch * (over_combined_ ? ceil_div(combined, rows) : combined);
  if (stretched == Stretches::groups) found.group = found.group * stretches + stretch;
  if (chunks > 1) found.row += found.step / steps * kept, found.step %= steps;
  found.beside = found.group % side, found.group /= side;
  return found;
}

std::int64_t RegisterForm::order(const ElementPosition& at) const {
  if (scanned()) return (at.group * steps + at.step) * side + at.beside;
  const std::int64_t before = at.group / block * block, together = std::min(block, groups - before);
  return before * steps + at.step * together + (at.group - before);
}

RegisterForm::Reach RegisterForm::reach_of(const TileView& view) const {
  unsigned where = 0;
  for (std::size_t i = 0; i < view.dims.size(); ++i) {
    if (extents_[i] <= 1 || view.dims[i].stride == 0) continue;
    where |= static_cast<int>(i) == lane_dim_ ? along_lanes : reduced_[i] ? along_combined : along_kept;
  }
  return reach(where);
}

}  // namespace tilesim::isa
