// Chooses the fastest of several programs for a small graph, each timed as a whole: estimates of single kernels do not
// include the effect of cores and of resident values on later kernels.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/compile/compile.hpp"
#include "tilesim/compile/groups/rules.hpp"
#include "tilesim/compile/making.hpp"
#include "tilesim/compile/plan/contexts.hpp"
#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/mapping/strategies/few_bytes.hpp"
#include "tilesim/program/count.hpp"

namespace tilesim {

namespace {

/// Limits on tile operations, summed over all cores. Simulating the first number takes about 0.2 s. Programs beyond the
/// second one are tried with fewer cores, but not with other residencies, which take one more lowering and run each.
constexpr std::int64_t most_operations = 500000, most_with_residency = 50000;

class Quickest {
 public:
  Quickest(const Graph& graph, const Machine& machine, const CompileOptions& options)
      : graph_(graph), machine_(machine), options_(options) {
    quiet_.check = [this] {
      if (options_.cancel) options_.cancel->poll();
      return false;
    };
  }

  program::Program run() {
    making_ = making(graph_, machine_, options_);
    program_ = making_->finished(options_.residency);
    kernels_ = program::contents(program_).kernels.size();
    const bool varies = varies_cores() || varies_nests();
    const bool short_enough = varies_residency() || (varies && has_at_most(program_, most_operations));
    if (options_.timed && !native() && short_enough) choose();
    making_->tell();
    return std::move(program_);
  }

 private:
  /// Native lowering copies the choices of the chip's compiler.
  bool native() const { return lower::FusionRules::of(machine_, options_).native; }
  bool varies_residency() const {
    return options_.residency == "auto" && options_.only.empty() && kernels_ > 1 &&
           has_at_most(program_, most_with_residency);
  }
  /// Whether all nests are searched.
  bool varies_nests() const {
    return lower::mapping_rule(machine_.lowering, options_) == "cost" && options_.mappings.empty() &&
           options_.vectors.empty() && options_.only.empty();
  }
  bool varies_cores() const {
    return options_.cores == 0 && machine_.core.count > 1 && machine_.sorts.empty() && options_.contexts <= 1 &&
           options_.mappings.empty() && options_.vectors.empty() && options_.levels.empty() && options_.only.empty();
  }

  static bool has_at_most(const program::Program& program, std::int64_t operations) {
    return program::Executions(program, nullptr, true).all() <= operations / (program.cores * program.contexts);
  }

  void choose() {
    time_ = options_.timed(program_);
    const std::shared_ptr<Making> all = making_;
    consider_residency(all, options_);
    consider_slower_memory(options_);
    consider_heuristic(options_);
    constexpr double close = 1.2, near = 1.5, far = 2;
    for (std::int64_t cores = machine_.core.count / 2; cores >= 1 && varies_cores(); cores /= 2) {
      if (time_.work >= cores * time_.cycles) return;  // even fully busy, so few cores would be slower
      CompileOptions fewer = options_;
      fewer.cores = cores;
      const std::shared_ptr<Making> made = make(fewer, all.get());
      const double behind = consider(made, {options_.residency});
      if (behind < near) consider_residency(made, fewer);
      if (behind < close) consider_slower_memory(fewer), consider_heuristic(fewer);
      if (behind > far) return;
    }
  }

  /// Tries the residencies other than "auto", and lowering that does not count on values that stay.
  void consider_residency(const std::shared_ptr<Making>& made, CompileOptions options) {
    if (!varies_residency()) return;
    consider(made, {"fitting"});
    options.counts_on_residency = false;
    consider(make(options, made.get()), {"none", "auto"});
  }

  /// Lowers for a slower memory: tiles and splits then move fewer bytes, so more values stay on chip. A program of many
  /// kernels takes the heuristic's nests, and is not lowered again if it moves little more than inputs, weights and
  /// outputs.
  void consider_slower_memory(CompileOptions options) {
    constexpr double little = 1.25;
    constexpr std::size_t few = 16;
    const bool gains = kernels_ <= few || static_cast<double>(time_.bytes) >= little * least_bytes_;
    if (!varies_residency() || !gains) return;
    options.slower_memory = 2;
    if (kernels_ > few && varies_nests()) options.mapping = "heuristic";
    consider(make(options), {"auto", "fitting"});
  }

  /// Lowers with the heuristic's nests: estimates of the search are a few percent off, and do not know residency.
  void consider_heuristic(CompileOptions options) {
    if (!varies_nests()) return;
    options.mapping = "heuristic";
    std::vector<std::string> residencies{options_.residency};
    if (varies_residency()) residencies.push_back("fitting");
    consider(make(options), residencies);
  }

  std::shared_ptr<Making> make(CompileOptions options, const Making* known = nullptr) {
    options.cancel = &quiet_;
    return making(graph_, machine_, options, known);
  }

  /// Times the program of each residency and keeps it if it is faster than the current one; if it moves more bytes, it
  /// must be faster by more than the model's resolution. Returns the least time over the time before the call.
  double consider(const std::shared_ptr<Making>& made, const std::vector<std::string>& residencies) {
    const auto before = static_cast<double>(std::max<std::int64_t>(1, time_.cycles));
    double least = std::numeric_limits<double>::infinity();
    for (const std::string& residency : residencies) {
      program::Program other = made->finished(residency);
      if (!has_at_most(other, most_operations)) continue;
      const Timed time = options_.timed(other);
      least = std::min(least, static_cast<double>(time.cycles) / before);
      const double enough = time.bytes > time_.bytes ? mapping::as_fast : 1;
      if (enough * static_cast<double>(time.cycles) >= static_cast<double>(time_.cycles)) continue;
      making_ = made;
      program_ = std::move(other);
      time_ = time;
    }
    return least;
  }

  const Graph& graph_;
  const Machine& machine_;
  const CompileOptions& options_;
  CancelToken quiet_;  ///< reports no progress
  std::shared_ptr<Making> making_;
  program::Program program_;
  Timed time_;
  double least_bytes_ = static_cast<double>(compulsory_bytes(graph_));
  std::size_t kernels_ = 0;  ///< of the first program
};

}  // namespace

program::Program compile(const Graph& graph, const Machine& machine, const CompileOptions& options) {
  return Quickest(graph, machine, options).run();
}

}  // namespace tilesim
