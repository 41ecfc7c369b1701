// Programs that cores of several types share: the operations that all of them support, and the speed of each type.
#pragma once

#include <vector>

#include "tilesim/base/expr/expr.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim::lower {

/// The first `cores` cores. Where they are of several sorts, each counts as one of the fastest sort with the smallest
/// memories and the fewest queues and arrays of all; with one sort left, as one of that. Unsupported where sorts
/// compute differently.
Share with_cores(const Machine& machine, std::int64_t cores);

/// Neighbouring cores of one sort.
struct Stretch {
  std::int64_t first = 0, count = 0;
  std::int64_t each = 0;  ///< share of a core: elements, or a weight
};

/// Sum of the shares of the cores before "core", and the share of "core".
Expr shares_before(const std::vector<Stretch>& stretches);
Expr share_of(const std::vector<Stretch>& stretches);

/// Relative speeds on what streams through the vector unit, per core; empty where all cores are alike.
std::vector<Stretch> vector_speeds(const Share& machine);
/// The same of products of this type (on the vector unit: of its multiply-adds), unscaled, one per sort.
std::vector<double> product_speeds(const Share& machine, DType dtype, bool on_vector);

}  // namespace tilesim::lower
