#include "tilesim/compile/plan/grouping.hpp"

#include <algorithm>
#include <compare>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/placement.hpp"
#include "tilesim/compile/plan/row_bytes.hpp"

namespace tilesim::lower {

FusionRules FusionRules::of(const Share& machine, const CompileOptions& options) {
  return {machine.whole.lowering.fusion.value_or(LoweringProfile::Fusion{}), options.fuse != "none"};
}

Uses::Uses(const GraphFunction& function)
    : producer(function.values.size(), -1),
      consumers(function.values.size()),
      is_output(function.values.size(), false) {
  for (int i = 0; i < static_cast<int>(function.ops.size()); ++i) {
    const Op& op = function.ops[static_cast<std::size_t>(i)];
    for (ValueId value : op.results)
      if (value != no_value) producer[static_cast<std::size_t>(value)] = i;
    for (ValueId value : op.operands) {
      if (value == no_value) continue;
      auto& list = consumers[static_cast<std::size_t>(value)];
      if (list.empty() || list.back() != i) list.push_back(i);
    }
  }
  for (ValueId value : function.outputs) is_output[static_cast<std::size_t>(value)] = true;
}

bool is_recomputable(Kind kind) { return kind == Kind::elementwise || kind == Kind::convert || kind == Kind::iota; }

bool is_vector_kind(Kind kind) {
  return is_recomputable(kind) || kind == Kind::reduce || kind == Kind::cumulative || kind == Kind::window_reduce;
}

namespace {

bool is_product(Kind kind) { return kind == Kind::contract || kind == Kind::convolution; }

class Grouping {
 public:
  Grouping(Context& context, const FusionRules& rules, const std::set<std::string>& kept_apart, const Uses& uses,
           const Views& views)
      : context_(context),
        function_(context.function),
        rules_(rules),
        kept_apart_(kept_apart),
        uses_(uses),
        views_(views),
        owner_(function_.ops.size(), -1) {}

