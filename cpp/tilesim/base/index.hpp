// Conversion of signed indices for containers. Extents, axes and identifiers are signed; containers are indexed by
// `std::size_t`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilesim {

/// Precondition: `index` is not negative.
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace tilesim
