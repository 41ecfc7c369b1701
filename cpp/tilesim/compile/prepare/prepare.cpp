#include "tilesim/compile/prepare/prepare.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/attention/attention.hpp"
#include "tilesim/compile/groups/rules.hpp"
#include "tilesim/compile/layouts/layouts.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/compile/plan/transforms.hpp"
#include "tilesim/compile/prepare/collapse_axes.hpp"
#include "tilesim/compile/prepare/long_rows.hpp"
#include "tilesim/compile/prepare/sink_views.hpp"
#include "tilesim/compile/quantized/pattern.hpp"
#include "tilesim/compile/quantized/quantized.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/passes.hpp"
#include "tilesim/graph/passes/empty.hpp"
#include "tilesim/kernels/kernels.hpp"

namespace tilesim::lower {

namespace {

constexpr std::int64_t fold_limit = 1 << 16;  ///< elements: per-channel vectors are folded, weights are not

ValueId add_value(GraphFunction& function, const std::string& stem, TensorType type) {
  std::string name = stem;
  const auto taken = [&] {
    return std::any_of(function.values.begin(), function.values.end(),
                       [&](const Value& value) { return value.name == name; });
  };
  for (int i = 1; taken(); ++i) name = stem + "." + std::to_string(i);
  function.values.push_back({name, std::move(type)});
  return static_cast<ValueId>(function.values.size()) - 1;
}

/// y = normalize(x, scale, bias) -> n = normalize(x); y = n * scale + bias. The chip stores n, because a view lies
/// between the two.
void split_affine(GraphFunction& function, std::set<std::string>& kept_apart) {
  std::vector<Op> ops;
  for (Op& op : function.ops) {
    const std::string mode = op.kind == Kind::normalize ? op.attributes.text("mode", "layer") : "";
    const bool affine = std::any_of(op.operands.begin(), op.operands.end(),
                                    [&](ValueId v) { return v != no_value && v != op.operands[0]; });
    if ((mode != "layer" && mode != "rms") || !affine) {
      ops.push_back(std::move(op));
      continue;
    }
    ValueId scale = op.operands[1], bias = op.operands.size() > 2 ? op.operands[2] : no_value;
    const ValueId result = op.results[0];
    const TensorType type = function.value(result).type;
    const ValueId normalized = add_value(function, op.name + ".normalized", type);
    kept_apart.insert(function.value(normalized).name);
    const std::string name = op.name, source = op.source;
    op.operands.resize(1);
    op.results[0] = normalized;
    op.name += ".normalized";
    ops.push_back(std::move(op));
    ValueId current = normalized;
    const auto apply = [&](const char* which, ValueId operand, bool last) {
      Op step;
      step.kind = Kind::elementwise;
      step.name = last ? name : name + "." + which;
      step.source = source;
      step.attributes.set("function", std::string(which));
      step.operands = {current, operand};
      current = last ? result : add_value(function, name + "." + which, type);
      step.results = {current};
      ops.push_back(std::move(step));
    };
    if (scale != no_value) apply("multiply", scale, bias == no_value);
    if (bias != no_value) apply("add", bias, true);
  }
  function.ops = std::move(ops);
}

/// Reduces a window that covers all of an axis and its padding to the axis: padding elements do not change results.
void trim_windows(GraphFunction& function) {
  for (Op& op : function.ops) {
    if (op.kind != Kind::window_reduce) continue;
    const Shape &from = function.value(op.operands[0]).type.shape, &to = function.value(op.results[0]).type.shape;
    const std::vector<std::int64_t> ones(from.size(), 1), none(2 * from.size(), 0);
    std::vector<std::int64_t> window = op.attributes.integers("window"), pads = op.attributes.integers("pads", none);
    const std::vector<std::int64_t> dilation = op.attributes.integers("window_dilation", ones);
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::int64_t low = pads[2 * i];
      if (to[i] != 1 || dilation[i] != 1 || from[i] == 0 || low < 0 || window[i] < from[i] + low) continue;
      window[i] = from[i];
      pads[2 * i] = pads[2 * i + 1] = 0;
    }
    op.attributes.set("window", window);
    op.attributes.set("pads", pads);
  }
}

/// Replaces the interior zeros of an input-dilated convolution by a separate pad operation.
void materialize_input_dilation(GraphFunction& function) {
  std::vector<Op> ops;
  for (Op& op : function.ops) {
    const std::vector<std::int64_t> dilation =
        op.kind == Kind::convolution ? op.attributes.integers("input_dilation", {}) : std::vector<std::int64_t>{};
    if (std::all_of(dilation.begin(), dilation.end(), [](std::int64_t d) { return d == 1; })) {
      ops.push_back(std::move(op));
      continue;
    }
    const std::string labels = op.attributes.text("x_labels");
    TensorType type = function.value(op.operands[0]).type;
    std::vector<std::int64_t> zeros(type.shape.size(), 0), interior = zeros;
    std::size_t spatial = 0;
    for (std::size_t axis = 0; axis < labels.size(); ++axis) {
      if (labels[axis] == 'N' || labels[axis] == 'C') continue;
      interior[axis] = dilation[spatial++] - 1;
      type.shape[axis] = std::max<std::int64_t>(0, (type.shape[axis] - 1) * (interior[axis] + 1) + 1);
    }
    Op pad;
    pad.kind = Kind::pad;
    pad.name = op.name + ".dilated";
    pad.source = op.source;
    pad.operands = {op.operands[0]};
    pad.attributes.set("low", zeros);
    pad.attributes.set("high", zeros);
    pad.attributes.set("interior", interior);
    pad.attributes.set("mode", std::string("constant"));
    pad.results = {add_value(function, pad.name, type)};
    op.operands[0] = pad.results[0];
    op.attributes.set("input_dilation", std::vector<std::int64_t>(dilation.size(), 1));
    ops.push_back(std::move(pad));
    ops.push_back(std::move(op));
  }
  function.ops = std::move(ops);
}

/// Adds a copy of small image batches in torch's order, for which convolutions prefer channels minor, if the machine's
/// compiler does so. Estimates never choose it: their order pads less than a quarter.
void copy_images(GraphFunction& function, const Shape& tile) {
  const auto enters_otherwise = [&](const Op& op) {
    if (std::find(function.inputs.begin(), function.inputs.end(), op.operands[0]) == function.inputs.end())
      return false;
    const Shape& shape = function.value(op.operands[0]).type.shape;
    const std::string& labels = op.attributes.text("x_labels");
    return shape[labels.find('N')] < tile[0] && labels.back() != 'C' && enters_in_torch_order(shape, tile);
  };
  std::vector<Op> ops;
  for (Op& op : function.ops) {
    if (op.kind == Kind::convolution && enters_otherwise(op)) {
      Op copy;
      copy.kind = Kind::copy;
      copy.name = op.name + ".channels_minor";
      copy.operands = {op.operands[0]};
      copy.attributes.set("layout", true);
      copy.results = {add_value(function, copy.name, function.value(op.operands[0]).type)};
      op.operands[0] = copy.results[0];
      ops.push_back(std::move(copy));
    }
    ops.push_back(std::move(op));
  }
  function.ops = std::move(ops);
}

/// Adds a copy for each output that is a constant.
void write_constant_outputs(GraphFunction& function) {
  const std::set<ValueId> outputs(function.outputs.begin(), function.outputs.end());
  std::vector<Op> copies;
  for (Op& op : function.ops) {
    if (op.kind != Kind::constant || !outputs.count(op.results[0])) continue;
    const ValueId output = op.results[0];
    const ValueId own = add_value(function, function.value(output).name + ".constant", function.value(output).type);
    for (Op& reader : function.ops)
      for (ValueId& id : reader.operands)
        if (id == output) id = own;
    op.results[0] = own;
    Op copy;
    copy.kind = Kind::copy;
    copy.name = op.name + ".out";
    copy.source = op.source;
    copy.operands = {own};
    copy.results = {output};
    copy.attributes.set("layout", true);
    copies.push_back(std::move(copy));
  }
  function.ops.insert(function.ops.end(), copies.begin(), copies.end());
}

std::vector<Array> evaluated(const Graph& graph, const GraphFunction& function, const Op& op,
                             const std::vector<Array>& operands) {
  Op plain = op;  // with its original source, for error texts
  drop_origin(plain);
  try {
    return evaluate_op(graph, function, plain, operands);
  } catch (const Unsupported& error) {
    throw CannotRun(op, Lack::lowering, error.parts());
  }
}

}  // namespace

