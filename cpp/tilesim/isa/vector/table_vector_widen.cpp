// Integer instructions whose results are wider or narrower than their sources.
#include "tilesim/isa/vector/elements.hpp"

namespace tilesim::isa {

namespace vector_widen {

struct Add {
  template <class D, class A, class B>
  static D of(A a, B b) {
    using U = std::make_unsigned_t<D>;  // sums wrap around
    return static_cast<D>(static_cast<U>(D{a}) + static_cast<U>(D{b}));
  }
};
struct Subtract {
  template <class D, class A, class B>
  static D of(A a, B b) {
    using U = std::make_unsigned_t<D>;  // sums wrap around
    return static_cast<D>(static_cast<U>(D{a}) - static_cast<U>(D{b}));
  }
};

/// Extends a factor with or without sign, independently of its type.
template <class D, bool is_signed, class A>
constexpr D factor(A a) {
  using Same = typename IntegerOf<sizeof(A), is_signed>::Type;
  return static_cast<D>(static_cast<Same>(a));
}

template <bool a_signed, bool b_signed>
struct Multiply {
  template <class D, class A>
  static D of(A a, A b) {
    using U = std::make_unsigned_t<D>;
    return static_cast<D>(1U * factor<U, a_signed>(a) * factor<U, b_signed>(b));
  }
};

template <bool a_signed, bool b_signed>
struct Accumulate {
  template <class D, class A>
  static D of(A a, A b, D d) {
    using U = std::make_unsigned_t<D>;
    return static_cast<D>(static_cast<U>(d) + 1U * factor<U, a_signed>(a) * factor<U, b_signed>(b));
  }
};

struct ShiftRight {
  template <class D, class A>
  static D of(A a, D b) {
    return static_cast<D>(a >> (static_cast<unsigned>(b) & (8 * sizeof(A) - 1)));
  }
};

void declare_sums(Declarations& d) {
  const auto line = [](const char* name, u32 funct6, const char* description) {
    return Family{name, funct6, form_vv | form_vx, "integer-widening", description, "", opmvv};
  };
  family<Add, unsigned_types, Widening>(d, line("vwaddu", 0x30, "Sums of twice the width, unsigned."));
  family<Add, signed_types, Widening>(d, line("vwadd", 0x31, "Sums of twice the width."));
  family<Subtract, unsigned_types, Widening>(d, line("vwsubu", 0x32, "Differences of twice the width, unsigned."));
  family<Subtract, signed_types, Widening>(d, line("vwsub", 0x33, "Differences of twice the width."));
  family<Add, unsigned_types, WideFirst>(d, line("vwaddu", 0x34, "Adds to elements of twice the width, unsigned."));
  family<Add, signed_types, WideFirst>(d, line("vwadd", 0x35, "Adds to elements of twice the width."));
  family<Subtract, unsigned_types, WideFirst>(
      d, line("vwsubu", 0x36, "Subtracts from elements of twice the width, unsigned."));
  family<Subtract, signed_types, WideFirst>(d, line("vwsub", 0x37, "Subtracts from elements of twice the width."));
}

void declare_products(Declarations& d) {
  const auto line = [](const char* name, u32 funct6, const char* description, unsigned forms = form_vv | form_vx) {
    return Family{name, funct6, forms, "multiply-widening", description, "", opmvv};
  };
  family<Multiply<false, false>, unsigned_types, Widening>(d, line("vwmulu", 0x38, "Whole products, unsigned."));
  family<Multiply<true, false>, signed_types, Widening>(d, line("vwmulsu", 0x3A, "Whole products, vs2 signed."));
  family<Multiply<true, true>, signed_types, Widening>(d, line("vwmul", 0x3B, "Whole products."));
  d.traits = reads_vd;
  family<Accumulate<false, false>, unsigned_types, Widening>(
      d, line("vwmaccu", 0x3C, "Adds whole products to vd, unsigned."));
  family<Accumulate<true, true>, signed_types, Widening>(d, line("vwmacc", 0x3D, "Adds whole products to vd."));
  family<Accumulate<true, false>, signed_types, Widening>(
      d, line("vwmaccus", 0x3E, "Adds whole products to vd, the scalar unsigned.", form_vx));
  family<Accumulate<false, true>, signed_types, Widening>(
      d, line("vwmaccsu", 0x3F, "Adds whole products to vd, vs2 unsigned."));
  d.traits = 0;
}

/// Extends elements of a fraction of the width.
template <class D, unsigned fraction>
void extend(Hart& h, const Op& o) {
  using A = typename IntegerOf<sizeof(D) / fraction, std::is_signed_v<D>>::Type;
  D* d = h.v.at<D>(o.rd);
  const A* a = source<A, D>(h, o, o.rs2, 0);
  each(h, o, [=](u64 i) { d[i] = static_cast<D>(a[i]); });
}

template <class Types, unsigned fraction>
void declare_extension(Declarations& d, u32 code) {
  constexpr auto by_width = by_widths<Types>([]<class D>() -> Execute {
    if constexpr (sizeof(D) >= fraction)
      return &extend<D, fraction>;
    else
      return nullptr;
  });
  const bool is_signed = (code & 1) != 0;
  vector_line(d, std::string(is_signed ? "vsext" : "vzext") + ".vf" + std::to_string(fraction), "vd, vs2, vm",
              vector_code(0x12, opmvv) | field(19, 15, code), "integer-widening", by_width,
              rule(one_group, part_group(std::countr_zero(fraction))),
              is_signed ? "Widens with sign bits." : "Widens with zeros.");
}

}  // namespace vector_widen

void declare_vector_widen(Declarations& d) {
  using namespace vector_widen;
  d.extension = "V", d.unit = Unit::arithmetic, d.traits = 0;
  declare_sums(d);
  declare_products(d);
  declare_extension<unsigned_types, 8>(d, 2);
  declare_extension<signed_types, 8>(d, 3);
  declare_extension<unsigned_types, 4>(d, 4);
  declare_extension<signed_types, 4>(d, 5);
  declare_extension<unsigned_types, 2>(d, 6);
  declare_extension<signed_types, 2>(d, 7);
  constexpr unsigned all = form_vv | form_vx | form_vi;
  family<ShiftRight, unsigned_types, Narrowing>(
      d, {"vnsrl", 0x2C, all, "narrowing", "Shifts right into half the width, zeros from above.", "zimm5"});
  family<ShiftRight, signed_types, Narrowing>(
      d, {"vnsra", 0x2D, all, "narrowing", "Shifts right into half the width, sign bits from above.", "zimm5"});
}

}  // namespace tilesim::isa
