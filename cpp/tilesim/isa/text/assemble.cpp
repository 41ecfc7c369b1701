#include "tilesim/isa/text/assemble.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/isa/text/directive.hpp"
#include "tilesim/isa/text/statement.hpp"

namespace tilesim::isa {

namespace {

constexpr std::uint64_t most_bytes = 1 << 28;

/// Skips a character in quotes that begins at `at`: '#', '\n', ','; otherwise returns `at`.
std::size_t after_character(const std::string& text, std::size_t at) {
  if (at >= text.size() || text[at] != '\'') return at;
  for (std::size_t end = at + 2; end < text.size() && end < at + 6; ++end)
    if (text[end] == '\'' && (end == at + 2 || text[at + 1] == '\\')) return end + 1;
  return at;
}

class Assembler {
 public:
  Assembler(const InstructionSet& set, std::uint64_t address) : set_(set), base_(address) {}

  Assembled run(const std::string& text) {
    read(text);
    for (const Statement& statement : statements_) emit(statement);
    return {std::move(bytes_), std::move(labels_.names)};
  }

 private:
  void read(const std::string& text);
  void read_line(std::string line, std::size_t number);
  void read_statement(const std::string& text, SourcePosition place);
  void split(const std::string& rest, SourcePosition place, Statement& statement) const;
  void add(Statement statement);
  void add_directive(Statement statement);
  void define(const std::string& name, SourcePosition place);
  void note_high(const Statement& statement);
  std::vector<std::string> expanded(const Statement& statement) const;

