// Fixed point: saturation, averages, fractions, scaling shifts, clips; vxrm selects rounding, saturation sets vxsat.
#include <limits>

#include "tilesim/isa/vector/elements.hpp"

namespace tilesim::isa {

namespace vector_fixed {

/// The rounding increment for `value` >> `shift` (RISC-V "V" 1.0, section 3.8).
template <class T>
inline T increment(T value, unsigned shift, unsigned vxrm) {
  if (shift == 0) return 0;
  const T last = value >> shift & 1, half = value >> (shift - 1) & 1;
  const bool below_half = (value & ((T{1} << (shift - 1)) - 1)) != 0;
  switch (vxrm) {
    case 0:  // nearest, up
      return half;
    case 1:  // nearest, even
      return half != 0 && (below_half || last != 0) ? 1 : 0;
    case 2:  // down
      return 0;
    default:  // odd
      return last == 0 && (half != 0 || below_half) ? 1 : 0;
  }
}

/// `value` >> `shift`, rounded; T must be wide enough for the sum.
template <class T>
inline T rounded(T value, unsigned shift, unsigned vxrm) {
  return static_cast<T>((value >> shift) + increment(value, shift, vxrm));
}

/// `value` clipped to the range of T.
template <class T, class Wide>
inline T clipped(Wide value, u8& saturated) {
  constexpr Wide low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  if (value > high) {
    saturated = 1;
    return std::numeric_limits<T>::max();
  }
  if (value < low) {
    saturated = 1;
    return std::numeric_limits<T>::min();
  }
  return static_cast<T>(value);
}

template <class T>
using Signed = typename IntegerOf<sizeof(T), true>::Type;

struct Add {
  template <class T>
  static T of(T a, T b, unsigned, u8& saturated) {
    T sum{};
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    saturated = 1;
    return std::is_signed_v<T> && a < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
  }
};
struct Subtract {
  template <class T>
  static T of(T a, T b, unsigned, u8& saturated) {
    T difference{};
    if (!__builtin_sub_overflow(a, b, &difference)) return difference;
    saturated = 1;
    return !std::is_signed_v<T> || a < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
  }
};
/// Averages: (a ± b + rounding increment) >> 1, which always fits T.
struct Average {
  template <class T>
  static T of(T a, T b, unsigned vxrm, u8&) {
    return static_cast<T>(rounded<Twice<T>>(Twice<T>{a} + Twice<T>{b}, 1, vxrm));
  }
};
struct AverageDifference {
  template <class T>
  static T of(T a, T b, unsigned vxrm, u8&) {
    using Wide = Signed<Twice<T>>;
    return static_cast<T>(rounded<Wide>(static_cast<Wide>(Wide{a} - Wide{b}), 1, vxrm));
  }
};
struct Fraction {
  template <class T>
  static T of(T a, T b, unsigned vxrm, u8& saturated) {
    return clipped<T>(rounded<Twice<T>>(static_cast<Twice<T>>(Twice<T>{a} * b), 8 * sizeof(T) - 1, vxrm), saturated);
  }
};
struct Scale {
  template <class T>
  static T of(T a, T b, unsigned vxrm, u8&) {
    return rounded<T>(a, static_cast<unsigned>(b & (8 * sizeof(T) - 1)), vxrm);
  }
};
struct Clip {
  template <class T>
  static T of(Twice<T> a, T b, unsigned vxrm, u8& saturated) {
    using Wide = Twice<T>;
    return clipped<T, Wide>(rounded<Wide>(a, static_cast<unsigned>(b & (8 * sizeof(Wide) - 1)), vxrm), saturated);
  }
};

/// Like Elements, but reads vxrm and updates vxsat.
template <class F, class D, class A>
struct Fixed {
  static void vv(Hart& h, const Op& o) {
    D* d = h.v.at<D>(o.rd);
    const A* a = source<A, D>(h, o, o.rs2, 0);
    const D* b = h.v.at<D>(o.rs1);
    loop(h, o, d, a, [=](u64 i) { return b[i]; });
  }
  static void vx(Hart& h, const Op& o) {
    const A* a = source<A, D>(h, o, o.rs2, 0);
    const D x = scalar_operand<D>(h, o);
    loop(h, o, h.v.at<D>(o.rd), a, [=](u64) { return x; });
  }
  template <class Second>
  static void loop(Hart& h, const Op& o, D* d, const A* a, Second b) {
    u8 saturated = 0;
    const unsigned vxrm = h.v.vxrm;
    each(h, o, [=, &saturated](u64 i) { d[i] = F::template of<D>(a[i], b(i), vxrm, saturated); });
    h.v.vxsat |= saturated;
  }
};

struct SameFixed : Same {
  template <class F, class T>
  using Loop = Fixed<F, T, T>;
};
struct NarrowingFixed : Narrowing {
  template <class F, class T>
  using Loop = Fixed<F, T, Twice<T>>;
};

}  // namespace vector_fixed

void declare_vector_fixed(Declarations& d) {
  using namespace vector_fixed;
  d.extension = "V", d.unit = Unit::arithmetic;
  constexpr unsigned all = form_vv | form_vx | form_vi, both = form_vv | form_vx;
  d.traits = sets_vxsat;
  family<Add, unsigned_types, SameFixed>(d, {"vsaddu", 0x20, all, "fixed", "Sums that saturate, unsigned."});
  family<Add, signed_types, SameFixed>(d, {"vsadd", 0x21, all, "fixed", "Sums that saturate."});
  family<Subtract, unsigned_types, SameFixed>(d, {"vssubu", 0x22, both, "fixed", "Differences, at least 0."});
  family<Subtract, signed_types, SameFixed>(d, {"vssub", 0x23, both, "fixed", "Differences that saturate."});
  d.traits = sets_vxsat | reads_vxrm;
  family<Fraction, signed_types, SameFixed>(
      d, {"vsmul", 0x27, both, "fixed-multiply", "Products of fractions, rounded; they saturate."});
  family<Clip, unsigned_types, NarrowingFixed>(
      d, {"vnclipu", 0x2E, all, "narrowing", "Shifts right into half the width, rounds and saturates, unsigned.",
          "zimm5"});
  family<Clip, signed_types, NarrowingFixed>(
      d, {"vnclip", 0x2F, all, "narrowing", "Shifts right into half the width, rounds and saturates.", "zimm5"});
  d.traits = reads_vxrm;
  const auto average = [](const char* name, u32 funct6, const char* description) {
    return Family{name, funct6, both, "fixed", description, "", opmvv};
  };
  family<Average, unsigned_types, SameFixed>(d, average("vaaddu", 0x08, "Averages, rounded, unsigned."));
  family<Average, signed_types, SameFixed>(d, average("vaadd", 0x09, "Averages, rounded."));
  family<AverageDifference, unsigned_types, SameFixed>(
      d, average("vasubu", 0x0A, "Half the differences, rounded, unsigned."));
  family<AverageDifference, signed_types, SameFixed>(d, average("vasub", 0x0B, "Half the differences, rounded."));
  family<Scale, unsigned_types, SameFixed>(d,
                                           {"vssrl", 0x2A, all, "fixed", "Shifts right, rounded, unsigned.", "zimm5"});
  family<Scale, signed_types, SameFixed>(d, {"vssra", 0x2B, all, "fixed", "Shifts right, rounded.", "zimm5"});
  d.traits = 0;
}

}  // namespace tilesim::isa
