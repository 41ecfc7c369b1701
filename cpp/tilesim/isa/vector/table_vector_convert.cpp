// Conversions between floats and integers, and among floats, to the same, twice, or half the width.
#include "tilesim/isa/vector/float_elements.hpp"

namespace tilesim::isa {

namespace vector_convert {

enum class Mode : u8 { dynamic, zero, odd };

/// Converts singles on the processor, which sets the same flags, if all certainly fit; otherwise returns false.
inline bool small_singles(s32* d, const u32* a, unsigned n, bool truncate) {
  u32 large = 0;
  for (unsigned k = 0; k < n; ++k)
    large |= static_cast<u32>((a[k] & 0x7FFFFFFFU) >= (truncate ? 0x4F000000U : 0x4A800000U));
  if (large != 0) return false;
  if (truncate) {
#pragma GCC ivdep
    for (unsigned k = 0; k < n; ++k) d[k] = static_cast<s32>(std::bit_cast<float>(a[k]));
    return true;
  }
#pragma GCC ivdep
  for (unsigned k = 0; k < n; ++k) {  // adding 1.5 · 2^23 rounds numbers below 2^22 to integers
    const float value = std::bit_cast<float>(a[k]);
    const float sum = value + 12582912.0F;
    d[k] = static_cast<s32>(std::bit_cast<u32>(sum) - 0x4B400000U);
  }
  return true;
}

template <class F, class T, Mode mode>
void to_integers(Hart& h, Round dynamic, void* to, const void* from, const void*, unsigned n) {
  const Round by = mode == Mode::zero ? Round::zero : dynamic;
  auto* d = static_cast<T*>(to);
  const auto* a = static_cast<const typename F::Bits*>(from);
  if constexpr (std::is_same_v<F, Single> && std::is_signed_v<T> && sizeof(T) == 4)
    if (by == Round::zero || (by == Round::nearest_even && by == h.host))
      if (small_singles(d, a, n, by == Round::zero)) return;
  for (unsigned k = 0; k < n; ++k)
    d[k] = static_cast<T>(soft::to_integer(F::format, a[k], 8 * sizeof(T), std::is_signed_v<T>, by, h.fflags));
}

template <class T, class F>
void from_integers(Hart& h, Round mode, void* to, const void* from, const void*, unsigned n) {
  auto* d = static_cast<typename F::Bits*>(to);
  const auto* a = static_cast<const T*>(from);
  if constexpr (F::host)
    if (mode == h.host) {
      using Value = typename F::Value;
#pragma GCC ivdep
      for (unsigned k = 0; k < n; ++k) d[k] = std::bit_cast<typename F::Bits>(static_cast<Value>(a[k]));
      return;
    }
  for (unsigned k = 0; k < n; ++k)
    d[k] = static_cast<typename F::Bits>(std::is_signed_v<T>
                                             ? soft::from_signed(F::format, static_cast<s64>(a[k]), mode, h.fflags)
                                             : soft::from_unsigned(F::format, static_cast<u64>(a[k]), mode, h.fflags));
}

template <class From>
void to_wider(Hart& h, Round, void* to, const void* from, const void*, unsigned n) {
  typename From::Bits a[float_block];  // widen reads twice, and `to` may overlap `from`
  std::memcpy(a, from, n * sizeof(a[0]));
  widen<From>(h, static_cast<typename Wider<From>::Bits*>(to), a, n);
}

/// Rounds towards zero; an inexact result gets its last bit set.
template <class From, class To>
u64 to_odd(Hart& h, u64 bits) {
  u8 flags = 0;
  const u64 result = soft::convert(From::format, To::format, bits, Round::zero, flags);
  h.fflags |= flags;
  return (flags & inexact) != 0 ? result | 1 : result;
}

/// Rounds to nearest if all are zeros or normal numbers that stay normal; otherwise returns false.
inline bool ordinary_to_brain(Hart& h, u16* d, const u32* a, unsigned n) {
  u32 others = 0, rest = 0;
  for (unsigned k = 0; k < n; ++k) {
    const u32 magnitude = a[k] & 0x7FFFFFFFU;
    others |= static_cast<u32>(magnitude != 0 && magnitude - 0x00800000U >= 0x7F7F0000U - 0x00800000U);
    rest |= a[k] & 0xFFFFU;
  }
  if (others != 0) return false;
  for (unsigned k = 0; k < n; ++k) d[k] = static_cast<u16>((a[k] + 0x7FFFU + (a[k] >> 16 & 1)) >> 16);
  if (rest != 0) h.fflags |= inexact;
  return true;
}

template <class To, Mode mode>
void to_narrower(Hart& h, Round dynamic, void* to, const void* from, const void*, unsigned n) {
  using From = Wider<To>;
  auto* d = static_cast<typename To::Bits*>(to);
  const auto* a = static_cast<const typename From::Bits*>(from);
  if constexpr (std::is_same_v<To, Single> && mode == Mode::dynamic)
    if (dynamic == h.host) {
#pragma GCC ivdep
      for (unsigned k = 0; k < n; ++k) d[k] = canonical<To>(static_cast<float>(value_of<From>(a[k])));
      return;
    }
  if constexpr (std::is_same_v<To, Brain>)
    if (dynamic == Round::nearest_even && ordinary_to_brain(h, d, a, n)) return;
  for (unsigned k = 0; k < n; ++k)
    d[k] = static_cast<typename To::Bits>(mode == Mode::odd
                                              ? to_odd<From, To>(h, a[k])
                                              : soft::convert(From::format, To::format, a[k], dynamic, h.fflags));
}

template <class D, class A, FloatKernel kernel>
constexpr Execute unary = &float_instruction<D, A, A, kernel, Second::none>;

template <class T>
using Unsigned = typename IntegerOf<sizeof(T), false>::Type;
template <class Bits, bool is_signed>
using Integer = typename IntegerOf<sizeof(Bits), is_signed>::Type;

void line(Declarations& d, const std::string& name, u32 code, const std::array<Execute, 4>& by_width, GroupRule groups,
          const char* description) {
  vector_line(d, name, "vd, vs2, vm", vector_code(0x12, opfvv) | field(19, 15, code), "float-convert", by_width, groups,
              description);
}

constexpr GroupRule equal = rule(one_group, one_group), wider = rule(wide_group, one_group),
                    narrower = rule(one_group, wide_group);

/// Declares conversions from floats to integers of the same, twice, or half the width.
template <bool is_signed, Mode mode>
void declare_to_integer(Declarations& d, u32 low_code) {
  const std::string how = std::string(mode == Mode::zero ? "rtz." : "") + (is_signed ? "x" : "xu");
  line(d, "vfcvt." + how + ".f.v", low_code, by_formats([]<class F>() -> Execute {
         using T = Integer<typename F::Bits, is_signed>;
         return unary<Unsigned<T>, typename F::Bits, &to_integers<F, T, mode>>;
       }),
       equal, "Integers from floats; they saturate.");
  line(d, "vfwcvt." + how + ".f.v", 8 | low_code, by_narrow_formats([]<class F>() -> Execute {
         using T = Integer<typename Wider<F>::Bits, is_signed>;
         return unary<Unsigned<T>, typename F::Bits, &to_integers<F, T, mode>>;
       }),
       wider, "Integers of twice the width from floats.");
  line(d, "vfncvt." + how + ".f.w", 16 | low_code,
       {unary<u8, u16, &to_integers<Half, Integer<u8, is_signed>, mode>>,
        unary<u16, u32, &to_integers<Single, Integer<u16, is_signed>, mode>>,
        unary<u32, u64, &to_integers<Double, Integer<u32, is_signed>, mode>>, nullptr},
       narrower, "Integers of half the width from floats.");
}

template <bool is_signed>
void declare_from_integer(Declarations& d, u32 low_code) {
  const std::string x = is_signed ? "x" : "xu";
  line(d, "vfcvt.f." + x + ".v", low_code, by_formats([]<class F>() -> Execute {
         using T = Integer<typename F::Bits, is_signed>;
         return unary<typename F::Bits, Unsigned<T>, &from_integers<T, F>>;
       }),
       equal, "Floats from integers.");
  line(d, "vfwcvt.f." + x + ".v", 8 | low_code,
       {unary<u16, u8, &from_integers<Integer<u8, is_signed>, Half>>,
        unary<u32, u16, &from_integers<Integer<u16, is_signed>, Single>>,
        unary<u64, u32, &from_integers<Integer<u32, is_signed>, Double>>, nullptr},
       wider, "Floats of twice the width from integers.");
  line(d, "vfncvt.f." + x + ".w", 16 | low_code, by_narrow_formats([]<class F>() -> Execute {
         using T = Integer<typename Wider<F>::Bits, is_signed>;
         return unary<typename F::Bits, Unsigned<T>, &from_integers<T, F>>;
       }),
       narrower, "Floats of half the width from integers.");
}

template <Mode mode>
constexpr auto narrowed() {
  return by_narrow_formats(
      []<class F>() -> Execute { return unary<typename F::Bits, typename Wider<F>::Bits, &to_narrower<F, mode>>; });
}

}  // namespace vector_convert

void declare_vector_convert(Declarations& d) {
  using namespace vector_convert;
  d.extension = "V", d.unit = Unit::arithmetic, d.traits = sets_flags | reads_rounding;
  declare_to_integer<false, Mode::dynamic>(d, 0);
  declare_to_integer<true, Mode::dynamic>(d, 1);
  declare_from_integer<false>(d, 2);
  declare_from_integer<true>(d, 3);
  line(d, "vfncvt.f.f.w", 20, narrowed<Mode::dynamic>(), narrower, "Floats of half the width.");
  d.traits = sets_flags;
  declare_to_integer<false, Mode::zero>(d, 6);
  declare_to_integer<true, Mode::zero>(d, 7);
  line(d, "vfncvt.rod.f.f.w", 21, narrowed<Mode::odd>(), narrower, "Floats of half the width, rounded to odd.");
  line(d, "vfwcvt.f.f.v", 12, by_narrow_formats([]<class F>() -> Execute {
         return unary<typename Wider<F>::Bits, typename F::Bits, &to_wider<F>>;
       }),
       wider, "Floats of twice the width.");
  d.extension = "Zvfbfmin";
  line(d, "vfwcvtbf16.f.f.v", 13, {nullptr, unary<u32, u16, &to_wider<Brain>>, nullptr, nullptr}, wider,
       "Single precision from bfloat16.");
  d.traits = sets_flags | reads_rounding;
  line(d, "vfncvtbf16.f.f.w", 29, {nullptr, unary<u16, u32, &to_narrower<Brain, Mode::dynamic>>, nullptr, nullptr},
       narrower, "bfloat16 from single precision.");
  d.extension = "V", d.traits = 0;
}

}  // namespace tilesim::isa
