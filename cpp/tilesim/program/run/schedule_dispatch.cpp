// Dispatches statements to queues in text order, and gives each operand its version.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/program/run/schedule.hpp"

namespace tilesim::program {

void Schedule::dispatch(std::size_t s) {
  Stream& stream = *streams_[s];
  const Instruction* instruction = stream.cursor.next();
  if (!instruction) {
    stream.finished = true;
    return;
  }
  if (instruction->opcode == Opcode::scope_begin) {
    stream.at_barrier = program_.scopes[at(instruction->scope)].scope->barrier;
    return;
  }
  if (instruction->opcode == Opcode::scope_end) return;
  if (instruction->opcode == Opcode::receive) {
    Version& version = start_version(stream, instruction->slot, stream.cursor.version(instruction->slot, 0));
    stream.received[instruction->slot].push_back(&version);
    return;
  }
  enqueue(s, *instruction);
}

Schedule::Version& Schedule::start_version(Stream& stream, int slot, std::int64_t number) {
  auto& entry = stream.versions[{slot, number}];
  entry = std::make_unique<Version>();
  entry->slot = slot;
  entry->number = number;
  const CompiledSlot& own = program_.slots[at(slot)];
  const std::int64_t low = own.address + number % own.depth * own.bytes, high = low + own.bytes;
  std::vector<Version*> kept;
  for (Version* other : stream.latest) {
    const CompiledSlot& s = program_.slots[at(other->slot)];
    const std::int64_t from = s.address + other->number % s.depth * s.bytes;
    const bool overlaps = s.accumulator == own.accumulator && from < high && from + s.bytes > low;
    if (overlaps) entry->before.push_back(other);
    if (!overlaps || from < low || from + s.bytes > high) kept.push_back(other);
  }
  kept.push_back(entry.get());
  stream.latest = std::move(kept);
  return *entry;
}

Schedule::Version* Schedule::find_version(Stream& stream, const Node& node, int slot, std::int64_t number) {
  const auto found = stream.versions.find({slot, number});
  if (found == stream.versions.end()) {
    throw RaceError({"A slot is used before its first acquire.", node.text, {}, {}, {}});
  }
  return found->second.get();
}

void Schedule::enqueue(std::size_t s, const Instruction& instruction) {
  Stream& stream = *streams_[s];
  nodes_.push_back(std::make_unique<Node>());
  Node& node = *nodes_.back();
  node.stream = s;
  node.text = describe(program_, stream.cursor, stream.core, instruction);
  resolve(program_, stream.cursor, stream.core, instruction, node.op);
  const Operation& op = node.op;
  if (op.opcode == Opcode::acquire) {
    node.versions.push_back(&start_version(stream, op.slot, op.version));
    node.places = instruction.queues.size();
    for (const std::int32_t queue : instruction.queues) {
      stream.queues[at(queue)].entries.push_back(&node);
      ++stream.waiting;
    }
    return;
  }
  Queue& queue = stream.queues[at(op.queue)];
  if (op.is_operation()) {
    for (std::size_t i = 0; i < op.views.size(); ++i) {
      if (op.opcode == Opcode::send && i == 1) break;
      Version* version = find_version(stream, node, op.views[i].slot, op.views[i].version);
      node.versions.push_back(version);
      if (version->users.empty() || version->users.back() != &node) version->users.push_back(&node);
    }
  } else if (op.slot >= 0) {
    node.versions.push_back(find_version(stream, node, op.slot, op.version));
  }
  const bool is_effect = op.opcode == Opcode::commit || op.opcode == Opcode::release || op.opcode == Opcode::signal;
  if (is_effect) add_effect(node);
  if (op.is_operation()) queue.operations.push_back(&node);
  queue.entries.push_back(&node);
  ++stream.waiting;
}

/// A commit or release follows the queue's earlier operations that use the version; a signal follows all operations.
void Schedule::add_effect(Node& node) {
  effects_.push_back(std::make_unique<Effect>());
  Effect& effect = *effects_.back();
  effect.node = &node;
  node.effect = &effect;
  const Operation& op = node.op;
  if (op.opcode == Opcode::signal) {
    effect.after = streams_[node.stream]->queues[at(op.queue)].operations;
    return;
  }
  Version& version = *node.versions[0];
  for (Node* user : version.users)
    if (user->op.queue == op.queue) effect.after.push_back(user);
  if (op.opcode == Opcode::commit) version.commits.push_back(&effect);
}

}  // namespace tilesim::program
