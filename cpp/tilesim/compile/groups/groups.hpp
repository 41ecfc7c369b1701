// The search for fusion groups, one rule after another. Shared by the files of this folder.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tilesim/compile/groups/grouping.hpp"
#include "tilesim/compile/groups/price.hpp"
#include "tilesim/compile/plan/placement.hpp"
#include "tilesim/compile/plan/row_bytes.hpp"

namespace tilesim::lower {

bool is_product(Kind kind);

/// Kernels under construction and their dependences. Operations are in topological order; a dependence can lead
/// backward only from a kernel with an operation far behind its others.
class KernelGraph {
 public:
  KernelGraph(const GraphFunction& function, const Uses& uses);
  int add(Family family, int op);
  void own(int op, int kernel);
  /// Moves the operations of kernel `from` into kernel `into`.
  void merge(int into, int from);
  /// Removes operations from a kernel, because the kernels that read their results recompute them.
  void release(int kernel, const std::set<int>& ops);
  /// Whether a path through other kernels or views leads from the kernel to an operand of the operation, or from its
  /// result to the kernel. Then joining them would create a cycle.
  bool returns(int kernel, int op) const { return leads_to(kernel, op) || comes_from(kernel, op); }
  /// Whether a path leads from one kernel to the other through operations of neither.
  bool leads_around(int from, int to) const;

  std::vector<Kernel> kernels;
  std::vector<int> owner;  ///< per operation: its kernel; -1: none

 private:
  /// A kernel, or an operation without kernel (views; movement until it gets a kernel).
  struct Node {
    int kernel = -1, op = -1;
    auto operator<=>(const Node&) const = default;
  };
  bool leads_to(int kernel, int op) const;
  bool comes_from(int kernel, int op) const;
  Node node(int op) const;
  int last(const Node& of) const;
  int horizon(int until) const;
  template <typename Visit>
  void each_reader(const Node& of, int until, Visit visit) const;
  void take(int op, int kernel);

  const GraphFunction& function_;
  const Uses& uses_;
  std::vector<std::set<int>> readers_;  ///< per kernel: operations of other kernels that read its values
  std::vector<int> first_, last_;       ///< per kernel: its first and last operation
  std::vector<int> spanned_;            ///< per operation: last operation of kernels that begin no later (never falls)
};

/// Excludes operations from a rule: they join no product's epilogue and no vector kernel that reads the same tensor or
/// computes their operands, and no product computes them as part of its operand.
struct Cut {
  Rule rule = Rule::epilogue;
  std::vector<int> ops;
  friend bool operator==(const Cut&, const Cut&) = default;
};
using Cuts = std::map<std::pair<Rule, int>, std::string>;  ///< by rule and operation (-1: all): the reason

class Grouping {
 public:
  /// `cuts`: operations that rules must not fuse.
  Grouping(Context& context, const FusionRules& rules, const KeptApart& kept_apart, const Uses& uses,
           const Views& views, const Cuts& cuts);
  std::vector<Kernel> run();
  /// The groups that rules considered, with their estimates.
  std::vector<FusionCandidate> candidates() const;
  /// Fusions that may cost more than separate kernels, the most doubtful first.
  std::vector<Cut> doubtful() const;

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int count() const { return static_cast<int>(function_.ops.size()); }
  const Op& op(int i) const { return function_.ops[index(i)]; }
  const Shape& shape(ValueId value) const { return context_.value(value).type.shape; }
  bool scalar(ValueId value) const { return context_.scalars.count(value) > 0; }
  const Apart* apart(ValueId value) const;
  std::optional<Apart> cut(Rule rule, int op) const;
  bool needs_movement(int i) const;

  // Defined in candidates.cpp.
  std::string surroundings(int i) const;
  /// A rule's decision on operations: fuse them into the kernel, or the reason not to.
  struct Looked {
    Rule rule;
    int kernel;
    std::vector<int> ops;
    std::string decision, reason;
  };
  void taken(Rule rule, int kernel, int op);
  void refused(Rule rule, int kernel, int op, std::string reason);
  void refused(Rule rule, int kernel, int op, const Apart& why);
  FusionCandidate priced(const Looked& looked, const GroupPrice& price) const;
  std::string name_of(int kernel) const;

  // Defined in products.cpp.
  void make_product(int i);
  void grow_epilogue(int kernel);
  bool may_end(int kernel, int next, const Shape& result);
  void end_with_extreme(int kernel);

  // Defined in operands.cpp.
  void feed_products();
  bool ends_product(int i) const;
  std::string why_no_operand(ValueId value) const;
  std::set<int> tail_of(int kernel, ValueId value) const;
  bool repeats_in(const std::set<int>& tail, ValueId value, const Shape& whole) const;
  void move_tail(int kernel, int root, std::set<int> tail);
  bool computes_itself(int reader, int producer) const;
  bool read_by_tail(ValueId value, int producer) const;
  bool read_outside(ValueId value, int producer, const std::set<int>& ops) const;
  double moved_by(const std::set<int>& ops) const;
  void add_tails(Kernel& kernel, int number);

  // Defined in siblings.cpp.
  void join_siblings();
  std::optional<Apart> why_no_sibling(int kernel, int product) const;
  std::string why_unlike(int kernel, int product) const;

  // Defined in vectors.cpp.
  void place_vector(int i);
  bool join(int i);
  bool makes_operand(int kernel, int i) const;
  bool join_readers(int i);
  std::string why_not(int kernel, int i);
  void join_branches(int kernel, int i);
  bool merge_kernels(int into, int from);
  std::set<ValueId> streams_of(const std::set<int>& ops) const;
  void make_passes();
  void join_pass(int k, std::map<int, int>& computed_in);
  Rule recomputing(int producer, int reader) const;
  bool stored(ValueId value) const;

  // Defined in grouping.cpp.
  void finish(Kernel& kernel);
  bool owned_by(int member, const Kernel& kernel) const;
  std::vector<int> sources() const;
  std::vector<Kernel> ordered();

  Context& context_;
  const GraphFunction& function_;
  FusionRules rules_;
  const KeptApart& kept_apart_;
  const Uses& uses_;
  const Views& views_;
  const Cuts& cuts_;
  KernelGraph graph_;
  std::map<int, RowBytes> rows_;              ///< per vector kernel
  std::map<ValueId, std::set<int>> reading_;  ///< per value: vector kernels that read it
  std::set<int> computed_by_readers_;         ///< operations that products recompute to read their result
  /// The operations that products compute as part of one operand.
  struct Tail {
    int root;
    std::set<int> ops;
    double spared;  ///< bytes that the vector kernel no longer moves
    bool whole;     ///< whether the vector kernel disappears
  };
  std::vector<Tail> tails_;
  std::vector<Looked> looked_;
  std::vector<std::string> names_;            ///< per kernel
  std::vector<std::vector<int>> kernel_ops_;  ///< per kernel: its final operations
  std::vector<std::vector<Kernel::SiblingProduct>> kernel_parts_;
};

}  // namespace tilesim::lower
