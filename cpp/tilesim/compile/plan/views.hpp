// Finds values that are views of others, and values that are stored directly into the result of a concat.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/compile/plan/uses.hpp"

namespace tilesim::lower {

/// Movement operations without data movement: the result is an access map on the operand's tensor.
struct Views {
  std::vector<bool> view;              ///< per operation
  std::vector<bool> transposed_store;  ///< per operation (transposes): the operand is stored transposed by its producer
  std::vector<bool> identity;          ///< per value: it gets a tensor of its own shape
  std::vector<int> joined;             ///< per value: the concat whose result its producer stores into; -1: none
  /// The value that a view refers to, through other views; for any other value: the value itself.
  ValueId source(const GraphFunction& function, const Uses& uses, ValueId value) const;
};

/// Finds views. A dynamic slice at a loop's counter is a view that moves. `is_main`: tensors of the function's inputs
/// are known (not formal), so that views may get separate names. `join`: producers store the parts of a concat directly
/// into its result on this machine, where possible.
Views find_views(const Context& context, const Uses& uses, bool is_main, const Share* join);

/// The start of a dynamic slice or update along an axis, clamped into range; empty if unknown at dispatch. `start`: the
/// operand with the start; `last`: the largest start.
std::optional<Expr> counted_start(const Context& context, const Op& op, ValueId start, std::int64_t last);

/// The value that a pad writes around its operand, if known at compile time.
std::optional<double> padding_value(const Context& context, const Op& pad);

/// Access of a reshape's operand by the result's axes, if each operand axis is a product of whole result axes (splits,
/// unit axes).
std::optional<std::vector<AxisAccess>> split_access(const Shape& from, const Shape& to);

}  // namespace tilesim::lower
