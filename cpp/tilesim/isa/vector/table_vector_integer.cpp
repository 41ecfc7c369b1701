// Integer arithmetic on elements of one width: sums, bits, shifts, extremes, products, quotients.
#include <limits>

#include "tilesim/isa/vector/elements.hpp"

namespace tilesim::isa {

namespace vector_integer {

// NAME.of(vs2 element, vs1 element or scalar[, old vd element])
#define ELEMENT(name, ...)                \
  struct name {                           \
    template <class T>                    \
    static constexpr T of(T a, T b) {     \
      return static_cast<T>(__VA_ARGS__); \
    }                                     \
  }
#define ELEMENT3(name, ...)                \
  struct name {                            \
    template <class T>                     \
    static constexpr T of(T a, T b, T d) { \
      return static_cast<T>(__VA_ARGS__);  \
    }                                      \
  }

/// The low bits of a shift amount.
template <class T>
constexpr unsigned amount(T b) {
  return static_cast<unsigned>(b & (8 * sizeof(T) - 1));
}

ELEMENT(Add, a + b);
ELEMENT(Subtract, a - b);
ELEMENT(ReverseSubtract, b - a);
ELEMENT(Least, a < b ? a : b);
ELEMENT(Most, a < b ? b : a);
ELEMENT(And, a& b);
ELEMENT(Or, a | b);
ELEMENT(Xor, a ^ b);
ELEMENT(ShiftLeft, a << amount(b));
ELEMENT(ShiftRight, a >> amount(b));

// 1U: elements narrower than int are multiplied as unsigned
ELEMENT(Multiply, 1U * a * b);
ELEMENT3(MultiplyAdd, 1U * b * d + a);
ELEMENT3(NegatedMultiplySubtract, a - 1U * b * d);
ELEMENT3(MultiplyAccumulate, d + 1U * a * b);
ELEMENT3(NegatedMultiplyAccumulate, d - 1U * a * b);
#undef ELEMENT
#undef ELEMENT3

struct High {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b) >> 8 * sizeof(T));
  }
};

/// vs2 is signed, the other factor unsigned.
struct HighMixed {
  template <class T>
  static T of(T a, T b) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Twice<T>>(a) * static_cast<Twice<T>>(static_cast<U>(b)) >> 8 * sizeof(T));
  }
};

struct Quotient {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a));
    return static_cast<T>(a / b);
  }
};

struct Remainder {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return static_cast<T>(a % b);
  }
};

void declare_plain(Declarations& d) {
  constexpr unsigned all = form_vv | form_vx | form_vi, scalars = form_vx | form_vi, no_constant = form_vv | form_vx;
  family<Add, unsigned_types>(d, {"vadd", 0x00, all, "integer", "Sums."});
  family<Subtract, unsigned_types>(d, {"vsub", 0x02, no_constant, "integer", "Differences."});
  family<ReverseSubtract, unsigned_types>(d, {"vrsub", 0x03, scalars, "integer", "Differences, the scalar first."});
  family<Least, unsigned_types>(d, {"vminu", 0x04, no_constant, "integer", "The smaller, unsigned."});
  family<Least, signed_types>(d, {"vmin", 0x05, no_constant, "integer", "The smaller."});
  family<Most, unsigned_types>(d, {"vmaxu", 0x06, no_constant, "integer", "The larger, unsigned."});
  family<Most, signed_types>(d, {"vmax", 0x07, no_constant, "integer", "The larger."});
  family<And, unsigned_types>(d, {"vand", 0x09, all, "integer", "And, bit by bit."});
  family<Or, unsigned_types>(d, {"vor", 0x0A, all, "integer", "Or, bit by bit."});
  family<Xor, unsigned_types>(d, {"vxor", 0x0B, all, "integer", "Exclusive or, bit by bit."});
  family<ShiftLeft, unsigned_types>(d, {"vsll", 0x25, all, "shift", "Shifts left.", "zimm5"});
  family<ShiftRight, unsigned_types>(d, {"vsrl", 0x28, all, "shift", "Shifts right, zeros from above.", "zimm5"});
  family<ShiftRight, signed_types>(d, {"vsra", 0x29, all, "shift", "Shifts right, sign bits from above.", "zimm5"});
}

