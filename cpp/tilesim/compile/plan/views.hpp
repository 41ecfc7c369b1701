// Finds values that are views of others, and values that are stored directly into the result of a concat.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/compile/plan/uses.hpp"

namespace tilesim::lower {

/// Movement operations that move no data, because the result is an access map on the operand's tensor.
struct Views {
  std::vector<bool> view;              ///< per operation: whether its result is a view
  std::vector<bool> transposed_store;  ///< per transpose: the operand's producer stores it transposed
  std::vector<bool> identity;          ///< per value: it gets a tensor with its own shape
  std::vector<int> joined;             ///< per value: the concat into whose result its producer stores; -1: none
  /// The value to which a view refers, through other views; for any other value, the value.
  ValueId source(const GraphFunction& function, const Uses& uses, ValueId value) const;
};

/// Finds views. A dynamic slice at a loop's counter is a view that moves. `is_main`: the function's inputs are actual
/// tensors, not formal ones, so views may get separate names. `join`: the machine on which producers store the parts of
/// a concat directly into its result, if possible.
Views find_views(const Context& context, const Uses& uses, bool is_main, const Share* join);

/// The start of a dynamic slice or update along an axis, clamped into range; empty if dispatch does not know it.
/// `start`: operand with the start; `last`: largest start.
std::optional<Expr> counted_start(const Context& context, const Op& op, ValueId start, std::int64_t last);

/// The value that a pad writes around its operand, if it is a constant.
std::optional<double> padding_value(const Context& context, const Op& pad);

/// Access of a reshape's operand by the result's axes, if each operand axis is a product of full result axes (splits,
/// unit axes).
std::optional<std::vector<AxisAccess>> split_access(const Shape& from, const Shape& to);

}  // namespace tilesim::lower
