// The data of lowering: placements of values, kernels with their operations, and helpers to emit statements.
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

/// Where a value is: a tensor of the program and, per axis of the tensor, an affine function of the value's axes. A
/// view has the tensor of its source.
struct Placement {
  std::string tensor;
  Shape tensor_shape;
  DType dtype = DType::f32;  ///< type in memory; may be narrower than the value's type if only products read it
  std::vector<AxisAccess> axes;
  bool identity = true;             ///< the tensor has the value's shape and axes
  std::vector<Expr> moved = {};     ///< per tensor axis: offset that depends on a loop counter; empty: none
  std::optional<double> fill = {};  ///< value of elements after the tensor's ends
  /// Integer tensor with the index along the tensor's first axis, and the access to its axes. Empty: no indirection.
  std::string through = {};
  std::vector<AxisAccess> through_axes = {};
};

enum class Family : std::uint8_t { product, vector, movement, call, chain };

/// One kernel: its operations in order, the values that it reads, and the values that it stores.
struct Kernel {
  Family family = Family::vector;
  std::string name;      ///< unique in the function
  std::vector<int> ops;  ///< indices into function.ops, in order; `call` and `movement` have one
  int anchor = -1;       ///< product: index into function.ops of the contract or convolution
  /// Products that share their first operand, each with the operations that its separate kernel would have; the first
  /// is the anchor. Empty: the kernel has one product.
  struct SiblingProduct {
    int product = -1;
    std::vector<int> ops;
  };
  std::vector<SiblingProduct> parts;
  std::vector<ValueId> inputs;   ///< read from off-chip memory (constants of one element may be DAG nodes instead)
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
  /// If a product computes an operand: bytes that a separate kernel would move to store this operand, and whether that
  /// kernel becomes unnecessary.
  double spared_bytes = 0;
  bool spares_kernel = false;
  std::vector<Kernel> stages;  ///< chain: the consecutive products as separate kernels
};

/// Whether an operation runs functions of the graph, which need complete tensors.
inline bool runs_functions(Kind kind) { return kind == Kind::call || kind == Kind::while_loop || kind == Kind::branch; }

/// Finds tensors of a program under construction by name. Tensors may only be appended; call `forget` after replacing
/// them.
class TensorIndex {
 public:
  /// Null if no tensor has this name.
  program::Tensor* find(program::Program& program, const std::string& name);
  void forget() { known_.clear(), seen_ = 0; }

 private:
  std::unordered_map<std::string, std::size_t> known_;
  std::size_t seen_ = 0;
};

struct AttentionPlans;  ///< attention/attention.hpp defines it

/// Solutions of this program's mapping problems, so that equal problems are solved once.
struct Division;
struct Choices {
  TensorIndex tensors;
  std::unordered_map<std::string, std::shared_ptr<const Division>> divisions;
  std::unordered_map<std::string, mapping::Nest> nests;
  std::unordered_map<std::string, mapping::VectorTiles> tiles;
  std::shared_ptr<const AttentionPlans> attentions;  ///< null: not computed

  /// Copies nests and tiles, but not divisions, which depend on fused operations that their key does not contain.
  void take_mappings(const Choices& other) {
    nests = other.nests;
    tiles = other.tiles;
  }
};

/// Whether a contract needs exact float operands, without rounding to the type that the array multiplies.
inline bool is_exact(const Op& op) { return op.attributes.text("precision", "default") == "exact"; }

/// The data that all lowerings of one function share.
struct Context {
  const Graph& graph;
  const GraphFunction& function;
  const Share& machine;
  const CompileOptions& options;
  Choices& choices;
  program::Program& program;              ///< lowerings may add notes and counters
  std::vector<Placement> placements;      ///< by ValueId; empty tensor name: the value exists only inside kernels
  std::map<ValueId, double> scalars;      ///< values that are a constant in one element, or in `counters`
  std::int64_t contexts = 1;              ///< per core, sharing the kernel; the machine counts each as a core
  std::map<ValueId, Expr> counters = {};  ///< loop counters: no bytes, known at dispatch

