// Axis orders that operations prefer for values, propagated to values whose axes an operation aligns with theirs.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

using Order = std::vector<int>;  ///< axes, minor to major

Order last_axis_minor(std::size_t rank);
Order largest_minor(const Shape& shape);
/// Axes of extent 1 (what a reduction kept, the one token of a step) would be padded to a whole register of lanes or
/// sublanes, which another axis fills.
Order unit_axes_major(const Shape& shape);
double padded_elements(const Shape& shape, const Order& order, const Shape& tile);

/// Orders that convolutions ask for, by axes of the values: [..][W][N][C], with few images [..][N][W][C] (columns over
/// the sublanes), and gathers and scatters of their starts; then whatever is added. The first wish of a value counts.
class Wishes {
 public:
  /// `native`: weights of convolutions as compilers have them, however padded.
  Wishes(const GraphFunction& function, const Shape& tile, bool native);
  /// A further wish; gives the values that it reaches.
  std::vector<ValueId> add(ValueId value, Order order);
  const Order& order_of(ValueId value) const { return orders_[static_cast<std::size_t>(value)]; }
  const Order* of_weight(ValueId value) const {
    const auto found = weights_.find(value);
    return found == weights_.end() ? nullptr : &found->second;
  }

 private:
  void wish(ValueId value, Order order);
  void components_major(const Op& op);
  void ids_dense(const Op& op);
  void spread(const Op& op, ValueId from);
  void reach();

  const GraphFunction& function_;
  const Shape& tile_;
  std::vector<Order> orders_;  ///< by value; empty: none
  std::vector<ValueId> wished_;
  std::map<ValueId, Order> weights_;
  std::vector<std::vector<const Op*>> readers_;
  std::vector<const Op*> producer_;
  std::deque<ValueId> queue_;
};

}  // namespace tilesim::lower
