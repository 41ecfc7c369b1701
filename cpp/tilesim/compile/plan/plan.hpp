// The data that lowering works on: placements of values, kernels with their operations, and helpers to emit statements.
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

/// The placement of a value: a tensor of the program and, per axis of that tensor, an affine function of the value's
/// axes. A view shares the tensor of its source.
struct Placement {
  std::string tensor;
  Shape tensor_shape;
  DType dtype = DType::f32;  ///< as stored (may be narrower than the value's type where only products read it)
  std::vector<AxisAccess> axes;
  bool identity = true;             ///< the tensor has the value's shape and axes
  std::vector<Expr> moved = {};     ///< per axis of the tensor: offset that depends on a loop counter; empty: none
  std::optional<double> fill = {};  ///< value of the elements beyond the tensor's ends
  /// Integer tensor that holds the index along the tensor's first axis, and by its axes the access; empty: direct.
  std::string through = {};
  std::vector<AxisAccess> through_axes = {};
};

enum class Family : std::uint8_t { product, vector, movement, call, chain };

/// One kernel: its operations in order, the values that it reads and those that it stores.
struct Kernel {
  Family family = Family::vector;
  std::string name;      ///< unique in the function
  std::vector<int> ops;  ///< indices into function.ops, in order; `call` and `movement` have one
  int anchor = -1;       ///< product: index into function.ops of the contract or convolution
  /// Products that share their first operand, each with the operations of its separate kernel; the first one is the
  /// anchor. Empty: the kernel has one product.
  struct SiblingProduct {
    int product = -1;
    std::vector<int> ops;
  };
  std::vector<SiblingProduct> parts;
  std::vector<ValueId>
      inputs;  ///< read from off-chip memory (constants of one element may be folded into the DAG instead)
  std::vector<ValueId> outputs;  ///< stored to off-chip memory
  /// The products of the kernel: the anchor and its siblings.
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
  /// If a product computes an operand: the bytes that a separate kernel would move to store that operand first, and
  /// whether this makes that kernel unnecessary.
  double spared_bytes = 0;
  bool spares_kernel = false;
  std::vector<Kernel> stages;  ///< chain: the consecutive products as separate kernels
};

/// Whether an operation runs functions of the graph, to which tensors are bound as a whole.
inline bool runs_functions(Kind kind) { return kind == Kind::call || kind == Kind::while_loop || kind == Kind::branch; }

/// Finds tensors of a program under construction by name. Tensors are only appended; call `forget` after replacing
/// them.
class TensorIndex {
 public:
  /// Null for an unknown name.
  program::Tensor* find(program::Program& program, const std::string& name);
  void forget() { known_.clear(), seen_ = 0; }

 private:
  std::unordered_map<std::string, std::size_t> known_;
  std::size_t seen_ = 0;
};

struct AttentionPlans;  ///< defined in attention/attention.hpp

/// Solutions of the mapping problems of this program; equal problems are solved once.
struct Division;
struct Choices {
  TensorIndex tensors;
  std::unordered_map<std::string, std::shared_ptr<const Division>> divisions;
  std::unordered_map<std::string, mapping::Nest> nests;
  std::unordered_map<std::string, mapping::VectorTiles> tiles;
  std::shared_ptr<const AttentionPlans> attentions;  ///< null: not computed

  /// Copies nests and tiles. Divisions depend on fused operations that their key omits.
  void take_mappings(const Choices& other) {
    nests = other.nests;
    tiles = other.tiles;
  }
};

/// Whether a contract needs exact float operands, without rounding to the type that an array multiplies.
inline bool is_exact(const Op& op) { return op.attributes.text("precision", "default") == "exact"; }

/// The data that all lowerings of one function share.
struct Context {
  const Graph& graph;
  const GraphFunction& function;
  const Share& machine;
  const CompileOptions& options;
  Choices& choices;
  program::Program& program;              ///< notes, counters may be added
  std::vector<Placement> placements;      ///< by ValueId; an empty tensor name: not placed (lives only inside kernels)
  std::map<ValueId, double> scalars;      ///< values known to be a constant of one element, or in `counters`
  std::int64_t contexts = 1;              ///< per core, sharing the kernel: the machine counts each as a core
  std::map<ValueId, Expr> counters = {};  ///< loop counters: no bytes, known at dispatch

  const Value& value(ValueId id) const { return function.value(id); }
  bool placed(ValueId id) const { return !placements[static_cast<std::size_t>(id)].tensor.empty(); }
};

/// A tensor of the program; null for an unknown name.
inline program::Tensor* find_tensor(const Context& context, const std::string& name) {
  return context.choices.tensors.find(context.program, name);
}

/// The strategy for kernels without a given mapping: "profile" if the machine file has a lowering profile, else
/// "cost".
const std::string& mapping_rule(const LoweringProfile& profile, const CompileOptions& options);
const std::string& mapping_rule(const Context& context);

/// Statement helpers; queue names are those of program.hpp.
program::Statement on(const std::string& queue, program::Action action);
program::Statement loop(const std::string& index, Expr extent, program::Block body);

/// The transfer between a region of a value and a dense row-major slot region. The region has a start (expressions) and
/// extents per axis of the value; `slot_strides` are per value axis and not negative; extents may be ragged.
program::Transfer region_transfer(const Placement& placement, const std::vector<Expr>& start,
                                  const std::vector<Expr>& extents, const std::vector<std::int64_t>& slot_strides,
                                  const std::string& slot);

/// Whether elements beyond the value are also beyond its tensor, so that reading them gives a fill value.
bool ends_with_tensor(const Context& context, ValueId value);

/// The reason why a kernel is not lowered as grouped. The compiler then splits it; the user sees the text if nothing is
/// left to split.
struct Refusal {
  UserError::Parts why;
  bool by_price = false;  ///< lowering is possible, but separate kernels are estimated to be faster
  bool siblings = false;  ///< concerns sibling products, not the operations around them
  /// The reason without the operation.
  std::string text() const;
};
using Lowered = std::variant<program::Scope, Refusal>;

/// Lowerings of the families. Each returns the kernel as one named Scope, with launch cost and barrier of the machine
/// and slots without addresses.
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
  /// The node of an operation's result; its operands must have nodes.
  int node_of_op(const Op& op, const TensorType& type);
  /// The operation among `ops` that produces the value, or null.
  const Op* maker(ValueId value, const std::set<int>& ops);

  const Context& context_;
  std::unordered_map<ValueId, int> known_;
  std::unordered_map<ValueId, int> makers_;  ///< operation by its result
  const std::set<int>* indexed_ = nullptr;   ///< set that `makers_` indexes
  std::vector<program::VectorNodeSpec> nodes_;
};

}  // namespace tilesim::lower
