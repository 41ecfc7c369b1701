#include "tilesim/engine/replay/search.hpp"

#include <algorithm>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::engine::replay {

namespace {

using program::Block;
using program::Call;
using program::For;
using program::Statement;

constexpr std::size_t fewest_calls = 6;  ///< consecutive calls of one function

class Search {
 public:
  Search(const program::Program& program, const Places& places, std::int64_t grown)
      : program_(program), places_(places), grown_(grown) {}

  /// Shortens the outermost long steady loop in the kernel with the most operations. Returns false if there is none.
  bool shorten_one() {
    program::Executions counter(program_, &instead_);
    best_ = {};
    best_kernel_ = nullptr;
    weight_ = -1;
    const auto each = [&](const Block& block) {
      for (const Statement& kernel : block) descend(kernel, counter);
    };
    each(program_.body);
    for (const program::Function& function : program_.functions) each(function.body);
    if (best_kernel_ == nullptr) return false;
    const auto known =
        std::find_if(found.begin(), found.end(), [&](const auto& k) { return k.kernel == best_kernel_; });
    (known == found.end() ? found.emplace_back(SteadyKernel{best_kernel_, {}}) : *known).loops.push_back(best_);
    instead_[best_.loop] = 2 * fewest_trips;  // loops that are not shortened are no longer than this
    return true;
  }

  std::int64_t operations() { return program::Executions(program_, &instead_).all(); }

  std::vector<SteadyKernel> found;

 private:
  std::int64_t extent(const For& loop) const {
    const auto other = instead_.find(&loop);
    return other != instead_.end() ? other->second : loop.extent.is_constant() ? loop.extent.value() : 1;
  }

  /// Searches for a loop to shorten in the statement with the most operations on each level.
  void descend(const Statement& kernel, program::Executions& counter) {
    double trips = 1;
    for (const Statement* node = &kernel; node != nullptr; node = heaviest(*node, counter)) {
      const auto* loop = std::get_if<For>(&node->action);
      if (loop == nullptr || !loop->extent.is_constant()) continue;
      const std::int64_t all = extent(*loop);
      const double weight = trips * static_cast<double>(all) * static_cast<double>(counter.count(loop->body));
      if (all > 2 * fewest_trips && weight > weight_ && take(kernel, *loop, weight)) return;
      trips *= static_cast<double>(all);
    }
  }

  bool take(const Statement& kernel, const For& loop, double weight) {
    const Trip trip = trip_of(program_, loop, instead_);
    if (!steady(trip)) return false;
    const Steady is = repetition(trip, places_);
    if (kept_trips(is, grown_, 2) >= is.trips) return false;
    best_ = {&loop, is};
    best_kernel_ = &kernel;
    weight_ = weight;
    return true;
  }

  static const Statement* heaviest(const Statement& node, program::Executions& counter) {
    const Statement* best = nullptr;
    std::int64_t most = -1;
    program::for_each_body(node, [&](const Block& body) {
      for (const Statement& inside : body)
        if (const std::int64_t count = counter.count(inside); count > most) best = &inside, most = count;
    });
    return best;
  }

  const program::Program& program_;
  const Places& places_;
  std::int64_t grown_;
  TripCounts instead_;
  SteadyLoop best_;
  const Statement* best_kernel_ = nullptr;
  double weight_ = -1;
};

/// Functions whose kernels all end before the next statement starts.
std::set<std::string> functions_apart(const program::Program& program) {
  std::set<std::string> names;
  for (const program::Function& function : program.functions)
    if (std::all_of(function.body.begin(), function.body.end(), [](const Statement& statement) {
          const auto* scope = std::get_if<program::Scope>(&statement.action);
          return scope != nullptr && scope->barrier;
        }))
      names.insert(function.name);
  return names;
}

}  // namespace

std::int64_t kept_trips(const Steady& loop, std::int64_t grown, int level) {
  const std::int64_t least = fewest_trips + (loop.trips - fewest_trips) % loop.period;
  const std::int64_t step = grown * loop.period * ((fewest_trips + loop.period - 1) / loop.period);
  return least + (level == 0 ? 0 : level == 1 ? 1 : 3) * step;
}

std::int64_t runs(const std::vector<SteadyKernel>& kernels) {
  std::int64_t sum = 0;
  for (const SteadyKernel& kernel : kernels) sum += std::int64_t{2} << std::min<std::size_t>(kernel.loops.size(), 32);
  return sum;
}

std::vector<SteadyKernel> steady_loops(const program::Program& program, std::int64_t limit, const Places& places,
                                       std::int64_t grown) {
  Search search(program, places, grown);
  while (search.operations() > limit && runs(search.found) <= most_runs && search.shorten_one()) {
  }
  return std::move(search.found);
}

std::pair<std::size_t, std::size_t> alike_calls(const program::Program& program) {
  std::set<std::string> read;
  for (const program::Tensor& tensor : program.tensors)
    if (!tensor.typical.values.empty()) read.insert(tensor.name);
  const std::set<std::string> apart = functions_apart(program);
  const auto alike = [&](const Statement& a, const Statement& b) {
    const auto &one = std::get<Call>(a.action), &other = std::get<Call>(b.action);
    return one.function == other.function && one.parameters == other.parameters && a.queue == b.queue &&
           a.label == b.label &&
           std::equal(one.tensors.begin(), one.tensors.end(), other.tensors.begin(), other.tensors.end(),
                      [&](const auto& x, const auto& y) {
                        return x.first == y.first &&
                               (x.second == y.second || (!read.contains(x.second) && !read.contains(y.second)));
                      });
  };
  std::size_t first = 0, last = 0, start = 0;
  for (std::size_t i = 0; i < program.body.size(); ++i) {
    const auto* call = std::get_if<Call>(&program.body[i].action);
    if (call == nullptr || !apart.contains(call->function)) {
      start = i + 1;
      continue;
    }
    if (!alike(program.body[start], program.body[i])) start = i;
    if (i + 1 - start > last - first) first = start, last = i + 1;
  }
  return last - first >= fewest_calls ? std::pair{first, last} : std::pair<std::size_t, std::size_t>{};
}

}  // namespace tilesim::engine::replay
