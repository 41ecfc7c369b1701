// C: each instruction executes like the instruction to which it expands.
#include "tilesim/base/error.hpp"
#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

namespace {

constexpr Encoding quadrant(u32 number, u32 funct3) { return field(1, 0, number) | field(15, 13, funct3); }

/// Declares a compressed form with meaning, unit, class and traits of `whole`.
void form(Declarations& d, const char* name, const char* operands, Encoding encoding, const char* whole) {
  for (const InstructionInfo& entry : d.entries) {
    if (entry.name != whole) continue;
    InstructionInfo made = entry;
    made.name = name, made.operands = operands, made.encoding = encoding, made.extension = "C";
    made.traits |= is_compressed;
    made.description = std::string("As ") + whole + ".";
    d.entries.push_back(std::move(made));
    return;
  }
  throw InternalError(std::string(name) + " expands to what no table before it declares");
}

void short_memory(Declarations& d) {
  form(d, "c.addi4spn", "rd', sp, c.u10", quadrant(0, 0), "addi");
  form(d, "c.fld", "fd', c.u8(rs1')", quadrant(0, 1), "fld");
  form(d, "c.lw", "rd', c.u7(rs1')", quadrant(0, 2), "lw");
  form(d, "c.ld", "rd', c.u8(rs1')", quadrant(0, 3), "ld");
  form(d, "c.fsd", "fs2', c.u8(rs1')", quadrant(0, 5), "fsd");
  form(d, "c.sw", "rs2', c.u7(rs1')", quadrant(0, 6), "sw");
  form(d, "c.sd", "rs2', c.u8(rs1')", quadrant(0, 7), "sd");
  form(d, "c.fldsp", "fd, c.u9sp(sp)", quadrant(2, 1), "fld");
  form(d, "c.lwsp", "rd!0, c.u8sp(sp)", quadrant(2, 2), "lw");
  form(d, "c.ldsp", "rd!0, c.u9sp(sp)", quadrant(2, 3), "ld");
  form(d, "c.fsdsp", "fs2c, c.s9sp(sp)", quadrant(2, 5), "fsd");
  form(d, "c.swsp", "rs2c, c.s8sp(sp)", quadrant(2, 6), "sw");
  form(d, "c.sdsp", "rs2c, c.s9sp(sp)", quadrant(2, 7), "sd");
}

void arithmetic(Declarations& d) {
  form(d, "c.nop", "c.hint", quadrant(1, 0) | field(11, 7, 0), "addi");
  form(d, "c.addi", "rd!0=rs1, c.i6", quadrant(1, 0), "addi");
  form(d, "c.addiw", "rd!0=rs1, c.i6", quadrant(1, 1), "addiw");
  form(d, "c.li", "rd, c.i6", quadrant(1, 2), "addi");
  form(d, "c.addi16sp", "sp=sp, c.i10sp", quadrant(1, 3) | field(11, 7, 2), "addi");
  form(d, "c.lui", "rd!2, c.lui", quadrant(1, 3), "lui");
  const Encoding group = quadrant(1, 4);
  form(d, "c.srli", "rd'=rs1, c.shamt6", group | field(11, 10, 0), "srli");
  form(d, "c.srai", "rd'=rs1, c.shamt6", group | field(11, 10, 1), "srai");
  form(d, "c.andi", "rd'=rs1, c.i6", group | field(11, 10, 2), "andi");
  const char* const wholes[] = {"sub", "xor", "or", "and"};
  const char* const names[] = {"c.sub", "c.xor", "c.or", "c.and"};
  for (u32 i = 0; i < 4; ++i) form(d, names[i], "rd'=rs1, rs2'", group | field(12, 10, 3) | field(6, 5, i), wholes[i]);
  form(d, "c.subw", "rd'=rs1, rs2'", group | field(12, 10, 7) | field(6, 5, 0), "subw");
  form(d, "c.addw", "rd'=rs1, rs2'", group | field(12, 10, 7) | field(6, 5, 1), "addw");
  form(d, "c.slli", "rd=rs1, c.shamt6", quadrant(2, 0), "slli");
  form(d, "c.mv", "rd, rs2c!0", quadrant(2, 4) | field(12, 12, 0), "add");
  form(d, "c.add", "rd=rs1, rs2c!0", quadrant(2, 4) | field(12, 12, 1), "add");
}

void short_jumps(Declarations& d) {
  form(d, "c.j", "c.j12", quadrant(1, 5), "jal");
  form(d, "c.beqz", "rs1', c.b9", quadrant(1, 6), "beq");
  form(d, "c.bnez", "rs1', c.b9", quadrant(1, 7), "bne");
  form(d, "c.jr", "rs1c!0", quadrant(2, 4) | field(12, 12, 0) | field(6, 2, 0), "jalr");
  form(d, "c.ebreak", "", quadrant(2, 4) | field(12, 2, 0x400), "ebreak");
  form(d, "c.jalr", "rs1c!0", quadrant(2, 4) | field(12, 12, 1) | field(6, 2, 0), "jalr");
  d.entries.back().execute = MEANS(const u64 to = h.x[o.rs1] & ~u64{1}; h.x[1] = o.pc + o.length; h.pc = to);
}

}  // namespace

void declare_compressed(Declarations& d) {
  short_memory(d);
  arithmetic(d);
  short_jumps(d);
}

}  // namespace tilesim::isa
