#include "tilesim/isa/kernel/vector_form.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::isa {

RegisterForm::RegisterForm(const VectorCompute& compute, std::int64_t of_lanes, std::int64_t of_rows)
    : lanes(of_lanes), rows(of_rows), extents_(compute.extents), reduced_(compute.extents.size()) {
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
  for (std::size_t i = 0; i < extents_.size(); ++i)
    if (static_cast<int>(i) != lane_dim_) (reduced_[i] ? combined_ : kept_) *= extents_[i];
  const std::int64_t width = extents_[static_cast<std::size_t>(lane_dim_)];
  blocks_ = ceil_div(width, lanes);
  by_block_ = lane_reduced || (first.empty() && blocks_ > 1);
  over_combined_ = combined_ > 1 && kept_ < rows && combined_ > kept_;
  const std::int64_t in_step = over_combined_ ? ceil_div(combined_, rows) : combined_;
  groups = (over_combined_ ? kept_ : ceil_div(kept_, rows)) * (by_block_ ? 1 : blocks_);
  steps = in_step * (by_block_ ? blocks_ : 1);
  steps_reduced = lane_reduced || combined_ > 1;
  rows_reduced = over_combined_;
  last_rows = over_combined_ ? rows : kept_ - (ceil_div(kept_, rows) - 1) * rows;
  ragged = (lane_reduced && width % lanes != 0) || (over_combined_ && combined_ % rows != 0);
  if (plain && over_combined_)
    throw Unsupported({"no kernel combines rows of a register beside results of each element", {}, {}, {}, {}});
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
  Place found;
  found.lane = lane % lanes;
  found.row = over_combined_ ? combined % rows : kept % rows;
  const std::int64_t block = lane / lanes, group = over_combined_ ? kept : kept / rows;
  const std::int64_t in_step = over_combined_ ? ceil_div(combined_, rows) : combined_,
                     step = over_combined_ ? combined / rows : combined;
  found.group = by_block_ ? group : group * blocks_ + block;
  found.step = by_block_ ? block * in_step + step : step;
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