  const Value& value(ValueId id) const { return function.value(id); }
  bool placed(ValueId id) const { return !placements[static_cast<std::size_t>(id)].tensor.empty(); }
};

/// A tensor of the program; null if no tensor has this name.
inline program::Tensor* find_tensor(const Context& context, const std::string& name) {
  return context.choices.tensors.find(context.program, name);
}

/// The strategy for kernels without a given mapping: options.mapping, except that "profile" becomes "cost" if the
/// machine file has no profile of products.
const std::string& mapping_rule(const LoweringProfile& profile, const CompileOptions& options);
const std::string& mapping_rule(const Context& context);

/// Builders of statements; queue names are those of program.hpp.
program::Statement on(const std::string& queue, program::Action action);
program::Statement loop(const std::string& index, Expr extent, program::Block body);

/// The transfer between a region of a value and a dense row-major region of a slot. `start`, `extents`: of the region,
/// per axis of the value; extents may be partial. `slot_strides`: per axis of the value, not negative.
program::Transfer region_transfer(const Placement& placement, const std::vector<Expr>& start,
                                  const std::vector<Expr>& extents, const std::vector<std::int64_t>& slot_strides,
                                  const std::string& slot);

/// Whether elements after the value's end are also after its tensor's end, so that reading them gives a fill value.
bool ends_with_tensor(const Context& context, ValueId value);

/// Why a kernel cannot be lowered as it was grouped. The compiler then splits the kernel; the user sees the text if the
/// kernel cannot be split.
struct Refusal {
  UserError::Parts why;
  bool by_price = false;  ///< lowering is possible, but separate kernels are faster by the estimate
  bool siblings = false;  ///< the reason concerns sibling products, not operations around them
  /// The reason without the operation's name.
  std::string text() const;
};
using Lowered = std::variant<program::Scope, Refusal>;

/// Lowerings of the families. Each returns the kernel as one named Scope, with the machine's launch cost and barrier,
/// and slots without addresses.
Lowered lower_product(Context& context, const Kernel& kernel);
Lowered lower_vector(Context& context, const Kernel& kernel);
program::Scope lower_movement(Context& context, const Kernel& kernel);

/// Throws Unsupported that names the operation if the vector unit does not compute on an operand's type.
void check_vector_dtypes(const Context& context, const std::vector<int>& ops);

/// Builds the DAG of elementwise, convert, iota and scalar-constant operations for one vector compute.
class DagBuilder {
 public:
  explicit DagBuilder(const Context& context) : context_(context) {}
  /// Declares that input number `input` of the compute reads `value`.
  void bind_input(ValueId value, int input);
  /// Declares that node `node` is already `value` (scan results, masks).
  void bind_node(ValueId value, int node);
  /// The node of `value`; adds nodes of the operations that compute it, if these are in `ops` (they may be recomputed
  /// here). Iota and index comparisons use `axis_dim` and `axis_start`.
  int node_of(ValueId value, const std::set<int>& ops);
  int converted(const Op& op, int from);  ///< node of a convert whose operand is node `from`
  std::vector<program::VectorNodeSpec>& nodes() { return nodes_; }
  std::vector<int> axis_dim;     ///< space axis -> dim of the compute (numpy alignment: trailing axes match)
  std::vector<Expr> axis_start;  ///< per space axis: start of the tile

 private:
  /// The node of an operation's result; its operands must have nodes.
  int node_of_op(const Op& op, const TensorType& type);
  /// The operation in `ops` that computes the value; null if none does.
  const Op* maker(ValueId value, const std::set<int>& ops);

  const Context& context_;
  std::unordered_map<ValueId, int> known_;
  std::unordered_map<ValueId, int> makers_;  ///< by result: operation
  const std::set<int>* indexed_ = nullptr;   ///< the set for which `makers_` is valid
  std::vector<program::VectorNodeSpec> nodes_;
};

}  // namespace tilesim::lower
