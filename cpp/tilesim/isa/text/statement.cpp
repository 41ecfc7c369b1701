#include "tilesim/isa/text/statement.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/state/csr.hpp"
#include "tilesim/isa/table/reserved.hpp"
#include "tilesim/isa/text/disassemble.hpp"

namespace tilesim::isa {

namespace {

void check_range(const OperandWord& word, std::int64_t value, const std::string& text, SourcePosition place) {
  unsigned step = 63;
  for (const BitSlice& piece : word.slices) step = std::min<unsigned>(step, piece.from);
  const std::int64_t multiple = std::int64_t{1} << (word.slices.empty() ? 0 : step);
  if (value >= word.lowest && value <= word.highest && value % multiple == 0 &&
      (word.refused < 0 || value != word.refused))
    return;
  std::string allowed = std::to_string(word.lowest) + " to " + std::to_string(word.highest);
  if (multiple > 1) allowed += ", multiples of " + std::to_string(multiple);
  if (word.refused >= 0) allowed += ", not " + std::to_string(word.refused);
  wrong(place, "this operand is out of range", text, allowed);
}

std::int64_t register_of(const OperandWord& word, const std::string& text, SourcePosition place) {
  const int number = register_number(word.sort, text);
  if (number < 0)
    wrong(place, "a register of another kind is needed", text,
          word.sort == Sort::x   ? "x0 to x31"
          : word.sort == Sort::f ? "f0 to f31"
                                 : "v0 to v31");
  if (number < word.lowest || number > word.highest || number == word.refused)
    wrong(place, "this register is not allowed here", text);
  return number;
}

std::int64_t fence_of(const std::string& text, SourcePosition place) {
  std::int64_t value = 0;
  for (const char c : text) {
    const std::size_t bit = std::string_view("wroi").find(c);
    if (bit == std::string_view::npos && text != "0") wrong(place, "a fence orders i, o, r and w", text);
    if (bit != std::string_view::npos) value |= std::int64_t{1} << bit;
  }
  return value;
}

std::int64_t rounding_of(const std::string& text, SourcePosition place) {
  for (unsigned mode = 0; mode < 8; ++mode)
    if (rounding_name(mode) != nullptr && text == rounding_name(mode)) return mode;
  wrong(place, "unknown rounding mode", text, "rne, rtz, rdn, rup, rmm, dyn");
}

std::int64_t value_of(const Labels& labels, const OperandWord& word, const std::string& text, const Where& where) {
  const SourcePosition place = where.place;
  switch (word.sort) {
    case Sort::x:
    case Sort::f:
    case Sort::v:
      return register_of(word, text, place);
    case Sort::fixed:
      if (text != fixed_name(word) && (fixed_name(word) != "sp" || register_number(Sort::x, text) != word.lowest))
        wrong(place, "this register is not allowed here", text, std::string(fixed_name(word)));
      return word.lowest;
    case Sort::csr:
      if (const int number = csr_number(text); number >= 0) return number;
      break;
    case Sort::rounding:
      return rounding_of(text, place);
    case Sort::fence:
      return fence_of(text, place);
    case Sort::masked:
      if (text != "v0.t") wrong(place, "a mask is v0.t", text);
      return 0;
    default:
      break;
  }
  std::int64_t value = expression(labels, text, where, word.sort == Sort::offset);
  if (word.sort == Sort::upper && word.negative && value >= 0xFFFE0 && value <= 0xFFFFF) value -= 0x100000;
  check_range(word, value, text, place);
  return value;
}

/// Parses "e32, m1, ta, ma" from up to four operands, starting at `at`.
std::int64_t vtype_of(const OperandWord& word, const Statement& statement, std::size_t& at) {
  if (const auto number = number_of(statement.operands[at])) {
    ++at;
    if (*number < 0 || *number > word.highest)
      wrong(statement.places[at - 1], "not a vtype", statement.operands[at - 1],
            "0 to " + std::to_string(word.highest));
    return *number;
  }
  std::string text;
  const std::size_t first = at;
  while (at < statement.operands.size()) text += (text.empty() ? "" : ", ") + statement.operands[at++];
  const std::string written = text;
  if (std::count(text.begin(), text.end(), ',') == 1) text += ", tu, mu";
  for (std::int64_t value = 0; value < 256; ++value)
    if (vtype_text(static_cast<std::uint64_t>(value)) == text) return value;
  wrong(statement.places[first], "not a vtype", written, "such as e32, m1, ta, ma");
}

/// Offset and register of "4(a0)"; errors of both refer to the whole operand.
struct MemoryText { std::string offset, base; };

MemoryText memory_of(const std::string& text, SourcePosition place, const InstructionInfo& info) {
  const std::size_t open = text.rfind('(');
  if (open == std::string::npos || text.back() != ')')
    wrong(place, "an address in parentheses is expected here", text, info.operands);
  return {trimmed(text.substr(0, open)), trimmed(text.substr(open + 1, text.size() - open - 2))};
}

}  // namespace

std::uint32_t encode(const InstructionSet& set, const InstructionInfo& info, const Statement& s, const Labels& labels) {
  std::uint32_t bits = info.encoding.match;
  std::size_t at = 0;
  std::vector<std::pair<const OperandWord*, std::size_t>> read;
  const auto put = [&](const OperandWord& word, const std::string& text) {
    read.emplace_back(&word, at);
    bits |= operand_bits(word, value_of(labels, word, text, s.where(at)));
  };
  const auto& wanted = set.parts(set.id(info));
  for (std::size_t i = 0; i < wanted.size();) {
    const bool plain = wanted[i].literal == '(';
    const bool offset = !plain && i + 1 < wanted.size() && wanted[i + 1].literal == '(' && !wanted[i + 1].comma;
    const OperandWord& word = *wanted[plain ? i + 1 : i].word;
    if (at >= s.operands.size()) {
      if (word.standard < 0) wrong(s.place, "'" + info.name + "' takes more operands", s.name, info.operands);
      bits |= operand_bits(word, word.standard);
      ++i;
    } else if (plain || offset) {
      const MemoryText text = memory_of(s.operands[at], s.places[at], info);
      if (plain && !text.offset.empty() && text.offset != "0")
        wrong(s.places[at], "no offset is allowed here", text.offset, info.operands);
      if (offset) put(word, text.offset.empty() ? "0" : text.offset);
      put(*wanted[plain ? i + 1 : i + 2].word, text.base);
      i += plain ? 3 : 4, ++at;
    } else if (word.sort == Sort::vtype) {
      bits |= operand_bits(word, vtype_of(word, s, at)), ++i;
    } else {
      put(word, s.operands[at]);
      ++i, ++at;
    }
  }
  if (at < s.operands.size())
    wrong(s.places[at], "'" + info.name + "' takes fewer operands", s.operands[at], info.operands);
  if (const auto reserved = reserved_register(set, info, bits))
    for (const auto& [word, operand] : read)
      if (word == reserved->operand) wrong(s.places[operand], reserved->what, s.operands[operand], reserved->allowed);
  return bits;
}

}  // namespace tilesim::isa
