// Compiled without -frounding-math, which keeps GCC from vectorizing both functions; no value is a constant.
#include "tilesim/isa/vector/fused_kernels.hpp"

// Compiles versions that are selected when the library loads. Not if all code is compiled for such a processor, and not
// with sanitizers, which are not initialized at that time.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && !defined(__FMA__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TILESIM_FOR_PROCESSORS __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define TILESIM_FOR_PROCESSORS
#endif

namespace tilesim::isa {

namespace {

template <class Bits, class Value, class Fused>
[[gnu::always_inline]] inline bool block(Bits* to, const Bits* a, const Bits* b, const Bits* c, Bits product, Bits sum,
                                         Bits not_a_number, unsigned n, Fused fused) {
  Bits nan = 0;
  for_block(n, [&](unsigned k) __attribute__((always_inline)) {
    const Value value = fused(__builtin_bit_cast(Value, a[k] ^ product), __builtin_bit_cast(Value, b[k]),
                              __builtin_bit_cast(Value, c[k] ^ sum));
    to[k] = value != value ? not_a_number : __builtin_bit_cast(Bits, value);
    nan |= static_cast<Bits>(value != value);
  });
  return nan != 0;
}

}  // namespace

TILESIM_FOR_PROCESSORS
bool fused_block(u32* to, const u32* a, const u32* b, const u32* c, u32 product, u32 sum, unsigned n) {
  return block<u32, float>(to, a, b, c, product, sum, 0x7FC00000U, n,
                           [](float x, float y, float z)
                               __attribute__((always_inline)) { return __builtin_fmaf(x, y, z); });
}

TILESIM_FOR_PROCESSORS
bool fused_block(u64* to, const u64* a, const u64* b, const u64* c, u64 product, u64 sum, unsigned n) {
  return block<u64, double>(to, a, b, c, product, sum, 0x7FF8000000000000U, n,
                            [](double x, double y, double z)
                                __attribute__((always_inline)) { return __builtin_fma(x, y, z); });
}

TILESIM_FOR_PROCESSORS
void root_block(u32* to, const u32* a, unsigned n) {
  for_block(n, [=](unsigned k) __attribute__((always_inline)) {
    const float value = __builtin_sqrtf(__builtin_bit_cast(float, a[k]));
    to[k] = value != value ? 0x7FC00000U : __builtin_bit_cast(u32, value);
  });
}

TILESIM_FOR_PROCESSORS
void root_block(u64* to, const u64* a, unsigned n) {
  for_block(n, [=](unsigned k) __attribute__((always_inline)) {
    const double value = __builtin_sqrt(__builtin_bit_cast(double, a[k]));
    to[k] = value != value ? 0x7FF8000000000000U : __builtin_bit_cast(u64, value);
  });
}

}  // namespace tilesim::isa
