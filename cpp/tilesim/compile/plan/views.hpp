// Finds values that are views of others, and values that are stored directly into the result of a concat.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/compile/plan/uses.hpp"

namespace tilesim::lower {

/// Movement operations that move nothing: their result is an access map on their operand's tensor.
struct Views {
  std::vector<bool> view;              ///< per operation
  std::vector<bool> transposed_store;  ///< per operation (transposes): the operand is stored transposed by its producer
  std::vector<bool> identity;          ///< per value: will have a tensor with its own shape
  std::vector<int> joined;             ///< per value: the concat in whose result its maker stores it; -1: none
  /// The value whose tensor another one is a view of; a value that is not a view: itself.
  ValueId source(const GraphFunction& function, const Uses& uses, ValueId value) const;
};

/// A dynamic slice by a loop's counter is a view that moves. `is_main`: tensors of the function's inputs are known (not
/// formal), so that views may be given separate names. `join`: what a concat puts together is stored in its result
/// at once on this machine, where nothing is against it.
Views find_views(const Context& context, const Uses& uses, bool is_main, const Share* join);

/// Where a dynamic slice or update starts along an axis, clamped into range, if it is known when the transfer is handed
/// out. `start`: the operand that says it; `last`: the largest start.
std::optional<Expr> counted_start(const Context& context, const Op& op, ValueId start, std::int64_t last);

/// What a padding writes around its operand, if it is known when the program is made.
std::optional<double> padding_value(const Context& context, const Op& pad);

/// Access of a reshape's operand by the result's axes, if each operand axis is a product of whole result axes (splits,
/// unit axes).
std::optional<std::vector<AxisAccess>> split_access(const Shape& from, const Shape& to);

}  // namespace tilesim::lower
