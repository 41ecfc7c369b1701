// The Program: tile operations with loops, slots and dependencies. In short (details in
// docs/reference/file_formats.md):
//
//  - Each core (and context) walks the body in text order and dispatches statements to named queues of finite depth.
//    A queue starts its statements in order; operations complete independently. Text order is one legal execution
//    and defines the result.
//  - A slot is a ring of `depth` buffers. The slot's k-th acquire in text order creates version k; the acquire waits
//    until buffer k mod depth is free. Operands name a version by `back`: 0 is the latest acquire in text order, 1
//    the one before, ...
//  - commit (queue q) adds `pieces` to the version's count once all earlier operations of q that write the version
//    have completed. Commits of a version take effect in text order.
//  - wait (queue q) delays later statements of q until the version (or the counter, semaphore) has `pieces`.
//  - release (queue q) takes effect once all earlier operations of q that use the version have consumed it. A buffer
//    is free when every queue in the slot's `consumers` has released the version.
//  - A write to a committed version is an update: the array accumulates, the vector unit rescales. Updates by one
//    queue are in order. If another queue continues, it needs another commit and wait on the same version.
//  - store may signal a counter at the memory's ordering point; loads of the same region wait for the counter.
//  - send moves a slot view to the slot of the same name in other cores, each of which must name the slot in a
//    `receive` (an acquire for the send). It waits for a free buffer in every destination and commits `pieces` there.
//  - signal adds to another core's semaphore when the queue reaches the signal and earlier operations of the queue
//    have completed.
//  - A scope declares slots that exist until its end. It may be a kernel, with a name, the graph operations that it
//    computes, a launch cost and a barrier (it starts after all earlier statements have completed). Slots of
//    different scopes may overlap in address: an acquire also waits until versions of earlier scopes on the same
//    bytes are free.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/base/expr/expr.hpp"
#include "tilesim/base/json/json.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::program {

enum class Role : std::uint8_t { input, output, weight, temporary, state };

/// The values that timing assumes for an integer tensor if the job does not supply data.
struct Typical {
  std::vector<std::int64_t> values;  ///< row-major, or one value for all elements; empty: none
  std::string how;                   ///< text for results: "zeros", "64 rows spread evenly over 8 groups"
};

/// Where a tensor is: in off-chip memory, or in the scratchpads of cores.
enum class Level : std::uint8_t { memory, scratchpad };

/// A box of a tensor's elements in the scratchpad of a core; `low` and `high` are inclusive.
struct HeldPart {
  std::int64_t core = 0;
  std::vector<std::int64_t> low, high;
};

/// A tensor in off-chip memory, or a temporary in the scratchpads of the cores that store it. Loads and stores of such
/// a temporary move bytes within the core; a load of another core's part crosses the network.
struct Tensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Expr> shape;  ///< integers or expressions of parameters
  Role role = Role::temporary;
  std::string alias_of;  ///< tensor whose bytes it uses in row-major order (views, in-place state); empty: none
  std::vector<int> minor_to_major;  ///< order of axes in memory, minor first; empty: the last axis is minor
  Shape tile;                       ///< layout tile {second minor, minor} to which these axes are padded; empty: dense
  std::string weight;  ///< role weight: key into the graph's weights, may contain a recipe; execution supplies values
  Typical typical;
  Level level = Level::memory;
  std::int64_t address = 0;     ///< scratchpad: first byte, the same in every core
  std::int64_t core_bytes = 0;  ///< scratchpad: largest number of the tensor's bytes in one core
  /// If cores read each other's elements: the part of each core, which only that core stores. Empty: a core reads only
  /// elements that it stored itself.
  std::vector<HeldPart> parts;
};

struct Slot {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t elements = 0;  ///< elements of one buffer
  std::int64_t depth = 1;
  std::int64_t address = 0;            ///< byte address of buffer 0; the other buffers follow
  bool accumulator = false;            ///< whether the slot is in the accumulator memory
  std::vector<std::string> consumers;  ///< queues that must release a version
};

/// Counters order off-chip reads after writes; semaphores order cores. `size`: number of independent cells.
struct Counter {
  std::string name;
  std::int64_t size = 1;
  bool semaphore = false;
};

struct Dim {
  Expr extent = 1;
  Expr stride = 0;
};

/// A strided view of one version of a slot; offset and strides are in elements of the slot's dtype.
struct View {
  std::string slot;
  std::int64_t back = 0;
  Expr offset = 0;
  std::vector<Dim> dims;
};

/// One dim of a transfer with `extent` steps. Each step moves `step` along tensor axis `axis` (-1: repeats the same
/// elements) and `stride` elements in the slot. `through` selects rows by a tensor: the index along `axis` is at[axis]
/// + read(through, through_at + d * step).
struct TransferDim {
  Expr extent = 1;
  int axis = -1;
  Expr step = 1;
  Expr stride = 0;
  std::string through;           ///< integer tensor of row indices; empty: no indirection
  std::vector<Expr> through_at;  ///< start index in this tensor (its last axis advances)
};

struct Transfer {
  std::string tensor;
  std::vector<Expr> at;  ///< start index per axis; may be outside the tensor if `fill` is given
  std::vector<TransferDim> dims;
  std::string slot;
  std::int64_t back = 0;
  Expr offset = 0;
  std::optional<double>
      fill;  ///< value that a load uses outside the tensor, where a store writes nothing. Empty: an error
};

struct Load { Transfer transfer; };
struct Store {
  Transfer transfer;
  std::string signal;
  Expr signal_index = 0;
};  ///< signal: counter that increases by 1 at the ordering point

