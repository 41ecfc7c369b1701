#include "tilesim/compile/compile.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/apart.hpp"
#include "tilesim/compile/attention/attention.hpp"
#include "tilesim/compile/chain/chain.hpp"
#include "tilesim/compile/groups/grouping.hpp"
#include "tilesim/compile/kernels.hpp"
#include "tilesim/compile/layouts/lanes.hpp"
#include "tilesim/compile/layouts/layouts.hpp"
#include "tilesim/compile/passes/addresses.hpp"
#include "tilesim/compile/passes/passes.hpp"
#include "tilesim/compile/plan/contexts.hpp"
#include "tilesim/compile/plan/core_sorts.hpp"
#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/compile/plan/in_place.hpp"
#include "tilesim/compile/prepare/boundary.hpp"
#include "tilesim/compile/prepare/checks.hpp"
#include "tilesim/compile/prepare/loops.hpp"
#include "tilesim/compile/prepare/prepare.hpp"
#include "tilesim/compile/recurrence/recurrence.hpp"
#include "tilesim/graph/passes/devices.hpp"

namespace tilesim {

namespace {

using lower::Context;
using lower::Kernel;

class Compiler {
 public:
  /// `machine`: with a context's share of each core's memories.
  Compiler(const Graph& graph, const Share& machine, const CompileOptions& options, std::int64_t contexts)
      : machine_(machine),
        options_(options),
        contexts_(contexts),
        user_record_(options.record),
        user_vectors_(options.record_vectors),
        rules_(lower::FusionRules::of(machine, options)),
        prepared_(lower::prepare(graph, machine, options, apart_prices(machine, options, contexts))) {
    choices_.attentions = std::move(prepared_.attentions);
    lower::separate_formals(prepared_.graph);
    lower::mark_in_place(prepared_.graph);
    options_.record = &products_;
    options_.record_vectors = &vectors_;
  }

  /// The program before passes, and what they know of its kernels. `whole`: as the program has it for itself.
  lower::Lowering run(const Share& whole) {
    const Graph& graph = prepared_.graph;
    program_.name = graph.name;
    program_.machine = machine_.name;
    program_.notes = prepared_.notes;
    if (options_.record_fusion) *options_.record_fusion = prepared_.looked_at;
    for (std::string& note : lower::copied_states(prepared_.graph)) program_.notes.push_back(std::move(note));
    program_.cores = machine_.core.count;
    program_.contexts = contexts_;
    lower::check_mappings(graph, options_);
    lower::check_elements(graph);
    std::map<ValueId, std::string> boundary = lower::declare_boundary(graph.entry(), program_);
    const std::set<std::int32_t> called = called_functions();
    for (std::size_t i = 0; i < graph.functions.size(); ++i)
      if (static_cast<std::int32_t>(i) != graph.main && called.count(static_cast<std::int32_t>(i)))
        add_function(graph.functions[i]);
    add_loops(graph.entry());
    program_.body = lower_function(graph.entry(), "", boundary, true);
    check_vectors();
    lower::note_lane_changes(program_);
    program_.tensors = lower::owners_first(std::move(program_.tensors));
    choices_.tensors.forget();
    lower::Lowering lowering{std::move(program_), whole, machine_, std::move(facts_)};
    for (const Alias& alias : graph.entry().aliases)
      lowering.states.emplace_back(
          graph.entry().value(graph.entry().outputs[static_cast<std::size_t>(alias.output)]).name,
          graph.entry().value(graph.entry().inputs[static_cast<std::size_t>(alias.input)]).name);
    lowering.wish = {options_.residency == "auto" && options_.only.empty(), options_.levels};
    if (machine_.sorts.empty())
      lowering.again = [this](lower::Lowering& of, const std::string& function, std::size_t kernel,
                              std::int64_t bytes) { return again(of, function, kernel, bytes); };
    return lowering;
  }

  bool lowering_may_ask() const { return options_.residency == "auto" || !options_.levels.empty(); }

  /// What was chosen, to those who asked for it.
  void tell_choices() {
    for (ProductChoice& choice : products_)
      if (user_record_) user_record_->push_back(std::move(choice));
    for (VectorChoice& choice : vectors_)
      if (user_vectors_) user_vectors_->push_back(std::move(choice));
  }

