#include "tilesim/isa/table/operands.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

namespace {

OperandWord reg(std::string_view word, Sort sort, std::uint8_t slots, std::uint8_t at, std::uint8_t width = 5,
                std::uint8_t bias = 0) {
  return {word, sort, slots, {{at, 0, width}}, false, bias, bias + (1 << width) - 1, bias, -1, -1};
}

OperandWord number(std::string_view word, std::vector<BitSlice> slices, std::int64_t lowest, std::int64_t highest,
                   Sort sort = Sort::number) {
  return {word, sort, slot_imm, std::move(slices), lowest < 0, lowest, highest, 0, -1, -1};
}

void add_registers(std::vector<OperandWord>& words) {
  const std::pair<char, Sort> files[] = {{'r', Sort::x}, {'f', Sort::f}, {'v', Sort::v}};
  static const char* const names[][4] = {
      {"rd", "rs1", "rs2", "rs3"}, {"fd", "fs1", "fs2", "fs3"}, {"vd", "vs1", "vs2", "vs3"}};
  for (int i = 0; i < 3; ++i) {
    const Sort sort = files[i].second;
    words.push_back(reg(names[i][0], sort, slot_rd, 7));
    words.push_back(reg(names[i][1], sort, slot_rs1, 15));
    words.push_back(reg(names[i][2], sort, slot_rs2, 20));
    words.push_back(sort == Sort::v ? reg(names[i][3], sort, slot_rd, 7) : reg(names[i][3], sort, slot_rs3, 27));
  }
  struct Compressed {
    const char* word;
    Sort sort;
    int slots;
    std::uint8_t at, width, bias;
    std::int64_t refused;
  };
  static const Compressed compressed[] = {{"rd=rs1", Sort::x, slot_rd | slot_rs1, 7, 5, 0, -1},
                                          {"rd!0=rs1", Sort::x, slot_rd | slot_rs1, 7, 5, 0, 0},
                                          {"rd!0", Sort::x, slot_rd, 7, 5, 0, 0},
                                          {"rd!2", Sort::x, slot_rd, 7, 5, 0, 2},
                                          {"rd'", Sort::x, slot_rd, 2, 3, 8, -1},
                                          {"rd'=rs1", Sort::x, slot_rd | slot_rs1, 7, 3, 8, -1},
                                          {"rs1'", Sort::x, slot_rs1, 7, 3, 8, -1},
                                          {"rs2'", Sort::x, slot_rs2, 2, 3, 8, -1},
                                          {"rs1c!0", Sort::x, slot_rs1, 7, 5, 0, 0},
                                          {"rs2c", Sort::x, slot_rs2, 2, 5, 0, -1},
                                          {"rs2c!0", Sort::x, slot_rs2, 2, 5, 0, 0},
                                          {"fd'", Sort::f, slot_rd, 2, 3, 8, -1},
                                          {"fs2'", Sort::f, slot_rs2, 2, 3, 8, -1},
                                          {"fs2c", Sort::f, slot_rs2, 2, 5, 0, -1}};
  for (const Compressed& c : compressed) {
    words.push_back(reg(c.word, c.sort, static_cast<std::uint8_t>(c.slots), c.at, c.width, c.bias));
    words.back().refused = c.refused;
  }
  words.push_back({"sp", Sort::fixed, slot_rs1, {}, false, 2, 2, 0, -1, -1});
  words.push_back({"v0", Sort::fixed, 0, {}, false, 0, 0, 0, -1, -1});
  words.push_back({"sp=sp", Sort::fixed, slot_rd | slot_rs1, {}, false, 2, 2, 0, -1, -1});
}

void add_numbers(std::vector<OperandWord>& words) {
  words.push_back(number("i12", {{20, 0, 12}}, -2048, 2047));
  words.push_back(number("s12", {{7, 0, 5}, {25, 5, 7}}, -2048, 2047));
  words.push_back(number("b13", {{8, 1, 4}, {25, 5, 6}, {7, 11, 1}, {31, 12, 1}}, -4096, 4094, Sort::offset));
  words.push_back(number("j21", {{21, 1, 10}, {20, 11, 1}, {12, 12, 8}, {31, 20, 1}}, -1048576, 1048574, Sort::offset));
  words.push_back(number("u20", {{12, 0, 20}}, 0, 0xFFFFF, Sort::upper));
  words.push_back(number("shamt5", {{20, 0, 5}}, 0, 31));
  words.push_back(number("shamt6", {{20, 0, 6}}, 0, 63));
  words.push_back(number("zimm5", {{15, 0, 5}}, 0, 31));
  words.push_back(number("simm5", {{15, 0, 5}}, -16, 15));
  words.push_back({"csr", Sort::csr, slot_imm, {{20, 0, 12}}, false, 0, 4095, 0, -1, -1});
  words.push_back({"rm", Sort::rounding, slot_rm, {{12, 0, 3}}, false, 0, 7, 0, 7, -1});
  words.push_back({"rm0", Sort::rounding, slot_rm, {{12, 0, 3}}, false, 0, 7, 0, 0, -1});
  words.push_back({"pred", Sort::fence, 0, {{24, 0, 4}}, false, 0, 15, 0, 15, -1});
  words.push_back({"succ", Sort::fence, 0, {{20, 0, 4}}, false, 0, 15, 0, 15, -1});
  words.push_back({"vm", Sort::masked, slot_rm, {{25, 0, 1}}, false, 0, 1, 0, 1, -1});
  words.push_back({"vtype11", Sort::vtype, slot_imm, {{20, 0, 11}}, false, 0, 2047, 0, -1, -1});
  words.push_back({"vtype10", Sort::vtype, slot_imm, {{20, 0, 10}}, false, 0, 1023, 0, -1, -1});
  words.push_back(number("funct6", {{26, 0, 6}}, 0, 63));
  // NPU instructions: array, DMA queue, mark, element type, special function, reduction kind
  words.push_back({"array7", Sort::number, slot_rs3, {{7, 0, 3}}, false, 0, 7, 0, -1, -1});
  words.push_back({"array20", Sort::number, slot_rs3, {{20, 0, 3}}, false, 0, 7, 0, -1, -1});
  words.push_back({"queue", Sort::number, slot_rs3, {{25, 0, 7}}, false, 0, 127, 0, 0, -1});
  words.push_back(number("mark", {{20, 0, 12}}, -2047, 2047));
  words.push_back(number("dtype", {{15, 0, 5}}, 0, 31));
  words.push_back(number("fnid", {{15, 0, 5}}, 0, 31));
  words.push_back(number("xlid", {{15, 0, 4}}, 0, 15));
}

void add_compressed(std::vector<OperandWord>& words) {
  words.push_back(number("c.i6", {{2, 0, 5}, {12, 5, 1}}, -32, 31));
  words.push_back({"c.hint", Sort::number, slot_imm, {{2, 0, 5}, {12, 5, 1}}, true, -32, 31, 0, 0, -1});
  words.push_back(number("c.shamt6", {{2, 0, 5}, {12, 5, 1}}, 0, 63));
  words.push_back(number("c.lui", {{2, 0, 5}, {12, 5, 1}}, -32, 31, Sort::upper));
  words.back().refused = 0;
  words.push_back(number("c.i10sp", {{6, 4, 1}, {2, 5, 1}, {5, 6, 1}, {3, 7, 2}, {12, 9, 1}}, -512, 496));
  words.back().refused = 0;
  words.push_back(number("c.u10", {{6, 2, 1}, {5, 3, 1}, {11, 4, 2}, {7, 6, 4}}, 4, 1020));
  words.push_back(number("c.u7", {{6, 2, 1}, {10, 3, 3}, {5, 6, 1}}, 0, 124));
  words.push_back(number("c.u8", {{10, 3, 3}, {5, 6, 2}}, 0, 248));
  words.push_back(number("c.u8sp", {{4, 2, 3}, {12, 5, 1}, {2, 6, 2}}, 0, 252));
  words.push_back(number("c.u9sp", {{5, 3, 2}, {12, 5, 1}, {2, 6, 3}}, 0, 504));
  words.push_back(number("c.s8sp", {{9, 2, 4}, {7, 6, 2}}, 0, 252));
  words.push_back(number("c.s9sp", {{10, 3, 3}, {7, 6, 3}}, 0, 504));
  words.push_back(number("c.b9", {{3, 1, 2}, {10, 3, 2}, {2, 5, 1}, {5, 6, 2}, {12, 8, 1}}, -256, 254, Sort::offset));
  words.push_back(number("c.j12",
                         {{3, 1, 3}, {11, 4, 1}, {2, 5, 1}, {7, 6, 1}, {6, 7, 1}, {9, 8, 2}, {8, 10, 1}, {12, 11, 1}},
                         -2048, 2046, Sort::offset));
}

const std::map<std::string_view, OperandWord>& all_words() {
  static const std::map<std::string_view, OperandWord> words = [] {
    std::vector<OperandWord> list;
    add_registers(list);
    add_numbers(list);
    add_compressed(list);
    std::map<std::string_view, OperandWord> found;
    for (OperandWord& word : list) found.emplace(word.word, word);
    return found;
  }();
  return words;
}

constexpr std::array<const char*, 32> x_names{"zero", "ra", "sp", "gp", "tp",  "t0",  "t1", "t2", "s0", "s1", "a0",
                                              "a1",   "a2", "a3", "a4", "a5",  "a6",  "a7", "s2", "s3", "s4", "s5",
                                              "s6",   "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6"};
constexpr std::array<const char*, 32> f_names{
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0",  "fa1",  "fa2", "fa3", "fa4",  "fa5",
    "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8", "ft9", "ft10", "ft11"};
constexpr std::array<const char*, 32> v_names{
    "v0",  "v1",  "v2",  "v3",  "v4",  "v5",  "v6",  "v7",  "v8",  "v9",  "v10", "v11", "v12", "v13", "v14", "v15",
    "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"};

const std::array<const char*, 32>& names_of(Sort sort) {
  return sort == Sort::x ? x_names : sort == Sort::f ? f_names : v_names;
}

}  // namespace

