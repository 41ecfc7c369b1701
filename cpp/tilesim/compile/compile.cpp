#include "tilesim/compile/compile.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/apart.hpp"
#include "tilesim/compile/groups/grouping.hpp"
#include "tilesim/compile/kernels.hpp"
#include "tilesim/compile/layouts/lanes.hpp"
#include "tilesim/compile/layouts/layouts.hpp"
#include "tilesim/compile/layouts/rows.hpp"
#include "tilesim/compile/making.hpp"
#include "tilesim/compile/passes/addresses.hpp"
#include "tilesim/compile/passes/passes.hpp"
#include "tilesim/compile/plan/contexts.hpp"
#include "tilesim/compile/plan/core_sorts.hpp"
#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/compile/plan/in_place.hpp"
#include "tilesim/compile/prepare/boundary.hpp"
#include "tilesim/compile/prepare/checks.hpp"
#include "tilesim/compile/prepare/prepare.hpp"
#include "tilesim/compile/recurrence/program_loops.hpp"
#include "tilesim/graph/passes/devices.hpp"

namespace tilesim {

namespace {

using lower::Context;
using lower::Kernel;

/// The machine for which kernels are lowered. The graph is prepared for the unchanged machine, so that a program has
/// the weights of `prepared_graph`.
Share with_slower_memory(Share machine, std::int64_t times) {
  machine.memory.bytes_per_second = std::max<std::int64_t>(1, machine.memory.bytes_per_second / times);
  return machine;
}

class Compiler {
 public:
  /// `machine`: each core's memories are divided by the number of contexts.
  Compiler(const Graph& graph, const Share& machine, const CompileOptions& options, std::int64_t contexts,
           const Compiler* known = nullptr)
      : machine_(with_slower_memory(machine, options.slower_memory)),
        options_(options),
        contexts_(contexts),
        user_record_(options.record),
        user_vectors_(options.record_vectors),
        rules_(lower::FusionRules::of(machine, options)),
        prepared_(lower::prepare(graph, machine, options, apart_prices(machine, options, contexts))) {
    if (known) choices_.take_mappings(known->choices_);
    choices_.attentions = std::move(prepared_.attentions);
    lower::separate_formals(prepared_.graph);
    lower::mark_in_place(prepared_.graph);
    options_.record = &products_;
    options_.record_vectors = &vectors_;
  }

  /// Lowers the graph before passes run, with facts on its kernels for the passes. `whole`: the undivided machine.
  lower::Lowering run(const Share& whole) {
    const Graph& graph = prepared_.graph;
    program_.name = graph.name;
    program_.machine = machine_.name;
    program_.notes = options_.notes;
    program_.notes.insert(program_.notes.end(), prepared_.notes.begin(), prepared_.notes.end());
    if (options_.record_fusion) *options_.record_fusion = prepared_.looked_at;
    for (std::string& note : lower::copied_states(prepared_.graph)) program_.notes.push_back(std::move(note));
    program_.cores = machine_.core.count;
    program_.contexts = contexts_;
    lower::check_mappings(graph, options_);
    lower::check_elements(graph);
    std::map<ValueId, std::string> boundary = lower::declare_boundary(graph.entry(), program_);
    const std::set<std::int32_t> called = lower::called_functions(graph);
    for (std::size_t i = 0; i < graph.functions.size(); ++i)
      if (static_cast<std::int32_t>(i) != graph.main && called.count(static_cast<std::int32_t>(i)))
        add_function(graph.functions[i]);
    add_loops(graph.entry());
    program_.body = lower_function(graph.entry(), "", boundary, true);
    check_vectors();
    lower::note_lane_changes(program_);
    program_.tensors = lower::owners_first(std::move(program_.tensors));
    lower::Lowering lowering{std::move(program_), with_slower_memory(whole, options_.slower_memory), machine_,
                             std::move(facts_)};
    for (const Alias& alias : graph.entry().aliases)
      lowering.states.emplace_back(
          graph.entry().value(graph.entry().outputs[static_cast<std::size_t>(alias.output)]).name,
          graph.entry().value(graph.entry().inputs[static_cast<std::size_t>(alias.input)]).name);
    lowering.wish = wish(options_.residency);
    if (machine_.sorts.empty())
      lowering.again = [this](lower::Lowering& of, const std::string& function, std::size_t kernel,
                              std::int64_t bytes) { return again(of, function, kernel, bytes); };
    return lowering;
  }

