// Converts signed indices for containers: extents, axes and identifiers are signed, but containers use std::size_t.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilesim {

/// Precondition: `index` is not negative.
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace tilesim
