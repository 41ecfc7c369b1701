// Fields of 32-bit encodings (unprivileged architecture, chapter "RV32/64G instruction set listings").
#pragma once

#include "tilesim/isa/table/instruction.hpp"

namespace tilesim::isa {

inline constexpr std::uint32_t op_load = 0x03, op_load_fp = 0x07, op_misc = 0x0F, op_imm = 0x13, op_auipc = 0x17,
                               op_imm32 = 0x1B, op_store = 0x23, op_store_fp = 0x27, op_amo = 0x2F, op_reg = 0x33,
                               op_lui = 0x37, op_reg32 = 0x3B, op_fp = 0x53, op_v = 0x57, op_branch = 0x63,
                               op_jalr = 0x67, op_jal = 0x6F, op_system = 0x73;

/// Encoding with `value` in bits high … low.
constexpr Encoding field(unsigned high, unsigned low, std::uint32_t value) {
  const std::uint32_t ones = static_cast<std::uint32_t>((std::uint64_t{1} << (high - low + 1)) - 1);
  return {(value & ones) << low, ones << low};
}

/// Combines the fields of both.
constexpr Encoding operator|(Encoding a, Encoding b) { return {a.match | b.match, a.mask | b.mask}; }

constexpr Encoding opcode(std::uint32_t op) { return field(6, 0, op); }
constexpr Encoding with3(std::uint32_t op, std::uint32_t funct3) { return opcode(op) | field(14, 12, funct3); }
constexpr Encoding with7(std::uint32_t op, std::uint32_t funct3, std::uint32_t funct7) {
  return with3(op, funct3) | field(31, 25, funct7);
}
/// A shift or bit instruction with a six-bit amount.
constexpr Encoding with6(std::uint32_t op, std::uint32_t funct3, std::uint32_t funct6) {
  return with3(op, funct3) | field(31, 26, funct6);
}
/// An instruction with one source: the rs2 field is part of the code.
constexpr Encoding with12(std::uint32_t op, std::uint32_t funct3, std::uint32_t top) {
  return with3(op, funct3) | field(31, 20, top);
}

/// funct3 of OP-V.
enum VectorForm : std::uint8_t { opivv = 0, opfvv = 1, opmvv = 2, opivi = 3, opivx = 4, opfvf = 5, opmvx = 6 };

/// An OP-V arithmetic instruction; vm is an operand.
constexpr Encoding vector_code(std::uint32_t funct6, VectorForm form) {
  return with3(op_v, form) | field(31, 26, funct6);
}

}  // namespace tilesim::isa