  lower::ResidencyWish wish(const std::string& residency) const {
    return {residency != "none" && options_.only.empty(), residency == "fitting", options_.levels};
  }

  /// Must precede passes over a copy of the program: the index refers to the previous program's tensors.
  void forget_tensors() { choices_.tensors.forget(); }

  bool lowering_may_ask() const { return options_.residency != "none" || !options_.levels.empty(); }

  /// Moves the recorded choices to the records that the caller's options name.
  void tell_choices() {
    for (ProductChoice& choice : products_)
      if (user_record_) user_record_->push_back(std::move(choice));
    for (VectorChoice& choice : vectors_)
      if (user_vectors_) user_vectors_->push_back(std::move(choice));
  }

 private:
  /// Throws UserError if given tiles name no vector or movement kernel.
  void check_vectors() const {
    const std::vector<std::string> known(vector_names_.begin(), vector_names_.end());
    for (const auto& [name, tiles] : options_.vectors)
      if (!vector_names_.count(name))
        throw UserError({"tiles are given for an operation that is neither a vector nor a movement kernel",
                         prepared_.graph.name, "'" + name + "'", join(known), nearest(name, known)});
  }

  /// Lowers the bodies of the function's loops, inner loops first.
  void add_loops(const GraphFunction& function) {
    for (const Op& op : function.ops) {
      if (op.kind != Kind::while_loop) continue;
      const std::string& stem = prepared_.graph.functions[static_cast<std::size_t>(op.functions[1])].name;
      std::string name = stem;
      const auto taken = [&](const program::Function& other) { return other.name == name; };
      for (int i = 1; std::any_of(program_.functions.begin(), program_.functions.end(), taken); ++i)
        name = stem + "." + std::to_string(i);
      const lower::LoopPlan& plan = loops_.plan(prepared_.graph, function, op, name);
      if (may_be_recurrence() && loops_.take_recurrence(context_of(function), op, options_.record_fusion)) continue;
      add_loops(plan.body);
      add_body(plan);
    }
  }

  /// Native lowering, which copies the chip's compiler, never uses this rule.
  bool may_be_recurrence() const { return rules_.has(lower::Rule::recurrence) && !rules_.native; }

  Context context_of(const GraphFunction& function) {
    return {prepared_.graph, function, machine_, options_, choices_, program_, {}, {}};
  }

  void add_body(const lower::LoopPlan& plan) {
    program::Function callee;
    callee.name = plan.body.name;
    callee.parameters = {lower::counter_name};
    std::map<ValueId, std::string> boundary;
    for (std::size_t i = 0; i < plan.body.inputs.size(); ++i) {
      if (plan.states[i] == lower::Carried::counter) continue;
      callee.tensors.push_back(boundary[plan.body.inputs[i]] = lower::formal_input(plan, i));
    }
    for (std::size_t i = 0; i < plan.body.outputs.size(); ++i) {
      const std::string name = lower::formal_output(plan, i);
      if (std::find(callee.tensors.begin(), callee.tensors.end(), name) == callee.tensors.end())
        callee.tensors.push_back(name);
      boundary[plan.body.outputs[i]] = name;
    }
    callee.body = lower_function(plan.body, callee.name + ".", boundary, false, &plan);
    program_.functions.push_back(std::move(callee));
  }

  void add_function(const GraphFunction& function) {
    add_loops(function);
    program::Function callee;
    callee.name = function.name;
    std::map<ValueId, std::string> boundary;
    for (ValueId input : function.inputs) {
      boundary[input] = function.name + "." + function.value(input).name;
      callee.tensors.push_back(boundary[input]);
    }
    for (std::size_t i = 0; i < function.outputs.size(); ++i) {
      const std::string name = function.name + ".result" + std::to_string(i);
      callee.tensors.push_back(name);
      boundary[function.outputs[i]] = name;
    }
    callee.body = lower_function(function, function.name + ".", boundary, false);
    program_.functions.push_back(std::move(callee));
  }

