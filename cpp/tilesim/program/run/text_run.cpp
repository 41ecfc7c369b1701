#include "tilesim/program/run/text_run.hpp"

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"

namespace tilesim::program {

TextRun::TextRun(const CompiledProgram& program, const TextOptions& options)
    : program_(program),
      options_(options),
      executor_(executor_of(options.execute)),
      residents_(program, at(program.program().cores * program.program().contexts), options.tensors != nullptr) {
  const Program& source = program.program();
  for (const auto& [name, size] : program.counters) counters_.emplace_back(at(size * source.cores), 0);
  for (std::int64_t core = 0; core < source.cores; ++core) {
    for (std::int64_t context = 0; context < source.contexts; ++context) {
      auto stream = std::make_unique<Stream>(program, core, context, this);
      stream->id = streams_.size();
      stream->cursor.poll_with(cancel());
      for (const CompiledSlot& slot : program.slots) {
        stream->rings.emplace_back().buffers.resize(at(slot.depth));
      }
      streams_.push_back(std::move(stream));
    }
  }
  poison_ = options.tensors && (!options.execute || options.execute->poison);
}

std::int64_t TextRun::read(int tensor, const std::int64_t* index, int rank) const {
  if (!options_.tensors) throw NeedsData{};
  const std::int64_t value = options_.tensors->read(tensor, index, rank);
  if (options_.races && walking_) {
    const CompiledTensor& t = program_.tensors[at(tensor)];
    std::int64_t position = 0;
    for (int axis = 0; axis < rank; ++axis) position += index[axis] * t.strides[at(axis)];
    options_.races->set_statement("core " + std::to_string(walking_->core) + ", an expression with read()");
    options_.races->walker_reads(walking_->id, tensor, position);
  }
  return value;
}

void TextRun::run() {
  // Waits for counters continue last, when all possible signals have been made.
  while (true) {
    bool moved = false;
    for (auto& stream : streams_) {
      while (!stream->finished && step(*stream, streams_.size() == 1)) {
        moved = true;
        if (options_.statement_limit >= 0 && statements_ > options_.statement_limit) return;
      }
    }
    if (moved) continue;
    for (auto& stream : streams_) {
      if (moved || stream->finished) continue;
      moved = step(*stream, true);
    }
    if (!moved) break;
  }
  for (auto& stream : streams_) {
    if (!stream->finished) stuck();
  }
  for (auto& stream : streams_) check_released(*stream, -1);
}

bool TextRun::step(Stream& stream, bool counters) {
  ++statements_;
  if (CancelToken* token = cancel()) {
    // A tile compute may take milliseconds; other statements are too short for a look at the clock each time.
    const bool computed = stream.op.instruction && stream.op.opcode >= Opcode::mma;
    if (computed || (statements_ & 0x3FF) == 0) token->poll();
  }
  walking_ = &stream;
  try {
    if (!stream.held) {
      const Instruction* instruction = stream.cursor.next();
      if (!instruction) {
        stream.finished = true;
        return true;
      }
      stream.op.instruction = instruction;
      stream.op.opcode = instruction->opcode;
      if (instruction->opcode != Opcode::scope_begin && instruction->opcode != Opcode::scope_end) {
        resolve(program_, stream.cursor, stream.core, *instruction, stream.op);
      }
      stream.held = true;
    }
    if (!perform_one(stream, counters)) return false;
  } catch (const RaceError&) {
    throw;
  } catch (const UserError& error) {
    const UserError::Parts& parts = error.parts();
    std::string place =
        stream.op.instruction ? describe(program_, stream.cursor, stream.core, *stream.op.instruction) : "";
    if (!parts.place.empty()) place += (place.empty() ? "" : ", ") + parts.place;
    throw UserError({parts.what, place, parts.value, parts.allowed, parts.suggestion});
  }
  stream.held = false;
  return true;
}

bool TextRun::perform_one(Stream& stream, bool counters) {
  Operation& op = stream.op;
  switch (op.opcode) {
    case Opcode::scope_begin:
      return begin_scope(stream);
    case Opcode::scope_end:
      end_scope(stream);
      return true;
    case Opcode::acquire:
      return acquire(stream);
    case Opcode::receive:
      ++stream.rings[at(op.slot)].received;
      return true;
    case Opcode::commit:
      commit(stream);
      return true;
    case Opcode::release:
      release(stream);
      return true;
    case Opcode::wait:
      return wait(stream, counters);
    case Opcode::signal:
      counters_[at(op.counter)][at(op.cell)] += op.pieces;
      if (options_.races) {
        name_statement(stream);
        options_.races->signal(stream.id, op);
      }
      return true;
    case Opcode::send:
      return send(stream);
    default:
      operation(stream);
      return true;
  }
}

bool TextRun::begin_scope(Stream& stream) {
  const Scope& scope = *program_.scopes[at(stream.op.instruction->scope)].scope;
  if (options_.races && scope.barrier) options_.races->barrier(stream.id);
  if (options_.tensors && streams_.size() == 1) options_.tensors->begin_kernel(stream.cursor.call_path(), &scope);
  stream.touched.emplace_back();
  if (!scope.operation.empty()) ++stream.operations;
  return true;
}

void TextRun::end_scope(Stream& stream) {
  const int id = stream.op.instruction->scope;
  check_released(stream, id);
  const Scope& scope = *program_.scopes[at(id)].scope;
  const Touched touched = std::move(stream.touched.back());
  stream.touched.pop_back();
  if (!stream.touched.empty()) stream.touched.back().add(touched);
  // A kernel of several steps is observed once, at its end.
  if (!scope.operation.empty() && --stream.operations == 0) observe(stream, id, touched);
}

/// Reports the stores of a kernel once all streams have completed their parts of the kernel.
void TextRun::observe(Stream& stream, int scope, const Touched& own) {
  if (!options_.execute || !options_.execute->observe || !options_.tensors) return;
  const std::pair<int, std::int64_t> key{scope, stream.ended[scope]++};
  PartialKernel& kernel_so_far = partial_kernels_[key];
  kernel_so_far.touched.add(own);
  if (++kernel_so_far.streams < streams_.size()) return;
  const Touched touched = std::move(kernel_so_far.touched);
  partial_kernels_.erase(key);
  const CompiledScope& place = program_.scopes[at(scope)];
  Observed kernel{place.scope->operation,
                  place.function,
                  stream.cursor.call(),
                  stream.cursor.calls(),
                  stream.cursor.bindings(),
                  {},
                  {}};
  for (const int tensor : touched.stored)
    kernel.tensors[program_.tensors[at(tensor)].name] = options_.tensors->view(tensor);
  for (const int tensor : touched.loaded) kernel.loaded.insert(program_.tensors[at(tensor)].name);
  options_.execute->observe(kernel);
}

TextRun::DataBuffer& TextRun::buffer(Stream& stream, int slot, std::int64_t version) const {
  Ring& ring = stream.rings[at(slot)];
  return ring.buffers[at(version) % ring.buffers.size()];
}

TextRun::DataBuffer& TextRun::live(Stream& stream, int slot, std::int64_t version) {
  const std::string& name = program_.slots[at(slot)].name;
  if (version < 0) fail(stream, "Slot " + name + " is used before its first acquire");
  DataBuffer& b = buffer(stream, slot, version);
  if (b.version != version || b.free) {
    fail(stream, "Version " + std::to_string(version) + " of slot " + name +
                     (b.version > version || b.version == version ? " is used after it was released"
                                                                  : " is used before it was received"));
  }
  return b;
}

/// Whether the buffer is free, and every version on the same bytes.
bool TextRun::is_room(const Stream& stream, int slot, std::int64_t version) const {
  const Bytes own = bytes_of(slot, version);
  return !stream.live.overlapping(own.accumulator, own.low, own.high);
}

TextRun::Bytes TextRun::bytes_of(int slot, std::int64_t version) const {
  const CompiledSlot& s = program_.slots[at(slot)];
  const std::int64_t low = s.address + version % s.depth * s.bytes;
  return {s.accumulator, low, low + s.bytes};
}

void TextRun::start_version(Stream& stream, int slot, std::int64_t version) {
  const CompiledSlot& s = program_.slots[at(slot)];
  DataBuffer& b = buffer(stream, slot, version);
  if (options_.tensors) {
    b.bytes.resize(at(s.elements * host_bytes(s.dtype)));
    if (poison_) poison(b.bytes.data(), s.dtype, s.elements);
  }
  b.version = version;
  b.pieces = 0;
  b.released = 0;
  b.free = false;
  const Bytes own = bytes_of(slot, version);
  if (!own.accumulator) residents_.take(stream.id, own.low, own.high, poison_ ? options_.tensors : nullptr);
  stream.live.take(own.accumulator, own.low, own.high, {slot, static_cast<int>(version % s.depth)});
}

bool TextRun::acquire(Stream& stream) {
  const Operation& op = stream.op;
  if (!is_room(stream, op.slot, op.version)) return false;
  if (options_.races) {
    name_statement(stream);
    options_.races->acquire(stream.id, op);
  }
  start_version(stream, op.slot, op.version);
  return true;
}

void TextRun::commit(Stream& stream) {
  const Operation& op = stream.op;
  live(stream, op.slot, op.version).pieces += op.pieces;
  if (!options_.races) return;
  name_statement(stream);
  options_.races->commit(stream.id, op);
}

void TextRun::release(Stream& stream) {
  const Operation& op = stream.op;
  DataBuffer& b = live(stream, op.slot, op.version);
  if (b.released >> op.queue & 1) fail(stream, "The queue has released this version before");
  b.released |= 1U << op.queue;
  b.free = b.released == program_.slots[at(op.slot)].consumers;
  if (options_.races) {
    name_statement(stream);
    options_.races->release(stream.id, op, b.free);
  }
  if (!b.free) return;
  const Bytes own = bytes_of(op.slot, op.version);
  stream.live.free(own.accumulator, own.low);
}

bool TextRun::wait(Stream& stream, bool counters) {
  const Operation& op = stream.op;
  if (op.counter >= 0) {
    if (counters_[at(op.counter)][at(op.cell)] < op.pieces || !counters) return false;
    if (options_.races) {
      name_statement(stream);
      options_.races->wait_counter(stream.id, op);
    }
    return true;
  }
  if (op.version < 0) live(stream, op.slot, op.version);
  const DataBuffer& b = buffer(stream, op.slot, op.version);
  if (b.version > op.version || (b.version == op.version && b.free)) live(stream, op.slot, op.version);
  if (b.version != op.version || b.pieces < op.pieces) return false;
  if (options_.races) {
    name_statement(stream);
    options_.races->wait_slot(stream.id, op);
  }
  return true;
}

}  // namespace tilesim::program
