// The operand words of the instruction table: field, register file and range of each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilesim/isa/table/instruction.hpp"

namespace tilesim::isa {

/// What an operand is in the assembler's text.
enum class Sort : std::uint8_t { x, f, v, number, offset, csr, rounding, fence, masked, vtype, upper, fixed };

/// Where an operand goes in an Op.
enum Slot : std::uint8_t { slot_rd = 1, slot_rs1 = 2, slot_rs2 = 4, slot_rs3 = 8, slot_imm = 16, slot_rm = 32 };

/// `width` bits of the value from its bit `from` on stand in the instruction from bit `at` on.
struct BitSlice { std::uint8_t at, from, width; };

struct OperandWord {
  std::string_view word;
  Sort sort;
  std::uint8_t slots;
  std::vector<BitSlice> slices;
  bool negative = false;                 ///< two's complement
  std::int64_t lowest = 0, highest = 0;  ///< of the value, as the assembler takes it
  std::uint8_t bias = 0;                 ///< registers: the field holds number − bias
  std::int64_t standard = -1;            ///< value of an operand that is left out; −1: it must be there
  std::int64_t refused = -1;             ///< a value in the range that is another instruction's code; −1: none
};

/// The word; InternalError for one that is not in the list.
const OperandWord& operand_word(std::string_view word);

/// An operand text in parts: words and, between them, what is written as it is ("(", ")").
struct OperandPart {
  const OperandWord* word = nullptr;  ///< null: a literal
  char literal = 0;
  bool comma = false;  ///< before it
};
std::vector<OperandPart> operand_parts(const std::string& operands);

std::int64_t operand_value(const OperandWord& word, std::uint32_t bits);
std::uint32_t operand_bits(const OperandWord& word, std::int64_t value);
/// Whether the operands are what the instruction takes: codes of compressed instructions lie in each other's gaps.
bool operands_fit(std::span<const OperandPart> parts, std::uint32_t bits);
std::uint32_t operand_mask(const OperandWord& word);  ///< bits that the operand fills

/// Puts all operands of `info` that stand in `bits` into the Op.
void fill_operands(std::span<const OperandPart> parts, std::uint32_t bits, Op& op);

const char* register_name(Sort sort, unsigned number);  ///< "a0", "ft3", "v8"
/// The register of a `Sort::fixed` word: "sp", "v0".
constexpr std::string_view fixed_name(const OperandWord& word) { return word.word.substr(0, 2); }
int register_number(Sort sort, std::string_view name);  ///< −1: no such

}  // namespace tilesim::isa
