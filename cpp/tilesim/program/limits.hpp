// Size limits of programs.
#pragma once

#include <cstddef>

namespace tilesim::program {

inline constexpr std::size_t most_queues = 32;  ///< distinct queue names of all cores together

}  // namespace tilesim::program
