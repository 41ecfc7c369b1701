#include "tilesim/isa/text/assemble.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/isa/text/statement.hpp"

namespace tilesim::isa {

namespace {

constexpr std::uint64_t most_bytes = 1 << 28;

class Assembler {
 public:
  Assembler(const InstructionSet& set, std::uint64_t address) : set_(set), base_(address) {}

  Assembled run(const std::string& text) {
    read(text);
    for (const Statement& statement : statements_) emit(statement);
    return {std::move(bytes_), std::move(labels_)};
  }

 private:
  void read(const std::string& text);
  void read_line(std::string line, std::size_t number);
  void read_statement(const std::string& text, Place place);
  void split(const std::string& rest, Place place, Statement& statement) const;
  void add(Statement statement);
  std::uint64_t directive_bytes(const Statement& statement) const;
  std::uint64_t zeros(const Statement& statement) const;

  void emit(const Statement& statement);
  void emit_directive(const Statement& statement);
  void put(std::uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }
  [[noreturn]] void unknown(const Statement& statement) const;

  const InstructionSet& set_;
  std::uint64_t base_, size_ = 0;
  std::vector<Statement> statements_;
  Labels labels_;
  std::string bytes_;
};

void Assembler::read(const std::string& text) {
  std::size_t number = 1;
  for (std::size_t begin = 0; begin <= text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    read_line(text.substr(begin, end - begin), number);
    begin = end + 1;
  }
}

void Assembler::read_line(std::string line, std::size_t number) {
  worked(static_cast<std::int64_t>(line.size()) + 16);
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"' && (i == 0 || line[i - 1] != '\\')) quoted = !quoted;
    if (quoted) continue;
    const bool comment =
        i < line.size() && (line[i] == '#' || (line[i] == '/' && i + 1 < line.size() && line[i + 1] == '/'));
    if (i == line.size() || comment || line[i] == ';') {
      read_statement(line.substr(begin, i - begin), {number, begin + 1});
      begin = i + 1;
      if (comment) return;
    }
  }
  if (quoted) wrong({number, line.find('"') + 1}, "a text does not end", line);
}

void Assembler::read_statement(const std::string& text, Place place) {
  std::size_t at = 0;
  const auto name_end = [&] {
    std::size_t end = at;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '.' ||
                                 text[end] == '_' || text[end] == '$'))
      ++end;
    return end;
  };
  while (true) {
    at = std::min(text.find_first_not_of(" \t\r", at), text.size());
    if (at == text.size()) return;
    const std::size_t end = name_end();
    const Place here{place.line, place.column + at};
    if (end == at) wrong(here, "a mnemonic, a directive or a label stands here", text.substr(at, 1));
    const std::string name = text.substr(at, end - at);
    if (end < text.size() && text[end] == ':') {
      if (!labels_.emplace(name, base_ + size_).second) wrong(here, "this label stands twice", name);
      at = end + 1;
      continue;
    }
    Statement statement{here, name, {}, {}, 0};
    split(text.substr(end), {place.line, place.column + end}, statement);
    return add(std::move(statement));
  }
}

/// Operands at commas outside parentheses and quotes.
void Assembler::split(const std::string& rest, Place place, Statement& statement) const {
  bool quoted = false;
  std::size_t begin = 0;
  if (trimmed(rest).empty()) return;
  for (std::size_t i = 0; i <= rest.size(); ++i) {
    if (i < rest.size() && rest[i] == '"') quoted = !quoted;
    if (i < rest.size() && (quoted || rest[i] != ',')) continue;
    const std::string one = rest.substr(begin, i - begin);
    const std::size_t blank = std::min(one.find_first_not_of(" \t\r"), one.size());
    statement.operands.push_back(trimmed(one));
    statement.places.push_back({place.line, place.column + begin + blank});
    if (statement.operands.back().empty()) wrong(statement.places.back(), "an operand is missing", ",");
    begin = i + 1;
  }
}

void Assembler::add(Statement statement) {
  if (statement.name[0] == '.') {
    statement.address = base_ + size_;
    size_ += directive_bytes(statement);
    if (size_ > most_bytes) wrong(statement.place, "the code is too long", statement.name, "at most 256 MiB");
    statements_.push_back(std::move(statement));
    return;
  }
  std::vector<std::string> made;
  if (statement.name == "li" && statement.operands.size() == 2) {
    const auto value = number_of(statement.operands[1]);
    if (!value) wrong(statement.places[1], "'li' takes a number", statement.operands[1]);
    made = load_constant(statement.operands[0], *value);
  } else {
    made = expand_pseudo(statement.name, statement.operands);
  }
  const std::uint64_t first = base_ + size_;
  if (made.empty()) {
    const InstructionInfo* info = set_.named(statement.name);
    if (info == nullptr) unknown(statement);
    statement.address = first;
    size_ += info->is(is_compressed) ? 2 : 4;
    statements_.push_back(std::move(statement));
    return;
  }
  for (const std::string& text : made) {
    const std::size_t space = text.find(' ');
    Statement one{statement.place, text.substr(0, space), {}, {}, base_ + size_};
    split(space == std::string::npos ? "" : text.substr(space), statement.place, one);
    std::fill(one.places.begin(), one.places.end(), statement.place);
    if (statement.name == "la" && one.name == "addi") one.address = first;  // %pcrel_lo is of the auipc before
    statements_.push_back(std::move(one));
    size_ += 4;
  }
}

