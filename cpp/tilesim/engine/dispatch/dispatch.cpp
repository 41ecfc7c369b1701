#include "tilesim/engine/dispatch/dispatch.hpp"

#include <algorithm>
#include <span>

#include "tilesim/base/index.hpp"

namespace tilesim::engine {

using program::Opcode;

bool Dispatch::run(Stream& stream) {
  if (stream.finished || agenda_.now() < stream.stalled_until) return false;
  while (true) {
    const program::Instruction* instruction = stream.held ? stream.held : stream.cursor.next();
    if (!instruction) {
      if (stream.entries_in_queues > 0) return false;
      if (agenda_.now() >= stream.done_until) return true;
      agenda_.push(EventKind::stream, stream.done_until, stream.number, 0);
      return false;
    }
    stream.held = instruction;
    if (!hand_out(stream, *instruction)) return false;
    stream.held = nullptr;
    if (agenda_.now() < stream.stalled_until) return false;
  }
}

bool Dispatch::begin_scope(Stream& stream, const program::Instruction& instruction) {
  const program::Scope& scope = *stream.program->scopes[at(instruction.scope)].scope;
  const std::int64_t now = agenda_.now();
  const bool drained = stream.entries_in_queues == 0 && now >= stream.done_until;
  if (scope.barrier && !drained) {
    if (stream.entries_in_queues == 0) agenda_.push(EventKind::stream, stream.done_until, stream.number, 0);
    return false;
  }
  if (scope.kernel.empty()) return true;
  const bool outermost = stream.scopes.empty();
  stream.scopes.push_back(instruction.scope);
  const std::int64_t launched = stream.kind->after(now, scope.launch_cycles);
  if (outermost) {
    stream.kernels.begin(instruction.scope, drained ? now : -1, drained ? launched : 0);
    if (stream.leads()) stream.job->kernels.launch(instruction.scope, launched - now);
  }
  if (launched > now) {
    stream.stalled_until = launched;
    stream.done_until = std::max(stream.done_until, stream.stalled_until);
    agenda_.push(EventKind::stream, stream.stalled_until, stream.number, 0);
  }
  return true;
}

void Dispatch::end_scope(Stream& stream, const program::Instruction& instruction) {
  stream.slots.end(stream.job->loaded->slots_of[at(instruction.scope)], stream.cursor);
  if (stream.scopes.empty() || stream.scopes.back() != instruction.scope) return;
  stream.scopes.pop_back();
  if (!stream.scopes.empty()) return;
  stream.kernels.end();
  stream.job->kernels.settle(stream.kernels, stream.leads(), agenda_.now(), stream.job->streams.size());
}

namespace {

bool is_compute(Opcode opcode) { return opcode >= Opcode::mma && opcode <= Opcode::opaque; }

/// Sets the signature and source of a compute for a kernel model.
void sign(Stream& stream, const program::Instruction& instruction, ResolvedStatement& statement) {
  const SignedCompute& own = stream.job->loaded->computes.find(stream.cursor, stream.virtual_core, instruction);
  statement.descriptor.signature = own.signature;
  statement.source = &own;
}

}  // namespace

void Dispatch::receive(Stream& stream, const program::Instruction& instruction) {
  const Woken woken = stream.slots.receive(instruction.slot, stream.cursor.version(instruction.slot, 0));
  wake_senders(agenda_, stream.job->streams, woken.senders);
}

bool Dispatch::hand_out(Stream& stream, const program::Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::scope_begin:
      return begin_scope(stream, instruction);
    case Opcode::scope_end:
      end_scope(stream, instruction);
      return true;
    case Opcode::receive:
      receive(stream, instruction);
      return true;
    default:
      break;
  }
  const bool several = instruction.opcode == Opcode::acquire;
  const std::int32_t single[1] = {instruction.queue};
  const std::span<const std::int32_t> queues =
      several ? std::span<const std::int32_t>(instruction.queues) : std::span<const std::int32_t>(single);
  for (const std::int32_t queue : queues)
    if (stream.queues[at(queue)].statements.full()) return false;
  for (const std::int32_t queue : queues) {
    Queue& target = stream.queues[at(queue)];
    const bool idle = target.statements.empty();
    ResolvedStatement& statement = target.statements.push();
    resolve(stream, instruction, statement);
    if (stream.kind->signs() && is_compute(instruction.opcode)) sign(stream, instruction, statement);
    ++stream.entries_in_queues;
    if (idle) wake(agenda_, stream, queue, agenda_.now());
  }
  ++totals_.tile_operations;
  return true;
}

}  // namespace tilesim::engine
