#include "tilesim/compile/groups/chains.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/chain/find.hpp"
#include "tilesim/compile/groups/groups.hpp"
#include "tilesim/compile/plan/in_place.hpp"

namespace tilesim::lower {

namespace {

std::size_t number(int i) { return static_cast<std::size_t>(i); }

class ChainSearch {
 public:
  ChainSearch(std::vector<Kernel>& kernels, const Context& context, const Uses& uses, const KeptApart& kept_apart)
      : kernels_(kernels),
        context_(context),
        uses_(uses),
        kept_apart_(kept_apart),
        price_(context, uses),
        next_(kernels.size(), -1) {
    const auto cores = static_cast<double>(std::max<std::int64_t>(1, context.machine.core.count));
    constexpr double part = 0.75;  // share of the scratchpads for values between kernels; the rest is for tiles
    if (context.options.may_stay()) room_ = part * cores * static_cast<double>(context.machine.core.scratchpad.bytes);
  }

  std::vector<FusionCandidate> run() {
    if (!may_run()) return {};
    link();
    for (int k = 0; k < count(); ++k)
      if (!behind_.count(k) && next_[number(k)] >= 0) choose(k);
    join();
    return std::move(rows_);
  }

 private:
  int count() const { return static_cast<int>(kernels_.size()); }
  const Op& op(int i) const { return context_.function.ops[number(i)]; }

  /// Whether chains are allowed: not if operations overwrite values, since a chain runs its first products later.
  bool may_run() const {
    if (!context_.options.only.empty() || !context_.function.aliases.empty()) return false;
    return std::ranges::none_of(context_.function.ops, [&](const Op& one) {
      return std::ranges::any_of(
          one.results, [&](ValueId result) { return result != no_value && old_value(one, result) != no_value; });
    });
  }

  void link() {
    std::map<int, int> of_anchor;
    for (int k = 0; k < count(); ++k)
      if (kernels_[number(k)].family == Family::product && is_product(op(kernels_[number(k)].anchor).kind))
        of_anchor[kernels_[number(k)].anchor] = k;
    for (const auto& [anchor, k] : of_anchor) {
      if (kernels_[number(k)].outputs.size() != 1) continue;
      const ValueId made = kernels_[number(k)].outputs[0];
      const std::vector<int>& readers = uses_.consumers[static_cast<std::size_t>(made)];
      if (readers.size() != 1 || uses_.is_output[static_cast<std::size_t>(made)]) continue;
      const auto reader = of_anchor.find(readers[0]);
      if (reader == of_anchor.end() || op(readers[0]).operands[0] != made) continue;
      if (std::ranges::count(op(readers[0]).operands, made) != 1 || is_asked_for(made)) continue;
      next_[number(k)] = reader->second;
      behind_.insert(reader->second);
    }
  }

  /// Whether the user gave tiles or a memory level for the value.
  bool is_asked_for(ValueId value) const {
    const int producer = uses_.producer[static_cast<std::size_t>(value)];
    const auto mapped = [&](int i) { return context_.options.mappings.count(op(i).name) > 0; };
    return context_.options.levels.count(context_.value(value).name) > 0 ||
           std::ranges::any_of(uses_.consumers[static_cast<std::size_t>(value)], mapped) || mapped(producer);
  }

  struct Choice {
    std::size_t length = 1;
    double saved = 0;  ///< cycles
    FusionCandidate row;
  };

  /// Splits the path of products from `first` on into chains with the largest saving.
  void choose(int first) {
    std::vector<int> path;
    for (int k = first; k >= 0; k = next_[number(k)]) path.push_back(k);
    std::vector<double> best(path.size() + 1, 0);
    std::vector<Choice> taken(path.size());
    for (std::size_t i = path.size(); i-- > 0;) {
      best[i] = best[i + 1];
      for (std::size_t length = 2; length <= mapping::chain_stages && i + length <= path.size(); ++length) {
        Choice choice = look(
            {path.begin() + static_cast<std::ptrdiff_t>(i), path.begin() + static_cast<std::ptrdiff_t>(i + length)});
        const bool worth = choice.row.decision == "taken";
        rows_.push_back(std::move(choice.row));
        choice.row = rows_.back();
        if (worth && choice.saved + best[i + length] > best[i])
          best[i] = choice.saved + best[i + length], taken[i] = std::move(choice);
      }
    }
    std::set<std::string> names;
    for (std::size_t i = 0; i < path.size(); i += taken[i].length) {
      if (taken[i].length == 1) continue;
      chosen_.push_back({path.begin() + static_cast<std::ptrdiff_t>(i),
                         path.begin() + static_cast<std::ptrdiff_t>(i + taken[i].length)});
      names.insert(key(taken[i].row));
    }
    for (FusionCandidate& row : rows_)
      if (row.decision == "taken" && seen_.insert(key(row)).second && !names.count(key(row)))
        row.decision = "not worth it", row.reason = "other products of the same row of kernels save more together";
  }

  static std::string key(const FusionCandidate& row) {
    std::string text;
    for (const std::string& name : row.operations) text += name + "\n";
    return text;
  }

