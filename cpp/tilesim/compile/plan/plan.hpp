// What lowering works on: where values live, which operations form a kernel, and the tools to emit statements.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/compile/plan/options.hpp"
#include "tilesim/graph/graph.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// Where a value lives: `tensor` of the program and, per axis of that tensor, an affine function of the value's axes.
/// A view of another value shares its tensor.
struct Placement {
  std::string tensor;
  Shape tensor_shape;
  DType dtype = DType::f32;  ///< as stored (may be narrower than the value's type where only products read it)
  std::vector<AxisAccess> axes;
  bool identity = true;             ///< tensor has the value's own shape and axes
  std::vector<Expr> moved = {};     ///< per axis of the tensor, what a loop's counter adds to its start; empty: nothing
  std::optional<double> fill = {};  ///< what lies outside of the tensor, where the value reaches over its ends
};

enum class Family : std::uint8_t { product, vector, movement, call, chain };

/// One kernel: operations of the function in order, what it reads and what it must store.
struct Kernel {
  Family family = Family::vector;
  std::string name;      ///< unique in the function
  std::vector<int> ops;  ///< indices into function.ops, in order; `call` and `movement` have one
  int anchor = -1;       ///< product: index into function.ops of the contract or convolution
  /// Products that read one first operand, in order, each with what it would be a kernel of; empty: one product. The
  /// first one is the anchor.
  struct SiblingProduct {
    int product = -1;
    std::vector<int> ops;
  };
  std::vector<SiblingProduct> parts;
  std::vector<ValueId>
      inputs;  ///< read from off-chip memory (constants of one element may be folded into the DAG instead)
  std::vector<ValueId> outputs;  ///< stored to off-chip memory
  /// Of a product's kernel: the anchor, and products that read the same.
  std::vector<int> products() const {
    if (parts.empty()) return anchor >= 0 ? std::vector<int>{anchor} : std::vector<int>{};
    std::vector<int> all;
    for (const SiblingProduct& part : parts) all.push_back(part.product);
    return all;
  }
  bool multiplies(int op) const {
    for (const SiblingProduct& part : parts)
      if (part.product == op) return true;
    return op == anchor;
  }
  /// Bytes that a kernel before a product would move beside, if it stored the operands that the product computes; and
  /// whether there would be one only for that.
  double spared_bytes = 0;
  bool spares_kernel = false;
  std::vector<Kernel> stages;  ///< chain: the products one behind the other, as they would be alone
};

/// Operations that run functions of the graph: whole tensors are bound.
inline bool runs_functions(Kind kind) { return kind == Kind::call || kind == Kind::while_loop || kind == Kind::branch; }

/// Finds tensors of a program that is being made by name. Tensors are added at the end only; `forget` after they were
/// replaced.
class TensorIndex {
 public:
  /// Null for an unknown name.
  program::Tensor* find(program::Program& program, const std::string& name);
  void forget() { known_.clear(), seen_ = 0; }

 private:
  std::unordered_map<std::string, std::size_t> known_;
  std::size_t seen_ = 0;
};

struct AttentionPlans;  ///< attention/attention.hpp

/// What was chosen for problems of this program: equal ones are solved once.
struct Division;
struct Choices {
  TensorIndex tensors;
  std::unordered_map<std::string, std::shared_ptr<const Division>> divisions;
  std::unordered_map<std::string, mapping::Nest> nests;
  std::unordered_map<std::string, mapping::VectorTiles> tiles;
  std::shared_ptr<const AttentionPlans> attentions;  ///< null: none are known

  /// Not divisions: whether something stays with a product depends on more than its key.
  void take_mappings(const Choices& other) {
    nests = other.nests;
    tiles = other.tiles;
  }
};

/// A contract whose float operands are not rounded to what an array multiplies.
inline bool is_exact(const Op& op) { return op.attributes.text("precision", "default") == "exact"; }

/// Shared by all lowerings of one function.
struct Context {
  const Graph& graph;
  const GraphFunction& function;
  const Share& machine;
  const CompileOptions& options;
  Choices& choices;
  program::Program& program;          ///< notes, counters may be added
  std::vector<Placement> placements;  ///< by ValueId; an empty tensor name: not placed (lives only inside kernels)
  std::map<ValueId, double> scalars;  ///< values known to be a constant of one element, or in `counters`
  std::int64_t contexts = 1;          ///< of a core, that share the kernel at hand: the machine counts each as a core
  std::map<ValueId, Expr> counters = {};  ///< loop counters: no bytes, known when a statement is handed out

