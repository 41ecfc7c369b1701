#include "tilesim/isa/text/directive.hpp"

#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "tilesim/base/dtype.hpp"

namespace tilesim::isa {

namespace {

constexpr std::int64_t most_room = 1 << 28;

const std::map<std::string_view, unsigned>& data_widths() {
  static const std::map<std::string_view, unsigned> widths{{".byte", 1}, {".half", 2}, {".short", 2}, {".2byte", 2},
                                                           {".word", 4}, {".long", 4}, {".4byte", 4}, {".dword", 8},
                                                           {".quad", 8}, {".8byte", 8}};
  return widths;
}

const std::map<std::string_view, DType>& float_types() {
  static const std::map<std::string_view, DType> types{{".float", DType::f32},
                                                       {".single", DType::f32},
                                                       {".double", DType::f64},
                                                       {".float16", DType::f16},
                                                       {".bfloat16", DType::bf16}};
  return types;
}

bool is_text(const std::string& name) { return name == ".string" || name == ".asciz" || name == ".ascii"; }
bool is_space(const std::string& name) { return name == ".zero" || name == ".space" || name == ".skip"; }
bool is_alignment(const std::string& name) { return name == ".align" || name == ".p2align" || name == ".balign"; }

/// The text between quotes, with C escapes resolved.
std::string quoted_text(const std::string& text, SourcePosition place) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"')
    wrong(place, "a quoted text is expected here", text);
  const std::string inside = text.substr(1, text.size() - 2);
  std::string result;
  for (std::size_t i = 0; i < inside.size(); ++i)
    if (inside[i] == '\\' && i + 1 < inside.size())
      result += escaped(inside, ++i);
    else
      result += inside[i];
  return result;
}

/// Rounded once from decimal to f32 or f64; half precision is rounded from these.
template <class Float>
Float float_of(std::string text, SourcePosition place, const std::string& name) {
  const std::string whole = text;
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.erase(0, 1);
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.erase(0, 2);
  Float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value,
                                            hex ? std::chars_format::hex : std::chars_format::general);
  if (error == std::errc::result_out_of_range) wrong(place, "this number is out of the range of " + name, whole);
  if (text.empty() || text[0] == '-' || error != std::errc() || end != text.data() + text.size())
    wrong(place, "a number is expected here", whole, "such as 1.5, -2e-3, 0x1p-4, inf, nan");
  return negative ? -value : value;
}