void fold_small(Graph& graph) { fold_constants(graph, evaluated, fold_limit); }

namespace {

/// Text of the decision: both estimates in cycles, and the kernel's tiles.
std::string decision(const mapping::AttentionPlan& plan, bool one, double apart) {
  const auto cycles = [](double value) { return std::to_string(static_cast<std::int64_t>(value)); };
  return std::string(one ? "as one kernel" : "as two products around a softmax") + ": " + cycles(plan.cycles) +
         " and " + cycles(apart) + " cycles by estimate; tiles of " + std::to_string(plan.heads) + " x " +
         std::to_string(plan.queries) + " queries and " + std::to_string(plan.keys) + " keys" +
         (plan.resident ? ", which stay" : "") +
         (plan.splits > 1 ? ", in " + std::to_string(plan.splits) + " parts" : "");
}

/// A row for the attention in the table of fusion candidates.
FusionCandidate attention_row(const Graph& graph, const GraphFunction& function, const Op& op) {
  FusionCandidate row;
  row.candidate = (&function == &graph.entry() ? "" : function.name + ".") + op.name;
  row.rule = info(Rule::attention).name;
  row.operations = {op.name};
  row.decision = "not legal";
  return row;
}

/// Finds attentions that are faster as one kernel than as primitives, by their origins, since passes move operations.
/// Native lowering follows the chip's profile instead.
class WholeAttentions {
 public:
  WholeAttentions(const Share& machine, const CompileOptions& options, const ApartCycles& apart, Prepared& prepared)
      : machine_(machine), options_(options), apart_(apart), prepared_(prepared) {}

