#include "tilesim/isa/vector/fused_kernels.hpp"

// Versions chosen when the library is loaded; not where all code is compiled for such a processor anyway, and not with
// sanitizers, which are not there yet at that time.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && !defined(__FMA__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TILESIM_FOR_PROCESSORS __attribute__((target_clones("avx512f", "avx2,fma", "default")))
#else
#define TILESIM_FOR_PROCESSORS
#endif

namespace tilesim::isa {

TILESIM_FOR_PROCESSORS
bool fused_block(u32* to, const u32* a, const u32* b, const u32* c, u32 product, u32 sum, unsigned n) {
  u32 nan = 0;
#pragma GCC ivdep
  for (unsigned k = 0; k < n; ++k) {
    const float value = __builtin_fmaf(__builtin_bit_cast(float, a[k] ^ product), __builtin_bit_cast(float, b[k]),
                                       __builtin_bit_cast(float, c[k] ^ sum));
    to[k] = value != value ? 0x7FC00000U : __builtin_bit_cast(u32, value);
    nan |= static_cast<u32>(value != value);
  }
  return nan != 0;
}

TILESIM_FOR_PROCESSORS
bool fused_block(u64* to, const u64* a, const u64* b, const u64* c, u64 product, u64 sum, unsigned n) {
  u64 nan = 0;
#pragma GCC ivdep
  for (unsigned k = 0; k < n; ++k) {
    const double value = __builtin_fma(__builtin_bit_cast(double, a[k] ^ product), __builtin_bit_cast(double, b[k]),
                                       __builtin_bit_cast(double, c[k] ^ sum));
    to[k] = value != value ? 0x7FF8000000000000U : __builtin_bit_cast(u64, value);
    nan |= static_cast<u64>(value != value);
  }
  return nan != 0;
}

}  // namespace tilesim::isa
