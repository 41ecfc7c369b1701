// Pseudo-instructions (RISC-V assembly programmer's manual, tables of pseudo-instructions; V 1.0, notes on pseudos).
#include <algorithm>
#include <array>
#include <string_view>

#include "tilesim/isa/table/operands.hpp"
#include "tilesim/isa/text/assemble.hpp"
#include "tilesim/isa/text/expression.hpp"

namespace tilesim::isa {

namespace {

struct Pseudo {
  std::string_view name;
  unsigned operands;
  const char* text;
};

constexpr Pseudo pseudos[] = {
    {"nop", 0, "addi x0, x0, 0"},
    {"move", 2, "addi $0, $1, 0"},
    {"mv", 2, "addi $0, $1, 0"},
    {"not", 2, "xori $0, $1, -1"},
    {"neg", 2, "sub $0, x0, $1"},
    {"negw", 2, "subw $0, x0, $1"},
    {"sext.w", 2, "addiw $0, $1, 0"},
    {"zext.b", 2, "andi $0, $1, 255"},
    {"zext.w", 2, "add.uw $0, $1, x0"},
    {"seqz", 2, "sltiu $0, $1, 1"},
    {"snez", 2, "sltu $0, x0, $1"},
    {"sltz", 2, "slt $0, $1, x0"},
    {"sgtz", 2, "slt $0, x0, $1"},
    {"sgt", 3, "slt $0, $2, $1"},
    {"sgtu", 3, "sltu $0, $2, $1"},
    {"beqz", 2, "beq $0, x0, $1"},
    {"bnez", 2, "bne $0, x0, $1"},
    {"blez", 2, "bge x0, $0, $1"},
    {"bgez", 2, "bge $0, x0, $1"},
    {"bltz", 2, "blt $0, x0, $1"},
    {"bgtz", 2, "blt x0, $0, $1"},
    {"bgt", 3, "blt $1, $0, $2"},
    {"ble", 3, "bge $1, $0, $2"},
    {"bgtu", 3, "bltu $1, $0, $2"},
    {"bleu", 3, "bgeu $1, $0, $2"},
    {"j", 1, "jal x0, $0"},
    {"jal", 1, "jal ra, $0"},
    {"ret", 0, "jalr x0, 0(ra)"},
    {"call", 1, "jal ra, $0"},
    {"call", 2, "jal $0, $1"},
    {"tail", 1, "jal x0, $0"},
    {"jump", 2, "jal x0, $0"},
    {"pause", 0, "fence w, 0"},
    {"scall", 0, "ecall"},
    {"sbreak", 0, "ebreak"},
    {"fence", 0, "fence iorw, iorw"},
    {"unimp", 0, "csrrw x0, cycle, x0"},
    {"csrr", 2, "csrrs $0, $1, x0"},
    {"csrw", 2, "csrrw x0, $0, $1"},
    {"csrs", 2, "csrrs x0, $0, $1"},
    {"csrc", 2, "csrrc x0, $0, $1"},
    {"csrwi", 2, "csrrwi x0, $0, $1"},
    {"csrsi", 2, "csrrsi x0, $0, $1"},
    {"csrci", 2, "csrrci x0, $0, $1"},
    {"rdcycle", 1, "csrrs $0, cycle, x0"},
    {"rdtime", 1, "csrrs $0, time, x0"},
    {"rdinstret", 1, "csrrs $0, instret, x0"},
    {"frcsr", 1, "csrrs $0, fcsr, x0"},
    {"fscsr", 1, "csrrw x0, fcsr, $0"},
    {"fscsr", 2, "csrrw $0, fcsr, $1"},
    {"frrm", 1, "csrrs $0, frm, x0"},
    {"fsrm", 1, "csrrw x0, frm, $0"},
    {"fsrm", 2, "csrrw $0, frm, $1"},
    {"fsrmi", 1, "csrrwi x0, frm, $0"},
    {"fsrmi", 2, "csrrwi $0, frm, $1"},
    {"frflags", 1, "csrrs $0, fflags, x0"},
    {"fsflags", 1, "csrrw x0, fflags, $0"},
    {"fsflags", 2, "csrrw $0, fflags, $1"},
    {"fsflagsi", 1, "csrrwi x0, fflags, $0"},
    {"fsflagsi", 2, "csrrwi $0, fflags, $1"},
    {"fmv.x.s", 2, "fmv.x.w $0, $1"},
    {"fmv.s.x", 2, "fmv.w.x $0, $1"},
    {"fgt.s", 3, "flt.s $0, $2, $1"},
    {"fgt.d", 3, "flt.d $0, $2, $1"},
    {"fgt.h", 3, "flt.h $0, $2, $1"},
    {"fge.s", 3, "fle.s $0, $2, $1"},
    {"fge.d", 3, "fle.d $0, $2, $1"},
    {"fge.h", 3, "fle.h $0, $2, $1"},
    {"vmmv.m", 2, "vmand.mm $0, $1, $1"},
    {"vmnot.m", 2, "vmnand.mm $0, $1, $1"},
    {"vmclr.m", 1, "vmxor.mm $0, $0, $0"},
    {"vmset.m", 1, "vmxnor.mm $0, $0, $0"},
    {"vmandnot.mm", 3, "vmandn.mm $0, $1, $2"},
    {"vmornot.mm", 3, "vmorn.mm $0, $1, $2"},
    {"vle1.v", 2, "vlm.v $0, $1"},
    {"vse1.v", 2, "vsm.v $0, $1"},
    {"vl1r.v", 2, "vl1re8.v $0, $1"},
    {"vl2r.v", 2, "vl2re8.v $0, $1"},
    {"vl4r.v", 2, "vl4re8.v $0, $1"},
    {"vl8r.v", 2, "vl8re8.v $0, $1"},
};

/// The same with optional mask: `@` is replaced by ", v0.t".
constexpr Pseudo masked_pseudos[] = {
    {"vneg.v", 2, "vrsub.vx $0, $1, x0@"},          {"vnot.v", 2, "vxor.vi $0, $1, -1@"},
    {"vfneg.v", 2, "vfsgnjn.vv $0, $1, $1@"},       {"vfabs.v", 2, "vfsgnjx.vv $0, $1, $1@"},
    {"vwcvt.x.x.v", 2, "vwadd.vx $0, $1, x0@"},     {"vwcvtu.x.x.v", 2, "vwaddu.vx $0, $1, x0@"},
    {"vncvt.x.x.w", 2, "vnsrl.wx $0, $1, x0@"},     {"vpopc.m", 2, "vcpop.m $0, $1@"},
    {"vfredsum.vs", 3, "vfredusum.vs $0, $1, $2@"}, {"vfwredsum.vs", 3, "vfwredusum.vs $0, $1, $2@"},
    {"vmfgt.vv", 3, "vmflt.vv $0, $2, $1@"},        {"vmfge.vv", 3, "vmfle.vv $0, $2, $1@"},
    {"vmsgt.vv", 3, "vmslt.vv $0, $2, $1@"},        {"vmsgtu.vv", 3, "vmsltu.vv $0, $2, $1@"},
    {"vmsge.vv", 3, "vmsle.vv $0, $2, $1@"},        {"vmsgeu.vv", 3, "vmsleu.vv $0, $2, $1@"},
};

/// Pseudo-instructions of the functions below, with their numbers of operands.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> others{{
    {"li", "2"},
    {"la", "2"},
    {"lla", "2"},
    {"jr", "1 or 2"},
    {"jalr", "1 to 3"},
    {"fmv.s", "2"},
    {"fneg.s", "2"},
    {"fabs.s", "2"},
    {"vmsge.vx", "3 to 5"},
    {"vmsgeu.vx", "3 to 5"},
    {"vmslt.vi", "3 or 4"},
    {"vmsltu.vi", "3 or 4"},
    {"vmsge.vi", "3 or 4"},
    {"vmsgeu.vi", "3 or 4"},
}};

