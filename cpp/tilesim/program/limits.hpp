// Size limits of a program, for writers and readers.
#pragma once

#include <cstddef>

namespace tilesim::program {

inline constexpr std::size_t most_queues = 32;  ///< distinct queue names, all cores together

}  // namespace tilesim::program