struct MmaOp {
  View a, b, c;
  int batch_dims = 0, m_dims = 1, n_dims = 1, k_dims = 1;
  Expr accumulate = 0;
  Numerics numerics;
  bool stationary_a = false;
  int packed = 1;  ///< number of innermost k dims that share the array's rows: contiguous in `a`
  // If the slot of `b` has a 2:4 type, the innermost k dim counts positions within an element: extent 8, stride 0 in b.
};
struct VectorNodeSpec {
  VectorNode node;
  Expr scalar = 0;
};  ///< scalar: value if the node is Op::scalar
struct VectorOutputSpec {
  int node = 0;
  View view;
  std::vector<int> reduce;
  Combiner combiner = Combiner::add;
  Expr accumulate = 0;
};
struct VectorOp {
  std::vector<Expr> extents;
  std::vector<View> inputs;
  std::vector<VectorNodeSpec> nodes;
  std::vector<VectorOutputSpec> outputs;
  int lane_dim = -1;
};
struct PermuteOp { View in, out; };
struct IndexedOp {
  View in, index, out;
  bool scatter = false;
  std::optional<Combiner> combiner;
};
struct SortOp {
  View in, keys, positions;
  bool descending = false;
};
/// How the matrix of a sparse product is stored. dense: one view [rows, columns]; bitmap: a mask (u8, one bit per
/// element, row-major, most significant bit first) and values; csr: pointers (i32, rows + 1), indices (i32) and values.
/// Values are in row order.
enum class MatrixForm : std::uint8_t { dense, bitmap, csr };
std::size_t views_of(MatrixForm form);
std::string_view form_name(MatrixForm form);
MatrixForm form_named(const Json& text);  ///< throws UserError with the place

/// writes[0] [m, n] (+)= a [m, k] · b [k, n]. OpaqueOp::reads has the views of a, then of b.
struct SparseProduct {
  MatrixForm a = MatrixForm::dense, b = MatrixForm::dense;
  Expr k = 1;
  Expr accumulate = 0;
  Expr products = 0;  ///< number of multiply-adds that the unit performs, for reports
  Numerics numerics;
};
struct OpaqueOp {
  std::string target;
  Expr cycles = 0;
  std::vector<View> reads, writes;
  std::optional<SparseProduct> product;  ///< definition; empty: the operation cannot be executed
};
struct Send {
  View from;
  std::string slot;
  Expr offset = 0;
  std::vector<Dim> dims;
  std::vector<Expr> cores;
  std::int64_t pieces = 1;
};

struct Acquire {
  std::string slot;
  std::vector<std::string> queues;
};  ///< blocks these queues (usually one) until a buffer is free
struct Receive { std::string slot; };  ///< an acquire for a send of another core
struct Commit {
  std::string slot;
  std::int64_t back = 0;
  std::int64_t pieces = 1;
};
struct Release {
  std::string slot;
  std::int64_t back = 0;
};
struct Wait {
  std::string slot;
  std::int64_t back = 0;
  std::string counter;
  Expr index = 0;
  Expr pieces = 1;
};  ///< either slot or counter is set
struct Signal {
  std::string counter;
  Expr core = 0;
  Expr index = 0;
  Expr count = 1;
};

struct Statement;
using Block = std::vector<Statement>;

struct For {
  std::string index;
  Expr extent;
  Block body;
};  ///< index = 0 .. extent-1
struct If {
  Expr condition;
  Block then, otherwise;
};  ///< non-zero is true
struct Call {
  std::string function;
  std::map<std::string, std::string> tensors;
  std::map<std::string, Expr> parameters;
};
struct Scope {
  std::string kernel;                  ///< name; empty: the scope only declares slots
  std::vector<std::string> operation;  ///< names of graph operations that it computes, for reports
  std::int64_t launch_cycles = 0;
  bool barrier = false;
  std::vector<Slot> slots;
  Block body;
};

using Action = std::variant<For, If, Call, Scope, Acquire, Receive, Commit, Release, Wait, Signal, Load, Store, MmaOp,
                            VectorOp, PermuteOp, IndexedOp, SortOp, OpaqueOp, Send>;
struct Statement {
  Action action;
  std::string
      queue;  ///< "load0", "store0", "mma0", "vector", "cross_lane", "send", or an opaque unit's; empty for structure
  std::string label;  ///< for messages and timelines; may be empty
};

/// A function uses formal tensors, which calls bind, and tensors of the program.
struct Function {
  std::string name;
  std::vector<std::string> tensors;     ///< formal tensors, bound by calls
  std::vector<std::string> parameters;  ///< formal integer parameters
  Block body;
};

struct Program {
  std::string name;
  std::string machine;                             ///< machine for which it was compiled; may be empty
  std::map<std::string, std::int64_t> parameters;  ///< symbols with their values
  std::int64_t cores = 1;                          ///< virtual cores; symbol "core"
  std::int64_t contexts = 1;                       ///< contexts per core; symbol "context"
  std::vector<Tensor> tensors;
  std::vector<Counter> counters;
  std::vector<Slot> slots;  ///< slots that exist during the entire program
  std::vector<Function> functions;
  Block body;
  std::vector<std::string> notes;  ///< approximations and additions (padding, copies) of the lowering, for results

  Json to_json() const;  ///< schema "tilesim.program", version 2; from_json also reads version 1
  static Program from_json(const Json& json);
  const Tensor* find_tensor(const std::string& name) const;
};

/// Checks structure, names, types, memory capacity (if `memories` is given; contexts share it), ring depths in text
/// order, and that the streams can run in text order without deadlock. Throws UserError that names the statement.
void check(const Program& program, const ScratchpadSpec* memories = nullptr);

/// Searches the first statements, without data, for missing waits and commits. Throws RaceError that names the
/// statement.
void check_races(const Program& program);

}  // namespace tilesim::program