using Texts = std::vector<std::string>;

Texts replaced(std::string_view text, const Texts& operands, const std::string& mask = {}) {
  Texts made{""};
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '$')
      made.back() += operands[static_cast<std::size_t>(text[++i] - '0')];
    else if (text[i] == '@')
      made.back() += mask;
    else if (text[i] == ';')
      made.emplace_back();
    else
      made.back() += text[i];
  return made;
}

bool is_register(Sort sort, const std::string& text) { return register_number(sort, text) >= 0; }
bool is_memory(const std::string& text) { return text.ends_with(")") && text.find('(') != std::string::npos; }
/// Whether the text may be a label: no number, register or address in parentheses.
bool is_symbol(const std::string& text) {
  return !is_memory(text) && !is_register(Sort::x, text) && !number_of(text).has_value();
}

/// fmv.s, fneg.d, fabs.h: copies, negates or clears the sign.
Texts sign_form(std::string_view name, const Texts& operands) {
  if (operands.size() != 2 || name.size() < 4) return {};
  const std::string_view start = name.substr(0, name.size() - 2), width = name.substr(name.size() - 2);
  if (width != ".s" && width != ".d" && width != ".h") return {};
  const char* real = start == "fmv" ? "fsgnj" : start == "fneg" ? "fsgnjn" : start == "fabs" ? "fsgnjx" : nullptr;
  if (real == nullptr) return {};
  return {real + std::string(width) + " " + operands[0] + ", " + operands[1] + ", " + operands[1]};
}

