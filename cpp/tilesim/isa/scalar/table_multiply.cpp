// M: products, quotients and remainders.
#include <limits>

#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

namespace {

/// Division as in the architecture: by 0 all ones; the most negative number by −1 is itself.
template <class T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (std::numeric_limits<T>::is_signed && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1)) return a;
  return static_cast<T>(a / b);
}

template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if (std::numeric_limits<T>::is_signed && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}

template <class T>
u64 extended(T value) {
  return static_cast<u64>(static_cast<s64>(value));
}

template <class T>
void quotient_of(Hart& h, const Op& o) {
  h.x[o.rd] = sizeof(T) == 4 ? word(extended(quotient(static_cast<T>(h.x[o.rs1]), static_cast<T>(h.x[o.rs2]))))
                             : extended(quotient(static_cast<T>(h.x[o.rs1]), static_cast<T>(h.x[o.rs2])));
}

template <class T>
void remainder_of(Hart& h, const Op& o) {
  h.x[o.rd] = sizeof(T) == 4 ? word(extended(remainder(static_cast<T>(h.x[o.rs1]), static_cast<T>(h.x[o.rs2]))))
                             : extended(remainder(static_cast<T>(h.x[o.rs1]), static_cast<T>(h.x[o.rs2])));
}

}  // namespace

void declare_multiply(Declarations& d) {
  d.extension = "M", d.unit = Unit::scalar, d.traits = 0;
  const char* three = "rd, rs1, rs2";
  d("mul", three, with7(op_reg, 0, 1), "multiply", MEANS(h.x[o.rd] = h.x[o.rs1] * h.x[o.rs2]),
    "Product, its low half.");
  d("mulh", three, with7(op_reg, 1, 1), "multiply",
    MEANS(h.x[o.rd] = static_cast<u64>(static_cast<s128>(sign(h.x[o.rs1])) * sign(h.x[o.rs2]) >> 64)),
    "High half of a signed product.");
  d("mulhsu", three, with7(op_reg, 2, 1), "multiply",
    MEANS(h.x[o.rd] = static_cast<u64>(static_cast<s128>(sign(h.x[o.rs1])) * static_cast<s128>(h.x[o.rs2]) >> 64)),
    "High half of a product of signed and unsigned.");
  d("mulhu", three, with7(op_reg, 3, 1), "multiply",
    MEANS(h.x[o.rd] = static_cast<u64>(static_cast<u128>(h.x[o.rs1]) * h.x[o.rs2] >> 64)),
    "High half of an unsigned product.");
  d("mulw", three, with7(op_reg32, 0, 1), "multiply", MEANS(h.x[o.rd] = word(h.x[o.rs1] * h.x[o.rs2])),
    "Product of words.");
  d("div", three, with7(op_reg, 4, 1), "divide", quotient_of<s64>, "Quotient, signed.");
  d("divu", three, with7(op_reg, 5, 1), "divide", quotient_of<u64>, "Quotient, unsigned.");
  d("rem", three, with7(op_reg, 6, 1), "divide", remainder_of<s64>, "Remainder, signed.");
  d("remu", three, with7(op_reg, 7, 1), "divide", remainder_of<u64>, "Remainder, unsigned.");
  d("divw", three, with7(op_reg32, 4, 1), "divide", quotient_of<s32>, "Quotient of words, signed.");
  d("divuw", three, with7(op_reg32, 5, 1), "divide", quotient_of<u32>, "Quotient of words, unsigned.");
  d("remw", three, with7(op_reg32, 6, 1), "divide", remainder_of<s32>, "Remainder of words, signed.");
  d("remuw", three, with7(op_reg32, 7, 1), "divide", remainder_of<u32>, "Remainder of words, unsigned.");
}

}  // namespace tilesim::isa
