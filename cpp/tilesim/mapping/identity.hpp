// Keys of mapping problems, as text. Equal problems are solved once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/mapping/vector.hpp"

namespace tilesim::mapping {

/// All that a rule looks at, the operation's name left aside: problems with equal texts get equal nests.
std::string identity(const Problem& problem);
std::string identity(const VectorProblem& problem);
/// What may differ between the kernels of one program: cores at work, their memories and the share of bandwidth.
std::string identity(const Share& machine);
/// Equal for equal nests: searches meet the same ones on several ways.
std::vector<std::int64_t> key_of(const Nest& nest);

}  // namespace tilesim::mapping
