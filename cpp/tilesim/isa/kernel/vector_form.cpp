#include "tilesim/isa/kernel/vector_form.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::isa {

/// All running sums go along one dim, in one direction; what is combined is combined along it too.
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
      throw Unsupported({"no kernel has running sums along one dim and combines another", {}, {}, {}, {}});
  lane_scanned = along == lane_dim_, steps_scanned = !lane_scanned;
  if (steps_scanned) reduced_[static_cast<std::size_t>(along)] = true;
}

void RegisterForm::cut_rows(bool combines) {
  const bool scanned = lane_scanned || steps_scanned;
  if (!scanned || nested_ || steps == 1 || (combines && kept_ > 1)) return;
  chunks = std::clamp<std::int64_t>(rows / kept_, 1, steps);
  if (chunks == 1) return;
  const std::int64_t all = steps;
  steps = ceil_div(all, chunks);
  chunks = ceil_div(all, steps);
  last_rows = kept_ * chunks;
  rows_reduced = combines;
  ragged |= combines && all % steps != 0;
}

RegisterForm::RegisterForm(const VectorCompute& compute, std::int64_t of_lanes, std::int64_t of_rows,
                           std::int64_t of_side, bool cut)
    : lanes(of_lanes), rows(of_rows), side(of_side), extents_(compute.extents), reduced_(compute.extents.size()) {
  if (extents_.empty()) extents_.push_back(1), reduced_.push_back(false);
  lane_dim_ = compute.lane >= 0 ? compute.lane : static_cast<int>(extents_.size()) - 1;
  bool plain = false;
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
    for (const int dim : dims)
      (dim == lane_dim_ ? lane_reduced = true : reduced_[static_cast<std::size_t>(dim)] = true);
  }
  find_scans(compute, first);
  for (std::size_t i = 0; i < extents_.size(); ++i)
    if (static_cast<int>(i) != lane_dim_) (reduced_[i] ? combined_ : kept_) *= extents_[i];
  const std::int64_t width = extents_[static_cast<std::size_t>(lane_dim_)];
  blocks_ = ceil_div(width, lanes);
  scan_lanes = std::min(width, lanes);
  before_ = lane_scanned && backwards_ ? blocks_ * lanes - width : 0;
  by_block_ = lane_reduced || lane_scanned || (first.empty() && !steps_scanned && blocks_ > 1);
  over_combined_ = combined_ > 1 && kept_ < rows && combined_ > kept_ && !steps_scanned;
  const std::int64_t in_step = over_combined_ ? ceil_div(combined_, rows) : combined_;
  groups = (over_combined_ ? kept_ : ceil_div(kept_, rows)) * (by_block_ ? 1 : blocks_);
  steps = in_step * (by_block_ ? blocks_ : 1);
  steps_reduced = lane_reduced || combined_ > 1;
  rows_reduced = over_combined_;
  last_rows = over_combined_ ? rows : kept_ - (ceil_div(kept_, rows) - 1) * rows;
  if (side > 1) groups = ceil_div(groups, side), last_rows = rows;
  ragged = (lane_reduced && width % lanes != 0) || (over_combined_ && combined_ % rows != 0);
  if (plain && over_combined_)
    throw Unsupported({"no kernel combines rows of a register beside results of each element", {}, {}, {}, {}});
  if (cut) cut_rows(!first.empty());
  for (const TileView& input : compute.inputs) reach.push_back(reach_of(input));
}

RegisterForm::Place RegisterForm::place(const std::vector<std::int64_t>& index) const {
  std::int64_t kept = 0, combined = 0, lane = 0;
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    const std::int64_t at = i < index.size() ? index[i] : 0;
    if (static_cast<int>(i) == lane_dim_)
      lane = at;
    else if (reduced_[i])
      combined = combined * extents_[i] + at;
    else
      kept = kept * extents_[i] + at;
  }
  lane += before_;
  Place found;
  found.lane = lane % lanes;
  found.row = over_combined_ ? combined % rows : kept % rows;
  std::int64_t block = lane / lanes;
  if (backwards_ && lane_scanned) block = blocks_ - 1 - block;
  if (backwards_ && steps_scanned) combined = combined_ - 1 - combined;
  const std::int64_t group = over_combined_ ? kept : kept / rows;
  const std::int64_t in_step = over_combined_ ? ceil_div(combined_, rows) : combined_,
                     step = over_combined_ ? combined / rows : combined;
  found.group = by_block_ ? group : group * blocks_ + block;
  found.step = by_block_ ? block * in_step + step : step;
  if (chunks > 1) found.row += found.step / steps * kept_, found.step %= steps;
  found.beside = found.group % side, found.group /= side;
  return found;
}

RegisterForm::Reach RegisterForm::reach_of(const TileView& view) const {
  bool of_lane = false, of_kept = false, of_combined = false;
  for (std::size_t i = 0; i < view.dims.size(); ++i) {
    if (extents_[i] <= 1 || view.dims[i].stride == 0) continue;
    (static_cast<int>(i) == lane_dim_ ? of_lane : reduced_[i] ? of_combined : of_kept) = true;
  }
  if (!of_lane && !of_kept && !of_combined) return Reach::one;
  if (!of_lane && !of_combined && (by_block_ || blocks_ == 1)) return over_combined_ ? Reach::by_group : Reach::by_row;
  const bool lane_in_step = by_block_ || blocks_ == 1;
  if (!of_kept && lane_in_step) return Reach::by_step;
  if (!of_combined && !(of_lane && by_block_ && blocks_ > 1)) return Reach::by_group;
  return Reach::each;
}

}  // namespace tilesim::isa
