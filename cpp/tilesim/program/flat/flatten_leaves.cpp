// Translates each statement without nested statements into one instruction.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/program/flat/flatten.hpp"

namespace tilesim::program {

Instruction& Flattener::instruction(Opcode opcode, const Statement& s, StepKind kind) {
  step(kind, static_cast<std::int32_t>(code_.instructions.size()));
  Instruction& i = code_.instructions.emplace_back();
  i.opcode = opcode;
  i.statement = &s;
  i.scope = scope_;
  if (!s.queue.empty()) i.queue = queue(s.queue);
  const bool needs_queue = opcode != Opcode::scope_begin && opcode != Opcode::scope_end && opcode != Opcode::acquire &&
                           opcode != Opcode::receive;
  if (needs_queue && s.queue.empty()) throw UserError({"A statement needs a queue.", place_, {}, {}, {}});
  return i;
}

void Flattener::emit(const Statement& s, const Acquire& a) {
  Instruction& i = instruction(Opcode::acquire, s);
  i.slot = slot(a.slot);
  if (a.queues.empty()) throw UserError({"An acquire names no queue.", place_, "slot " + a.slot, {}, {}});
  for (const std::string& name : a.queues) {
    i.queues.push_back(queue(name));
    if (std::count(i.queues.begin(), i.queues.end(), i.queues.back()) > 1)
      throw UserError({"An acquire names a queue twice.", place_, "'" + name + "'", {}, {}});
  }
  i.queue = i.queues[0];
}

void Flattener::emit(const Statement& s, const Receive& a) { instruction(Opcode::receive, s).slot = slot(a.slot); }

void Flattener::emit(const Statement& s, const Commit& a) {
  Instruction& i = instruction(Opcode::commit, s);
  const CompiledView target = view({a.slot, a.back, 0, {}});
  i.slot = target.slot;
  i.back = target.back;
  i.pieces = a.pieces;
}

void Flattener::emit(const Statement& s, const Release& a) {
  Instruction& i = instruction(Opcode::release, s);
  const CompiledView target = view({a.slot, a.back, 0, {}});
  i.slot = target.slot;
  i.back = target.back;
  if (!(compiled_.slots[static_cast<std::size_t>(i.slot)].consumers >> i.queue & 1)) {
    throw UserError({"A queue releases a slot that does not list it as a consumer.",
                     place_,
                     s.queue + " releases " + a.slot,
                     {},
                     {}});
  }
}

void Flattener::emit(const Statement& s, const Wait& a) {
  Instruction& i = instruction(Opcode::wait, s);
  i.count = compile(a.pieces);
  if (!a.counter.empty()) {
    i.counter = any_counter(a.counter);
    i.index = compile(a.index);
    return;
  }
  const CompiledView target = view({a.slot, a.back, 0, {}});
  i.slot = target.slot;
  i.back = target.back;
}

void Flattener::emit(const Statement& s, const Signal& a) {
  Instruction& i = instruction(Opcode::signal, s);
  i.counter = counter(a.counter, true);
  i.core = compile(a.core);
  i.index = compile(a.index);
  i.count = compile(a.count);
}

void Flattener::emit(const Statement& s, const Load& a) {
  instruction(Opcode::load, s).transfer = transfer(a.transfer);
}

void Flattener::emit(const Statement& s, const Store& a) {
  Instruction& i = instruction(Opcode::store, s);
  i.transfer = transfer(a.transfer);
  if (a.signal.empty()) return;
  i.counter = counter(a.signal, false);
  i.index = compile(a.signal_index);
}

void Flattener::emit(const Statement& s, const MmaOp& a) {
  Instruction& i = instruction(Opcode::mma, s);
  i.views = {view(a.a), view(a.b), view(a.c)};
  i.count = compile(a.accumulate);
}

void Flattener::emit(const Statement& s, const VectorOp& a) {
  Instruction& i = instruction(Opcode::vector, s);
  for (const View& v : a.inputs) i.views.push_back(view(v));
  for (const VectorOutputSpec& o : a.outputs) {
    i.views.push_back(view(o.view));
    i.accumulates.push_back(compile(o.accumulate));
  }
  i.extents = compile(a.extents);
  for (const VectorNodeSpec& n : a.nodes) {
    if (n.node.op == VectorNode::Op::scalar) i.scalars.push_back(compile(n.scalar));
  }
}

void Flattener::emit(const Statement& s, const PermuteOp& a) {
  instruction(Opcode::permute, s).views = {view(a.in), view(a.out)};
}

void Flattener::emit(const Statement& s, const IndexedOp& a) {
  instruction(Opcode::indexed, s).views = {view(a.in), view(a.index), view(a.out)};
}

void Flattener::emit(const Statement& s, const SortOp& a) {
  instruction(Opcode::sort, s).views = {view(a.in), view(a.keys), view(a.positions)};
}

void Flattener::emit(const Statement& s, const OpaqueOp& a) {
  Instruction& i = instruction(Opcode::opaque, s);
  for (const View& v : a.reads) i.views.push_back(view(v));
  for (const View& v : a.writes) i.views.push_back(view(v));
  i.count = compile(a.cycles);
  if (!a.product) return;
  i.extents = compile(std::vector<Expr>{a.product->k, a.product->products});
  i.accumulates.push_back(compile(a.product->accumulate));
}

void Flattener::emit(const Statement& s, const Send& a) {
  Instruction& i = instruction(Opcode::send, s);
  i.views = {view(a.from), view({a.slot, 0, a.offset, a.dims})};
  i.slot = i.views[1].slot;
  i.cores = compile(a.cores);
  i.pieces = a.pieces;
}

}  // namespace tilesim::program
