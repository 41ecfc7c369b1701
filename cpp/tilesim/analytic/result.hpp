// Builds a Result from closed-form costs, one operation after the other.
#pragma once

#include <string>

#include "tilesim/analytic/operations.hpp"
#include "tilesim/report/result.hpp"

namespace tilesim::analytic {

/// Places the operations that take time one after another, in cycles of `hertz`. The caller sets the configuration.
Result result_of(const Costs& costs, const std::string& program, const std::string& device, std::int64_t hertz);

}  // namespace tilesim::analytic