/// Jumps to a register, with three notations of the offset.
Texts jump_form(std::string_view name, const Texts& o) {
  const bool plain = name == "jr";
  if (!plain && name != "jalr") return {};
  const std::string target = plain ? "jalr x0, " : "jalr ra, ";
  if (o.size() == 1) return {target + (is_memory(o[0]) ? o[0] : "0(" + o[0] + ")")};
  if (plain) return o.size() == 2 ? replaced("jalr x0, $1($0)", o) : Texts();
  if (o.size() == 2 && !is_memory(o[1]))
    return is_register(Sort::x, o[1]) ? replaced("jalr $0, 0($1)", o) : replaced("jalr ra, $1($0)", o);
  return o.size() == 3 ? replaced("jalr $0, $2($1)", o) : Texts();
}

/// Addresses of labels, and loads and stores at labels.
Texts address_form(std::string_view name, const Texts& o) {
  if ((name == "la" || name == "lla") && o.size() == 2)
    return replaced("auipc $0, %pcrel_hi($1);addi $0, $0, %pcrel_lo(.-4)", o);
  constexpr std::array<std::string_view, 7> loads{"lb", "lh", "lw", "ld", "lbu", "lhu", "lwu"};
  constexpr std::array<std::string_view, 10> through{"sb", "sh", "sw", "sd", "flh", "flw", "fld", "fsh", "fsw", "fsd"};
  const auto in = [&](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  const bool load = o.size() == 2 && in(loads), other = o.size() == 3 && in(through);
  const bool whole = o.size() > 1 && std::ranges::count(o[1], '(') == std::ranges::count(o[1], ')');
  if ((!load && !other) || !whole || !is_symbol(o[1])) return {};
  const std::string pointer = load ? "$0" : "$2";
  return replaced("auipc " + pointer + ", %pcrel_hi($1);" + std::string(name) + " $0, %pcrel_lo(.-4)(" + pointer + ")",
                  o);
}

/// A number in place of a register: the immediate form of the instruction.
Texts immediate_form(std::string_view name, const Texts& o) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 22> forms{
      {{"add", "addi"},     {"addw", "addiw"},  {"and", "andi"},   {"or", "ori"},     {"xor", "xori"},
       {"slt", "slti"},     {"sltu", "sltiu"},  {"sll", "slli"},   {"sllw", "slliw"}, {"srl", "srli"},
       {"srlw", "srliw"},   {"sra", "srai"},    {"sraw", "sraiw"}, {"bclr", "bclri"}, {"bext", "bexti"},
       {"binv", "binvi"},   {"bset", "bseti"},  {"ror", "rori"},   {"rorw", "roriw"}, {"csrrw", "csrrwi"},
       {"csrrs", "csrrsi"}, {"csrrc", "csrrci"}}};
  if (o.size() == 3 && !is_register(Sort::x, o[2]) && !is_register(Sort::f, o[2]))
    for (const auto& [plain, immediate] : forms)
      if (plain == name) return replaced(std::string(immediate) + " $0, $1, $2", o);
  if (o.size() == 2 && !is_register(Sort::x, o[1]) && (name == "csrw" || name == "csrs" || name == "csrc"))
    return replaced(name == "csrw"   ? "csrrwi x0, $0, $1"
                    : name == "csrs" ? "csrrsi x0, $0, $1"
                                     : "csrrci x0, $0, $1",
                    o);
  return {};
}

