#include "tilesim/compile/grouping.hpp"

#include <algorithm>
#include <functional>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/placement.hpp"

namespace tilesim::lower {

FusionRules FusionRules::of(const Machine& machine, const CompileOptions& options) {
  FusionRules rules;
  rules.fuse = options.fuse != "none";
  if (machine.lowering.is_null()) return rules;
  ObjectReader profile(machine.lowering);
  const Json* section = profile.optional("fusion");
  for (const char* other : {"product", "convolution", "reason"}) profile.optional(other);
  profile.finish();
  if (!section) return rules;
  ObjectReader reader(*section);
  rules.resident = reader.boolean_or("resident_rows", rules.resident);
  rules.merge_siblings = reader.boolean_or("merge_sibling_reductions", rules.merge_siblings);
  rules.product_prologue = reader.boolean_or("product_prologue", rules.product_prologue);
  rules.reduce_epilogue = reader.boolean_or("reduce_epilogue", rules.reduce_epilogue);
  rules.narrow_for_products = reader.boolean_or("narrow_for_products", rules.narrow_for_products);
  reader.optional("keep_affine_apart");
  reader.optional("reason");
  reader.finish();
  return rules;
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
    owner_[index(i)] = static_cast<int>(kernels_.size()) - 1;
    return owner_[index(i)];
  }

  void own(int i, int kernel) {
    owner_[index(i)] = kernel;
    kernels_[index(kernel)].ops.push_back(i);
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

  /// The space that an operation iterates over.
  Shape space(int i) const { return op(i).kind == Kind::reduce ? shape(op(i).operands[0]) : shape(op(i).results[0]); }

  void place_vector(int i) {
    if (op(i).kind == Kind::iota) return;  // recomputed as an index by whoever reads it
    if (rules_.resident) {
      if (rules_.fuse && join(i)) return;
      add_kernel(Family::vector, i);
    } else if (!is_recomputable(op(i).kind)) {
      add_kernel(Family::vector, i);  // a root; make_passes adds what it recomputes
    }
  }

  bool reaches(int from, int to) const {
    std::set<int> seen;
    const auto& ends = kernels_[index(to)].ops;
    const int last = *std::max_element(ends.begin(), ends.end());  // operations stand in order: no way leads back
    std::function<bool(int)> walk = [&](int kernel) {
      if (kernel == to) return true;
      if (!seen.insert(kernel).second) return false;
      for (int member : kernels_[index(kernel)].ops)
        for (ValueId result : op(member).results)
          for (int reader : uses_.consumers[index(result)]) {
            if (reader <= last && walk_reader(reader, kernel, walk)) return true;
          }
      return false;
    };
    return walk(from);
  }

  /// Follows views, which belong to no kernel.
  bool walk_reader(int reader, int from, const std::function<bool(int)>& walk) const {
    const int next = owner_[index(reader)];
    if (next == from) return false;
    if (next >= 0) return walk(next);
    for (ValueId result : op(reader).results)
      for (int further : uses_.consumers[index(result)])
        if (walk_reader(further, from, walk)) return true;
    return false;
  }

  /// A kernel computes over its whole space, or over its rows, where each axis that its reductions take has extent 1.
  bool compatible(const Kernel& kernel, int i) const {
    const Shape own_space = space(i), their_space = space(kernel.ops.front());
    std::set<std::int64_t> reduced;
    bool reduces = false;
    for (int member : kernel.ops) {
      const Op& other = op(member);
      if (!is_recomputable(other.kind) && other.kind != Kind::reduce) return false;
      if (other.kind != Kind::reduce) continue;
      reduces = true;
      const std::string combiner = other.attributes.text("combiner");
      if (combiner == "argmax" || combiner == "argmin" || !other.attributes.flag("keep_dims")) return false;
      const std::vector<std::int64_t>& dims = other.attributes.integers("dims");
      if (op(i).kind == Kind::reduce && op(i).attributes.integers("dims") != dims) return false;
      reduced.insert(dims.begin(), dims.end());
    }
    if (op(i).kind == Kind::reduce) {
      const std::string combiner = op(i).attributes.text("combiner");
      if (combiner == "argmax" || combiner == "argmin") return false;
      if (reduces && !op(i).attributes.flag("keep_dims")) return false;
    }
    if (own_space == their_space) return true;
    // A reduction of rows would take each row's one value as often as the row is long.
    if (!reduces || op(i).kind == Kind::reduce || own_space.size() != their_space.size()) return false;
    for (std::size_t d = 0; d < own_space.size(); ++d)
      if (own_space[d] != (reduced.count(static_cast<std::int64_t>(d)) ? 1 : their_space[d])) return false;
    return true;
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
      if (!compatible(kernels_[index(kernel)], i)) continue;
      bool cycle = false;
      for (ValueId other : op(i).operands) {
        const int source = other == no_value ? -1 : producing_kernel(other);
        if (source >= 0 && source != kernel && reaches(kernel, source)) cycle = true;
        if (source == kernel && owner_[index(uses_.producer[index(other)])] < 0)
          cycle = true;  // a view of its own result
      }
      if (cycle) continue;
      std::vector<int> together = kernels_[index(kernel)].ops;
      together.push_back(i);
      // Rows that do not fit stream by in passes, however many operations take part.
      if (!fits_resident(context_, together) && fits_resident(context_, kernels_[index(kernel)].ops)) continue;
      own(i, kernel);
      return true;
    }
    return false;
  }

