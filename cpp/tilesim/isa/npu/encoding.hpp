// SiFive's vector coprocessor interface (VCIX 1.0) on custom-2.
#pragma once

#include "tilesim/isa/table/encoding.hpp"

namespace tilesim::isa {

inline constexpr std::uint32_t op_custom0 = 0x0B, op_custom1 = 0x2B, op_custom2 = 0x5B, op_custom3 = 0x7B;

/// Bits 31 to 28: the vectors that are read. funct3: source of the second operand.
enum VcixSources : std::uint8_t { vcix_x = 0, vcix_xv = 2, vcix_xvv = 10 };
enum VcixForm : std::uint8_t { vcix_v = 0, vcix_i = 3, vcix_r = 4 };

/// sf.vc.* (no destination) or sf.vc.v.*; `op`: bits 27 and 26.
constexpr Encoding vcix(VcixSources sources, std::uint32_t op, bool no_destination, VcixForm form) {
  return with3(op_custom2, form) | field(31, 28, sources) | field(27, 26, op) | field(25, 25, no_destination ? 1 : 0);
}

}  // namespace tilesim::isa