  Choice look(const std::vector<int>& path) const {
    Choice choice{path.size(), 0, {}};
    FusionCandidate& row = choice.row;
    std::vector<const Kernel*> stages;
    for (int k : path) {
      stages.push_back(&kernels_[number(k)]);
      for (int i : stages.back()->ops) row.operations.push_back(op(i).name);
    }
    row.candidate = (context_.graph.entry().name == context_.function.name ? "" : context_.function.name + ".") +
                    stages.back()->name;
    row.rule = info(Rule::chain).name;
    row.decision = "not legal";
    for (std::size_t i = 0; i + 1 < stages.size(); ++i)
      if (const auto why = kept_apart_.find(context_.value(stages[i]->outputs[0]).name); why != kept_apart_.end()) {
        if (why->second.by_price) row.decision = "not worth it";
        row.reason = why->second.reason;
        return choice;
      }
    const auto found = find_chain(context_, stages);
    if (const auto* why = std::get_if<std::string>(&found)) {
      row.reason = *why;
      return choice;
    }
    price(std::get<Chain>(found).problem, stages, choice);
    return choice;
  }

  void price(const mapping::ChainProblem& problem, const std::vector<const Kernel*>& stages, Choice& choice) const {
    FusionCandidate& row = choice.row;
    const auto [known, fresh] = plans_.try_emplace(problem);
    if (fresh) known->second = mapping::plan_chain(problem, context_.machine);
    if (!known->second) {
      row.reason = "no tile of rows and hidden channels fits the scratchpad";
      return;
    }
    const mapping::ChainPlan& plan = *known->second;
    std::array<bool, mapping::chain_stages> moved{true, true, true};
    std::size_t next = 0;
    for (std::size_t i = 0; i < mapping::chain_stages; ++i) {
      if (!problem.stages[i].there) continue;
      const Kernel& stage = *stages[next++];
      const TensorType& type = context_.value(stage.outputs[0]).type;
      const double bytes = static_cast<double>(element_count(type.shape) * bits(type.dtype)) / 8;
      moved[i] = next == stages.size() || bytes > room_;
    }
    const mapping::ChainApart apart = mapping::chain_apart(problem, context_.machine, moved);
    row.bytes_saved = apart.bytes - plan.bytes;
    row.cycles_saved = apart.cycles - plan.cycles;
    row.recomputed_flops = plan.recomputed_flops;
    constexpr double behind_part = 0.5;  // weight of memory time that other work hides, as for groups
    choice.saved = row.cycles_saved + behind_part * price_.memory_cycles(row.bytes_saved);
    constexpr double certain = 0.95;  // both estimates have an error of about 5%
    row.decision = plan.cycles < certain * apart.cycles ? "taken" : "not worth it";
    const auto text = [](double value) { return std::to_string(std::llround(value)); };
    row.reason = text(plan.cycles) + " cycles as one kernel and " + text(apart.cycles) +
                 " as separate kernels, by estimate; tiles of " + std::to_string(plan.rows) + " rows and " +
                 std::to_string(plan.hidden) + " hidden channels";
  }

  /// Replaces the kernels of each chosen chain by one kernel at the position of the last.
  void join() {
    std::set<int> gone;
    for (const std::vector<int>& path : chosen_) {
      Kernel whole;
      whole.family = Family::chain;
      std::set<ValueId> inputs, made;
      for (int k : path) {
        const Kernel& stage = kernels_[number(k)];
        whole.ops.insert(whole.ops.end(), stage.ops.begin(), stage.ops.end());
        inputs.insert(stage.inputs.begin(), stage.inputs.end());
        if (k != path.back()) made.insert(stage.outputs[0]), gone.insert(k);
      }
      std::sort(whole.ops.begin(), whole.ops.end());
      for (ValueId input : inputs)
        if (!made.count(input)) whole.inputs.push_back(input);
      Kernel& last = kernels_[number(path.back())];
      whole.name = last.name, whole.anchor = last.anchor, whole.outputs = last.outputs;
      for (int k : path) whole.stages.push_back(kernels_[number(k)]);
      last = std::move(whole);
    }
    std::vector<Kernel> left;
    for (int k = 0; k < count(); ++k)
      if (!gone.count(k)) left.push_back(std::move(kernels_[number(k)]));
    kernels_ = std::move(left);
  }

  std::vector<Kernel>& kernels_;
  const Context& context_;
  const Uses& uses_;
  const KeptApart& kept_apart_;
  GroupPrice price_;
  double room_ = 0;
  std::vector<int> next_;  ///< by kernel: the only reader of its result; -1: none
  std::set<int> behind_;
  std::vector<std::vector<int>> chosen_;
  mutable std::map<mapping::ChainProblem, std::optional<mapping::ChainPlan>> plans_;
  std::vector<FusionCandidate> rows_;
  std::set<std::string> seen_;
};

}  // namespace

std::vector<FusionCandidate> join_chains(std::vector<Kernel>& kernels, const Context& context, const Uses& uses,
                                         const KeptApart& kept_apart) {
  return ChainSearch(kernels, context, uses, kept_apart).run();
}

}  // namespace tilesim::lower
