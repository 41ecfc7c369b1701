// Fused multiply-adds and square roots on the host processor.
#pragma once

#include "tilesim/isa/vector/float_elements.hpp"

namespace tilesim::isa {

/// to[k] = (a[k] ^ product) · b[k] + (c[k] ^ sum), where `product` and `sum` may flip signs; n ≤ 64. Returns whether a
/// result is a NaN. Compiled for processors with and without a fused instruction.
bool fused_block(u32* to, const u32* a, const u32* b, const u32* c, u32 product, u32 sum, unsigned n);
bool fused_block(u64* to, const u64* a, const u64* b, const u64* c, u64 product, u64 sum, unsigned n);
/// Square roots; NaNs are canonical.
void root_block(u32* to, const u32* a, unsigned n);
void root_block(u64* to, const u64* a, unsigned n);

}  // namespace tilesim::isa