const OperandWord& operand_word(std::string_view word) {
  const auto found = all_words().find(word);
  if (found == all_words().end()) throw InternalError("unknown operand " + std::string(word));
  return found->second;
}

std::vector<OperandPart> operand_parts(const std::string& operands) {
  std::vector<OperandPart> parts;
  bool comma = false;
  for (std::size_t i = 0; i < operands.size();) {
    const char c = operands[i];
    if (c == ' ' || c == ',') {
      comma = comma || c == ',';
      ++i;
      continue;
    }
    if (c == '(' || c == ')') {
      parts.push_back({nullptr, c, comma}), ++i;
    } else {
      const std::size_t end = std::min(operands.find_first_of(" ,()", i), operands.size());
      parts.push_back({&operand_word(std::string_view(operands).substr(i, end - i)), 0, comma});
      i = end;
    }
    comma = false;
  }
  return parts;
}

std::int64_t operand_value(const OperandWord& word, std::uint32_t bits) {
  if (word.sort == Sort::fixed) return word.lowest;
  std::uint64_t value = 0;
  unsigned top = 0;
  for (const BitSlice& piece : word.slices) {
    value |= static_cast<std::uint64_t>(bits >> piece.at & ((1U << piece.width) - 1)) << piece.from;
    top = std::max<unsigned>(top, piece.from + piece.width);
  }
  if (word.negative) return static_cast<std::int64_t>(value << (64 - top)) >> (64 - top);
  return static_cast<std::int64_t>(value) + word.bias;
}