  program::Block lower_function(const GraphFunction& function, const std::string& prefix,
                                const std::map<ValueId, std::string>& boundary, bool is_main,
                                const lower::LoopPlan* loop = nullptr) {
    const std::size_t recorded = products_.size(), vectors = vectors_.size();
    const std::vector<program::Tensor> tensors = program_.tensors;
    Round round;
    round.notes = program_.notes;
    for (const std::string& value : prepared_.kept_apart)
      round.kept_apart[value] = {false, "the chip's compiler stores it because a view lies between"};
    std::vector<FusionCandidate> looked_at;
    while (true) {
      Context context = context_of(function);
      context.scalars = scalars_of(function);
      if (loop) context.counters = lower::counted_scalars(*loop, context.scalars);
      for (const auto& [value, expression] : context.counters) context.scalars[value] = 0;
      std::vector<Kernel> kernels = lower::plan_function(context, rules_, prefix, boundary, round.kept_apart, is_main,
                                                         options_.record_fusion ? &looked_at : nullptr);
      lower::assign_layouts(context, kernels, rules_.native);
      if (rules_.has(lower::Rule::elementwise) && options_.only.empty()) lower::fetch_rows_in_readers(context, kernels);
      const std::string name = is_main ? std::string() : prefix.substr(0, prefix.size() - 1);
      facts_[name].clear();
      bodies_[name] = {&function, {}, {}, context.scalars, context.counters};
      round.block.clear();
      round.before = round.kept_apart;
      round.whole = true;
      if (options_.cancel) options_.cancel->begin(static_cast<double>(kernels.size()));
      for (const Kernel& kernel : kernels) {
        if (lower::tiled(kernel)) vector_names_.insert(kernel.name);
        if (options_.cancel) {
          options_.cancel->at(&kernel - kernels.data());
          options_.cancel->poll();
        }
        if (options_.only.empty() || lower::is_only(function, kernel, options_))
          add_kernel(context, kernel, name, round);
      }
      if (round.whole) {
        if (options_.record_fusion) std::ranges::move(looked_at, std::back_inserter(*options_.record_fusion));
        bodies_[name].placements = std::move(context.placements);
        return std::move(round.block);
      }
      program_.tensors = tensors;
      choices_.tensors.forget();
      program_.notes = round.notes;
      forget_from(products_, recorded);
      forget_from(vectors_, vectors);
    }
  }

  /// Lowers the kernels of a function until one is rejected; the next round splits the rejected kernels.
  struct Round {
    program::Block block;
    lower::KeptApart before, kept_apart;  ///< for this round; for the next one
    std::vector<std::string> notes;
    bool whole = true;  ///< no kernel is rejected so far
  };

  /// Scalars known at compile time, except operands of loops: these need tensors unless they are counters.
  std::map<ValueId, double> scalars_of(const GraphFunction& function) const {
    std::map<ValueId, double> scalars = lower::known_scalars(prepared_.graph, function);
    for (const Op& op : function.ops)
      if (op.kind == Kind::while_loop)
        for (std::size_t i = 0; i < op.operands.size(); ++i)
          if (!loops_.is_counter(function, op, i)) lower::give_bytes(function, op.operands[i], scalars);
    return scalars;
  }

  /// `name`: the function's name in the program.
  void add_kernel(Context& context, const Kernel& kernel, const std::string& name, Round& round) {
    const GraphFunction& function = context.function;
    const std::size_t product = products_.size(), vector = vectors_.size();
    LoweredKernel lowered = lower_kernel(context, kernel, machine_);
    if (const auto* refused = std::get_if<lower::Refusal>(&lowered)) {  // the others may be rejected too
      const bool apart = !lower::is_given(function, kernel, options_) &&
                         lower::take_apart(function, kernel, *refused, round.before, round.kept_apart);
      if (round.whole && !apart) throw UserError(refused->why);
      round.whole = false;
      if (!apart) return;  // the next round may succeed with another kernel split
      if (!refused->siblings || !refused->by_price)
        round.notes.push_back(kernel.name + ": fused, " + refused->text() + "; its parts run one by one");
      return;
    }
    if (lower::joined_already(function, kernel, std::get<program::Statement>(lowered))) return;
    round.block.push_back(std::move(std::get<program::Statement>(lowered)));
    if (!std::holds_alternative<program::Scope>(round.block.back().action)) return;
    lower::KernelFacts& facts = facts_[name].emplace_back(lower::facts_of(function, kernel, options_, contexts_));
    if (lowering_may_ask())
      lower::add_prices(facts, std::span(products_).subspan(product), std::span(vectors_).subspan(vector));
    bodies_[name].kernels.push_back(kernel);
  }

