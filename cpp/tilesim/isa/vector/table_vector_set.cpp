// vsetvli, vsetivli, vsetvl.
#include <limits>

#include "tilesim/isa/vector/elements.hpp"

namespace tilesim::isa {

namespace {

/// AVL by rs1 and rd: if both are x0, vl is unchanged; if only rs1 is x0, vl becomes VLMAX.
void set_by_register(Hart& h, const Op& o, u64 vtype) {
  u64 avl = h.x[o.rs1];
  if (o.rs1 == 0) avl = o.rd == no_register ? h.v.vl : std::numeric_limits<u64>::max();
  set_vtype(h.v, vtype, avl);
  h.x[o.rd] = h.v.vl;
}

}  // namespace

void declare_vector_set(Declarations& d) {
  d.extension = "V", d.unit = Unit::control, d.traits = is_vector | sets_vl;
  d("vsetvli", "rd, rs1, vtype11", with3(op_v, 7) | field(31, 31, 0), "vset",
    MEANS(set_by_register(h, o, static_cast<u64>(o.imm))), "Sets vtype, and vl from a register.");
  d("vsetivli", "rd, zimm5, vtype10", with3(op_v, 7) | field(31, 30, 3), "vset",
    MEANS(set_vtype(h.v, static_cast<u64>(o.imm), o.bits >> 15 & 31); h.x[o.rd] = h.v.vl),
    "Sets vtype, and vl from a constant.");
  d("vsetvl", "rd, rs1, rs2", with7(op_v, 7, 0x40), "vset", MEANS(set_by_register(h, o, h.x[o.rs2])),
    "Sets vtype and vl from registers.");
  d.traits = 0;
}

}  // namespace tilesim::isa