void declare_products(Declarations& d) {
  constexpr unsigned both = form_vv | form_vx;
  const auto line = [](const char* name, u32 funct6, const char* timing, const char* description) {
    return Family{name, funct6, both, timing, description, "", opmvv};
  };
  family<Quotient, unsigned_types>(d, line("vdivu", 0x20, "divide", "Quotients, unsigned."));
  family<Quotient, signed_types>(d, line("vdiv", 0x21, "divide", "Quotients towards zero."));
  family<Remainder, unsigned_types>(d, line("vremu", 0x22, "divide", "Remainders, unsigned."));
  family<Remainder, signed_types>(d, line("vrem", 0x23, "divide", "Remainders, with the dividend's sign."));
  family<High, unsigned_types>(d, line("vmulhu", 0x24, "multiply", "High halves of products, unsigned."));
  family<Multiply, unsigned_types>(d, line("vmul", 0x25, "multiply", "Low halves of products."));
  family<HighMixed, signed_types>(d, line("vmulhsu", 0x26, "multiply", "High halves of signed times unsigned."));
  family<High, signed_types>(d, line("vmulh", 0x27, "multiply", "High halves of products."));
  d.traits = reads_vd;
  family<MultiplyAdd, unsigned_types>(d, line("vmadd", 0x29, "multiply", "vd times a number, plus vs2."));
  family<NegatedMultiplySubtract, unsigned_types>(d, line("vnmsub", 0x2B, "multiply", "vs2 less vd times a number."));
  family<MultiplyAccumulate, unsigned_types>(d, line("vmacc", 0x2D, "multiply", "Adds products to vd."));
  family<NegatedMultiplyAccumulate, unsigned_types>(d, line("vnmsac", 0x2F, "multiply", "Subtracts products from vd."));
  d.traits = 0;
}

/// vmerge: the second operand where the mask is set, otherwise vs2; vmv.v: the second operand everywhere.
template <class T, bool scalar>
void merge(Hart& h, const Op& o) {
  T* d = h.v.at<T>(o.rd);
  const T *a = h.v.at<T>(o.rs2), *b = h.v.at<T>(o.rs1);
  const T x = scalar ? scalar_operand<T>(h, o) : T{0};
  const u64 vl = h.v.vl;
  const bool move = o.rm != 0;
  const u8* mask = h.v.at<u8>(0);
  if (move)
    for (u64 i = 0; i < vl; ++i) d[i] = scalar ? x : b[i];
  else
    for (u64 i = 0; i < vl; ++i) d[i] = (mask[i >> 3] >> (i & 7) & 1) == 0 ? a[i] : scalar ? x : b[i];
}

void declare_merges(Declarations& d) {
  constexpr auto vectors = by_widths<unsigned_types>([]<class T>() -> Execute { return &merge<T, false>; });
  constexpr auto scalars = by_widths<unsigned_types>([]<class T>() -> Execute { return &merge<T, true>; });
  struct Form {
    const char *letter, *operand;
    VectorForm form;
  };
  for (const Form& f : {Form{"v", "vs1", opivv}, Form{"x", "rs1", opivx}, Form{"i", "simm5", opivi}}) {
    const bool vector = f.form == opivv;
    const Group second = vector ? one_group : no_group;
    const Encoding code = vector_code(0x17, f.form);
    vector_line(d, std::string("vmerge.v") + f.letter + "m", std::string("vd, vs2, ") + f.operand + ", v0",
                code | field(25, 25, 0), "integer", vector ? vectors : scalars, rule(one_group, one_group, second),
                "Elements of one source or, where the mask says so, of the other.");
    vector_line(d, std::string("vmv.v.") + f.letter, std::string("vd, ") + f.operand,
                code | field(25, 25, 1) | field(24, 20, 0), "move", vector ? vectors : scalars,
                rule(one_group, no_group, second), "Copies.");
  }
}

}  // namespace vector_integer

void declare_vector_integer(Declarations& d) {
  d.extension = "V", d.unit = Unit::arithmetic, d.traits = 0;
  vector_integer::declare_plain(d);
  vector_integer::declare_products(d);
  vector_integer::declare_merges(d);
}

}  // namespace tilesim::isa
