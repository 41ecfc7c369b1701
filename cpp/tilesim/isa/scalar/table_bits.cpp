// Zba, Zbb and Zbs.
#include <algorithm>
#include <bit>

#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

namespace {

const char *const three = "rd, rs1, rs2", *const two = "rd, rs1", *const by = "rd, rs1, shamt6";

template <int amount, bool words>
void shift_and_add(Hart& h, const Op& o) {
  h.x[o.rd] = h.x[o.rs2] + ((words ? h.x[o.rs1] & 0xFFFFFFFF : h.x[o.rs1]) << amount);
}

void addresses(Declarations& d) {
  d.extension = "Zba";
  d("add.uw", three, with7(op_reg32, 0, 0x04), "integer", shift_and_add<0, true>, "Sum with an unsigned word.");
  d("sh1add", three, with7(op_reg, 2, 0x10), "integer", shift_and_add<1, false>, "Sum with a shifted index.");
  d("sh2add", three, with7(op_reg, 4, 0x10), "integer", shift_and_add<2, false>, "Sum with a shifted index.");
  d("sh3add", three, with7(op_reg, 6, 0x10), "integer", shift_and_add<3, false>, "Sum with a shifted index.");
  d("sh1add.uw", three, with7(op_reg32, 2, 0x10), "integer", shift_and_add<1, true>,
    "Sum with a shifted unsigned word.");
  d("sh2add.uw", three, with7(op_reg32, 4, 0x10), "integer", shift_and_add<2, true>,
    "Sum with a shifted unsigned word.");
  d("sh3add.uw", three, with7(op_reg32, 6, 0x10), "integer", shift_and_add<3, true>,
    "Sum with a shifted unsigned word.");
  d("slli.uw", by, with6(op_imm32, 1, 0x02), "integer", MEANS(h.x[o.rd] = (h.x[o.rs1] & 0xFFFFFFFF) << o.imm),
    "Shift of an unsigned word left.");
}

void logic(Declarations& d) {
  d.extension = "Zbb";
  d("andn", three, with7(op_reg, 7, 0x20), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] & ~h.x[o.rs2]),
    "And with a complement.");
  d("orn", three, with7(op_reg, 6, 0x20), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] | ~h.x[o.rs2]),
    "Or with a complement.");
  d("xnor", three, with7(op_reg, 4, 0x20), "integer", MEANS(h.x[o.rd] = ~(h.x[o.rs1] ^ h.x[o.rs2])),
    "Complement of the exclusive or.");
  d("clz", two, with12(op_imm, 1, 0x600), "bits", MEANS(h.x[o.rd] = static_cast<u64>(std::countl_zero(h.x[o.rs1]))),
    "Zeros above the highest one.");
  d("ctz", two, with12(op_imm, 1, 0x601), "bits", MEANS(h.x[o.rd] = static_cast<u64>(std::countr_zero(h.x[o.rs1]))),
    "Zeros below the lowest one.");
  d("cpop", two, with12(op_imm, 1, 0x602), "bits", MEANS(h.x[o.rd] = static_cast<u64>(std::popcount(h.x[o.rs1]))),
    "Number of ones.");
  d("clzw", two, with12(op_imm32, 1, 0x600), "bits",
    MEANS(h.x[o.rd] = static_cast<u64>(std::countl_zero(static_cast<u32>(h.x[o.rs1])))),
    "Zeros above the highest one of a word.");
  d("ctzw", two, with12(op_imm32, 1, 0x601), "bits",
    MEANS(h.x[o.rd] = static_cast<u64>(std::countr_zero(static_cast<u32>(h.x[o.rs1])))),
    "Zeros below the lowest one of a word.");
  d("cpopw", two, with12(op_imm32, 1, 0x602), "bits",
    MEANS(h.x[o.rd] = static_cast<u64>(std::popcount(static_cast<u32>(h.x[o.rs1])))), "Number of ones of a word.");
  d("min", three, with7(op_reg, 4, 5), "integer",
    MEANS(h.x[o.rd] = static_cast<u64>(std::min(sign(h.x[o.rs1]), sign(h.x[o.rs2])))), "Smaller, signed.");
  d("minu", three, with7(op_reg, 5, 5), "integer", MEANS(h.x[o.rd] = std::min(h.x[o.rs1], h.x[o.rs2])),
    "Smaller, unsigned.");
  d("max", three, with7(op_reg, 6, 5), "integer",
    MEANS(h.x[o.rd] = static_cast<u64>(std::max(sign(h.x[o.rs1]), sign(h.x[o.rs2])))), "Larger, signed.");
  d("maxu", three, with7(op_reg, 7, 5), "integer", MEANS(h.x[o.rd] = std::max(h.x[o.rs1], h.x[o.rs2])),
    "Larger, unsigned.");
  d("sext.b", two, with12(op_imm, 1, 0x604), "integer",
    MEANS(h.x[o.rd] = static_cast<u64>(s64{static_cast<s8>(h.x[o.rs1])})), "A signed byte.");
  d("sext.h", two, with12(op_imm, 1, 0x605), "integer",
    MEANS(h.x[o.rd] = static_cast<u64>(s64{static_cast<s16>(h.x[o.rs1])})), "A signed half word.");
  d("zext.h", two, with12(op_reg32, 4, 0x080), "integer", MEANS(h.x[o.rd] = static_cast<u16>(h.x[o.rs1])),
    "An unsigned half word.");
}

