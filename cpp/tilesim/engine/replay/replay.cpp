#include "tilesim/engine/replay/replay.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/engine/replay/extend.hpp"
#include "tilesim/engine/replay/search.hpp"
#include "tilesim/engine/replay/shorten.hpp"

namespace tilesim::engine::replay {

namespace {

constexpr double wanted = 0.01;      ///< above this error bound, more trips are simulated
constexpr double worst = 0.1;        ///< above this error bound, no result is returned
constexpr double worst_call = 0.01;  ///< the same for omitted calls
constexpr int longest = 4;           ///< limit on the number of times that trips are doubled
constexpr double further = 5;        ///< factor on the limit for another doubling once the bound is below `worst`

/// A number as text: "1,234,567".
std::string counted(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::ptrdiff_t i = std::ssize(text) - 3; i > 0; i -= 3) text.insert(at(i), ",");
  return text;
}

/// A share as text: "0.50%".
std::string percent(double share) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.2f%%", 100 * share);
  return text.data();
}

Result finished(Result result, const program::Program& program, const std::string& what, const Bounds& bounds,
                bool bounded) {
  balance(result);
  result.hashes["program"] = hash_text(program.to_json().dump());
  result.memory = result.network = Json();  // charts of short runs do not describe the long run
  std::string said = "cycles are within " + percent(bounds.cycles) +
                     ", busy cycles of units, bytes and kernels' rows within " + percent(bounds.others) +
                     ", busy cycles of DMA queues within " + percent(bounds.queues) + " of all";
  if (!bounded)
    said =
        "some addresses repeat only after more trips than were compared, so the error has no bound; two predictions of "
        "the total differ by " +
        percent(bounds.cycles / Bounds::margin) + " in cycles, " + percent(bounds.others / Bounds::margin) +
        " in other counts";
  result.approximations.push_back("replay: " + what + " and extended linearly; " + said);
  return result;
}

struct Prediction {
  Bounds bounds;
  Result result;
};

/// Short runs for the steady loops of a program.
class Loops {
 public:
  Loops(const program::Program& program, std::vector<SteadyKernel> kernels, std::int64_t grown)
      : program_(program), kernels_(std::move(kernels)), grown_(grown) {
    for (const SteadyKernel& kernel : kernels_)
      for (const SteadyLoop& loop : kernel.loops) middle_[loop.loop] = kept_trips(loop.is, grown_, 1);
  }

  /// Number of tile operations of all runs together.
  double cost() const {
    double sum = cost(middle_);
    for (std::size_t kernel = 0; kernel < kernels_.size(); ++kernel)
      for (int low = 0; low < 2; ++low)
        for (std::size_t choice = 0; choice < choices(kernel); ++choice)
          if (!all_middle(kernel, low, choice)) sum += cost(kept(kernel, low, choice));
    return sum;
  }

  std::optional<Prediction> predicted(const Run& run) const {
    if (CancelToken* const cancel = CancelScope::current())
      cancel->expect(cost() * static_cast<double>(program_.cores * program_.contexts));
    const Result base = run(without_trips(program_, middle_));
    std::vector<Result> results;
    results.reserve(at(runs(kernels_)));
    std::array<std::vector<WeightedResult>, 2> parts;
    for (auto& list : parts) list.push_back({{}, &base});
    for (std::size_t kernel = 0; kernel < kernels_.size(); ++kernel)
      for (int low = 0; low < 2; ++low) {
        parts[at(low)].push_back({{-1, 1}, &base});
        for (std::size_t choice = 0; choice < choices(kernel); ++choice) {
          const bool known = all_middle(kernel, low, choice);
          if (!known) results.push_back(run(without_trips(program_, kept(kernel, low, choice))));
          parts[at(low)].push_back({weight(kernel, low, choice), known ? &base : &results.back()});
        }
      }
    const auto shorter = combined(base, parts[0]), longer = combined(base, parts[1]);
    if (!shorter || !longer) return std::nullopt;
    const Bounds found = bounds(*shorter, *longer);
    return Prediction{found, finished(*longer, program_, what(), found, bounded())};
  }

 private:
  /// A choice has one bit per loop of the kernel: trips of level `low`, or of the next level.
  std::size_t choices(std::size_t kernel) const { return std::size_t{1} << kernels_[kernel].loops.size(); }
  static bool upper(std::size_t choice, std::size_t loop) { return (choice >> loop & 1) != 0; }
  bool all_middle(std::size_t kernel, int low, std::size_t choice) const {
    return choice == (low == 0 ? choices(kernel) - 1 : 0);
  }

  TripCounts kept(std::size_t kernel, int low, std::size_t choice) const {
    TripCounts kept = middle_;
    const auto& loops = kernels_[kernel].loops;
    for (std::size_t i = 0; i < loops.size(); ++i)
      kept[loops[i].loop] = kept_trips(loops[i].is, grown_, low + (upper(choice, i) ? 1 : 0));
    return kept;
  }