  std::set<std::string> find() {
    const bool native = FusionRules::of(machine_, options_).native;
    std::set<std::string> whole;
    std::map<std::string, int> said;
    for (const GraphFunction& function : prepared_.graph.functions)
      for (const Op& op : function.ops) {
        if (op.kind != Kind::attention) continue;
        FusionCandidate& row = prepared_.looked_at.emplace_back(attention_row(prepared_.graph, function, op));
        if (options_.attentions) {
          if (options_.attentions->count(row.candidate)) whole.insert(op.source);
          continue;
        }
        row.reason = native          ? "the chip's own compiler does not"
                     : is_mapped(op) ? "tiles are given for its parts"
                                     : "the units cannot compute it, or no tile of it fits the scratchpad";
        const auto problem = native || is_mapped(op) ? std::nullopt : attention_problem(function, op, machine_);
        if (!problem) continue;
        const Chosen& chosen = choice(*problem, function, op);
        if (!chosen.plan) continue;
        if (chosen.one) whole.insert(op.source);
        add_price(row, *problem, chosen);
        ++said[row.reason];
      }
    for (const auto& [text, count] : said) prepared_.notes.push_back(std::to_string(count) + " x attention " + text);
    prepared_.attentions = planned_;
    return whole;
  }

 private:
  /// Whether tiles are given for the attention's primitives, or only the attention is to be lowered.
  bool is_mapped(const Op& op) const {
    const auto of_it = [&](const std::string& name) { return name == op.name || name.starts_with(op.name + "."); };
    const auto any = [&](const auto& table) {
      return std::ranges::any_of(table, [&](const auto& entry) { return of_it(entry.first); });
    };
    return any(options_.mappings) || any(options_.vectors) || of_it(options_.only);
  }

  struct Chosen {
    std::optional<mapping::AttentionPlan> plan;
    double apart = 0;
    bool one = false;
  };

