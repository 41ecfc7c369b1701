// F, D and Zfh: conversions between floats and integers, and among floats.
#include "tilesim/isa/table/float.hpp"

namespace tilesim::isa {

namespace {

template <class F, class T>
void to_integer(Hart& h, const Op& o) {
  const Round mode = rounding(h, o);
  const auto bits = unbox<F>(h.f[o.rs1]);
  if constexpr (F::host)
    if (mode == Round::zero) {
      // the processor truncates values that certainly fit, and sets the same flags
      const auto value = std::bit_cast<typename F::Value>(bits);
      constexpr auto limit = static_cast<typename F::Value>(u64{1} << (8 * sizeof(T) - (std::is_signed_v<T> ? 1 : 2)));
      if (value > (std::is_signed_v<T> ? -limit : typename F::Value{0}) && value < limit) {
        h.x[o.rd] = static_cast<u64>(static_cast<s64>(value));
        return;
      }
    }
  const u64 value = soft::to_integer(F::format, bits, 8 * sizeof(T), std::is_signed_v<T>, mode, h.fflags);
  h.x[o.rd] = sizeof(T) == 4 ? word(value) : value;
}

template <class F, class T>
void from_integer(Hart& h, const Op& o) {
  const Round mode = rounding(h, o);
  const auto value = static_cast<T>(h.x[o.rs1]);
  if constexpr (F::host)
    if (mode == h.host && (std::is_signed_v<T> || sizeof(T) == 4)) [[likely]] {
      h.f[o.rd] = box<F>(std::bit_cast<typename F::Bits>(static_cast<typename F::Value>(static_cast<s64>(value))));
      return;
    }
  if constexpr (std::is_signed_v<T>)
    h.f[o.rd] = box<F>(soft::from_signed(F::format, value, mode, h.fflags));
  else
    h.f[o.rd] = box<F>(soft::from_unsigned(F::format, value, mode, h.fflags));
}

template <class From, class To>
void among(Hart& h, const Op& o) {
  const Round mode = rounding(h, o);
  const auto bits = unbox<From>(h.f[o.rs1]);
  if constexpr (From::host && To::host)
    if (mode == h.host) [[likely]] {
      const auto value = std::bit_cast<typename From::Value>(bits);
      h.f[o.rd] = box<To>(canonical<To>(static_cast<typename To::Value>(value)));
      return;
    }
  h.f[o.rd] = box<To>(soft::convert(From::format, To::format, bits, mode, h.fflags));
}

constexpr Encoding code(u32 funct5, u32 format, u32 source) {
  return opcode(op_fp) | field(31, 25, funct5 << 2 | format) | field(24, 20, source);
}

template <class F, class T>
void with_integer(Declarations& d, const char* letters, u32 number) {
  const std::string dot = std::string(".") + F::suffix;
  // a conversion that is always exact has rounding mode 0
  const bool exact = F::format.fraction > 32 && sizeof(T) == 4;
  d("fcvt." + (letters + dot), "rd, fs1, rm", code(0x18, F::code, number), "float-convert", to_integer<F, T>,
    "Integer from a float; saturates.");
  d("fcvt" + dot + "." + letters, exact ? "fd, rs1, rm0" : "fd, rs1, rm", code(0x1A, F::code, number), "float-convert",
    from_integer<F, T>, "Float from an integer.");
}

template <class F>
void with_integers(Declarations& d, const char* extension) {
  d.extension = extension;
  with_integer<F, s32>(d, "w", 0);
  with_integer<F, u32>(d, "wu", 1);
  with_integer<F, s64>(d, "l", 2);
  with_integer<F, u64>(d, "lu", 3);
}

template <class From, class To>
void between(Declarations& d, const char* extension) {
  d.extension = extension;
  const bool exact = From::format.fraction < To::format.fraction;
  d(std::string("fcvt.") + To::suffix + "." + From::suffix, exact ? "fd, fs1, rm0" : "fd, fs1, rm",
    code(8, To::code, From::code), "float-convert", among<From, To>, "Float of another width.");
}

}  // namespace

void declare_conversions(Declarations& d) {
  d.unit = Unit::scalar, d.traits = sets_flags | reads_rounding;
  with_integers<Single>(d, "F");
  with_integers<Double>(d, "D");
  with_integers<Half>(d, "Zfh");
  between<Single, Double>(d, "D");
  between<Double, Single>(d, "D");
  between<Half, Single>(d, "Zfh");
  between<Single, Half>(d, "Zfh");
  between<Half, Double>(d, "Zfh");
  between<Double, Half>(d, "Zfh");
  d.traits = 0;
}

}  // namespace tilesim::isa
