// DMA: transfers between off-chip memory and the core, by descriptor and ticket; and marks of regions.
#include "tilesim/isa/npu/encoding.hpp"
#include "tilesim/isa/state/marks.hpp"
#include "tilesim/isa/state/npu.hpp"
#include "tilesim/isa/state/transfer.hpp"
#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

namespace npu_moves {

Moves& moves_of(Hart& h, const Op& o) {
  if (h.npu == nullptr) illegal(o, "this core has no DMA");
  Moves& moves = h.npu->moves;
  if (o.rs3 >= moves.load_queues + moves.store_queues) illegal(o, "this core has fewer DMA queues");
  return moves;
}

void move(Hart& h, const Op& o) {
  Moves& moves = moves_of(h, o);
  const TransferDescriptor transfer = read_descriptor(*h.memory, o, h.x[o.rs1]);
  const u64 bytes = bytes_in_tensor(*h.memory, o, transfer);
  carry_out(h, o, transfer, sign(h.x[o.rs2]), o.rs3 >= moves.load_queues);
  moves.bytes += bytes;
  h.x[o.rd] = ++moves.tickets;
}

u64 ticket_of(Hart& h, const Op& o, const Moves& moves) {
  const u64 ticket = h.x[o.rs1];
  if (ticket > moves.tickets) illegal(o, "no transfer has this ticket");
  return ticket;
}

void wait(Hart& h, const Op& o) { ticket_of(h, o, moves_of(h, o)); }

void done(Hart& h, const Op& o) {
  const u64 ticket = ticket_of(h, o, moves_of(h, o));
  h.x[o.rd] = h.clock == nullptr || h.clock->moved(ticket, o.rs3) ? 1 : 0;
}

void mark(Hart& h, const Op& o) {
  if (o.imm == 0) illegal(o, "regions have numbers from 1 on");
  if (h.marks == nullptr) return;
  const auto number = static_cast<u16>(o.imm < 0 ? -o.imm : o.imm);
  o.imm < 0 ? h.marks->end(h, o, number) : h.marks->begin(h, o, number);
}

}  // namespace npu_moves

void declare_npu_moves(Declarations& d) {
  d.extension = "Xtilesimnpu", d.unit = Unit::control, d.traits = 0;
  d("ts.move", "rd, rs1, rs2, queue", with3(op_custom1, 0), "move-start", npu_moves::move,
    "Starts the transfer of the descriptor at rs1, rs2 bytes further off chip; rd: a ticket.");
  d("ts.move.wait", "rs1, queue", with3(op_custom1, 1) | field(24, 20, 0) | field(11, 7, 0), "move-wait",
    npu_moves::wait, "Waits until the transfer of a ticket is over; 0: until all of the queue are.");
  d("ts.move.done", "rd, rs1, queue", with3(op_custom1, 2) | field(24, 20, 0), "move-done", npu_moves::done,
    "1 where the transfer of a ticket (0: all of the queue) is over, else 0.");
  d.traits = ends_block;
  d("ts.mark", "mark", with3(op_custom3, 0) | field(19, 15, 0) | field(11, 7, 0), "integer", npu_moves::mark,
    "Begins the region of this number; a negative number ends it.");
  d.traits = 0;
}

}  // namespace tilesim::isa