 private:
  std::set<std::int32_t> called_functions() const {
    std::set<std::int32_t> called;
    for (const GraphFunction& function : prepared_.graph.functions)
      for (const Op& op : function.ops)
        if (op.kind == Kind::call) called.insert(op.functions.begin(), op.functions.end());
    return called;
  }

  /// Tiles given from outside are for a vector kernel of the program.
  void check_vectors() const {
    const std::vector<std::string> known(vector_names_.begin(), vector_names_.end());
    for (const auto& [name, tiles] : options_.vectors)
      if (!vector_names_.count(name))
        throw UserError({"tiles are given for an operation that is no vector or movement kernel", prepared_.graph.name,
                         "'" + name + "'", join(known), nearest(name, known)});
  }

  /// Bodies of the loops of a function.
  void add_loops(const GraphFunction& function) {
    for (const Op& op : function.ops) {
      if (op.kind != Kind::while_loop) continue;
      const std::string& stem = prepared_.graph.functions[static_cast<std::size_t>(op.functions[1])].name;
      std::string name = stem;
      const auto taken = [&](const program::Function& other) { return other.name == name; };
      for (int i = 1; std::any_of(program_.functions.begin(), program_.functions.end(), taken); ++i)
        name = stem + "." + std::to_string(i);
      const lower::LoopPlan& plan = loops_[{function.name, op.name}] =
          lower::plan_loop(prepared_.graph, function, op, name);
      if (is_recurrence(function, op, plan)) continue;
      add_loops(plan.body);
      add_body(plan);
    }
  }

  /// Keeps what it finds. Not where the chip's own compiler decides.
  bool is_recurrence(const GraphFunction& function, const Op& op, const lower::LoopPlan& plan) {
    if (!rules_.has(lower::Rule::recurrence) || rules_.native) return false;
    std::optional<lower::Recurrence> found = lower::find_recurrence(prepared_.graph, plan);
    FusionCandidate row;
    row.candidate = (&function == &prepared_.graph.entry() ? "" : function.name + ".") + op.name;
    row.rule = lower::info(lower::Rule::recurrence).name;
    row.operations = {op.name};
    row.decision = "not legal";
    row.reason = "trips mix elements of what they carry, or take positions that the counter does not tell";
    bool takes = false;
    if (found) {
      const Context context{prepared_.graph, function, machine_, options_, choices_, program_, {}, {}};
      const auto gain = lower::recurrence_gain(*found, plan, context);
      takes = gain && gain->cycles > 0;
      row.reason = gain ? "" : "no tile of it fits the scratchpad, or the vector unit does not compute on its types";
      if (gain) row.decision = takes ? "taken" : "not worth it";
      if (gain) row.bytes_saved = gain->bytes, row.cycles_saved = gain->cycles;
    }
    if (options_.record_fusion) options_.record_fusion->push_back(std::move(row));
    if (takes) recurrences_.emplace(std::pair{function.name, op.name}, std::move(*found));
    return takes;
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
    callee.body = lower_function(plan.body, callee.name + ".", boundary, false, plan.counter_value);
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
                                ValueId counter = no_value) {
    const std::size_t recorded = products_.size(), vectors = vectors_.size();
    const std::vector<program::Tensor> tensors = program_.tensors;
    std::vector<std::string> notes = program_.notes;
    lower::KeptApart kept_apart;
    for (const std::string& value : prepared_.kept_apart)
      kept_apart[value] = {false, "the chip's compiler stores it: a view lies between"};
    std::vector<FusionCandidate> looked_at;
    while (true) {
      Context context{prepared_.graph, function, machine_, options_,
                      choices_,        program_, {},       lower::known_scalars(prepared_.graph, function)};
      for (const Op& op : function.ops)
        if (op.kind == Kind::while_loop)
          for (std::size_t i = 0; i < op.operands.size(); ++i)
            if (!is_counter(function, op, i)) lower::give_bytes(function, op.operands[i], context.scalars);
      if (counter != no_value) {
        context.scalars[counter] = 0;
        context.counters[counter] = Expr::symbol(lower::counter_name);
      }
      const std::vector<Kernel> kernels = lower::plan_function(context, rules_, prefix, boundary, kept_apart, is_main,
                                                               options_.record_fusion ? &looked_at : nullptr);
      lower::assign_layouts(context, kernels, rules_.native);
      program::Block block;
      const std::string name = is_main ? std::string() : prefix.substr(0, prefix.size() - 1);
      std::vector<lower::KernelFacts>& facts = facts_[name];
      facts.clear();
      Body& body = bodies_[name];
      body = {&function, {}, {}, context.scalars, context.counters};
      bool whole = true;
      for (const Kernel& kernel : kernels) {
        if (lower::tiled(kernel)) vector_names_.insert(kernel.name);
        if (options_.cancel) options_.cancel->poll();
        if (!options_.only.empty() && !lower::is_only(function, kernel, options_)) continue;
        const std::size_t product = products_.size(), vector = vectors_.size();
        LoweredKernel lowered = lower_kernel(context, kernel, machine_);
        if (const auto* refused = std::get_if<lower::Refusal>(&lowered)) {  // the others may be refused as well
          const bool apart =
              !lower::is_given(function, kernel, options_) && lower::take_apart(function, kernel, *refused, kept_apart);
          if (whole && !apart) throw UserError(refused->why);
          whole = false;
          if (!apart) continue;  // what another one gave up may be all that it needs: the next round tells
          if (!refused->siblings || !refused->by_price)
            notes.push_back(kernel.name + ": fused, " + refused->text() + "; its parts run one by one");
          continue;
        }
        if (lower::joined_already(function, kernel, std::get<program::Statement>(lowered))) continue;
        block.push_back(std::move(std::get<program::Statement>(lowered)));
        if (!std::holds_alternative<program::Scope>(block.back().action)) continue;
        facts.push_back(facts_of(function, kernel));
        if (lowering_may_ask())
          lower::add_prices(facts.back(), std::span(products_).subspan(product), std::span(vectors_).subspan(vector));
        body.kernels.push_back(kernel);
      }
      if (whole) {
        if (options_.record_fusion) std::ranges::move(looked_at, std::back_inserter(*options_.record_fusion));
        body.placements = std::move(context.placements);
        return block;
      }
      program_.tensors = tensors;
      choices_.tensors.forget();
      program_.notes = notes;
      forget_from(products_, recorded);
      forget_from(vectors_, vectors);
    }
  }

