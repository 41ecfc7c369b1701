// Splits a kernel's loops over the cores.
#pragma once

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "tilesim/compile/plan/core_sorts.hpp"
#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/mapping/nest.hpp"

namespace tilesim::lower {

/// A split of a product's dims into parts, one part per core. A core's number in mixed radix has its part indices as
/// digits; `parts[0]` varies slowest. Cores from `used()` on have no part.
struct CoreSplit {
  struct DimSplit {
    int dim = -1;
    std::int64_t parts = 1;
    std::int64_t chunk = 0;               ///< extent of the largest part; the last part may be shorter
    std::int64_t whole = 0;               ///< extent of the dim
    std::vector<Stretch> stretches = {};  ///< if core types have different extents (then the only split dim)
    bool even() const { return stretches.empty() && chunk * parts == whole; }
    std::int64_t least() const;  ///< extent of the smallest part
    /// Whether every part has the same number of steps of `step` elements.
    bool same_steps(std::int64_t step) const;
  };
  std::vector<DimSplit> parts;
  /// One core fetches shared operands and sends them to all cores, because the estimate is faster.
  bool multicast = false;
  bool counted = false;  ///< loops over dims with uneven parts enclose the contraction's loops

  std::int64_t used() const;
  const DimSplit* find(int dim) const;
  /// Expression of "core": index of the core's part of `dim`.
  Expr index(int dim) const;
  Expr base(int dim) const;
  /// Extent of the core's part of `dim`, which must be a split dim.
  Expr extent(int dim) const;
};

/// Bytes per second between one core and the on-chip network.
double port_rate(const Share& machine);
/// Whether shared operands are fetched once and multicast. This requires that a multicast crosses the sender's port
/// once. Router networks do not copy packets, so sending to each core would take longer than fetching.
bool multicasts(const Share& machine);

/// Which parts a split may have: any; uneven parts only if their loops enclose the contraction's; only even parts.
enum class AllowedSplit : std::uint8_t { any, counted, even };

/// The split of a product, and the share of the machine that each working core has.
struct Divided {
  CoreSplit split;
  Share seen;  ///< the context's machine has an equal share for each of all cores
};

/// The fastest split of the product over the machine's cores, by the cost model. Ties prefer the fewest idle cores,
/// then the fewest bytes. Sets problem.domain to the extents of one part. `kept`: dims that must not be split.
Divided split_product(const Context& context, const Kernel& kernel, mapping::Problem& problem,
                      const std::vector<int>& kept, AllowedSplit allowed);

/// Splits one dim of a product into equal parts over all cores (of the first type). Cores multicast only if requested.
/// Sets problem.domain to the extents of one part.
Divided split_along(const Context& context, mapping::Problem& problem, int dim, bool multicast = false);

/// Splits contractions that are longer than the number of results, if this is clearly faster by the estimate: each core
/// sums a part, and a reduction adds the parts. Requires equal parts and dense tensors.
void divide_contractions(Graph& graph, const Share& machine);

/// Splits the outer loops of a lowered kernel (of each of its steps) over the cores, if each trip is provably
/// independent: it fills the slots that it uses, and stores elements that no other trip stores or loads. Otherwise the
/// first core runs the entire kernel, and the program gets a note. A step that reads "core" is already split.
void divide_loops(program::Scope& scope, program::Program& program, TensorIndex& tensors, const Share& machine);

/// If a kernel leaves cores idle, assigns consecutive parts to cores of different memory regions, in turn. Does not
/// change kernels whose cores send to each other.
void take_regions_in_turn(program::Block& body, std::int64_t used, const Share& machine);

/// Calls `call` with the kernel, or with each of its steps if it consists only of steps.
template <class Call>
void for_each_step(program::Scope& kernel, const Call& call) {
  const auto is_step = [](const program::Statement& s) { return std::holds_alternative<program::Scope>(s.action); };
  if (kernel.body.empty() || !std::all_of(kernel.body.begin(), kernel.body.end(), is_step)) return call(kernel);
  for (program::Statement& step : kernel.body) call(std::get<program::Scope>(step.action));
}

/// Replaces symbols in all expressions of the block.
void substitute(program::Block& block, const std::map<std::string, Expr>& values);

}  // namespace tilesim::lower
