// Texts that identify mapping problems, so that equal problems are solved once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/mapping/vector.hpp"

namespace tilesim::mapping {

/// A text of all inputs of a rule except the operation's name. Problems with equal texts get equal nests.
std::string identity(const Problem& problem);
std::string identity(const VectorProblem& problem);
/// A text of the properties that differ between kernels of one program: busy cores, memory sizes, share of bandwidth.
std::string identity(const Share& machine);
/// A key that is equal for equal nests, because searches can find a nest several times.
std::vector<std::int64_t> key_of(const Nest& nest);

}  // namespace tilesim::mapping
