// Float multiply-adds, of one width and widening (from half, single and bfloat16).
#include "tilesim/isa/vector/fused_kernels.hpp"

namespace tilesim::isa {

namespace vector_fused {

/// ±(a · b) ± c.
template <class F>
void fused(Hart& h, Round mode, typename F::Bits* d, const typename F::Bits* a, const typename F::Bits* b,
           const typename F::Bits* c, bool minus_product, bool minus_sum, unsigned n) {
  using Bits = typename F::Bits;
  const auto sign_bit = static_cast<Bits>(F::format.sign());
  const Bits product = minus_product ? sign_bit : Bits{0}, sum = minus_sum ? sign_bit : Bits{0};
  const auto exactly = [&](unsigned k, u8& flags) {
    return static_cast<Bits>(soft::multiply_add(F::format, static_cast<Bits>(a[k] ^ product), b[k],
                                                static_cast<Bits>(c[k] ^ sum), mode, flags));
  };
  alignas(64) Bits results[float_block];
  if constexpr (F::host)
    if (mode == h.host) [[likely]] {
      // infinity · 0 + NaN is invalid in RISC-V, but not on some host processors
      if (fused_block(results, a, b, c, product, sum, n)) [[unlikely]]
        for (unsigned k = 0; k < n; ++k)
          if (results[k] == F::format.canonical()) exactly(k, h.fflags);
      if (n == float_block)
        std::memcpy(d, results, sizeof(results));
      else
        std::memcpy(d, results, n * sizeof(Bits));
      return;
    }
  for (unsigned k = 0; k < n; ++k) results[k] = exactly(k, h.fflags);
  std::memcpy(d, results, n * sizeof(Bits));
}

/// Use of the three operands: bit 0: the product is negated; bit 1: the addend is negated; bit 2: vd is a factor.
enum Kind : u8 { plain = 0, negative_product = 1, negative_sum = 2, vd_times = 4 };

template <class F, unsigned kind>
void same(Hart& h, Round mode, void* to, const void* first, const void* second, unsigned n) {
  using Bits = typename F::Bits;
  auto* d = static_cast<Bits*>(to);
  const auto *a = static_cast<const Bits*>(first), *b = static_cast<const Bits*>(second);
  constexpr bool minus_product = (kind & negative_product) != 0, minus_sum = (kind & negative_sum) != 0;
  if constexpr ((kind & vd_times) != 0)
    fused<F>(h, mode, d, d, b, a, minus_product, minus_sum, n);
  else
    fused<F>(h, mode, d, a, b, d, minus_product, minus_sum, n);
}

template <class F, unsigned kind>
void wide(Hart& h, Round mode, void* to, const void* first, const void* second, unsigned n) {
  using W = Wider<F>;
  alignas(64) typename W::Bits a[float_block], b[float_block];
  widen<F>(h, a, static_cast<const typename F::Bits*>(first), n);
  widen<F>(h, b, static_cast<const typename F::Bits*>(second), n);
  same<W, kind>(h, mode, to, a, b, n);
}

template <unsigned kind, Second second>
constexpr auto same_formats() {
  return by_formats([]<class F>() -> Execute {
    using B = typename F::Bits;
    return &float_instruction<B, B, B, &same<F, kind>, second>;
  });
}
template <unsigned kind, Second second>
constexpr auto wide_formats() {
  return by_narrow_formats([]<class F>() -> Execute {
    using B = typename F::Bits;
    return &float_instruction<typename Wider<F>::Bits, B, B, &wide<F, kind>, second>;
  });
}

template <unsigned kind>
void declare_same(Declarations& d, const char* name, u32 funct6, const char* description) {
  declare_float_family(d, {name, funct6, "float-fused", description}, same_formats<kind, Second::vector>(),
                       same_formats<kind, Second::scalar>());
}
constexpr GroupRule wide_groups = rule(wide_group, one_group, one_group);
template <unsigned kind>
void declare_wide(Declarations& d, const char* name, u32 funct6, const char* description) {
  declare_float_family(d, {name, funct6, "float-fused-widening", description, wide_groups},
                       wide_formats<kind, Second::vector>(), wide_formats<kind, Second::scalar>());
}

template <Second second>
constexpr std::array<Execute, 4> brain() {
  return {nullptr, &float_instruction<u32, u16, u16, &wide<Brain, plain>, second>, nullptr, nullptr};
}

}  // namespace vector_fused

void declare_vector_fused(Declarations& d) {
  using namespace vector_fused;
  d.extension = "V", d.unit = Unit::arithmetic, d.traits = sets_flags | reads_rounding | reads_vd;
  constexpr unsigned both = negative_product | negative_sum;
  declare_same<vd_times>(d, "vfmadd", 0x28, "vd times a number, plus vs2.");
  declare_same<vd_times | both>(d, "vfnmadd", 0x29, "vd times a number, plus vs2, negated.");
  declare_same<vd_times | negative_sum>(d, "vfmsub", 0x2A, "vd times a number, less vs2.");
  declare_same<vd_times | negative_product>(d, "vfnmsub", 0x2B, "vs2 less vd times a number.");
  declare_same<plain>(d, "vfmacc", 0x2C, "Adds products to vd.");
  declare_same<both>(d, "vfnmacc", 0x2D, "Adds products to vd, negated.");
  declare_same<negative_sum>(d, "vfmsac", 0x2E, "Products less vd.");
  declare_same<negative_product>(d, "vfnmsac", 0x2F, "Subtracts products from vd.");
  declare_wide<plain>(d, "vfwmacc", 0x3C, "Adds products to vd of twice the width.");
  declare_wide<both>(d, "vfwnmacc", 0x3D, "Adds products to vd of twice the width, negated.");
  declare_wide<negative_sum>(d, "vfwmsac", 0x3E, "Products less vd of twice the width.");
  declare_wide<negative_product>(d, "vfwnmsac", 0x3F, "Takes products from vd of twice the width.");
  d.extension = "Zvfbfwma";
  declare_float_family(d,
                       {"vfwmaccbf16", 0x3B, "float-fused-widening", "Adds products of bfloat16 to vd.", wide_groups},
                       brain<Second::vector>(), brain<Second::scalar>());
  d.extension = "V", d.traits = 0;
}

}  // namespace tilesim::isa
