#include "tilesim/compile/groups/moving.hpp"

#include <algorithm>
#include <cmath>

namespace tilesim::lower {

namespace {

constexpr double tiles_part = 0.25;     ///< minimum share of the scratchpads for tiles
constexpr double computed_part = 0.25;  ///< additional share if a product's operands are computed, for two buffers
constexpr double behind_part = 0.5;     ///< weight of memory time that other work hides

}  // namespace

Moving::Moving(const Context& context, const Uses& uses, const Views& views)
    : context_(context), uses_(uses), views_(views), price_(context, uses) {
  const Share& machine = context.machine;
  const auto cores = static_cast<double>(std::max<std::int64_t>(1, machine.core.count));
  if (context.options.may_stay() && machine.core.count == 1)  // else residency depends on the split
    room_ = (1 - tiles_part) * static_cast<double>(machine.core.scratchpad.bytes);
  wait_ = 2 * static_cast<double>(machine.memory.latency_ps) * static_cast<double>(machine.core.clock.hertz) * 1e-12;
  if (machine.core.count > 1) wait_ += static_cast<double>(machine.network.latency_cycles);
  copy_rate_ = std::max(1.0, cores * static_cast<double>(machine.core.dma.bytes_per_cycle));
}

double Moving::cycles(const std::vector<Kernel>& kernels) const {
  std::vector<Traffic> traffic(kernels.size());
  std::map<ValueId, std::vector<Use>> between;  // stored values that are not outputs: kernels that use each
  std::map<ValueId, std::int64_t> made;         // by stored value: number of kernels that must run before
  std::int64_t waits = 0;
  const auto use = [&](ValueId value, std::size_t kernel, double bytes) {
    traffic[kernel].memory += bytes;
    if (const auto found = between.find(value); found != between.end()) found->second.emplace_back(kernel, bytes);
  };
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    std::int64_t behind = 0;
    for (const GroupPrice::Load& load : price_.loads_of({kernels[k].ops.begin(), kernels[k].ops.end()})) {
      const ValueId read = views_.source(context_.function, uses_, load.value);
      if (const auto maker = made.find(read); maker != made.end()) behind = std::max(behind, maker->second + 1);
      use(read, k, load.bytes);
    }
    for (ValueId value : kernels[k].outputs) {
      const ValueId stored = views_.source(context_.function, uses_, value);
      made[stored] = behind;
      if (room_ > 0 && !uses_.is_output[static_cast<std::size_t>(stored)]) between[stored];
      use(stored, k, price_.bytes(value));
    }
    waits = std::max(waits, behind + 1);
  }
  keep(kernels, between, traffic);
  double cycles = wait_ * static_cast<double>(waits) +
                  static_cast<double>(kernels.size()) * static_cast<double>(context_.machine.core.kernel_launch_cycles);
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const GroupPrice::Rows rows = price_.rows(kernels[k].ops);
    const double memory = price_.memory_cycles(traffic[k].memory, rows.cores);
    const double moved = std::max(memory, traffic[k].copied / copy_rate_);
    cycles += rows.one_each ? moved + rows.computing : std::max(moved, rows.computing) + behind_part * memory;
  }
  return cycles;
}

double Moving::room_of(const Kernel& kernel) const {
  const bool computes = kernel.family == Family::product && !kernel.ops.empty() && kernel.ops.front() < kernel.anchor;
  return room_ * (computes ? 1 - computed_part / (1 - tiles_part) : 1);
}

void Moving::keep(const std::vector<Kernel>& kernels, const std::map<ValueId, std::vector<Use>>& uses,
                  std::vector<Traffic>& traffic) const {
  std::vector<std::pair<double, const std::vector<Use>*>> order;
  const auto held = [&](const std::vector<Use>& use) { return use.front().second; };  // bytes of the store (first use)
  for (const auto& [value, use] : uses) {
    double moved = 0;
    for (const auto& [kernel, bytes] : use) moved += bytes;
    const auto span = static_cast<double>(use.back().first - use.front().first + 1);
    if (held(use) > 0 && use.size() > 1) order.emplace_back(-moved / (held(use) * span), &use);
  }
  std::ranges::stable_sort(order, {}, [](const auto& one) { return one.first; });
  std::vector<double> taken(kernels.size(), 0);
  for (const auto& [worth, use] : order) {
    bool fits = true;
    for (std::size_t k = use->front().first; k <= use->back().first && fits; ++k)
      fits = taken[k] + held(*use) <= room_of(kernels[k]) && kernels[k].family != Family::call;
    if (!fits) continue;
    for (std::size_t k = use->front().first; k <= use->back().first; ++k) taken[k] += held(*use);
    for (const auto& [kernel, bytes] : *use) {
      traffic[kernel].memory -= bytes;
      traffic[kernel].copied += bytes;
    }
  }
}

