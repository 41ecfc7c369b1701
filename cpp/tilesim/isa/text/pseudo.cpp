// Pseudo-instructions (RISC-V assembly programmer's manual, tables of pseudo-instructions).
#include <array>
#include <cstdlib>

#include "tilesim/isa/text/assemble.hpp"

namespace tilesim::isa {

namespace {

struct Pseudo {
  std::string_view name;
  unsigned operands;
  const char* text;
};

constexpr Pseudo pseudos[] = {
    {"nop", 0, "addi x0, x0, 0"},
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
    {"jr", 1, "jalr x0, 0($0)"},
    {"jalr", 1, "jalr ra, 0($0)"},
    {"ret", 0, "jalr x0, 0(ra)"},
    {"call", 1, "jal ra, $0"},
    {"tail", 1, "jal x0, $0"},
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
    {"frflags", 1, "csrrs $0, fflags, x0"},
    {"fsflags", 1, "csrrw x0, fflags, $0"},
    {"fsflags", 2, "csrrw $0, fflags, $1"},
    {"vneg.v", 2, "vrsub.vx $0, $1, x0"},
    {"vnot.v", 2, "vxor.vi $0, $1, -1"},
    {"vmfgt.vv", 3, "vmflt.vv $0, $2, $1"},
    {"vmfgt.vv", 4, "vmflt.vv $0, $2, $1, $3"},
    {"vmfge.vv", 3, "vmfle.vv $0, $2, $1"},
    {"vmfge.vv", 4, "vmfle.vv $0, $2, $1, $3"},
    {"vmsgt.vv", 3, "vmslt.vv $0, $2, $1"},
    {"vmsgt.vv", 4, "vmslt.vv $0, $2, $1, $3"},
    {"vmsgtu.vv", 3, "vmsltu.vv $0, $2, $1"},
    {"vmsgtu.vv", 4, "vmsltu.vv $0, $2, $1, $3"},
    {"vmsge.vv", 3, "vmsle.vv $0, $2, $1"},
    {"vmsge.vv", 4, "vmsle.vv $0, $2, $1, $3"},
    {"vmsgeu.vv", 3, "vmsleu.vv $0, $2, $1"},
    {"vmsgeu.vv", 4, "vmsleu.vv $0, $2, $1, $3"},
    {"vneg.v", 3, "vrsub.vx $0, $1, x0, $2"},
    {"vnot.v", 3, "vxor.vi $0, $1, -1, $2"},
    {"vmmv.m", 2, "vmand.mm $0, $1, $1"},
    {"vmnot.m", 2, "vmnand.mm $0, $1, $1"},
    {"vmclr.m", 1, "vmxor.mm $0, $0, $0"},
    {"vmset.m", 1, "vmxnor.mm $0, $0, $0"},
    {"vfneg.v", 2, "vfsgnjn.vv $0, $1, $1"},
    {"vfneg.v", 3, "vfsgnjn.vv $0, $1, $1, $2"},
    {"vfabs.v", 2, "vfsgnjx.vv $0, $1, $1"},
    {"vfabs.v", 3, "vfsgnjx.vv $0, $1, $1, $2"},
    {"vwcvt.x.x.v", 2, "vwadd.vx $0, $1, x0"},
    {"vwcvtu.x.x.v", 2, "vwaddu.vx $0, $1, x0"},
    {"vncvt.x.x.w", 2, "vnsrl.wx $0, $1, x0"},
    {"vl1r.v", 2, "vl1re8.v $0, $1"},
    {"vl2r.v", 2, "vl2re8.v $0, $1"},
    {"vl4r.v", 2, "vl4re8.v $0, $1"},
    {"vl8r.v", 2, "vl8re8.v $0, $1"},
};

std::string replaced(std::string text, const std::vector<std::string>& operands) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '$')
      result += operands[static_cast<std::size_t>(text[++i] - '0')];
    else
      result += text[i];
  return result;
}

/// fmv.s, fneg.d, fabs.h: a sign copied, turned or dropped.
std::string sign_form(std::string_view name, const std::vector<std::string>& operands) {
  if (operands.size() != 2 || name.size() < 4) return {};
  const std::string_view start = name.substr(0, name.size() - 2), width = name.substr(name.size() - 2);
  if (width != ".s" && width != ".d" && width != ".h") return {};
  const char* real = start == "fmv" ? "fsgnj" : start == "fneg" ? "fsgnjn" : start == "fabs" ? "fsgnjx" : nullptr;
  if (real == nullptr) return {};
  return real + std::string(width) + " " + operands[0] + ", " + operands[1] + ", " + operands[1];
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
  // all but the low 12 bits first, without the zeros at their end
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
  for (const Pseudo& pseudo : pseudos)
    if (pseudo.name == name && pseudo.operands == operands.size()) return {replaced(pseudo.text, operands)};
  if (const std::string form = sign_form(name, operands); !form.empty()) return {form};
  if (name == "la" && operands.size() == 2)
    return {"auipc " + operands[0] + ", %pcrel_hi(" + operands[1] + ")",
            "addi " + operands[0] + ", " + operands[0] + ", %pcrel_lo(" + operands[1] + ")"};
  return {};
}

std::string pseudo_operands(std::string_view name) {
  std::string found;
  for (const Pseudo& pseudo : pseudos)
    if (pseudo.name == name) found += (found.empty() ? "" : " or ") + std::to_string(pseudo.operands);
  return name == "li" || name == "la" ? "2" : found;
}

}  // namespace tilesim::isa