  const Value& value(ValueId id) const { return function.value(id); }
  bool placed(ValueId id) const { return !placements[static_cast<std::size_t>(id)].tensor.empty(); }
};

/// A tensor of the program; null for an unknown name.
inline program::Tensor* find_tensor(const Context& context, const std::string& name) {
  return context.choices.tensors.find(context.program, name);
}

/// How products and vector kernels without a given mapping are mapped: "profile" only where the machine's file has a
/// profile of its own, "cost" in its place elsewhere.
const std::string& mapping_rule(const Context& context);

/// Statement helpers; queue names are those of program.hpp.
program::Statement on(const std::string& queue, program::Action action);
program::Statement loop(const std::string& index, Expr extent, program::Block body);

/// A rectangular region of a value: start (expressions) and extents per axis of the value. Gives the transfer between
/// the value's placement and a dense row-major slot region with `slot_strides` per value axis. A negative stride entry
/// is not allowed; extent may be ragged.
program::Transfer region_transfer(const Placement& placement, const std::vector<Expr>& start,
                                  const std::vector<Expr>& extents, const std::vector<std::int64_t>& slot_strides,
                                  const std::string& slot);

/// Whether what lies outside of the value lies outside of its tensor too, so that reading there gives a fill value.
bool ends_with_tensor(const Context& context, ValueId value);

/// Why a kernel is not lowered as it was grouped: a value, on which the compiler takes it apart. In words as for the
/// user, who reads it where there is nothing left to split.
struct Refusal {
  UserError::Parts why;
  bool by_price = false;  ///< it could be lowered so, and the estimate says that its parts take less
  bool siblings = false;  ///< products that read the same, not what stands before and behind them
  /// The reason without the operation.
  std::string text() const;
};
using Lowered = std::variant<program::Scope, Refusal>;

/// Families. Each returns the kernel as one named Scope (launch cost and barrier as the machine says), its slots
/// without addresses.
Lowered lower_product(Context& context, const Kernel& kernel);
Lowered lower_vector(Context& context, const Kernel& kernel);
program::Scope lower_movement(Context& context, const Kernel& kernel);

/// Throws Unsupported naming the operation whose operands the vector unit does not compute on.
void check_vector_dtypes(const Context& context, const std::vector<int>& ops);

/// Builds the DAG of elementwise, convert, iota and scalar-constant operations for one vector compute.
class DagBuilder {
 public:
  explicit DagBuilder(const Context& context) : context_(context) {}
  /// Declares that `value` is read from input number `input` of the vector compute.
  void bind_input(ValueId value, int input);
  /// Declares that `value` is already node `node` (scan results, masks).
  void bind_node(ValueId value, int node);
  /// Node of `value`, adding the nodes of the operations that produce it (recomputing them); `ops`: operations that may
  /// be recomputed here. Iota operations and index comparisons use `axis_dim`: dim of the compute for each axis of the
  /// result space, and `axis_start`: the tile's start along it.
  int node_of(ValueId value, const std::set<int>& ops);
  int converted(const Op& op, int from);  ///< node of a convert whose operand is node `from`
  std::vector<program::VectorNodeSpec>& nodes() { return nodes_; }
  std::vector<int> axis_dim;     ///< space axis -> dim of the compute (numpy alignment: trailing axes match)
  std::vector<Expr> axis_start;  ///< start of the tile along each space axis

 private:
  /// The node of a value whose operands all have theirs.
  int node_of_op(const Op& op, const TensorType& type);
  /// The operation among `ops` that makes the value; null where none does.
  const Op* maker(ValueId value, const std::set<int>& ops);

  const Context& context_;
  std::unordered_map<ValueId, int> known_;
  std::unordered_map<ValueId, int> makers_;  ///< by result, of the operations seen
  const std::set<int>* indexed_ = nullptr;   ///< whose makers these are
  std::vector<program::VectorNodeSpec> nodes_;
};

}  // namespace tilesim::lower