void Assembler::unknown(const Statement& statement) const {
  if (const std::string count = pseudo_operands(statement.name); !count.empty())
    wrong(statement.place, "'" + statement.name + "' takes another number of operands",
          std::to_string(statement.operands.size()), count);
  std::vector<std::string> names;
  for (const InstructionInfo& info : set_.all()) names.push_back(info.name);
  wrong(statement.place, "no instruction is called so", statement.name, {}, near(statement.name, names));
}

void Assembler::emit(const Statement& statement) {
  worked(16);
  if (statement.name[0] == '.') return emit_directive(statement);
  const InstructionInfo* info = set_.named(statement.name);
  if (info == nullptr) unknown(statement);
  put(encode(set_, *info, statement, labels_), info->is(is_compressed) ? 2 : 4);
}

const std::map<std::string_view, unsigned>& data_widths() {
  static const std::map<std::string_view, unsigned> widths{{".byte", 1}, {".half", 2}, {".short", 2}, {".2byte", 2},
                                                           {".word", 4}, {".long", 4}, {".4byte", 4}, {".dword", 8},
                                                           {".quad", 8}, {".8byte", 8}};
  return widths;
}

/// The text between quotes, with the usual escapes.
std::string quoted_text(const std::string& text, Place place) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') wrong(place, "a text in quotes stands here", text);
  std::string result;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    char c = text[i];
    if (c == '\\' && i + 2 < text.size()) {
      c = text[++i];
      c = c == 'n' ? '\n' : c == 't' ? '\t' : c == '0' ? '\0' : c;
    }
    result += c;
  }
  return result;
}

/// Bytes of zeros that an alignment or .zero puts.
std::uint64_t Assembler::zeros(const Statement& s) const {
  if (s.operands.empty()) wrong(s.place, "'" + s.name + "' takes a number", s.name);
  const auto number = number_of(s.operands[0]);
  const bool align = s.name == ".align" || s.name == ".p2align";
  if (!number || *number < 0 || *number > (align ? 20 : static_cast<std::int64_t>(most_bytes)))
    wrong(s.places[0], "this operand is out of range", s.operands[0]);
  if (s.name == ".zero" || s.name == ".space" || s.name == ".skip") return static_cast<std::uint64_t>(*number);
  const std::uint64_t unit = align ? std::uint64_t{1} << *number : static_cast<std::uint64_t>(*number);
  if (unit == 0) wrong(s.places[0], "this operand is out of range", s.operands[0]);
  return (unit - s.address % unit) % unit;
}

std::uint64_t Assembler::directive_bytes(const Statement& s) const {
  static const std::set<std::string_view> read_over{".text", ".globl",   ".global",    ".option", ".type",
                                                    ".size", ".section", ".attribute", ".file",   ".ident",
                                                    ".data", ".rodata",  ".bss"};
  static const std::set<std::string_view> fills{".zero", ".space", ".skip", ".align", ".p2align", ".balign"};
  if (read_over.contains(s.name)) return 0;
  if (fills.contains(s.name)) return zeros(s);
  if (const auto width = data_widths().find(s.name); width != data_widths().end())
    return width->second * s.operands.size();
  if (s.name != ".string" && s.name != ".asciz" && s.name != ".ascii")
    wrong(s.place, "no directive is called so", s.name);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < s.operands.size(); ++i)
    bytes += quoted_text(s.operands[i], s.places[i]).size() + (s.name == ".ascii" ? 0 : 1);
  return bytes;
}

void Assembler::emit_directive(const Statement& s) {
  if (const auto width = data_widths().find(s.name); width != data_widths().end()) {
    for (std::size_t i = 0; i < s.operands.size(); ++i)
      put(static_cast<std::uint64_t>(expression(labels_, s.operands[i], s.places[i], s.address, false)), width->second);
  } else if (s.name == ".string" || s.name == ".asciz" || s.name == ".ascii") {
    for (std::size_t i = 0; i < s.operands.size(); ++i) {
      bytes_ += quoted_text(s.operands[i], s.places[i]);
      if (s.name != ".ascii") bytes_ += '\0';
    }
  } else {
    bytes_.append(directive_bytes(s), '\0');
  }
}

}  // namespace

Assembled assemble(const InstructionSet& set, const std::string& text, std::uint64_t address) {
  return Assembler(set, address).run(text);
}

}  // namespace tilesim::isa
