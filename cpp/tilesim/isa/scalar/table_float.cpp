// F, D and Zfh: arithmetic, loads, comparisons, moves.
#include "tilesim/isa/table/float.hpp"

namespace tilesim::isa {

void declare_conversions(Declarations& d);

namespace {

struct FloatSum {
  template <class T>
  static T host(T a, T b) {
    return a + b;
  }
  static constexpr auto exact = soft::add;
};
struct Difference {
  template <class T>
  static T host(T a, T b) {
    return a - b;
  }
  static constexpr auto exact = soft::subtract;
};
struct Product {
  template <class T>
  static T host(T a, T b) {
    return a * b;
  }
  static constexpr auto exact = soft::multiply;
};
struct Quotient {
  template <class T>
  static T host(T a, T b) {
    return a / b;
  }
  static constexpr auto exact = soft::divide;
};

template <class F, class Operation>
void binary(Hart& h, const Op& o) {
  const Round mode = rounding(h, o);
  const auto a = unbox<F>(h.f[o.rs1]), b = unbox<F>(h.f[o.rs2]);
  if constexpr (F::host)
    if (mode == h.host) [[likely]] {
      using Value = typename F::Value;
      h.f[o.rd] = box<F>(canonical<F>(Operation::host(std::bit_cast<Value>(a), std::bit_cast<Value>(b))));
      return;
    }
  h.f[o.rd] = box<F>(Operation::exact(F::format, a, b, mode, h.fflags));
}

template <class F>
void square_root(Hart& h, const Op& o) {
  const Round mode = rounding(h, o);
  const auto a = unbox<F>(h.f[o.rs1]);
  if constexpr (F::host)
    if (mode == h.host) [[likely]] {
      h.f[o.rd] = box<F>(canonical<F>(std::sqrt(std::bit_cast<typename F::Value>(a))));
      return;
    }
  h.f[o.rd] = box<F>(soft::square_root(F::format, a, mode, h.fflags));
}

/// ±(a · b) ± c with one rounding.
template <class F, bool minus_product, bool minus_c>
void fused(Hart& h, const Op& o) {
  const Round mode = rounding(h, o);
  using Bits = typename F::Bits;
  constexpr auto sign_bit = static_cast<Bits>(F::format.sign());
  const auto a = static_cast<Bits>(unbox<F>(h.f[o.rs1]) ^ (minus_product ? sign_bit : Bits{0}));
  const auto b = unbox<F>(h.f[o.rs2]);
  const auto c = static_cast<Bits>(unbox<F>(h.f[o.rs3]) ^ (minus_c ? sign_bit : Bits{0}));
  if constexpr (F::host)
    if (mode == h.host) [[likely]] {
      using Value = typename F::Value;
      const Value value = std::fma(std::bit_cast<Value>(a), std::bit_cast<Value>(b), std::bit_cast<Value>(c));
      // infinity · 0 + NaN is invalid in RISC-V, but not on some host processors
      if (value != value) soft::multiply_add(F::format, a, b, c, mode, h.fflags);
      h.f[o.rd] = box<F>(canonical<F>(value));
      return;
    }
  h.f[o.rd] = box<F>(soft::multiply_add(F::format, a, b, c, mode, h.fflags));
}

template <class F, int kind>
void with_sign(Hart& h, const Op& o) {
  constexpr u64 sign_bit = F::format.sign();
  const u64 a = unbox<F>(h.f[o.rs1]), b = unbox<F>(h.f[o.rs2]);
  const u64 s = kind == 0 ? b : kind == 1 ? ~b : a ^ b;
  h.f[o.rd] = box<F>((a & ~sign_bit) | (s & sign_bit));
}

template <class F, bool largest>
void choose(Hart& h, const Op& o) {
  const u64 a = unbox<F>(h.f[o.rs1]), b = unbox<F>(h.f[o.rs2]);
  h.f[o.rd] = box<F>((largest ? soft::larger : soft::smaller)(F::format, a, b, h.fflags));
}

template <class F>
void loads(Hart& h, const Op& o) {
  h.f[o.rd] = box<F>(h.memory->load<typename F::Bits>(h.x[o.rs1] + static_cast<u64>(o.imm)));
}

template <class F>
void stores(Hart& h, const Op& o) {
  h.memory->store(h.x[o.rs1] + static_cast<u64>(o.imm), static_cast<typename F::Bits>(h.f[o.rs2]));
}

template <class F, auto compare>
void compares(Hart& h, const Op& o) {
  h.x[o.rd] = compare(F::format, unbox<F>(h.f[o.rs1]), unbox<F>(h.f[o.rs2]), h.fflags);
}

constexpr Encoding code(u32 funct5, u32 format) { return opcode(op_fp) | field(31, 25, funct5 << 2 | format); }
constexpr Encoding code3(u32 funct5, u32 format, u32 funct3) { return code(funct5, format) | field(14, 12, funct3); }

template <class F>
void arithmetic(Declarations& d, const std::string& dot) {
  d.traits = sets_flags | reads_rounding;
  const char *two = "fd, fs1, fs2, rm", *three = "fd, fs1, fs2, fs3, rm";
  d("fadd" + dot, two, code(0, F::code), "float-add", binary<F, FloatSum>, "FloatSum.");
  d("fsub" + dot, two, code(1, F::code), "float-add", binary<F, Difference>, "Difference.");
  d("fmul" + dot, two, code(2, F::code), "float-multiply", binary<F, Product>, "Product.");
  d("fdiv" + dot, two, code(3, F::code), "float-divide", binary<F, Quotient>, "Quotient.");
  d("fsqrt" + dot, "fd, fs1, rm", code(0x0B, F::code) | field(24, 20, 0), "float-divide", square_root<F>,
    "Square root.");
  const Encoding format = field(26, 25, F::code);
  d("fmadd" + dot, three, opcode(0x43) | format, "float-fused", fused<F, false, false>, "Product plus a number.");
  d("fmsub" + dot, three, opcode(0x47) | format, "float-fused", fused<F, false, true>, "Product less a number.");
  d("fnmsub" + dot, three, opcode(0x4B) | format, "float-fused", fused<F, true, false>, "A number less a product.");
  d("fnmadd" + dot, three, opcode(0x4F) | format, "float-fused", fused<F, true, true>,
    "Product plus a number, negated.");
}

template <class F>
void comparisons(Declarations& d, const std::string& dot) {
  d.traits = 0;
  const char* two = "fd, fs1, fs2";
  d("fsgnj" + dot, two, code3(4, F::code, 0), "float-simple", with_sign<F, 0>, "The sign of another number.");
  d("fsgnjn" + dot, two, code3(4, F::code, 1), "float-simple", with_sign<F, 1>, "The opposite sign of another number.");
  d("fsgnjx" + dot, two, code3(4, F::code, 2), "float-simple", with_sign<F, 2>, "The signs' exclusive or.");
  d.traits = sets_flags;
  d("fmin" + dot, two, code3(5, F::code, 0), "float-simple", choose<F, false>, "The smaller; a NaN gives way.");
  d("fmax" + dot, two, code3(5, F::code, 1), "float-simple", choose<F, true>, "The larger; a NaN gives way.");
  d("fle" + dot, "rd, fs1, fs2", code3(0x14, F::code, 0), "float-compare", compares<F, soft::less_equal>,
    "One if less or equal; NaNs signal.");
  d("flt" + dot, "rd, fs1, fs2", code3(0x14, F::code, 1), "float-compare", compares<F, soft::less>,
    "One if less; NaNs signal.");
  d("feq" + dot, "rd, fs1, fs2", code3(0x14, F::code, 2), "float-compare", compares<F, soft::equal>,
    "One if equal; only signalling NaNs signal.");
  d.traits = 0;
  d("fclass" + dot, "rd, fs1", code3(0x1C, F::code, 1) | field(24, 20, 0), "float-simple",
    MEANS(h.x[o.rd] = soft::classify(F::format, unbox<F>(h.f[o.rs1]))), "One bit for the kind of number.");
}

template <class F>
void moves(Declarations& d, const char* width, u32 funct3) {
  using Bits = typename F::Bits;
  const std::string w = width;
  d("fmv.x." + w, "rd, fs1", code3(0x1C, F::code, 0) | field(24, 20, 0), "float-move",
    MEANS(h.x[o.rd] = static_cast<u64>(static_cast<s64>(static_cast<std::make_signed_t<Bits>>(h.f[o.rs1])))),
    "Bits of a float.");
  d("fmv." + w + ".x", "fd, rs1", code3(0x1E, F::code, 0) | field(24, 20, 0), "float-move",
    MEANS(h.f[o.rd] = box<F>(static_cast<Bits>(h.x[o.rs1]))), "A float from bits.");
  d.unit = Unit::load, d.traits = is_load;
  d("fl" + w, "fd, i12(rs1)", with3(op_load_fp, funct3), "load", loads<F>, "Float from memory.");
  d.unit = Unit::store, d.traits = is_store;
  d("fs" + w, "fs2, s12(rs1)", with3(op_store_fp, funct3), "store", stores<F>, "Float to memory.");
  d.unit = Unit::scalar, d.traits = 0;
}

template <class F>
void declare_format(Declarations& d, const char* extension, const char* width, u32 funct3) {
  d.extension = extension, d.unit = Unit::scalar;
  const std::string dot = std::string(".") + F::suffix;
  arithmetic<F>(d, dot);
  comparisons<F>(d, dot);
  moves<F>(d, width, funct3);
}

}  // namespace

void declare_float(Declarations& d) {
  declare_format<Single>(d, "F", "w", 2);
  declare_format<Double>(d, "D", "d", 3);
  declare_format<Half>(d, "Zfh", "h", 1);
  declare_conversions(d);
}

}  // namespace tilesim::isa
