// Programs for cores of several types: operations that all types support, and the speed of each type.
#pragma once

#include <vector>

#include "tilesim/base/expr/expr.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim::lower {

/// The machine with its first `cores` cores. Cores of several types count as the fastest type, with the smallest
/// memories and the fewest queues and arrays of all types. Throws Unsupported if results differ between types.
Share with_cores(const Machine& machine, std::int64_t cores);

/// Consecutive cores of one type.
struct Stretch {
  std::int64_t first = 0, count = 0;
  std::int64_t each = 0;  ///< share per core: elements, or a weight
};

/// Expressions of "core": sum of the shares of the cores before it, and its own share.
Expr shares_before(const std::vector<Stretch>& stretches);
Expr share_of(const std::vector<Stretch>& stretches);

/// Per core: relative speed of streaming vector work; empty if all cores are equal.
std::vector<Stretch> vector_speeds(const Share& machine);
/// Per core type: relative speed of products of this type (`on_vector`: of vector multiply-adds), not normalized.
std::vector<double> product_speeds(const Share& machine, DType dtype, bool on_vector);

}  // namespace tilesim::lower
