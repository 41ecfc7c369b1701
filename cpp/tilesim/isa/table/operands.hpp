// The operand words of the instruction table, with field, register file and range.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilesim/isa/table/instruction.hpp"

namespace tilesim::isa {

/// The kind of an operand in assembler text.
enum class Sort : std::uint8_t { x, f, v, number, offset, csr, rounding, fence, masked, vtype, upper, fixed };

/// The field of an Op that receives the operand.
enum Slot : std::uint8_t { slot_rd = 1, slot_rs1 = 2, slot_rs2 = 4, slot_rs3 = 8, slot_imm = 16, slot_rm = 32 };

/// `width` bits of the value, starting at bit `from`, are in the instruction from bit `at` on.
struct BitSlice { std::uint8_t at, from, width; };

struct OperandWord {
  std::string_view word;
  Sort sort;
  std::uint8_t slots;
  std::vector<BitSlice> slices;
  bool negative = false;                 ///< two's complement
  std::int64_t lowest = 0, highest = 0;  ///< range of the value in assembler text
  std::uint8_t bias = 0;                 ///< of registers: the field contains number − bias
  std::int64_t standard = -1;            ///< value of an omitted operand; −1: the operand is required
  std::int64_t refused = -1;             ///< a value in the range that encodes another instruction; −1: none
};

/// The word with this name; throws InternalError for an unknown word.
const OperandWord& operand_word(std::string_view word);

/// A part of an operand text: a word, or a literal character such as "(".
struct OperandPart {
  const OperandWord* word = nullptr;  ///< null: a literal
  char literal = 0;
  bool comma = false;  ///< a comma precedes it
};
std::vector<OperandPart> operand_parts(const std::string& operands);

std::int64_t operand_value(const OperandWord& word, std::uint32_t bits);
std::uint32_t operand_bits(const OperandWord& word, std::int64_t value);
/// Whether the instruction accepts these operands: compressed encodings use each other's gaps.
bool operands_fit(std::span<const OperandPart> parts, std::uint32_t bits);
std::uint32_t operand_mask(const OperandWord& word);  ///< bits of the operand's field

/// Stores the operands in `bits` to the Op.
void fill_operands(std::span<const OperandPart> parts, std::uint32_t bits, Op& op);

const char* register_name(Sort sort, unsigned number);  ///< "a0", "ft3", "v8"
/// The register of a `Sort::fixed` word: "sp", "v0".
constexpr std::string_view fixed_name(const OperandWord& word) { return word.word.substr(0, 2); }
int register_number(Sort sort, std::string_view name);  ///< −1: unknown register

}  // namespace tilesim::isa
