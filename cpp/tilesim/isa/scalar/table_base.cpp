// RV64I without system instructions.
#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

namespace {

template <class T>
void load(Hart& h, const Op& o) {
  h.x[o.rd] = static_cast<u64>(static_cast<s64>(h.memory->load<T>(h.x[o.rs1] + static_cast<u64>(o.imm))));
}

template <class T>
void store(Hart& h, const Op& o) {
  h.memory->store<T>(h.x[o.rs1] + static_cast<u64>(o.imm), static_cast<T>(h.x[o.rs2]));
}

void registers(Declarations& d) {
  const char* three = "rd, rs1, rs2";
  d("add", three, with7(op_reg, 0, 0), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] + h.x[o.rs2]), "Sum.");
  d("sub", three, with7(op_reg, 0, 0x20), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] - h.x[o.rs2]), "Difference.");
  d("sll", three, with7(op_reg, 1, 0), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] << (h.x[o.rs2] & 63)), "Shift left.");
  d("slt", three, with7(op_reg, 2, 0), "integer", MEANS(h.x[o.rd] = sign(h.x[o.rs1]) < sign(h.x[o.rs2])),
    "One if less, signed.");
  d("sltu", three, with7(op_reg, 3, 0), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] < h.x[o.rs2]),
    "One if less, unsigned.");
  d("xor", three, with7(op_reg, 4, 0), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] ^ h.x[o.rs2]), "Exclusive or.");
  d("srl", three, with7(op_reg, 5, 0), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] >> (h.x[o.rs2] & 63)),
    "Shift right, zeros in.");
  d("sra", three, with7(op_reg, 5, 0x20), "integer",
    MEANS(h.x[o.rd] = static_cast<u64>(sign(h.x[o.rs1]) >> (h.x[o.rs2] & 63))), "Shift right, signs in.");
  d("or", three, with7(op_reg, 6, 0), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] | h.x[o.rs2]), "Or.");
  d("and", three, with7(op_reg, 7, 0), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] & h.x[o.rs2]), "And.");
  d("addw", three, with7(op_reg32, 0, 0), "integer", MEANS(h.x[o.rd] = word(h.x[o.rs1] + h.x[o.rs2])), "Sum of words.");
  d("subw", three, with7(op_reg32, 0, 0x20), "integer", MEANS(h.x[o.rd] = word(h.x[o.rs1] - h.x[o.rs2])),
    "Difference of words.");
  d("sllw", three, with7(op_reg32, 1, 0), "integer", MEANS(h.x[o.rd] = word(h.x[o.rs1] << (h.x[o.rs2] & 31))),
    "Shift of a word left.");
  d("srlw", three, with7(op_reg32, 5, 0), "integer",
    MEANS(h.x[o.rd] = word(static_cast<u32>(h.x[o.rs1]) >> (h.x[o.rs2] & 31))), "Shift of a word right, zeros in.");
  d("sraw", three, with7(op_reg32, 5, 0x20), "integer",
    MEANS(h.x[o.rd] = word(static_cast<u64>(static_cast<s32>(h.x[o.rs1]) >> (h.x[o.rs2] & 31)))),
    "Shift of a word right, signs in.");
}

void immediates(Declarations& d) {
  const char *with = "rd, rs1, i12", *by = "rd, rs1, shamt6", *by32 = "rd, rs1, shamt5";
  d("addi", with, with3(op_imm, 0), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] + static_cast<u64>(o.imm)),
    "Sum with a constant.");
  d("slti", with, with3(op_imm, 2), "integer", MEANS(h.x[o.rd] = sign(h.x[o.rs1]) < o.imm),
    "One if less than a constant, signed.");
  d("sltiu", with, with3(op_imm, 3), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] < static_cast<u64>(o.imm)),
    "One if less than a constant, unsigned.");
  d("xori", with, with3(op_imm, 4), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] ^ static_cast<u64>(o.imm)),
    "Exclusive or with a constant.");
  d("ori", with, with3(op_imm, 6), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] | static_cast<u64>(o.imm)),
    "Or with a constant.");
  d("andi", with, with3(op_imm, 7), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] & static_cast<u64>(o.imm)),
    "And with a constant.");
  d("slli", by, with6(op_imm, 1, 0), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] << o.imm), "Shift left.");
  d("srli", by, with6(op_imm, 5, 0), "integer", MEANS(h.x[o.rd] = h.x[o.rs1] >> o.imm), "Shift right, zeros in.");
  d("srai", by, with6(op_imm, 5, 0x10), "integer", MEANS(h.x[o.rd] = static_cast<u64>(sign(h.x[o.rs1]) >> o.imm)),
    "Shift right, signs in.");
  d("addiw", with, with3(op_imm32, 0), "integer", MEANS(h.x[o.rd] = word(h.x[o.rs1] + static_cast<u64>(o.imm))),
    "Sum of a word with a constant.");
  d("slliw", by32, with7(op_imm32, 1, 0), "integer", MEANS(h.x[o.rd] = word(h.x[o.rs1] << o.imm)),
    "Shift of a word left.");
  d("srliw", by32, with7(op_imm32, 5, 0), "integer", MEANS(h.x[o.rd] = word(static_cast<u32>(h.x[o.rs1]) >> o.imm)),
    "Shift of a word right, zeros in.");
  d("sraiw", by32, with7(op_imm32, 5, 0x20), "integer",
    MEANS(h.x[o.rd] = word(static_cast<u64>(static_cast<s32>(h.x[o.rs1]) >> o.imm))),
    "Shift of a word right, signs in.");
  d("lui", "rd, u20", opcode(op_lui), "integer", MEANS(h.x[o.rd] = static_cast<u64>(o.imm)),
    "The upper 20 of 32 bits.");
  d("auipc", "rd, u20", opcode(op_auipc), "integer", MEANS(h.x[o.rd] = o.pc + static_cast<u64>(o.imm)),
    "An address relative to this instruction's.");
}

