#include "tilesim/isa/text/disassemble.hpp"

#include <array>
#include <cstdio>

#include "tilesim/isa/state/csr.hpp"
#include "tilesim/isa/table/reserved.hpp"

namespace tilesim::isa {

namespace {

std::string hex(const char* before, std::uint32_t bits) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%s0x%x", before, bits);
  return text.data();
}

std::string fence_text(unsigned value) {
  std::string text;
  for (int i = 3; i >= 0; --i)
    if ((value >> i & 1) != 0) text += "wroi"[i];
  return text.empty() ? "0" : text;
}

std::string csr_text(unsigned number) {
  const std::string_view name = csr_name(number);
  return name.empty() ? hex("", number) : std::string(name);
}

/// Text of an operand; empty: omitted.
std::string operand_text(const OperandWord& word, std::int64_t value) {
  const auto number = static_cast<unsigned>(value);
  switch (word.sort) {
    case Sort::x:
    case Sort::f:
    case Sort::v:
      return register_name(word.sort, number);
    case Sort::csr:
      return csr_text(number);
    case Sort::rounding:
      return value == word.standard ? "" : rounding_name(number);
    case Sort::fence:
      return fence_text(number);
    case Sort::masked:
      return value != 0 ? "" : "v0.t";
    case Sort::vtype:
      return vtype_text(number);
    case Sort::upper:
      return std::to_string(number & 0xFFFFF);
    case Sort::fixed:
      return std::string(fixed_name(word));
    default:
      return word.standard >= 0 && value == word.standard ? "" : std::to_string(value);
  }
}

}  // namespace

const char* rounding_name(unsigned mode) {
  static const char* const names[] = {"rne", "rtz", "rdn", "rup", "rmm", nullptr, nullptr, "dyn"};
  return mode < 8 ? names[mode] : nullptr;
}

std::string vtype_text(std::uint64_t value) {
  static const char* const groups[] = {"m1", "m2", "m4", "m8", nullptr, "mf8", "mf4", "mf2"};
  if ((value >> 8) != 0 || (value >> 3 & 7) > 3 || groups[value & 7] == nullptr) return std::to_string(value);
  return "e" + std::to_string(8 << (value >> 3 & 7)) + ", " + groups[value & 7] +
         ((value & 64) != 0 ? ", ta" : ", tu") + ((value & 128) != 0 ? ", ma" : ", mu");
}

std::string instruction_text(const InstructionSet& set, std::uint32_t bits) {
  const bool wide = (bits & 3) == 3;
  const InstructionInfo* info = set.find(bits);
  if (info == nullptr) return wide ? hex(".word ", bits) : hex(".half ", bits & 0xFFFF);
  std::string text = info->name;
  bool first = true;
  for (const OperandPart& part : set.parts(set.id(*info))) {
    std::string operand(1, part.literal);
    if (part.word != nullptr) {
      const std::int64_t value = operand_value(*part.word, bits);
      if (part.word->sort == Sort::rounding && rounding_name(static_cast<unsigned>(value)) == nullptr)
        return hex(".word ", bits);
      operand = operand_text(*part.word, value);
      if (operand.empty()) continue;
    }
    text += (first ? " " : part.comma ? ", " : "") + operand;
    first = false;
  }
  return text;
}

std::string disassemble(const InstructionSet& set, std::uint32_t bits, std::uint64_t) {
  const std::string text = instruction_text(set, bits);
  const InstructionInfo* info = set.find(bits);
  const auto reserved = info == nullptr ? std::nullopt : reserved_register(set, *info, bits);
  return reserved ? hex(".word ", bits) + "  # " + text + ": " + reserved->what : text;
}

}  // namespace tilesim::isa
