// A statement with evaluated expressions, and its execution on buffers.
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
  int slot = -1;                ///< slot of acquire, receive, commit, release, wait; send: slot at the destination
  std::int64_t version = -1;    ///< version of `slot`
  std::int64_t pieces = 0;      ///< commit, send: added pieces; wait: required pieces; signal: count
  int counter = -1;             ///< for wait, signal, store
  std::int64_t cell = 0;        ///< cell of the counter, computed from core and index
  bool accumulate = false;      ///< for mma
  std::vector<SlotView> views;  ///< as in Instruction::views; load, store: the entire buffer of the slot
  std::vector<std::int64_t> extents, scalars, accumulates, cores;
  int tensor = -1;  ///< load, store: id of the actual tensor
  ResolvedTransfer transfer;

  bool is_compute() const { return opcode >= Opcode::mma && opcode <= Opcode::opaque; }
  bool is_operation() const { return opcode >= Opcode::load; }
};

/// Evaluates the cursor's current instruction into `operation`, which can be reused to avoid allocations. Checks views
/// against their slots.
void resolve(const CompiledProgram& program, const Cursor& cursor, std::int64_t core, const Instruction& instruction,
             Operation& operation);

/// Throws UserError unless the extents of the operands of a compute or send match.
void check_shapes(const CompiledProgram& program, const Operation& operation);

/// Reads the row indices of dims with `through`.
void read_rows(const CompiledProgram& program, const Tensors& tensors, Operation& operation);

/// Returns the first byte of the version that a view refers to.
using BufferOf = std::function<std::byte*(const SlotView&)>;

// Defined in tile_computes.cpp:

TileView tile_view(const CompiledProgram& program, const SlotView& view, std::byte* buffer);

/// The tile compute of an operation on its buffers, at the addresses of its slots.
TileCompute tile_compute(const CompiledProgram& program, const Operation& operation, const BufferOf& buffer);

/// The tile compute of the cursor's current instruction, without data. Addresses are consecutive and independent of
/// slots, so that equal computes of different slots and loop trips compare equal.
TileCompute tile_compute(const CompiledProgram& program, const Cursor& cursor, std::int64_t core,
                         const Instruction& instruction);

// Defined in operation.cpp:

/// Executes a load, store or compute.
void perform(const CompiledProgram& program, Operation& operation, Tensors& tensors, const BufferOf& buffer,
             TileExecutor& executor);

/// Expands a sparse product's matrices and multiplies. Throws UserError if a mask or pointers are inconsistent.
void perform_sparse(const CompiledProgram& program, const Operation& operation, const BufferOf& buffer,
                    TileExecutor& executor);

/// Describes the current statement for messages: "core 1 in layer/attention, queue load0, load of x into a[3]".
std::string describe(const CompiledProgram& program, const Cursor& cursor, std::int64_t core,
                     const Instruction& instruction);
std::string version_name(const CompiledProgram& program, int slot, std::int64_t version);

}  // namespace tilesim::program