  std::vector<Kernel> run() {
    for (int i = 0; i < count(); ++i)
      if (is_product(op(i).kind))
        make_product(i);
      else if (op(i).kind == Kind::ragged_contract)
        add_kernel(Family::product, i);
    for (int i = 0; i < count(); ++i) {
      if (context_.options.cancel) context_.options.cancel->poll();
      if (owner_[index(i)] < 0 && is_vector_kind(op(i).kind)) place_vector(i);
    }
    for (int i = 0; i < count(); ++i)
      if (owner_[index(i)] < 0 && needs_movement(i))
        add_kernel(runs_functions(op(i).kind) ? Family::call : Family::movement, i);
    make_passes();
    for (Kernel& kernel : kernels_) finish(kernel);
    return ordered();
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int count() const { return static_cast<int>(function_.ops.size()); }
  const Op& op(int i) const { return function_.ops[index(i)]; }
  const Shape& shape(ValueId value) const { return context_.value(value).type.shape; }
  bool scalar(ValueId value) const { return context_.scalars.count(value) > 0; }

  /// Views and constants take no kernel; placement.cpp has decided which movement operations are views.
  bool needs_movement(int i) const {
    const Op& candidate = op(i);
    if (candidate.kind == Kind::constant) return false;
    const KindInfo& kind = info(candidate.kind);
    if (kind.movement) return !views_.view[index(i)] && candidate.kind != Kind::iota;
    return !is_vector_kind(candidate.kind) && !is_product(candidate.kind);
  }

  int add_kernel(Family family, int i) {
    Kernel kernel;
    kernel.family = family;
    kernel.ops = {i};
    if (family == Family::product) kernel.anchor = i;
    kernels_.push_back(std::move(kernel));
    readers_.emplace_back();
    last_.push_back(i);
    const int made = static_cast<int>(kernels_.size()) - 1;
    take(i, made);
    return made;
  }

  void own(int i, int kernel) {
    kernels_[index(kernel)].ops.push_back(i);
    last_[index(kernel)] = std::max(last_[index(kernel)], i);
    take(i, kernel);
  }

  void take(int i, int kernel) {
    owner_[index(i)] = kernel;
    std::set<int>& readers = readers_[index(kernel)];
    readers.erase(i);
    for (ValueId result : op(i).results)
      if (result != no_value)
        for (int reader : uses_.consumers[index(result)])
          if (owner_[index(reader)] != kernel) readers.insert(reader);
  }

  /// A product with the chain of elementwise operations that alone reads it, and a row reduction at its end.
  void make_product(int i) {
    const int kernel = add_kernel(Family::product, i);
    if (!rules_.fuse) return;
    ValueId value = op(i).results[0];
    const Shape result = shape(value);
    while (true) {
      const auto& readers = uses_.consumers[index(value)];
      if (readers.size() != 1 || uses_.is_output[index(value)] || kept_apart_.count(context_.value(value).name)) break;
      const int next = readers[0];
      if (owner_[index(next)] >= 0 || !is_recomputable(op(next).kind) || op(next).results.size() != 1) break;
      const ValueId out = op(next).results[0];
      if (shape(out) != result) break;
      own(next, kernel);
      value = out;
    }
    if (!rules_.reduce_epilogue || kept_apart_.count(context_.value(value).name)) return;
    for (int reader : uses_.consumers[index(value)]) {
      const Op& candidate = op(reader);
      if (owner_[index(reader)] >= 0 || candidate.kind != Kind::reduce) continue;
      const std::string combiner = candidate.attributes.text("combiner");
      const std::vector<std::int64_t>& dims = candidate.attributes.integers("dims");
      if (dims.size() != 1 || dims[0] + 1 != static_cast<std::int64_t>(result.size())) continue;
      if (combiner != "maximum" && combiner != "minimum")
        continue;  // sums of products would change the order of rounding
      if (result.back() * 8 * 4 * 8 > context_.machine.core.scratchpad.bytes) continue;
      own(reader, kernel);
      return;
    }
  }

  void place_vector(int i) {
    if (op(i).kind == Kind::iota) return;  // recomputed as an index by whoever reads it
    if (rules_.resident_rows) {
      if (rules_.fuse && join(i)) return;
      rows_.emplace(add_kernel(Family::vector, i), RowBytes(context_, i));
    } else if (!is_recomputable(op(i).kind)) {
      add_kernel(Family::vector, i);  // a root; make_passes adds what it recomputes
    }
  }

  /// Nodes of the kernels' graph: kernels, and operations that belong to none (views; movement until it has a kernel).
  struct Node {
    int kernel = -1, op = -1;
    auto operator<=>(const Node&) const = default;
  };
  Node node(int i) const { return owner_[index(i)] >= 0 ? Node{owner_[index(i)], -1} : Node{-1, i}; }
  int last(const Node& of) const { return of.kernel >= 0 ? last_[index(of.kernel)] : of.op; }

  template <typename Visit>
  void each_reader(const Node& of, int until, Visit visit) const {
    if (of.kernel >= 0) {
      const std::set<int>& readers = readers_[index(of.kernel)];
      for (auto reader = readers.begin(); reader != readers.end() && *reader <= until; ++reader) visit(*reader);
      return;
    }
    for (ValueId result : op(of.op).results)
      if (result != no_value)
        for (int reader : uses_.consumers[index(result)])
          if (reader <= until) visit(reader);
  }

  /// Whether a way leads from the kernel through others, or through views, to an operand of the operation. Operations
  /// stand in order: no way leads back.
  bool returns(int kernel, int i) const {
    std::set<Node> targets, seen;
    int until = -1;
    for (ValueId operand : op(i).operands) {
      const int producer = operand == no_value ? -1 : uses_.producer[index(operand)];
      if (producer < 0 || owner_[index(producer)] == kernel) continue;
      targets.insert(node(producer));
      until = std::max(until, last(node(producer)));
    }
    if (targets.empty()) return false;
    std::vector<Node> pending{{kernel, -1}};
    bool found = false;
    while (!pending.empty() && !found) {
      const Node next = pending.back();
      pending.pop_back();
      each_reader(next, until, [&](int reader) {
        const Node to = node(reader);
        if (to.kernel == kernel || !seen.insert(to).second) return;
        found |= targets.count(to) > 0;
        pending.push_back(to);
      });
    }
    return found;
  }

  bool join(int i) {
    if (op(i).kind != Kind::reduce && !is_recomputable(op(i).kind)) return false;
    for (ValueId operand : op(i).operands) {
      if (operand == no_value) continue;
      const int producer = uses_.producer[index(operand)];
      if (producer < 0) continue;
      const int kernel = owner_[index(producer)];
      if (kernel < 0 || kernels_[index(kernel)].family != Family::vector ||
          kept_apart_.count(context_.value(operand).name))
        continue;
      RowBytes& rows = rows_.at(kernel);
      if (!rows.compatible(i) || returns(kernel, i) || !rows.stays_resident(i)) continue;
      own(i, kernel);
      rows.add(i);
      return true;
    }
    return false;
  }

  /// Each reduction and each value that must be stored becomes a kernel that recomputes its elementwise producers.
  void make_passes() {
    for (int i = 0; i < count(); ++i) {
      if (owner_[index(i)] >= 0 || !is_recomputable(op(i).kind)) continue;
      if (stored(op(i).results[0])) add_kernel(Family::vector, i);
    }
    for (Kernel& kernel : kernels_) {
      if (kernel.family != Family::vector && kernel.family != Family::product) continue;
      std::set<int> ops(kernel.ops.begin(), kernel.ops.end());
      std::vector<ValueId> pending;
      const auto read = [&](int member) {
        pending.insert(pending.end(), op(member).operands.begin(), op(member).operands.end());
      };
      for (int member : kernel.ops) read(member);
      while (!pending.empty()) {
        const ValueId value = pending.back();
        pending.pop_back();
        const int producer = value == no_value || scalar(value) ? -1 : uses_.producer[index(value)];
        if (producer < 0 || owner_[index(producer)] >= 0 || !is_recomputable(op(producer).kind)) continue;
        if (ops.insert(producer).second) read(producer);
      }
      kernel.ops.assign(ops.begin(), ops.end());
    }
  }

  /// Must this elementwise result be stored, or do all its readers recompute it?
  bool stored(ValueId value) const {
    if (uses_.is_output[index(value)] || kept_apart_.count(context_.value(value).name)) return true;
    for (int reader : uses_.consumers[index(value)]) {
      const Op& consumer = op(reader);
      if (is_product(consumer.kind)) {
        const bool only = uses_.consumers[index(value)].size() == 1 && consumer.kind == Kind::contract &&
                          consumer.operands[0] == value;
        if (!rules_.product_prologue || !only) return true;
      } else if (!is_recomputable(consumer.kind) && consumer.kind != Kind::reduce) {
        return true;  // movement, views, calls, windows read bytes
      } else if (owner_[index(reader)] >= 0 && kernels_[index(owner_[index(reader)])].family == Family::product) {
        return true;  // an epilogue reads it
      }
    }
    return false;
  }

  /// Inputs and outputs of a kernel, and its name.
  void finish(Kernel& kernel) {
    std::sort(kernel.ops.begin(), kernel.ops.end());
    const std::set<int> members(kernel.ops.begin(), kernel.ops.end());
    std::set<ValueId> inputs;
    for (int member : kernel.ops) {
      for (ValueId operand : op(member).operands) {
        if (operand == no_value || scalar(operand)) continue;
        const int producer = uses_.producer[index(operand)];
        if (producer < 0 || !members.count(producer)) inputs.insert(operand);
      }
      for (ValueId result : op(member).results) {
        if (result == no_value || owner_[index(member)] < 0 || !owned_by(member, kernel)) continue;  // recomputed
        const std::vector<int>& readers = uses_.consumers[index(result)];
        const auto outside = [&](int reader) { return !members.count(reader); };
        const bool read = uses_.is_output[index(result)] || std::any_of(readers.begin(), readers.end(), outside);
        const bool bound = kernel.family == Family::call && op(member).kind != Kind::while_loop;
        if (read || bound) kernel.outputs.push_back(result);  // a function stores all it gives
      }
    }
    kernel.inputs.assign(inputs.begin(), inputs.end());
    kernel.name = op(kernel.anchor >= 0 ? kernel.anchor : kernel.ops.back()).name;
    if (kernel.outputs.empty()) {
      const ValueId last = op(kernel.ops.back()).results[0];
      kernel.outputs.push_back(last);
    }
  }

  bool owned_by(int member, const Kernel& kernel) const { return &kernels_[index(owner_[index(member)])] == &kernel; }

  /// By operation: the kernel that makes its results, through views.
  std::vector<int> sources() const {
    std::vector<int> result(owner_);
    for (int i = 0; i < count(); ++i)
      for (ValueId operand : op(i).operands)
        if (result[index(i)] < 0 && operand != no_value && uses_.producer[index(operand)] >= 0)
          result[index(i)] = result[index(uses_.producer[index(operand)])];
    return result;
  }

  std::vector<Kernel> ordered() {
    const std::vector<int> made_by = sources();
    std::vector<int> waits(kernels_.size(), 0);
    std::vector<std::set<int>> next(kernels_.size());
    for (int k = 0; k < static_cast<int>(kernels_.size()); ++k)
      for (ValueId input : kernels_[index(k)].inputs) {
        const int producer = uses_.producer[index(input)], source = producer < 0 ? -1 : made_by[index(producer)];
        if (source >= 0 && source != k && next[index(source)].insert(k).second) ++waits[index(k)];
      }
    std::set<std::pair<int, int>> ready;  // by first own operation, for a stable order
    for (int k = 0; k < static_cast<int>(kernels_.size()); ++k)
      if (waits[index(k)] == 0) ready.insert({kernels_[index(k)].ops.back(), k});
    std::vector<Kernel> result;
    while (!ready.empty()) {
      const int k = ready.begin()->second;
      ready.erase(ready.begin());
      result.push_back(std::move(kernels_[index(k)]));
      for (int other : next[index(k)])
        if (--waits[index(other)] == 0) ready.insert({kernels_[index(other)].ops.back(), other});
    }
    require(result.size() == kernels_.size(), "kernels of a function wait for each other");
    return result;
  }

  Context& context_;
  const GraphFunction& function_;
  FusionRules rules_;
  const std::set<std::string>& kept_apart_;
  const Uses& uses_;
  const Views& views_;
  std::vector<int> owner_;
  std::vector<Kernel> kernels_;
  std::vector<std::set<int>> readers_;  ///< by kernel: operations of others that read what it computes
  std::vector<int> last_;               ///< by kernel: its last operation
  std::map<int, RowBytes> rows_;        ///< by vector kernel
};

}  // namespace

namespace {

/// Every value that a kernel reads has bytes: otherwise the program would name a tensor that nobody made.
void require_places(const Context& context, const std::vector<Kernel>& kernels) {
  for (const Kernel& kernel : kernels)
    for (const ValueId input : kernel.inputs)
      if (!context.placed(input) && !context.counters.count(input))
        throw InternalError("the kernel \"" + kernel.name + "\" reads \"" + context.value(input).name +
                            "\", which has neither a tensor nor a number");
}

}  // namespace

std::vector<Kernel> plan_function(Context& context, const FusionRules& rules, const std::string& prefix,
                                  const std::map<ValueId, std::string>& boundary,
                                  const std::set<std::string>& kept_apart, bool is_main) {
  const Uses uses(context.function);
  const Views views = find_views(context.function, uses, is_main);
  std::vector<Kernel> kernels = Grouping(context, rules, kept_apart, uses, views).run();
  place_values(context, rules, kernels, uses, views, prefix, boundary);
  require_places(context, kernels);
  return kernels;
}

}  // namespace tilesim::lower
