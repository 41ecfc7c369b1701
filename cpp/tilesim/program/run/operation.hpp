// One statement with all expressions evaluated, and its meaning on buffers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tilesim/program/flat/cursor.hpp"
#include "tilesim/program/run/tensors.hpp"
#include "tilesim/program/run/transfer.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::program {

/// Elements of one version of a slot.
struct SlotView {
  int slot = -1;
  std::int64_t version = -1;
  std::int64_t offset = 0;
  std::vector<ViewDim> dims;
  bool read = false, written = false;
};

struct Operation {
  const Instruction* instruction = nullptr;
  Opcode opcode = Opcode::wait;
  int queue = -1;
  int slot = -1;                ///< acquire, receive, commit, release, wait; send: the destination's
  std::int64_t version = -1;    ///< version of `slot`
  std::int64_t pieces = 0;      ///< commit, send: pieces added; wait: pieces required; signal: count
  int counter = -1;             ///< wait, signal, store
  std::int64_t cell = 0;        ///< cell of the counter: core and index as one number
  bool accumulate = false;      ///< mma
  std::vector<SlotView> views;  ///< like Instruction::views; load, store: the whole buffer of the slot
  std::vector<std::int64_t> extents, scalars, accumulates, cores;
  int tensor = -1;  ///< load, store: id of the actual tensor
  ResolvedTransfer transfer;

  bool is_compute() const { return opcode >= Opcode::mma && opcode <= Opcode::opaque; }
  bool is_operation() const { return opcode >= Opcode::load; }
};

/// Resolves the cursor's current instruction into `operation` (reused: its vectors keep their memory). Views are
/// checked against their slots.
void resolve(const CompiledProgram& program, const Cursor& cursor, std::int64_t core, const Instruction& instruction,
             Operation& operation);

/// Throws UserError unless the operands of a compute or send have extents that fit each other.
void check_shapes(const CompiledProgram& program, const Operation& operation);

/// Reads the row indices of indirect dims.
void read_rows(const CompiledProgram& program, const Tensors& tensors, Operation& operation);

/// The first byte of a view's version.
using BufferOf = std::function<std::byte*(const SlotView&)>;

// ---- tile_computes.cpp

TileView tile_view(const CompiledProgram& program, const SlotView& view, std::byte* buffer);

/// The tile compute of an operation, on its buffers and at its slots' addresses.
TileCompute tile_compute(const CompiledProgram& program, const Operation& operation, const BufferOf& buffer);

/// The tile compute of the cursor's current instruction, without data. Versions get consecutive addresses that do not
/// depend on slots, so that equal computes of different slots and loop trips compare equal.
TileCompute tile_compute(const CompiledProgram& program, const Cursor& cursor, std::int64_t core,
                         const Instruction& instruction);

// ---- operation.cpp

/// Executes a load, store or compute.
void perform(const CompiledProgram& program, Operation& operation, Tensors& tensors, const BufferOf& buffer,
             TileExecutor& executor);

/// Executes a sparse product on matrices expanded to dense. UserError for a mask or pointers that do not fit.
void perform_sparse(const CompiledProgram& program, const Operation& operation, const BufferOf& buffer,
                    TileExecutor& executor);

/// The current statement for messages: "core 1 in layer/attention, queue load0, load of x into a[3]".
std::string describe(const CompiledProgram& program, const Cursor& cursor, std::int64_t core,
                     const Instruction& instruction);
std::string version_name(const CompiledProgram& program, int slot, std::int64_t version);

}  // namespace tilesim::program