/// Comparisons that V lacks: greater or equal to a register, less than a number.
Texts compare_form(std::string_view name, const Texts& o) {
  if (name == "vmsge.vx" || name == "vmsgeu.vx") {
    const std::string less = name == "vmsge.vx" ? "vmslt.vx " : "vmsltu.vx ";
    if (o.size() == 3) return replaced(less + "$0, $1, $2;vmnand.mm $0, $0, $0", o);
    if (o.size() == 4) return replaced(less + "$0, $1, $2, $3;vmxor.mm $0, $0, v0", o);
    if (o.size() == 5 && register_number(Sort::v, o[0]) == 0)
      return replaced(less + "$4, $1, $2;vmandn.mm $0, $0, $4", o);
    if (o.size() == 5)
      return replaced(less + "$4, $1, $2;vmandn.mm $4, v0, $4;vmandn.mm $0, $0, v0;vmor.mm $0, $4, $0", o);
  }
  if (o.size() != 3 && o.size() != 4) return {};
  const std::string mask = o.size() == 4 ? ", " + o[3] : std::string();
  const auto number = number_of(o[2]);
  const std::string one_less = number && *number > -1000 ? std::to_string(*number - 1) : o[2] + "-1";
  const bool is_zero = number && *number == 0;
  const auto with = [&](const char* real) {
    return replaced(std::string(real) + " $0, $1, " + one_less + "@", o, mask);
  };
  if (name == "vmslt.vi") return with("vmsle.vi");
  if (name == "vmsge.vi") return with("vmsgt.vi");
  if (name == "vmsltu.vi") return is_zero ? replaced("vmsne.vv $0, $1, $1@", o, mask) : with("vmsleu.vi");
  if (name == "vmsgeu.vi") return is_zero ? replaced("vmseq.vv $0, $1, $1@", o, mask) : with("vmsgtu.vi");
  return {};
}

}  // namespace

std::vector<std::string> load_constant(const std::string& reg, std::int64_t value) {
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  if (value >= -2048 && value < 2048) return {"addi " + reg + ", x0, " + number(value)};
  const std::int64_t low = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << 52) >> 52;
  if (value == static_cast<std::int32_t>(value)) {
    const std::int64_t high = (value - low) >> 12 & 0xFFFFF;
    std::vector<std::string> made{"lui " + reg + ", " + number(high)};
    if (low != 0) made.push_back("addiw " + reg + ", " + reg + ", " + number(low));
    return made;
  }
  // first all but the low 12 bits, without trailing zeros
  std::int64_t rest =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(low)) >> 12;
  int shift = 12;
  while ((rest & 1) == 0) rest >>= 1, ++shift;
  std::vector<std::string> made = load_constant(reg, rest);
  made.push_back("slli " + reg + ", " + reg + ", " + number(shift));
  if (low != 0) made.push_back("addi " + reg + ", " + reg + ", " + number(low));
  return made;
}

std::vector<std::string> expand_pseudo(std::string_view name, const std::vector<std::string>& operands) {
  if (Texts made = immediate_form(name, operands); !made.empty()) return made;
  for (const Pseudo& pseudo : pseudos)
    if (pseudo.name == name && pseudo.operands == operands.size()) return replaced(pseudo.text, operands);
  for (const Pseudo& pseudo : masked_pseudos) {
    if (pseudo.name != name) continue;
    if (pseudo.operands == operands.size()) return replaced(pseudo.text, operands);
    if (pseudo.operands + 1 == operands.size()) return replaced(pseudo.text, operands, ", " + operands.back());
  }
  for (const auto form : {sign_form, jump_form, address_form, compare_form})
    if (Texts made = form(name, operands); !made.empty()) return made;
  return {};
}

std::string pseudo_operands(std::string_view name) {
  std::string found;
  for (const Pseudo& pseudo : pseudos)
    if (pseudo.name == name) found += (found.empty() ? "" : " or ") + std::to_string(pseudo.operands);
  for (const Pseudo& pseudo : masked_pseudos)
    if (pseudo.name == name) return std::to_string(pseudo.operands) + " or " + std::to_string(pseudo.operands + 1);
  for (const auto& [other, count] : others)
    if (other == name) return std::string(count);
  return found;
}

std::vector<std::string_view> pseudo_names() {
  std::vector<std::string_view> names;
  for (const Pseudo& pseudo : pseudos) names.push_back(pseudo.name);
  for (const Pseudo& pseudo : masked_pseudos) names.push_back(pseudo.name);
  for (const auto& [other, count] : others) names.push_back(other);
  return names;
}

}  // namespace tilesim::isa
