// A compiled program and the cursor that walks it: names resolved to indices once, before the run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// Instructions that the cursor returns. It handles structure (loops, branches, calls) internally.
enum class Opcode : std::uint8_t {
  scope_begin,
  scope_end,
  acquire,
  receive,
  commit,
  release,
  wait,
  signal,
  load,
  store,
  mma,
  vector,
  permute,
  indexed,
  sort,
  opaque,
  send
};

struct CompiledView {
  int slot = -1;
  std::int32_t back = 0;
  CompiledExpr offset;
  std::vector<std::pair<CompiledExpr, CompiledExpr>> dims;
};
struct CompiledTransferDim {
  CompiledExpr extent, step, stride;
  int axis = -1;
  int through = -1;
  std::vector<CompiledExpr> through_at;
};
struct CompiledTransfer {
  int tensor = -1;
  std::vector<CompiledExpr> at;
  std::vector<CompiledTransferDim> dims;
  int slot = -1;
  std::int32_t back = 0;
  CompiledExpr offset;
  bool has_fill = false;
  double fill = 0;
};

/// One leaf statement, resolved. Fields that an opcode does not use stay empty. `tensor` ids inside functions are
/// formal: the cursor binds them (see Cursor::tensor).
struct Instruction {
  Opcode opcode;
  std::int32_t queue = -1;  ///< index into CompiledProgram::queues
  std::int32_t slot = -1;   ///< acquire, receive, commit, release, wait
  std::int32_t back = 0;
  std::int32_t counter = -1;  ///< wait, signal, store
  std::int64_t pieces = 1;    ///< commit, send
  CompiledExpr count;         ///< wait: pieces; signal: count; opaque: cycles; mma: accumulate
  CompiledExpr index;         ///< counter index
  CompiledExpr core;          ///< signal
  CompiledTransfer transfer;
  std::vector<CompiledView> views;        ///< mma: a, b, c; vector: inputs then outputs; permute: in, out; indexed: in,
                                          ///< index, out; sort: in, keys, positions; send: from
  std::vector<CompiledExpr> extents;      ///< defined in compiled.hpp
  std::vector<CompiledExpr> scalars;      ///< vector: values of scalar nodes, in node order
  std::vector<CompiledExpr> accumulates;  ///< vector: per output
  std::vector<CompiledExpr> cores;        ///< send
  std::vector<std::int32_t> queues;       ///< acquire: blocked queues
  const Statement* statement = nullptr;
  std::int32_t scope = -1;  ///< innermost enclosing scope (static id)
};

struct CompiledSlot {
  std::string name;
  DType dtype;
  std::int64_t elements, bytes, depth, address;
  bool accumulator;
  std::uint32_t consumers;
  int consumer_count;
  int scope;
};
struct CompiledTensor {
  std::string name;
  DType dtype;
  Shape shape;
  Shape strides;
  int storage; /* index of the tensor that owns the bytes */
  const Tensor* tensor;
};
struct CompiledScope {
  const Scope* scope;
  std::string function;
};

class CompiledProgram {
 public:
  /// Keeps a copy of the program. Throws UserError on unresolved names. At most 32 queues.
  explicit CompiledProgram(Program program);
  /// Keeps a reference: the program must outlive this.
  explicit CompiledProgram(const Program* program);
  ~CompiledProgram();
  CompiledProgram(CompiledProgram&&) noexcept;
  const Program& program() const;
  std::vector<std::string> queues;
  std::vector<CompiledSlot> slots;
  std::vector<CompiledTensor> tensors;
  std::vector<std::pair<std::string, std::int64_t>> counters;  ///< name, size (semaphores too)
  std::vector<CompiledScope> scopes;
  bool reads_tensors = false;  ///< loops or addresses depend on values of tensors
  const std::vector<Instruction>& instructions() const;
  struct Code;  ///< compiled.hpp

 private:
  friend class Cursor;
  std::unique_ptr<Code> code_;

 public:
  friend struct CompiledAccess;
};

/// A position in the program for one core and context. A copyable value.
class Cursor {
 public:
  /// `reader` serves read() in expressions; may be null when the program reads no tensors.
  Cursor(const CompiledProgram& program, std::int64_t core, std::int64_t context,
         const CompiledExpr::TensorReader* reader);
  /// Polled during long walks through loops and branches; may be null.
  void poll_with(CancelToken* cancel) { cancel_ = cancel; }
  /// Next leaf instruction in text order, or null at the end. Expressions evaluate in `environment()` until the next
  /// call.
  const Instruction* next();
  const std::int64_t* environment() const { return environment_.data(); }
  std::int64_t value(const CompiledExpr& expr) const {
    const Bound bound(*this);
    return expr(environment_.data(), reader_ ? &bound : nullptr);
  }
  /// Actual tensor behind a possibly formal tensor id.
  int tensor(int id) const;
  /// Version index of a slot operand: acquires so far of the slot, minus 1, minus back.
  std::int64_t version(int slot, std::int64_t back) const {
    return acquired_[static_cast<std::size_t>(slot)] - 1 - back;
  }
  /// Names of enclosing calls and kernels, for messages: "layer/attention".
  std::string where() const;
  /// Ordinal of the innermost call under way, counted from 1 in text order; 0 in the main body.
  std::int64_t call() const { return calls_.empty() ? 0 : calls_.back(); }
  /// The calls under way, outermost first: ordinal and function of each.
  std::vector<std::pair<std::int64_t, std::string>> calls() const;
  /// The call statements under way, outermost first.
  std::vector<const Call*> call_path() const;
  /// Actual tensor name of every formal that is bound.
  std::map<std::string, std::string> bindings() const;
  int scope() const { return scope_; }  ///< innermost scope id, -1 at the top

 private:
  /// Redirects read() of a formal tensor to the actual one.
  struct Bound final : CompiledExpr::TensorReader {
    explicit Bound(const Cursor& of) : cursor(of) {}
    std::int64_t read(int tensor, const std::int64_t* index, int rank) const override {
      return cursor.reader_->read(cursor.tensor(tensor), index, rank);
    }
    const Cursor& cursor;
  };

  const CompiledProgram* program_;
  const CompiledExpr::TensorReader* reader_;
  CancelToken* cancel_ = nullptr;
  std::vector<std::int64_t> environment_;
  std::vector<std::int64_t> acquired_;
  std::vector<std::int64_t> limits_;   ///< trip count per static loop
  std::vector<std::int32_t> returns_;  ///< return positions of calls
  std::vector<std::int32_t> scopes_;   ///< enclosing scope ids
  std::vector<std::int32_t> bindings_;
  std::vector<std::int64_t> calls_;  ///< ordinals of calls under way
  std::vector<std::int32_t> sites_;  ///< call site of each
  std::int64_t call_count_ = 0;
  std::int32_t pc_ = 0;
  int scope_ = -1;
};

}  // namespace tilesim::program
