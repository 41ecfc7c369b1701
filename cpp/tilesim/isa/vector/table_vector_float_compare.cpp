// Float instructions on bits: signs, extremes, comparisons, classes, merges. They use no arithmetic of the processor.
#include "tilesim/isa/vector/float_elements.hpp"

namespace tilesim::isa {

namespace vector_float_compare {

template <class F>
struct Of {
  using Bits = typename F::Bits;
  using Key = std::make_signed_t<Bits>;
  static constexpr Bits sign_bit = static_cast<Bits>(F::format.sign());
  static constexpr Bits infinity = static_cast<Bits>(F::format.infinity());
  static constexpr Bits quiet = static_cast<Bits>(F::format.quiet());
  static constexpr Bits canonical_nan = static_cast<Bits>(F::format.canonical());
  static bool nan(Bits a) { return static_cast<Bits>(a & ~sign_bit) > infinity; }
  static bool signalling(Bits a) { return nan(a) && (a & quiet) == 0; }
  /// An integer in the order of the numbers; −0 is just below +0.
  static Key key(Bits a) {
    const auto negative = static_cast<Bits>(static_cast<Key>(a) >> (8 * sizeof(Bits) - 1));
    return static_cast<Key>(a ^ static_cast<Bits>(negative & static_cast<Bits>(~sign_bit)));
  }
  /// The same with equal zeros.
  static Key number(Bits a) { return static_cast<Bits>(a & ~sign_bit) == 0 ? Key{0} : key(a); }
};

template <class F, int kind>
void with_sign(Hart&, Round, void* to, const void* first, const void* second, unsigned n) {
  using Bits = typename F::Bits;
  constexpr Bits sign_bit = Of<F>::sign_bit;
  auto* d = static_cast<Bits*>(to);
  const auto *a = static_cast<const Bits*>(first), *b = static_cast<const Bits*>(second);
  for (unsigned k = 0; k < n; ++k) {
    const Bits s = static_cast<Bits>(kind == 0 ? b[k] : kind == 1 ? ~b[k] : a[k] ^ b[k]);
    d[k] = static_cast<Bits>((a[k] & ~sign_bit) | (s & sign_bit));
  }
}

template <class F, bool largest>
void extreme(Hart& h, Round, void* to, const void* first, const void* second, unsigned n) {
  using O = Of<F>;
  using Bits = typename F::Bits;
  auto* d = static_cast<Bits*>(to);
  const auto *a = static_cast<const Bits*>(first), *b = static_cast<const Bits*>(second);
  Bits signals = 0;
  for (unsigned k = 0; k < n; ++k) {
    const Bits x = a[k], y = b[k];
    signals |= static_cast<Bits>(O::signalling(x) | O::signalling(y));
    const bool second_wins = O::nan(x) || (!O::nan(y) && (largest ? O::key(x) < O::key(y) : O::key(y) < O::key(x)));
    d[k] = O::nan(x) && O::nan(y) ? O::canonical_nan : second_wins ? y : x;
  }
  if (signals != 0) h.fflags |= invalid;
}

template <class F>
void classes(Hart&, Round, void* to, const void* from, const void*, unsigned n) {
  using Bits = typename F::Bits;
  for (unsigned k = 0; k < n; ++k)
    static_cast<Bits*>(to)[k] = static_cast<Bits>(soft::classify(F::format, static_cast<const Bits*>(from)[k]));
}

enum Relation : u8 { equal, unequal, less, less_equal, greater, greater_equal };

/// Bit 0: the relation holds; bit 1: an operand signals.
template <class F, Relation relation>
unsigned test(typename F::Bits a, typename F::Bits b) {
  using O = Of<F>;
  const auto x = O::number(a), y = O::number(b);
  const bool ordered = !O::nan(a) && !O::nan(b);
  if constexpr (relation == equal || relation == unequal) {
    const bool same = ordered && x == y, signals = O::signalling(a) || O::signalling(b);
    return static_cast<unsigned>(same == (relation == equal)) | static_cast<unsigned>(signals) << 1;
  } else {
    const bool holds = relation == less         ? x < y
                       : relation == less_equal ? x <= y
                       : relation == greater    ? x > y
                                                : x >= y;
    return static_cast<unsigned>(ordered && holds) | static_cast<unsigned>(!ordered) << 1;
  }
}

template <class F, Relation relation, bool scalar>
void compare(Hart& h, const Op& o) {
  using Bits = typename F::Bits;
  vector_rounding(h, o);
  const Bits *a = h.v.at<Bits>(o.rs2), *b = h.v.at<Bits>(o.rs1);
  bool signals = false;
  if constexpr (scalar) {
    const Bits x = float_scalar<Bits>(h, o);
    signals = write_mask(h, o, o.rm == 0, [=](u64 i) { return test<F, relation>(a[i], x); });
  } else {
    signals = write_mask(h, o, o.rm == 0, [=](u64 i) { return test<F, relation>(a[i], b[i]); });
  }
  if (signals) h.fflags |= invalid;
}

template <Relation relation, bool with_vectors = true>
void declare_relation(Declarations& d, const char* name, u32 funct6, const char* description) {
  constexpr auto scalars = by_formats([]<class F>() -> Execute { return &compare<F, relation, true>; });
  constexpr GroupRule groups = rule(mask_group, one_group, one_group);
  const FloatFamily line{name, funct6, "float-compare", description, groups};
  if constexpr (with_vectors)
    declare_float_family(d, line, by_formats([]<class F>() -> Execute { return &compare<F, relation, false>; }),
                         scalars);
  else
    declare_float_family(d, line, {}, scalars);
}

template <template <class> class Kernel>
void declare_simple(Declarations& d, const char* name, u32 funct6, const char* description) {
  declare_float_family(d, {name, funct6, "float-simple", description}, by_formats([]<class F>() -> Execute {
                         using B = typename F::Bits;
                         return &float_instruction<B, B, B, Kernel<F>::run, Second::vector>;
                       }),
                       by_formats([]<class F>() -> Execute {
                         using B = typename F::Bits;
                         return &float_instruction<B, B, B, Kernel<F>::run, Second::scalar>;
                       }));
}
template <class F>
struct SignOf {
  static constexpr FloatKernel run = &with_sign<F, 0>;
};
template <class F>
struct OppositeSign {
  static constexpr FloatKernel run = &with_sign<F, 1>;
};
template <class F>
struct SignsDiffer {
  static constexpr FloatKernel run = &with_sign<F, 2>;
};
template <class F>
struct Smallest {
  static constexpr FloatKernel run = &extreme<F, false>;
};
template <class F>
struct Largest {
  static constexpr FloatKernel run = &extreme<F, true>;
};

/// vfmerge, or vfmv.v.f if unmasked.
template <class F>
void merge(Hart& h, const Op& o) {
  using Bits = typename F::Bits;
  vector_rounding(h, o);
  Bits* d = h.v.at<Bits>(o.rd);
  const Bits* a = h.v.at<Bits>(o.rs2);
  const Bits x = float_scalar<Bits>(h, o);
  const u8* mask = h.v.at<u8>(0);
  const u64 vl = h.v.vl;
  if (o.rm != 0)
    std::fill_n(d, vl, x);
  else
    for (u64 i = 0; i < vl; ++i) d[i] = (mask[i >> 3] >> (i & 7) & 1) != 0 ? x : a[i];
}

void declare_others(Declarations& d) {
  d.traits = 0;
  constexpr auto classify = by_formats([]<class F>() -> Execute {
    using B = typename F::Bits;
    return &float_instruction<B, B, B, &classes<F>, Second::none>;
  });
  vector_line(d, "vfclass.v", "vd, vs2, vm", vector_code(0x13, opfvv) | field(19, 15, 0x10), "float-simple", classify,
              rule(one_group, one_group), "One bit for the kind of number.");
  constexpr auto merges = by_formats([]<class F>() -> Execute { return &merge<F>; });
  const Encoding code = vector_code(0x17, opfvf);
  vector_line(d, "vfmerge.vfm", "vd, vs2, fs1, v0", code | field(25, 25, 0), "float-simple", merges,
              rule(one_group, one_group), "Elements or, where the mask says so, the scalar.");
  vector_line(d, "vfmv.v.f", "vd, fs1", code | field(25, 25, 1) | field(24, 20, 0), "move", merges,
              rule(one_group, no_group), "Copies of a scalar.");
}

}  // namespace vector_float_compare

void declare_vector_float_compare(Declarations& d) {
  using namespace vector_float_compare;
  d.extension = "V", d.unit = Unit::arithmetic, d.traits = 0;
  declare_simple<SignOf>(d, "vfsgnj", 0x08, "The signs of other numbers.");
  declare_simple<OppositeSign>(d, "vfsgnjn", 0x09, "The opposite signs of other numbers.");
  declare_simple<SignsDiffer>(d, "vfsgnjx", 0x0A, "The signs' exclusive or.");
  d.traits = sets_flags;
  declare_simple<Smallest>(d, "vfmin", 0x04, "The smaller; a NaN gives way.");
  declare_simple<Largest>(d, "vfmax", 0x06, "The larger; a NaN gives way.");
  declare_relation<equal>(d, "vmfeq", 0x18, "Mask of equal elements; only signalling NaNs signal.");
  declare_relation<less_equal>(d, "vmfle", 0x19, "Mask of smaller or equal elements; NaNs signal.");
  declare_relation<less>(d, "vmflt", 0x1B, "Mask of smaller elements; NaNs signal.");
  declare_relation<unequal>(d, "vmfne", 0x1C, "Mask of unequal elements; only signalling NaNs signal.");
  declare_relation<greater, false>(d, "vmfgt", 0x1D, "Mask of larger elements; NaNs signal.");
  declare_relation<greater_equal, false>(d, "vmfge", 0x1F, "Mask of larger or equal elements; NaNs signal.");
  declare_others(d);
}

}  // namespace tilesim::isa