  using LoweredKernel = std::variant<program::Statement, lower::Refusal>;

  /// `whole`: the machine before contexts divide its bandwidth.
  LoweredKernel lower_kernel(Context& context, const Kernel& kernel, const Share& whole) {
    worked(1 << 14);
    std::vector<int> on_vector;
    for (int op : kernel.ops)
      if (!kernel.multiplies(op)) on_vector.push_back(op);
    lower::check_vector_dtypes(context, on_vector);
    const Op& op = context.function.ops[static_cast<std::size_t>(kernel.ops[0])];
    if (kernel.family == lower::Family::call && op.kind != Kind::while_loop)
      return lower::on("", lower::call_of(context, op));
    const std::int64_t contexts = lower::contexts_of_kernel(context.function, kernel, options_, contexts_);
    if (contexts_ == 1) {
      lower::Lowered lowered = lower_with(context, kernel);
      if (auto* refused = std::get_if<lower::Refusal>(&lowered)) return std::move(*refused);
      return fitting(std::move(std::get<program::Scope>(lowered)), whole);
    }
    const Share machine = lower::with_contexts(whole, contexts);
    Context own{context.graph,
                context.function,
                machine,
                context.options,
                context.choices,
                context.program,
                std::move(context.placements),
                context.scalars,
                contexts,
                context.counters};
    lower::Lowered lowered = lower_with(own, kernel);
    context.placements = std::move(own.placements);
    if (auto* refused = std::get_if<lower::Refusal>(&lowered)) return std::move(*refused);
    return fitting(std::move(std::get<program::Scope>(lowered)), machine);
  }

  /// Lowers a kernel once more for `bytes` of scratchpad. Drops the notes and choices that lowering records twice.
  std::optional<lower::Smaller> again(lower::Lowering& lowering, const std::string& function, std::size_t number,
                                      std::int64_t bytes) {
    Body& body = bodies_.at(function);
    const Kernel& kernel = body.kernels.at(number);
    if (lower::is_given(*body.function, kernel, options_)) return std::nullopt;
    if (lower::holds_whole_rows(body.function->ops[static_cast<std::size_t>(kernel.ops[0])].kind)) return std::nullopt;
    Share machine = machine_;
    machine.core.scratchpad.bytes = bytes;
    const std::size_t notes = lowering.program.notes.size(), product = products_.size(), vector = vectors_.size();
    const auto unused = options_.unused ? *options_.unused : std::map<std::string, std::string>{};
    Context context{prepared_.graph,
                    *body.function,
                    machine,
                    options_,
                    choices_,
                    lowering.program,
                    std::move(body.placements),
                    body.scalars,
                    1,
                    body.counters};
    LoweredKernel lowered = lower_kernel(context, kernel, machine);
    body.placements = std::move(context.placements);
    forget_from(lowering.program.notes, notes);
    if (options_.unused) *options_.unused = unused;
    std::optional<lower::Smaller> found;
    if (auto* statement = std::get_if<program::Statement>(&lowered))
      found = {std::get<program::Scope>(std::move(statement->action)),
               lower::facts_of(*body.function, kernel, options_, contexts_)};
    if (found)
      lower::add_prices(found->facts, std::span(products_).subspan(product), std::span(vectors_).subspan(vector));
    forget_from(products_, product);
    forget_from(vectors_, vector);
    return found;
  }

  template <class Choice>
  static void forget_from(std::vector<Choice>& choices, std::size_t first) {
    while (choices.size() > first) choices.pop_back();
  }

  static LoweredKernel fitting(program::Scope scope, const Share& machine) {
    if (auto refused = lower::misfit(scope, machine)) return std::move(*refused);
    return lower::on("", std::move(scope));
  }