namespace {

/// Descends from several starting choices: toggles each group of similar operations until no toggle is faster.
class CutSearch {
 public:
  CutSearch(const std::function<Grouping(const Cuts&)>& grouped, const Moving& moving, std::size_t operations)
      : grouped_(grouped), moving_(moving), operations_(operations) {}

  Cuts run() {
    const double first = cycles_of({});
    for (const auto& [cycles, start] : starts(first)) descend(start, cycles);
    if (least_ > (1 - told_apart) * first) return {};
    const auto text = [](double cycles) { return std::to_string(std::llround(cycles)); };
    const std::string why = "the function is estimated to take " + text(least_) +
                            " cycles without this rule and others, " + text(first) + " with all that is legal";
    for (auto& [place, reason] : best_) reason = why;
    return best_;
  }

 private:
  bool may_try() const { return tried_ < most_tried; }

  double cycles_of(const Cuts& cuts) {
    if (const auto known = known_.find(cuts); known != known_.end()) return known->second;
    Grouping grouping = grouped_(cuts);
    tried_ += operations_;
    const double cycles = moving_.cycles(grouping.run());
    for (Cut& cut : grouping.doubtful())
      if (std::ranges::find(moves_, cut) == moves_.end()) moves_.push_back(std::move(cut));
    if (known_.empty() || cycles < least_ * (1 - 1e-6)) least_ = cycles, best_ = cuts;
    return known_[cuts] = cycles;
  }

  static Cuts toggled(Cuts cuts, const Cut& move) {
    for (int i : move.ops)
      if (!cuts.erase({move.rule, i})) cuts[{move.rule, i}];
    return cuts;
  }

  /// Starting choices with their cycles, the cheapest first: all fusions, and all without some rules.
  std::vector<std::pair<double, Cuts>> starts(double first) {
    std::set<Rule> had;
    for (const Cut& move : moves_) had.insert(move.rule);
    std::vector<std::set<Rule>> together = {{Rule::epilogue, Rule::siblings},
                                            {Rule::epilogue, Rule::prologue},
                                            {Rule::epilogue, Rule::prologue, Rule::siblings}};
    for (const Rule rule : had) together.push_back({rule});
    std::vector<std::pair<double, Cuts>> found{{first, {}}};
    for (const std::set<Rule>& some : together) {
      Cuts all;
      for (const Rule rule : some)
        if (had.count(rule)) all[{rule, -1}];
      if (!all.empty() && !known_.count(all) && may_try()) found.emplace_back(cycles_of(all), std::move(all));
    }
    std::ranges::stable_sort(found, {}, [](const auto& one) { return one.first; });
    return found;
  }

  void descend(Cuts cuts, double cycles) {
    for (bool changed = true; changed && may_try();) {
      changed = false;
      for (std::size_t i = 0; i < moves_.size() && may_try(); ++i) {
        Cuts other = toggled(cuts, Cut(moves_[i]));
        const double found = cycles_of(other);
        if (found >= cycles * (1 - 1e-6)) continue;
        cycles = found, cuts = std::move(other), changed = true;
      }
    }
  }

  static constexpr double told_apart = 0.01;         ///< relative error, the least gain that counts
  static constexpr std::size_t most_tried = 60'000;  ///< limit on operations, summed over all groupings tried

  const std::function<Grouping(const Cuts&)>& grouped_;
  const Moving& moving_;
  std::size_t operations_, tried_ = 0;
  std::vector<Cut> moves_;
  std::map<Cuts, double> known_;  ///< cycles
  Cuts best_;
  double least_ = 0;
};

}  // namespace

Cuts cheapest_cuts(const std::function<Grouping(const Cuts&)>& grouped, const Moving& moving, const Context& context) {
  return CutSearch(grouped, moving, context.function.ops.size()).run();
}

}  // namespace tilesim::lower