  /// Weight of a choice's run in the prediction for all trips.
  Weight weight(std::size_t kernel, int low, std::size_t choice) const {
    Weight weight;
    const auto& loops = kernels_[kernel].loops;
    for (std::size_t i = 0; i < loops.size(); ++i) {
      const std::int64_t few = kept_trips(loops[i].is, grown_, low), many = kept_trips(loops[i].is, grown_, low + 1);
      const std::int64_t further = loops[i].is.trips - few, step = many - few;
      weight = weight.times(upper(choice, i) ? further : step - further, step);
    }
    return weight;
  }

  double cost(const TripCounts& kept) const { return static_cast<double>(program::Executions(program_, &kept).all()); }

  bool bounded() const {
    for (const SteadyKernel& kernel : kernels_)
      for (const SteadyLoop& loop : kernel.loops)
        if (!loop.is.whole) return false;
    return true;
  }

  std::string what() const {
    std::set<std::string> trips;
    for (const SteadyKernel& kernel : kernels_)
      for (const SteadyLoop& loop : kernel.loops) {
        std::vector<std::string> levels;
        for (int level = 0; level < 3; ++level) levels.push_back(std::to_string(kept_trips(loop.is, grown_, level)));
        trips.insert(join(levels, "/"));
      }
    return std::to_string(middle_.size()) + " steady loops of " + counted(program::Executions(program_).all()) +
           " tile operations in all were simulated for " + join(std::vector(trips.begin(), trips.end())) + " trips";
  }

  const program::Program& program_;
  std::vector<SteadyKernel> kernels_;
  std::int64_t grown_;
  TripCounts middle_;
};

/// Whether weights or counts of the loops would overflow.
bool beyond_counting(const std::vector<SteadyKernel>& kernels) {
  return std::any_of(kernels.begin(), kernels.end(), [](const SteadyKernel& kernel) {
    double trips = 1;
    for (const SteadyLoop& loop : kernel.loops) trips *= static_cast<double>(loop.is.trips);
    return trips > 1e30;
  });
}

/// Predicts the result by short runs; empty if these would have more than `most` tile operations.
std::optional<Prediction> prediction(const program::Program& program, std::int64_t limit, const Places& places,
                                     const Run& run, const Expected& expected, std::int64_t grown, double most) {
  auto kernels = steady_loops(program, limit / 20, places, grown);
  if (kernels.empty() || runs(kernels) > most_runs || beyond_counting(kernels)) return std::nullopt;
  const Loops loops(program, std::move(kernels), grown);
  if (loops.cost() > std::min(most, static_cast<double>(program::Executions(program).all()))) return std::nullopt;
  expected(loops.cost());
  return loops.predicted(run);
}

std::optional<Result> loops_extended(const program::Program& program, std::int64_t limit, const Places& places,
                                     const Run& run, const Expected& expected) {
  std::optional<Prediction> best;
  for (int doubled = 0; doubled <= longest; ++doubled) {
    const bool enough = best && best->bounds.others <= worst;
    const double most = enough ? further * static_cast<double>(limit) : std::numeric_limits<double>::infinity();
    auto found = prediction(program, limit, places, run, expected, std::int64_t{1} << doubled, most);
    if (!found) break;
    if (!best || found->bounds.others < best->bounds.others) best = std::move(found);
    if (best->bounds.others <= wanted) break;
  }
  if (!best || best->bounds.others > worst) return std::nullopt;
  return std::move(best->result);
}

/// Extrapolates runs with a few of the equal calls; empty if there are too few calls, or time is not linear in them.
std::optional<Result> calls_extended(const program::Program& program, std::int64_t limit, const Places& places,
                                     const Run& run, const Expected& expected) {
  const auto [first, last] = alike_calls(program);
  if (first == last) return std::nullopt;
  const auto total = static_cast<std::int64_t>(last - first);
  std::map<std::int64_t, Result> results;
  for (const std::int64_t count : {1, 2, 4}) {
    const program::Program few = with_calls(program, first, last, at(count));
    std::optional<Result> found;
    if (program::Executions(few).all() > limit) found = loops_extended(few, limit, places, run, expected);
    if (!found) expected(static_cast<double>(program::Executions(few).all()));
    results[count] = found ? std::move(*found) : run(few);
  }
  const auto predicted = [&](std::int64_t low, std::int64_t high) {
    const std::array<WeightedResult, 2> parts{WeightedResult{Weight{}.times(high - total, high - low), &results[low]},
                                              WeightedResult{Weight{}.times(total - low, high - low), &results[high]}};
    return combined(results[4], parts);
  };
  const auto shorter = predicted(1, 2), longer = predicted(2, 4);
  if (!shorter || !longer) return std::nullopt;
  const Bounds found = bounds(*shorter, *longer);
  if (found.cycles > worst_call) return std::nullopt;
  const std::string what =
      std::to_string(total) + " calls of " + std::get<program::Call>(program.body[first].action).function + " (" +
      counted(program::Executions(program).all()) + " tile operations in all) are alike: two and four were simulated";
  return finished(*longer, program, what, found, true);
}

}  // namespace

std::optional<Result> replayed(const program::Program& program, std::int64_t limit, const Places& places,
                               const Run& run, const Expected& expected) {
  if (auto found = calls_extended(program, limit, places, run, expected)) return found;
  return loops_extended(program, limit, places, run, expected);
}

}  // namespace tilesim::engine::replay
