// Axis orders that operations prefer for values; they propagate to values with aligned axes.
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
/// The order with axes of extent 1 major (reduced axes, the single token of a decode step): minor axes would be padded
/// to all lanes or sublanes of a register.
Order unit_axes_major(const Shape& shape);
double padded_elements(const Shape& shape, const Order& order, const Shape& tile);

/// Preferred axis orders: of convolutions [..][W][N][C], with few images [..][N][W][C] (columns over sublanes); of
/// starts of gathers and scatters; and orders from `add`. The first preference of a value has priority.
class Wishes {
 public:
  /// `native`: weights of convolutions get the order of existing compilers, whatever its padding.
  Wishes(const GraphFunction& function, const Shape& tile, bool native);
  /// Adds a preferred order; returns the values to which the order propagates.
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
  std::vector<Order> orders_;  ///< per value; empty: no preference
  std::vector<ValueId> wished_;
  std::map<ValueId, Order> weights_;
  std::vector<std::vector<const Op*>> readers_;
  std::vector<const Op*> producer_;
  std::deque<ValueId> queue_;
};

}  // namespace tilesim::lower