void put(std::uint64_t value, unsigned width, std::string& bytes) {
  for (unsigned i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
}

void put_float(const Statement& s, std::size_t operand, DType type, std::string& bytes) {
  const std::string& text = s.operands[operand];
  const SourcePosition place = s.places[operand];
  if (type == DType::f32) {
    const auto value = float_of<float>(text, place, s.name);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return;
  }
  const auto value = float_of<double>(text, place, s.name);
  double made = 0;
  const auto width = static_cast<std::size_t>(host_bytes(type));
  convert(&value, DType::f64, &made, type, 1);
  double back = 0;
  convert(&made, type, &back, DType::f64, 1);
  if (std::isfinite(value) && !std::isfinite(back)) wrong(place, "this number is out of the range of " + s.name, text);
  bytes.append(reinterpret_cast<const char*>(&made), width);
}

std::int64_t ranged(const Statement& s, const Labels& labels, std::size_t operand, std::int64_t most) {
  const std::int64_t number = constant(labels, s.operands[operand], s.where(operand));
  if (number < 0 || number > most)
    wrong(s.places[operand], "this operand is out of range", s.operands[operand], "0 to " + std::to_string(most));
  return number;
}

std::uint64_t room(const Statement& s, const Labels& labels) {
  if (s.operands.empty()) wrong(s.place, "'" + s.name + "' takes a number", s.name);
  if (s.operands.size() > 2) wrong(s.places[2], "'" + s.name + "' takes a number and a byte", s.operands[2]);
  if (is_space(s.name)) return static_cast<std::uint64_t>(ranged(s, labels, 0, most_room));
  const bool power = s.name != ".balign";
  const auto number = static_cast<std::uint64_t>(ranged(s, labels, 0, power ? 20 : most_room));
  const std::uint64_t unit = power ? std::uint64_t{1} << number : number;
  if (unit == 0 || (unit & (unit - 1)) != 0)
    wrong(s.places[0], "this operand is out of range", s.operands[0], "powers of two");
  return (unit - s.address % unit) % unit;
}

/// Writes zeros or the given fill byte; for an alignment, nops.
void put_room(const Statement& s, const Labels& labels, std::string& bytes) {
  const std::uint64_t count = room(s, labels);
  if (s.operands.size() == 2 || is_space(s.name)) {
    const std::int64_t fill = s.operands.size() == 2 ? constant(labels, s.operands[1], s.where(1)) : 0;
    if (fill < -128 || fill > 255) wrong(s.places[1], "this operand is out of range", s.operands[1], "-128 to 255");
    bytes.append(count, static_cast<char>(fill));
    return;
  }
  constexpr std::uint32_t nop = 0x13, short_nop = 1;
  bytes.append(count % 2, '\0');
  if (count % 4 >= 2) put(short_nop, 2, bytes);
  for (std::uint64_t i = 0; i < count / 4; ++i) put(nop, 4, bytes);
}

void put_numbers(const Statement& s, const Labels& labels, unsigned width, std::string& bytes) {
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    const std::int64_t value = expression(labels, s.operands[i], s.where(i), false);
    const std::int64_t half = width < 8 ? std::int64_t{1} << (8 * width - 1) : 0;
    if (half != 0 && (value < -half || value >= 2 * half))
      wrong(s.places[i], "this number has more bytes than '" + s.name + "' puts", s.operands[i],
            std::to_string(-half) + " to " + std::to_string(2 * half - 1));
    put(static_cast<std::uint64_t>(value), width, bytes);
  }
}

}  // namespace

bool is_read_over(const std::string& name) {
  static const std::set<std::string_view> names{
      ".text",      ".globl",       ".global",     ".option", ".type", ".size",    ".section",
      ".attribute", ".file",        ".data",       ".rodata", ".bss",  ".ident",   ".weak",
      ".local",     ".addrsig_sym", ".variant_cc", ".hidden", ".loc",  ".addrsig", ".protected"};
  return names.contains(name) || name.starts_with(".cfi_");
}

std::uint64_t directive_bytes(const Statement& s, const Labels& labels) {
  if (is_read_over(s.name)) return 0;
  if (is_space(s.name) || is_alignment(s.name)) return room(s, labels);
  if (const auto width = data_widths().find(s.name); width != data_widths().end())
    return width->second * s.operands.size();
  if (const auto type = float_types().find(s.name); type != float_types().end())
    return static_cast<std::uint64_t>(host_bytes(type->second)) * s.operands.size();
  if (!is_text(s.name)) {
    std::vector<std::string> names{".zero",  ".space", ".skip", ".align", ".p2align", ".balign", ".string",
                                   ".asciz", ".ascii", ".equ",  ".set",   ".text",    ".globl",  ".section"};
    for (const auto& [known, width] : data_widths()) names.emplace_back(known);
    for (const auto& [known, type] : float_types()) names.emplace_back(known);
    wrong(s.place, "unknown directive", s.name, {}, near(s.name, names));
  }
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < s.operands.size(); ++i)
    bytes += quoted_text(s.operands[i], s.places[i]).size() + (s.name == ".ascii" ? 0 : 1);
  return bytes;
}

void put_directive(const Statement& s, const Labels& labels, std::string& bytes) {
  if (is_read_over(s.name)) return;
  if (const auto width = data_widths().find(s.name); width != data_widths().end())
    return put_numbers(s, labels, width->second, bytes);
  if (const auto type = float_types().find(s.name); type != float_types().end()) {
    for (std::size_t i = 0; i < s.operands.size(); ++i) put_float(s, i, type->second, bytes);
    return;
  }
  if (!is_text(s.name)) return put_room(s, labels, bytes);
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    bytes += quoted_text(s.operands[i], s.places[i]);
    if (s.name != ".ascii") bytes += '\0';
  }
}

}  // namespace tilesim::isa
