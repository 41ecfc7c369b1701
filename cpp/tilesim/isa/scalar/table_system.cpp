// Zicsr, Zifencei, fences, calls to the environment.
#include "tilesim/isa/state/csr.hpp"
#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

namespace {

enum class Change { replace, set, clear };

template <Change change, bool immediate>
void access(Hart& h, const Op& o) {
  const auto number = static_cast<unsigned>(o.bits >> 20);
  const unsigned source = o.bits >> 15 & 31;
  const u64 operand = immediate ? source : h.x[source];
  // a write with rd x0 does not read; a set or clear with x0 (or 0) does not write
  const bool reads = change != Change::replace || o.rd != no_register;
  const bool writes = change == Change::replace || source != 0;
  const u64 before = reads ? read_csr(h, o, number) : 0;
  if (writes)
    write_csr(h, o, number,
              change == Change::replace ? operand
              : change == Change::set   ? before | operand
                                        : before & ~operand);
  h.x[o.rd] = before;
}

void privileged(Hart& h, const Op& o) {
  if (h.environment == nullptr || !h.environment->privileged(h, o)) illegal(o, "machine mode only");
}

}  // namespace

void declare_system(Declarations& d) {
  d.extension = "Zicsr", d.unit = Unit::control, d.traits = ends_block;
  d("csrrw", "rd, csr, rs1", with3(op_system, 1), "csr", access<Change::replace, false>,
    "Exchanges a control register.");
  d("csrrs", "rd, csr, rs1", with3(op_system, 2), "csr", access<Change::set, false>, "Reads it, sets bits.");
  d("csrrc", "rd, csr, rs1", with3(op_system, 3), "csr", access<Change::clear, false>, "Reads it, clears bits.");
  d("csrrwi", "rd, csr, zimm5", with3(op_system, 5), "csr", access<Change::replace, true>,
    "Exchanges it for a constant.");
  d("csrrsi", "rd, csr, zimm5", with3(op_system, 6), "csr", access<Change::set, true>,
    "Reads it, sets bits of a constant.");
  d("csrrci", "rd, csr, zimm5", with3(op_system, 7), "csr", access<Change::clear, true>,
    "Reads it, clears bits of a constant.");
  d.extension = "Zifencei";
  d("fence.i", "", with3(op_misc, 1) | field(31, 15, 0) | field(11, 7, 0), "fence", MEANS(h.memory->code_changed()),
    "Makes written code visible to instruction fetch.");
  d.extension = "I", d.traits = 0;
  d("fence", "pred, succ", with3(op_misc, 0) | field(31, 28, 0) | field(19, 15, 0) | field(11, 7, 0), "fence", MEANS(),
    "Orders memory accesses.");
  d("fence.tso", "", with3(op_misc, 0) | field(31, 15, 0x833 << 5) | field(11, 7, 0), "fence", MEANS(),
    "Orders memory accesses but stores before loads.");
  d.traits = ends_block;
  d("ecall", "", with12(op_system, 0, 0) | field(19, 15, 0) | field(11, 7, 0), "system",
    MEANS(if (h.environment == nullptr) throw Trap{Cause::call_from_user, 0, "nobody answers"};
          h.environment->call(h, o)),
    "Calls the environment.");
  d("ebreak", "", with12(op_system, 0, 1) | field(19, 15, 0) | field(11, 7, 0), "system",
    MEANS(throw Trap{Cause::breakpoint, o.pc, ""}), "Breakpoint.");
  d("mret", "", with12(op_system, 0, 0x302) | field(19, 15, 0) | field(11, 7, 0), "system", privileged,
    "Returns from a machine-mode trap.");
  d("sret", "", with12(op_system, 0, 0x102) | field(19, 15, 0) | field(11, 7, 0), "system", privileged,
    "Returns from a supervisor-mode trap.");
  d("wfi", "", with12(op_system, 0, 0x105) | field(19, 15, 0) | field(11, 7, 0), "system", privileged,
    "Waits for an interrupt.");
  d.traits = 0;
}

}  // namespace tilesim::isa
