// Execution of vector instructions on floats: kernels on blocks of up to 64 elements, without masks and registers, and
// the loop that calls them. A kernel computes on the processor if its rounding mode is that of the hart, otherwise by
// soft_float.hpp. Kernels never get inactive elements, so that these raise no flags.
#pragma once

#include "tilesim/isa/table/float.hpp"
#include "tilesim/isa/vector/mask_results.hpp"

namespace tilesim::isa {

inline constexpr unsigned float_block = 64;

/// `d` contains the old elements of vd, and then the results; `a` those of vs2, `b` those of vs1, or the scalar n
/// times. `d` may share registers with `a` and `b` if the order of elements allows it.
using FloatKernel = void (*)(Hart& h, Round mode, void* d, const void* a, const void* b, unsigned n);

/// Runs `body(k)` for k below n, in any order; full blocks use a separate loop.
template <class Body>
[[gnu::always_inline]] inline void for_block(unsigned n, Body body) {
  if (n == float_block) {
#pragma GCC ivdep
    for (unsigned k = 0; k < float_block; ++k) body(k);
    return;
  }
#pragma GCC ivdep
  for (unsigned k = 0; k < n; ++k) body(k);
}

enum class Second : u8 { vector, scalar, none };

/// frm for an instruction on floats; a reserved mode traps (RISC-V "V" 1.0, section 13).
inline Round vector_rounding(const Hart& h, const Op& o) {
  if (h.frm > Round::nearest_away) [[unlikely]]
    illegal(o, "a reserved rounding mode");
  return h.frm;
}

/// The float register rs1 as an element of B's width.
template <class B>
B float_scalar(const Hart& h, const Op& o) {
  if constexpr (sizeof(B) == 2)
    return unbox<Half>(h.f[o.rs1]);
  else if constexpr (sizeof(B) == 4)
    return unbox<Single>(h.f[o.rs1]);
  else
    return static_cast<B>(h.f[o.rs1]);
}

/// Runs the kernel on blocks; D, A, B: unsigned integers of the element widths of vd, vs2, vs1.
template <class D, class A, class B>
void float_blocks(Hart& h, const Op& o, FloatKernel kernel, Second second, B x = 0) {
  const Round mode = vector_rounding(h, o);
  D* d = h.v.at<D>(o.rd);
  const A* a = h.v.at<A>(o.rs2);
  const B* b = h.v.at<B>(o.rs1);
  alignas(64) D results[float_block];
  alignas(64) A firsts[float_block];
  alignas(64) B seconds[float_block];
  if (second == Second::scalar) std::fill_n(seconds, std::min<u64>(float_block, h.v.vl), x);
  for (u64 i = 0; i < h.v.vl; i += float_block) {
    const auto n = static_cast<unsigned>(std::min<u64>(float_block, h.v.vl - i));
    if (o.rm != 0) {
      kernel(h, mode, d + i, a + i, second == Second::vector ? b + i : seconds, n);
      continue;
    }
    u8 places[float_block];
    unsigned count = 0;
    for (u64 active = mask_word(h, 0, i) & below(h.v.vl, i); active != 0; active &= active - 1)
      places[count++] = static_cast<u8>(std::countr_zero(active));
    for (unsigned k = 0; k < count; ++k) {
      results[k] = d[i + places[k]], firsts[k] = a[i + places[k]];
      if (second == Second::vector) seconds[k] = b[i + places[k]];
    }
    kernel(h, mode, results, firsts, seconds, count);
    for (unsigned k = 0; k < count; ++k) d[i + places[k]] = results[k];
  }
}

template <class D, class A, class B, FloatKernel kernel, Second second>
void float_instruction(Hart& h, const Op& o) {
  if constexpr (second == Second::scalar)
    float_blocks<D, A, B>(h, o, kernel, second, float_scalar<B>(h, o));
  else
    float_blocks<D, A, B>(h, o, kernel, second);
}

/// Bits of an element as the format's value.
template <class F>
typename F::Value value_of(typename F::Bits bits) {
  return std::bit_cast<typename F::Value>(bits);
}

/// The format of twice the width.
template <class F>
struct WiderThan;
template <>
struct WiderThan<Half> {
  using Format = Single;
};
template <>
struct WiderThan<Single> {
  using Format = Double;
};
template <class F>
using Wider = typename WiderThan<F>::Format;

/// bfloat16: only a source of widening and a result of narrowing.
struct Brain {
  using Bits = u16;
  static constexpr soft::Format format = soft::bf16;
};
template <>
struct WiderThan<Brain> {
  using Format = Single;
};

/// Widens exactly; a NaN becomes canonical, a signaling NaN sets the invalid flag.
template <class F>
void widen(Hart& h, typename Wider<F>::Bits* to, const typename F::Bits* from, unsigned n) {
  using To = Wider<F>;
  if constexpr (std::is_same_v<F, Single>) {
    for (unsigned k = 0; k < n; ++k) to[k] = canonical<To>(static_cast<double>(value_of<F>(from[k])));
  } else {
    constexpr unsigned shift = 23 - F::format.fraction;
    constexpr u32 infinity = static_cast<u32>(F::format.infinity());
    constexpr u32 rebias = static_cast<u32>(To::format.bias() - F::format.bias()) << 23;
    // infinities and NaNs; subnormal numbers unless both formats have the same exponent range
    const auto is_odd = [](u32 magnitude) {
      return magnitude >= infinity || (rebias != 0 && magnitude - 1 < (1U << F::format.fraction) - 1);
    };
    u32 odd = 0;
    for (unsigned k = 0; k < n; ++k) {
      const u32 sign = from[k] & 0x8000U, magnitude = from[k] & 0x7FFFU;
      to[k] = sign << 16 | (magnitude == 0 ? 0 : (magnitude << shift) + rebias);
      odd |= static_cast<u32>(is_odd(magnitude));
    }
    if (odd == 0) return;
    for (unsigned k = 0; k < n; ++k)
      if (is_odd(from[k] & 0x7FFFU))
        to[k] = static_cast<u32>(soft::convert(F::format, To::format, from[k], Round::nearest_even, h.fflags));
  }
}

/// {none, Half, Single, Double}: the formats at SEW 8, 16, 32, 64.
template <class Make>
constexpr std::array<Execute, 4> by_formats(Make make) {
  return {nullptr, make.template operator()<Half>(), make.template operator()<Single>(),
          make.template operator()<Double>()};
}
/// The same for instructions with a result or source of twice the width.
template <class Make>
constexpr std::array<Execute, 4> by_narrow_formats(Make make) {
  return {nullptr, make.template operator()<Half>(), make.template operator()<Single>(), nullptr};
}

/// Declares NAME.vv and NAME.vf (.wv, .wf) with one function per SEW; null arrays are skipped.
struct FloatFamily {
  const char* name;
  u32 funct6;
  const char* timing;
  const char* description;
  GroupRule groups = rule(one_group, one_group, one_group);
  char letter = 'v';
};
inline void declare_float_family(Declarations& d, const FloatFamily& line, const std::array<Execute, 4>& vectors,
                                 const std::array<Execute, 4>& scalars) {
  const bool swapped = (d.traits & reads_vd) != 0;
  const auto operands = [&](const char* second) {
    return swapped ? std::string("vd, ") + second + ", vs2, vm" : std::string("vd, vs2, ") + second + ", vm";
  };
  const std::string name = std::string(line.name) + "." + line.letter;
  if (vectors[1] != nullptr || vectors[2] != nullptr)
    vector_line(d, name + "v", operands("vs1"), vector_code(line.funct6, opfvv), line.timing, vectors, line.groups,
                line.description);
  if (scalars[1] != nullptr || scalars[2] != nullptr)
    vector_line(d, name + "f", operands("fs1"), vector_code(line.funct6, opfvf), line.timing, scalars,
                rule(line.groups.vd, line.groups.vs2), line.description);
}

}  // namespace tilesim::isa