  void emit(const Statement& statement);
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
    if (quoted && i < line.size() && line[i] == '\\') {
      ++i;
      continue;
    }
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    if (quoted) continue;
    if (const std::size_t after = after_character(line, i); after != i) {
      i = after - 1;
      continue;
    }
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

void Assembler::read_statement(const std::string& text, SourcePosition place) {
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
    const SourcePosition here{place.line, place.column + at};
    if (end == at) wrong(here, "a mnemonic, a directive or a label is expected here", text.substr(at, 1));
    const std::string name = text.substr(at, end - at);
    if (end < text.size() && text[end] == ':') {
      define(name, here);
      at = end + 1;
      continue;
    }
    Statement statement{here, name, {}, {}, base_ + size_, statements_.size()};
    split(text.substr(end), {place.line, place.column + end}, statement);
    return name[0] == '.' ? add_directive(std::move(statement)) : add(std::move(statement));
  }
}

/// Defines a label: a name, or a number, which may occur repeatedly.
void Assembler::define(const std::string& name, SourcePosition place) {
  if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) {
    if (labels_.constants.contains(name) || !labels_.names.emplace(name, base_ + size_).second)
      wrong(place, "this label is defined twice", name);
    return;
  }
  if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
    wrong(place, "a label of digits and letters does not begin with a digit", name, "names, or numbers such as 1");
  labels_.locals[name].push_back({statements_.size(), base_ + size_});
}

/// Splits operands at commas outside parentheses and quotes.
void Assembler::split(const std::string& rest, SourcePosition place, Statement& statement) const {
  bool quoted = false;
  std::size_t begin = 0;
  if (trimmed(rest).empty()) return;
  for (std::size_t i = 0; i <= rest.size(); ++i) {
    if (quoted && i < rest.size() && rest[i] == '\\') {
      ++i;
      continue;
    }
    if (i < rest.size() && rest[i] == '"') quoted = !quoted;
    if (const std::size_t after = after_character(rest, i); !quoted && after != i) {
      i = after - 1;
      continue;
    }
    if (i < rest.size() && (quoted || rest[i] != ',')) continue;
    const std::string one = rest.substr(begin, i - begin);
    const std::size_t blank = std::min(one.find_first_not_of(" \t\r"), one.size());
    statement.operands.push_back(trimmed(one));
    statement.places.push_back({place.line, place.column + begin + blank});
    if (statement.operands.back().empty()) wrong(statement.places.back(), "an operand is missing", ",");
    begin = i + 1;
  }
}

void Assembler::add_directive(Statement statement) {
  if (statement.name == ".equ" || statement.name == ".set") {
    if (statement.operands.size() != 2)
      wrong(statement.place, "a name and its value are expected here", statement.name);
    const std::string& name = statement.operands[0];
    if (labels_.names.contains(name)) wrong(statement.places[0], "this name is already a label", name);
    labels_.constants[name] = quantity(labels_, statement.operands[1], statement.where(1));
    return;
  }
  size_ += directive_bytes(statement, labels_);
  if (size_ > most_bytes) wrong(statement.place, "the code is too long", statement.name, "at most 256 MiB");
  statements_.push_back(std::move(statement));
}

std::vector<std::string> Assembler::expanded(const Statement& s) const {
  if (s.name == "li" && s.operands.size() == 2)
    return load_constant(s.operands[0], constant(labels_, s.operands[1], s.where(1)));
  if (s.name.starts_with("vmsge") && s.operands.size() == 4 && register_number(Sort::v, s.operands[0]) == 0 &&
      s.name.ends_with(".vx"))
    wrong(s.places[0], "under a mask it needs a register beside the mask", s.operands[0],
          s.name + " v0, vs2, rs1, v0.t, vt");
  return expand_pseudo(s.name, s.operands);
}

void Assembler::add(Statement statement) {
  const std::vector<std::string> made = expanded(statement);
  if (made.empty()) {
    const InstructionInfo* info = set_.named(statement.name);
    if (info == nullptr) unknown(statement);
    size_ += info->is(is_compressed) ? 2 : 4;
    note_high(statement);
    statements_.push_back(std::move(statement));
    return;
  }
  for (const std::string& text : made) {
    const std::size_t space = text.find(' ');
    Statement one{statement.place, text.substr(0, space), {}, {}, base_ + size_, statement.order};
    split(space == std::string::npos ? "" : text.substr(space), statement.place, one);
    for (std::size_t i = 0; i < one.operands.size(); ++i) {
      one.places[i] = statement.place;
      for (std::size_t k = 0; k < statement.operands.size(); ++k)
        if (one.operands[i].find(statement.operands[k]) != std::string::npos) one.places[i] = statement.places[k];
    }
    note_high(one);
    statements_.push_back(std::move(one));
    size_ += 4;
  }
}

/// Records the text of a %pcrel_hi: %pcrel_lo refers to its instruction.
void Assembler::note_high(const Statement& s) {
  constexpr std::string_view start = "%pcrel_hi(";
  for (std::size_t i = 0; i < s.operands.size(); ++i)
    if (const std::string& text = s.operands[i]; text.starts_with(start) && text.ends_with(")"))
      labels_.highs[s.address] = {text.substr(start.size(), text.size() - start.size() - 1), s.order, s.places[i]};
}

void Assembler::unknown(const Statement& statement) const {
  if (const std::string count = pseudo_operands(statement.name); !count.empty())
    wrong(statement.place, "'" + statement.name + "' takes another number of operands",
          std::to_string(statement.operands.size()), count);
  std::vector<std::string> names;
  for (const InstructionInfo& info : set_.all()) names.push_back(info.name);
  for (const std::string_view pseudo : pseudo_names()) names.emplace_back(pseudo);
  wrong(statement.place, "unknown instruction", statement.name, {}, near(statement.name, names));
}

void Assembler::emit(const Statement& statement) {
  worked(16);
  if (statement.name[0] == '.') return put_directive(statement, labels_, bytes_);
  const InstructionInfo* info = set_.named(statement.name);
  if (info == nullptr) unknown(statement);
  put(encode(set_, *info, statement, labels_), info->is(is_compressed) ? 2 : 4);
}

}  // namespace

Assembled assemble(const InstructionSet& set, const std::string& text, std::uint64_t address) {
  return Assembler(set, address).run(text);
}

}  // namespace tilesim::isa