/// Replaces each nonzero byte by all ones.
u64 bytes_or(u64 value) {
  u64 result = 0;
  for (int i = 0; i < 64; i += 8)
    if ((value >> i & 0xFF) != 0) result |= u64{0xFF} << i;
  return result;
}

void rotations(Declarations& d) {
  d("rol", three, with7(op_reg, 1, 0x30), "integer",
    MEANS(h.x[o.rd] = std::rotl(h.x[o.rs1], static_cast<int>(h.x[o.rs2] & 63))), "Rotated left.");
  d("ror", three, with7(op_reg, 5, 0x30), "integer",
    MEANS(h.x[o.rd] = std::rotr(h.x[o.rs1], static_cast<int>(h.x[o.rs2] & 63))), "Rotated right.");
  d("rori", by, with6(op_imm, 5, 0x18), "integer", MEANS(h.x[o.rd] = std::rotr(h.x[o.rs1], static_cast<int>(o.imm))),
    "Rotated right.");
  d("rolw", three, with7(op_reg32, 1, 0x30), "integer",
    MEANS(h.x[o.rd] = word(std::rotl(static_cast<u32>(h.x[o.rs1]), static_cast<int>(h.x[o.rs2] & 31)))),
    "A word rotated left.");
  d("rorw", three, with7(op_reg32, 5, 0x30), "integer",
    MEANS(h.x[o.rd] = word(std::rotr(static_cast<u32>(h.x[o.rs1]), static_cast<int>(h.x[o.rs2] & 31)))),
    "A word rotated right.");
  d("roriw", "rd, rs1, shamt5", with7(op_imm32, 5, 0x30), "integer",
    MEANS(h.x[o.rd] = word(std::rotr(static_cast<u32>(h.x[o.rs1]), static_cast<int>(o.imm)))), "A word rotated right.");
  d("orc.b", two, with12(op_imm, 5, 0x287), "integer", MEANS(h.x[o.rd] = bytes_or(h.x[o.rs1])),
    "Ones for bytes that are not 0.");
  d("rev8", two, with12(op_imm, 5, 0x6B8), "integer", MEANS(h.x[o.rd] = __builtin_bswap64(h.x[o.rs1])),
    "Bytes in the other order.");
}

struct Clear {
  static u64 apply(u64 a, u64 n) { return a & ~(u64{1} << (n & 63)); }
};
struct Extract {
  static u64 apply(u64 a, u64 n) { return a >> (n & 63) & 1; }
};
struct Invert {
  static u64 apply(u64 a, u64 n) { return a ^ u64{1} << (n & 63); }
};
struct Set {
  static u64 apply(u64 a, u64 n) { return a | u64{1} << (n & 63); }
};

template <class F>
void single_bit(Declarations& d, const std::string& name, u32 funct3, u32 funct6, const char* description) {
  d(name, three, with7(op_reg, funct3, funct6 << 1), "integer", MEANS(h.x[o.rd] = F::apply(h.x[o.rs1], h.x[o.rs2])),
    description);
  d(name + "i", by, with6(op_imm, funct3, funct6), "integer",
    MEANS(h.x[o.rd] = F::apply(h.x[o.rs1], static_cast<u64>(o.imm))), description);
}

}  // namespace

void declare_bits(Declarations& d) {
  d.unit = Unit::scalar, d.traits = 0;
  addresses(d);
  logic(d);
  rotations(d);
  d.extension = "Zbs";
  single_bit<Clear>(d, "bclr", 1, 0x12, "A bit becomes 0.");
  single_bit<Extract>(d, "bext", 5, 0x12, "A bit.");
  single_bit<Invert>(d, "binv", 1, 0x1A, "A bit changes.");
  single_bit<Set>(d, "bset", 1, 0x0A, "A bit becomes 1.");
}

}  // namespace tilesim::isa