  using LoweredKernel = std::variant<program::Statement, lower::Refusal>;

  /// `whole`: without what contexts share.
  LoweredKernel lower_kernel(Context& context, const Kernel& kernel, const Share& whole) {
    worked(1 << 14);
    std::vector<int> on_vector;
    for (int op : kernel.ops)
      if (!kernel.multiplies(op)) on_vector.push_back(op);
    lower::check_vector_dtypes(context, on_vector);
    const Op& op = context.function.ops[static_cast<std::size_t>(kernel.ops[0])];
    if (kernel.family == lower::Family::call && op.kind != Kind::while_loop) return lower::on("", call(context, op));
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

  /// A kernel once more, in so many bytes of scratchpad. What it says beside its statements has been said.
  std::optional<lower::Smaller> again(lower::Lowering& lowering, const std::string& function, std::size_t number,
                                      std::int64_t bytes) {
    Body& body = bodies_.at(function);
    const Kernel& kernel = body.kernels.at(number);
    if (lower::is_given(*body.function, kernel, options_)) return std::nullopt;
    if (lower::holds_whole_rows(body.function->ops[static_cast<std::size_t>(kernel.ops[0])].kind)) return std::nullopt;
    Share machine = machine_;
    machine.core.scratchpad.bytes = bytes;
    const std::size_t notes = lowering.program.notes.size(), product = products_.size(), vector = vectors_.size();
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
    std::optional<lower::Smaller> found;
    if (auto* statement = std::get_if<program::Statement>(&lowered))
      found = {std::get<program::Scope>(std::move(statement->action)), facts_of(*body.function, kernel)};
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

  /// Products divide themselves, as does what the compiler makes of ragged ones.
  lower::KernelFacts facts_of(const GraphFunction& function, const Kernel& kernel) const {
    const bool divided = kernel.family == lower::Family::product &&
                         function.ops[static_cast<std::size_t>(kernel.anchor)].kind != Kind::ragged_contract;
    return {lower::contexts_of_kernel(function, kernel, options_, contexts_), divided};
  }

  static LoweredKernel fitting(program::Scope scope, const Share& machine) {
    if (auto refused = lower::misfit(scope, machine)) return std::move(*refused);
    return lower::on("", std::move(scope));
  }

  lower::Lowered lower_with(Context& context, const Kernel& kernel) {
    if (kernel.family == lower::Family::product) return lower::lower_product(context, kernel);
    if (kernel.family == lower::Family::chain) return lower::lower_chain(context, kernel);
    if (kernel.family == lower::Family::call)
      return loop(context, context.function.ops[static_cast<std::size_t>(kernel.ops[0])]);
    if (kernel.family == lower::Family::vector) return lower::lower_vector(context, kernel);
    if (context.function.ops[static_cast<std::size_t>(kernel.ops[0])].kind == Kind::attention)
      return lower::lower_attention(context, kernel);
    return lower::lower_movement(context, kernel);
  }

  program::Scope loop(Context& context, const Op& op) {
    for (std::size_t i = 0; i < op.operands.size(); ++i) vector_names_.insert(lower::copy_name(op, i));
    const std::pair key{context.function.name, op.name};
    if (const auto found = recurrences_.find(key); found != recurrences_.end())
      return lower::lower_recurrence(context, op, loops_.at(key), found->second);
    return lower::lower_loop(context, op, loops_.at(key));
  }

  bool is_counter(const GraphFunction& function, const Op& op, std::size_t operand) const {
    const auto plan = loops_.find({function.name, op.name});
    return plan != loops_.end() && plan->second.states[operand] == lower::Carried::counter;
  }

  program::Call call(Context& context, const Op& op) {
    if (op.kind != Kind::call)
      throw CannotRun(op, Lack::lowering, {"no lowering for " + std::string(info(op.kind).name), op.name, {}, {}, {}});
    const GraphFunction& callee = prepared_.graph.functions[static_cast<std::size_t>(op.functions[0])];
    program::Call statement;
    statement.function = callee.name;
    const auto bind = [&](const std::string& formal, ValueId actual) {
      const lower::Placement& placement = context.placements[static_cast<std::size_t>(actual)];
      require(context.placed(actual) && placement.identity, "a call's operand has no tensor of its own");
      statement.tensors[formal] = placement.tensor;
    };
    for (std::size_t i = 0; i < op.operands.size(); ++i)
      bind(callee.name + "." + callee.value(callee.inputs[i]).name, op.operands[i]);
    for (std::size_t i = 0; i < op.results.size(); ++i)
      bind(callee.name + ".result" + std::to_string(i), op.results[i]);
    return statement;
  }

  /// What kernels of a function were lowered with.
  struct Body {
    const GraphFunction* function = nullptr;
    std::vector<Kernel> kernels;  ///< that have scopes
    std::vector<lower::Placement> placements;
    std::map<ValueId, double> scalars;
    std::map<ValueId, Expr> counters;
  };

  const Share& machine_;
  CompileOptions options_;     ///< which record into what follows
  std::int64_t contexts_ = 1;  ///< of a core, that the program has
  std::vector<ProductChoice>* user_record_;
  std::vector<VectorChoice>* user_vectors_;
  std::vector<ProductChoice> products_;
  std::vector<VectorChoice> vectors_;
  std::map<std::string, Body> bodies_;  ///< by function
  lower::FusionRules rules_;
  lower::Prepared prepared_;
  std::map<std::pair<std::string, std::string>, lower::LoopPlan> loops_;          ///< by function and operation
  std::map<std::pair<std::string, std::string>, lower::Recurrence> recurrences_;  ///< those that are one kernel
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
  lowering.again = {};  // the compiler is gone
  return lowering;
}

program::Program compile(const Graph& graph, const Machine& machine, const CompileOptions& options) {
  const Share share = lower::shared_by(machine, options.cores);
  const std::int64_t contexts = lower::contexts_of(share, options);
  const Share part = lower::with_part_of_memories(share, contexts);
  Compiler compiler(graph, part, options, contexts);
  program::Program program = lower::finished(compiler.run(share));
  compiler.tell_choices();
  return program;
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
