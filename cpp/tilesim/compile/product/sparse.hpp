// Products on cores whose multipliers skip zeros.
#pragma once

#include <optional>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/graph/passes/sparse_plan.hpp"

namespace tilesim::lower {

/// Empty if the operation has no plan for the machine's sparse cores; it is then lowered as a dense product.
std::optional<Lowered> lower_sparse(Context& context, const Kernel& kernel);

}  // namespace tilesim::lower