  /// Sets the savings: as primitives, scores and weights are each written and read once.
  static void add_price(FusionCandidate& row, const mapping::AttentionProblem& problem, const Chosen& chosen) {
    const auto scores = static_cast<double>(problem.batch * problem.heads * problem.queries * problem.keys);
    constexpr double moves = 4, bytes = 4;  // transfers of scores and weights; bytes per f32 element
    row.bytes_saved = moves * bytes * scores;
    row.cycles_saved = chosen.apart - chosen.plan->cycles;
    row.decision = chosen.one ? "taken" : "not worth it";
    row.reason = decision(*chosen.plan, chosen.one, chosen.apart);
  }

  const Chosen& choice(const mapping::AttentionProblem& problem, const GraphFunction& function, const Op& op) {
    const auto [known, fresh] = chosen_.try_emplace(problem);
    Chosen& chosen = known->second;
    if (!fresh) return chosen;
    planned_->known[problem] = chosen.plan = mapping::plan_attention(problem, machine_);
    if (!chosen.plan) return chosen;
    // Both estimates have an error of about 5%; if lengths are data, only the fused kernel skips keys.
    const double certain = problem.lengths ? 1.05 : 0.95;
    const std::int64_t scores = problem.batch * problem.heads * problem.queries * problem.keys * 4;
    const bool stays = scores <= machine_.core.count * machine_.core.scratchpad.bytes;
    chosen.apart = mapping::attention_apart_cycles(problem, machine_);
    if (stays || chosen.plan->cycles > certain * chosen.apart) chosen.apart = apart_(function, op, stays);
    chosen.one = chosen.plan->cycles < certain * chosen.apart;
    return chosen;
  }

  const Share& machine_;
  const CompileOptions& options_;
  const ApartCycles& apart_;
  Prepared& prepared_;
  std::map<mapping::AttentionProblem, Chosen> chosen_;
  std::shared_ptr<AttentionPlans> planned_ = std::make_shared<AttentionPlans>();
};

}  // namespace

Prepared prepare(const Graph& graph, const Share& machine, const CompileOptions& options, const ApartCycles& apart) {
  Prepared prepared{graph, {}, {}, {}, {}};
  Graph& work = prepared.graph;
  for (GraphFunction& function : work.functions) edit::order_values(function);
  keep_origins(work);
  const LoweringProfile& profile = machine.whole.lowering;
  if (profile.fusion && profile.fusion->keep_affine_apart)
    for (GraphFunction& function : work.functions) split_affine(function, prepared.kept_apart);
  for (GraphFunction& function : work.functions) {
    trim_windows(function);
    materialize_input_dilation(function);
  }
  std::set<std::string> whole;
  if (FusionRules::of(machine, options).has(Rule::attention))
    whole = WholeAttentions(machine, options, apart, prepared).find();
  expand(work, [&](const Op& op) { return op.kind != Kind::attention || !whole.count(op.source); });
  fold_empty(work, evaluated);
  divide_solves(work, machine);
  expand_transforms(work, machine);
  fold_small(work);
  choose_branches(work, prepared.notes);
  split_long_rows(work, machine);
  merge_common_subexpressions(work);
  remove_no_ops(work);
  remove_dead_code(work);
  for (GraphFunction& function : work.functions) widen_operands(function, machine);
  const FusionRules rules = FusionRules::of(machine, options);
  if (rules.has(Rule::prologue) && !rules.native)
    for (GraphFunction& function : work.functions) {
      split_ragged_blocks(function);
      split_into_blocks(function, options);
    }
  if (rules.has(Rule::views) && !rules.native) sink_views(work, prepared.looked_at);
  if (!machine.layout.tile.empty() && collapse_axes(work, machine, prepared.kept_apart, !rules.native)) {
    fold_small(work);
    merge_common_subexpressions(work);
    remove_dead_code(work);
  }
  for (GraphFunction& function : work.functions) write_constant_outputs(function);
  compress_weights(work, machine, prepared.notes);
  divide_contractions(work, machine);
  if (!machine.layout.tile.empty() && profile.convolution && profile.convolution->copy_few_images)
    for (GraphFunction& function : work.functions) copy_images(function, machine.layout.tile);
  return prepared;
}

}  // namespace tilesim::lower