  /// Kernel that produces a value, through views.
  int producing_kernel(ValueId value) const {
    const int producer = uses_.producer[index(value)];
    if (producer < 0) return -1;
    if (owner_[index(producer)] >= 0) return owner_[index(producer)];
    for (ValueId operand : op(producer).operands)
      if (operand != no_value)
        if (const int kernel = producing_kernel(operand); kernel >= 0) return kernel;
    return -1;
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
      std::function<void(ValueId)> pull = [&](ValueId value) {
        const int producer = value == no_value || scalar(value) ? -1 : uses_.producer[index(value)];
        if (producer < 0 || owner_[index(producer)] >= 0 || !is_recomputable(op(producer).kind)) return;
        if (!ops.insert(producer).second) return;
        for (ValueId operand : op(producer).operands) pull(operand);
      };
      for (int member : std::vector<int>(kernel.ops))
        for (ValueId operand : op(member).operands) pull(operand);
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
        if (result == no_value) continue;
        bool outside = uses_.is_output[index(result)];
        for (int reader : uses_.consumers[index(result)])
          outside |= !members.count(reader) && reads_stored(reader, member);
        if (outside && owner_[index(member)] >= 0 && owned_by(member, kernel)) kernel.outputs.push_back(result);
      }
    }
    kernel.inputs.assign(inputs.begin(), inputs.end());
    kernel.name = op(kernel.anchor >= 0 ? kernel.anchor : kernel.ops.back()).name;
    if (kernel.outputs.empty()) {
      const ValueId last = op(kernel.ops.back()).results[0];
      kernel.outputs.push_back(last);
    }
  }

  /// Whether a reader outside the kernel reads the stored bytes (and does not recompute the producer).
  bool reads_stored(int, int producer) const { return owner_[index(producer)] >= 0; }
  bool owned_by(int member, const Kernel& kernel) const { return &kernels_[index(owner_[index(member)])] == &kernel; }

  std::vector<Kernel> ordered() {
    std::vector<int> waits(kernels_.size(), 0);
    std::vector<std::set<int>> next(kernels_.size());
    for (int k = 0; k < static_cast<int>(kernels_.size()); ++k)
      for (ValueId input : kernels_[index(k)].inputs) {
        const int source = producing_kernel(input);
        if (source >= 0 && source != k && next[index(source)].insert(k).second) ++waits[index(k)];
      }
    std::set<std::pair<int, int>> ready;  // by first own operation, for a stable order
    for (int k = 0; k < static_cast<int>(kernels_.size()); ++k)
      if (waits[index(k)] == 0) ready.insert({kernels_[index(k)].ops.back(), k});
    std::vector<Kernel> result;
    while (!ready.empty()) {
      const int k = ready.begin()->second;
      ready.erase(ready.begin());
      result.push_back(kernels_[index(k)]);
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
