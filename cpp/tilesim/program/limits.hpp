// What a program may have at most, for those who make one and those who read it.
#pragma once

#include <cstddef>

namespace tilesim::program {

inline constexpr std::size_t most_queues = 32;  ///< names of queues, of all cores together

}  // namespace tilesim::program