std::uint32_t operand_bits(const OperandWord& word, std::int64_t value) {
  std::uint32_t bits = 0;
  const auto raw = static_cast<std::uint64_t>(value - word.bias);
  for (const BitSlice& piece : word.slices)
    bits |= static_cast<std::uint32_t>(raw >> piece.from & ((1U << piece.width) - 1)) << piece.at;
  return bits;
}

std::uint32_t operand_mask(const OperandWord& word) {
  std::uint32_t bits = 0;
  for (const BitSlice& piece : word.slices) bits |= ((1U << piece.width) - 1) << piece.at;
  return bits;
}

bool operands_fit(std::span<const OperandPart> parts, std::uint32_t bits) {
  for (const OperandPart& part : parts) {
    if (part.word == nullptr || part.word->slices.empty()) continue;
    const std::int64_t value = operand_value(*part.word, bits);
    if (value < part.word->lowest || value > part.word->highest ||
        (part.word->refused >= 0 && value == part.word->refused))
      return false;
  }
  return true;
}

void fill_operands(std::span<const OperandPart> parts, std::uint32_t bits, Op& op) {
  op.rd = no_register;
  for (const OperandPart& part : parts) {
    if (part.word == nullptr) continue;
    const OperandWord& word = *part.word;
    std::int64_t value = operand_value(word, bits);
    if (word.sort == Sort::upper)
      value = static_cast<std::int64_t>(static_cast<std::int32_t>(static_cast<std::uint32_t>(value) << 12));
    const auto narrow = static_cast<std::uint8_t>(value);
    if ((word.slots & slot_rd) != 0) op.rd = word.sort == Sort::x && narrow == 0 ? no_register : narrow;
    if ((word.slots & slot_rs1) != 0) op.rs1 = narrow;
    if ((word.slots & slot_rs2) != 0) op.rs2 = narrow;
    if ((word.slots & slot_rs3) != 0) op.rs3 = narrow;
    if ((word.slots & slot_rm) != 0) op.rm = narrow;
    if ((word.slots & slot_imm) != 0) op.imm = value;
  }
}

const char* register_name(Sort sort, unsigned number) { return names_of(sort)[number & 31]; }

int register_number(Sort sort, std::string_view name) {
  const auto& names = names_of(sort);
  for (int i = 0; i < 32; ++i)
    if (name == names[static_cast<std::size_t>(i)]) return i;
  if (sort == Sort::x && name == "fp") return 8;
  const char letter = sort == Sort::x ? 'x' : sort == Sort::f ? 'f' : 'v';
  if (name.size() < 2 || name.size() > 3 || name[0] != letter || (name[1] == '0' && name.size() > 2)) return -1;
  int number = 0;
  for (const char c : name.substr(1)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return -1;
    number = number * 10 + (c - '0');
  }
  return number < 32 ? number : -1;
}

}  // namespace tilesim::isa