void jumps(Declarations& d) {
  const char* operands = "rs1, rs2, b13";
  d.traits = ends_block | is_branch;
  d("beq", operands, with3(op_branch, 0), "branch",
    MEANS(if (h.x[o.rs1] == h.x[o.rs2]) h.pc = o.pc + static_cast<u64>(o.imm)), "Branch if equal.");
  d("bne", operands, with3(op_branch, 1), "branch",
    MEANS(if (h.x[o.rs1] != h.x[o.rs2]) h.pc = o.pc + static_cast<u64>(o.imm)), "Branch if not equal.");
  d("blt", operands, with3(op_branch, 4), "branch",
    MEANS(if (sign(h.x[o.rs1]) < sign(h.x[o.rs2])) h.pc = o.pc + static_cast<u64>(o.imm)), "Branch if less, signed.");
  d("bge", operands, with3(op_branch, 5), "branch",
    MEANS(if (sign(h.x[o.rs1]) >= sign(h.x[o.rs2])) h.pc = o.pc + static_cast<u64>(o.imm)),
    "Branch if not less, signed.");
  d("bltu", operands, with3(op_branch, 6), "branch",
    MEANS(if (h.x[o.rs1] < h.x[o.rs2]) h.pc = o.pc + static_cast<u64>(o.imm)), "Branch if less, unsigned.");
  d("bgeu", operands, with3(op_branch, 7), "branch",
    MEANS(if (h.x[o.rs1] >= h.x[o.rs2]) h.pc = o.pc + static_cast<u64>(o.imm)), "Branch if not less, unsigned.");
  d.traits = ends_block | is_jump;
  d("jal", "rd, j21", opcode(op_jal), "jump", MEANS(h.x[o.rd] = o.pc + o.length; h.pc = o.pc + static_cast<u64>(o.imm)),
    "Jump, and the address of what follows.");
  d("jalr", "rd, i12(rs1)", with3(op_jalr, 0), "jump",
    MEANS(const u64 to = (h.x[o.rs1] + static_cast<u64>(o.imm)) & ~u64{1}; h.x[o.rd] = o.pc + o.length; h.pc = to),
    "Jump to a register, and the address of what follows.");
  d.traits = 0;
}

void memory(Declarations& d) {
  d.unit = Unit::load, d.traits = is_load;
  d("lb", "rd, i12(rs1)", with3(op_load, 0), "load", load<s8>, "Byte from memory, signed.");
  d("lh", "rd, i12(rs1)", with3(op_load, 1), "load", load<s16>, "Half word from memory, signed.");
  d("lw", "rd, i12(rs1)", with3(op_load, 2), "load", load<s32>, "Word from memory, signed.");
  d("ld", "rd, i12(rs1)", with3(op_load, 3), "load", load<s64>, "Double word from memory.");
  d("lbu", "rd, i12(rs1)", with3(op_load, 4), "load", load<u8>, "Byte from memory.");
  d("lhu", "rd, i12(rs1)", with3(op_load, 5), "load", load<u16>, "Half word from memory.");
  d("lwu", "rd, i12(rs1)", with3(op_load, 6), "load", load<u32>, "Word from memory.");
  d.unit = Unit::store, d.traits = is_store;
  d("sb", "rs2, s12(rs1)", with3(op_store, 0), "store", store<u8>, "Byte to memory.");
  d("sh", "rs2, s12(rs1)", with3(op_store, 1), "store", store<u16>, "Half word to memory.");
  d("sw", "rs2, s12(rs1)", with3(op_store, 2), "store", store<u32>, "Word to memory.");
  d("sd", "rs2, s12(rs1)", with3(op_store, 3), "store", store<u64>, "Double word to memory.");
  d.unit = Unit::scalar, d.traits = 0;
}

}  // namespace

void declare_base(Declarations& d) {
  d.extension = "I", d.unit = Unit::scalar, d.traits = 0;
  registers(d);
  immediates(d);
  jumps(d);
  memory(d);
}

}  // namespace tilesim::isa