  lower::Lowered lower_with(Context& context, const Kernel& kernel) {
    if (kernel.family != lower::Family::call) return lower::lower_by_family(context, kernel);
    const Op& op = context.function.ops[static_cast<std::size_t>(kernel.ops[0])];
    for (std::size_t i = 0; i < op.operands.size(); ++i) vector_names_.insert(lower::copy_name(op, i));
    return loops_.lower(context, op);
  }

  /// Inputs of the lowering of a function's kernels.
  struct Body {
    const GraphFunction* function = nullptr;
    std::vector<Kernel> kernels;  ///< kernels that were lowered to scopes
    std::vector<lower::Placement> placements;
    std::map<ValueId, double> scalars;
    std::map<ValueId, Expr> counters;
  };

  const Share machine_;
  CompileOptions options_;     ///< records point to the vectors below
  std::int64_t contexts_ = 1;  ///< contexts per core
  std::vector<ProductChoice>* user_record_;
  std::vector<VectorChoice>* user_vectors_;
  std::vector<ProductChoice> products_;
  std::vector<VectorChoice> vectors_;
  std::map<std::string, Body> bodies_;  ///< by function
  lower::FusionRules rules_;
  lower::Prepared prepared_;
  lower::ProgramLoops loops_;
  lower::Choices choices_;
  program::Program program_;
  std::map<std::string, std::vector<lower::KernelFacts>> facts_;  ///< by function
  std::set<std::string> vector_names_;
};

}  // namespace

lower::Lowering lowered(const Graph& graph, const Machine& machine, const CompileOptions& options) {
  const Share share = lower::shared_by(machine, options.cores);
  const std::int64_t contexts = lower::contexts_of(share, options);
  const Share part = lower::with_part_of_memories(share, contexts);
  return lowered_on(graph, part, options, contexts, share);
}

lower::Lowering lowered_on(const Graph& graph, const Share& machine, const CompileOptions& options,
                           std::int64_t contexts, const Share& whole) {
  Compiler compiler(graph, machine, options, contexts);
  lower::Lowering lowering = compiler.run(whole);
  compiler.tell_choices();
  lowering.again = {};  // the compiler object ends here
  return lowering;
}

namespace {

class MakingOf : public Making {
 public:
  MakingOf(const Graph& graph, const Machine& machine, const CompileOptions& options, const MakingOf* known)
      : share_(lower::shared_by(machine, options.cores)),
        contexts_(lower::contexts_of(share_, options)),
        part_(lower::with_part_of_memories(share_, contexts_)),
        given_(options),
        compiler_(graph, part_, told_here(options), contexts_, known ? &known->compiler_ : nullptr),
        lowering_(compiler_.run(share_)) {}

  program::Program finished(const std::string& residency) override {
    compiler_.forget_tensors();
    lower::Lowering own = lowering_;
    own.wish = compiler_.wish(residency);
    return lower::finished(std::move(own));
  }

  void tell() override {
    compiler_.tell_choices();
    if (given_.record_fusion) *given_.record_fusion = groups_;
    if (given_.unused) *given_.unused = unused_;
  }

 private:
  /// Redirects the records of this program's candidates: the caller may choose another program.
  CompileOptions told_here(CompileOptions options) {
    if (options.record_fusion) options.record_fusion = &groups_;
    if (options.unused) options.unused = &unused_;
    return options;
  }

  Share share_;
  std::int64_t contexts_;
  Share part_;
  CompileOptions given_;
  std::vector<FusionCandidate> groups_;
  std::map<std::string, std::string> unused_;
  Compiler compiler_;
  lower::Lowering lowering_;
};

}  // namespace

std::unique_ptr<Making> making(const Graph& graph, const Machine& machine, const CompileOptions& options,
                               const Making* known) {
  return std::make_unique<MakingOf>(graph, machine, options, static_cast<const MakingOf*>(known));
}

Graph prepared_graph(const Graph& graph, const Machine& machine, const CompileOptions& options) {
  const Share share = lower::shared_by(machine, options.cores);
  const std::int64_t contexts = lower::contexts_of(share, options);
  const Share part = lower::with_part_of_memories(share, contexts);
  Graph prepared = lower::prepare(graph, part, options, apart_prices(part, options, contexts)).graph;
  drop_origins(prepared);
  return prepared;
}

bool has_lowering(Kind kind) { return kind != Kind::fused && !between_devices(kind); }

}  // namespace tilesim
