// A compiled program, in which indices replace names, and the cursor that executes its control flow.
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

/// Instructions that the cursor returns. The cursor handles loops, branches and calls internally.
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

/// A statement without nested statements. Fields that the opcode does not use are empty. In functions, `tensor` is the
/// id of a formal tensor; Cursor::tensor gives the actual one.
struct Instruction {
  Opcode opcode;
  std::int32_t queue = -1;  ///< index into CompiledProgram::queues
  std::int32_t slot = -1;   ///< for acquire, receive, commit, release, wait
  std::int32_t back = 0;
  std::int32_t counter = -1;  ///< for wait, signal, store
  std::int64_t pieces = 1;    ///< for commit, send
  CompiledExpr count;         ///< wait: pieces; signal: count; opaque: cycles; mma: accumulate
  CompiledExpr index;         ///< index of the counter's cell
  CompiledExpr core;          ///< for signal
  CompiledTransfer transfer;
  std::vector<CompiledView> views;        ///< mma: a, b, c; vector: inputs then outputs; permute: in, out; indexed: in,
                                          ///< index, out; sort: in, keys, positions; send: from
  std::vector<CompiledExpr> extents;      ///< defined in compiled.hpp
  std::vector<CompiledExpr> scalars;      ///< vector: values of scalar nodes, in node order
  std::vector<CompiledExpr> accumulates;  ///< vector: one per output
  std::vector<CompiledExpr> cores;        ///< for send
  std::vector<std::int32_t> queues;       ///< acquire: queues that it blocks
  const Statement* statement = nullptr;
  std::int32_t scope = -1;  ///< index of the innermost scope around the statement
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
  /// Copies the program. Throws UserError for names that do not exist, and above 32 queues.
  explicit CompiledProgram(Program program);
  /// Refers to the program, which must outlive this object.
  explicit CompiledProgram(const Program* program);
  ~CompiledProgram();
  CompiledProgram(CompiledProgram&&) noexcept;
  const Program& program() const;
  std::vector<std::string> queues;
  std::vector<CompiledSlot> slots;
  std::vector<CompiledTensor> tensors;
  std::vector<std::pair<std::string, std::int64_t>> counters;  ///< name and size, for counters and semaphores
  std::vector<CompiledScope> scopes;
  bool reads_tensors = false;  ///< whether loops or addresses depend on tensor values
  const std::vector<Instruction>& instructions() const;
  struct Code;  ///< compiled.hpp

 private:
  friend class Cursor;
  std::unique_ptr<Code> code_;

 public:
  friend struct CompiledAccess;
};

/// A position in the program's text for one core and context. It can be copied.
class Cursor {
 public:
  /// `reader` supplies read() in expressions; may be null if the program reads no tensor values.
  Cursor(const CompiledProgram& program, std::int64_t core, std::int64_t context,
         const CompiledExpr::TensorReader* reader);
  /// The token that `next` polls during long walks through control flow; may be null.
  void poll_with(CancelToken* cancel) { cancel_ = cancel; }
  /// Returns the next instruction in text order, or null at the end. Its expressions evaluate in `environment()` until
  /// the next call of `next`.
  const Instruction* next();
  const std::int64_t* environment() const { return environment_.data(); }
  std::int64_t value(const CompiledExpr& expr) const {
    const Bound bound(*this);
    return expr(environment_.data(), reader_ ? &bound : nullptr);
  }
  /// The actual tensor of an id, which may be the id of a formal tensor.
  int tensor(int id) const;
  /// The version of a slot operand: number of acquires of the slot so far - 1 - back.
  std::int64_t version(int slot, std::int64_t back) const {
    return acquired_[static_cast<std::size_t>(slot)] - 1 - back;
  }
  /// Names of the enclosing calls and kernels, for messages: "layer/attention".
  std::string where() const;
  /// Number of the innermost active call, counted from 1 in text order; 0 in the main body.
  std::int64_t call() const { return calls_.empty() ? 0 : calls_.back(); }
  /// Number and function of the active calls, outermost first.
  std::vector<std::pair<std::int64_t, std::string>> calls() const;
  /// The statements of the active calls, outermost first.
  std::vector<const Call*> call_path() const;
  /// Name of the actual tensor of every formal tensor that is bound.
  std::map<std::string, std::string> bindings() const;
  int scope() const { return scope_; }  ///< index of the innermost scope; -1: none

 private:
  /// Passes read() of a formal tensor on to the actual tensor.
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
  std::vector<std::int64_t> limits_;   ///< per loop: trip count
  std::vector<std::int32_t> returns_;  ///< per active call: step to which it returns
  std::vector<std::int32_t> scopes_;   ///< indices of the enclosing scopes
  std::vector<std::int32_t> bindings_;
  std::vector<std::int64_t> calls_;  ///< per active call: its number
  std::vector<std::int32_t> sites_;  ///< per active call: its call site
  std::int64_t call_count_ = 0;
  std::int32_t pc_ = 0;
  int scope_ = -1;
};

}  // namespace tilesim::program
