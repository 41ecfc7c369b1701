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

/// A split of a product's dims into parts, one per core. The core's number is a mixed radix of its parts; `parts[0]`
/// varies slowest. Cores from `used()` on have no part.
struct CoreSplit {
  struct DimSplit {
    int dim = -1;
    std::int64_t parts = 1;
    std::int64_t chunk = 0;               ///< extent of the largest part; the last one may be shorter
    std::int64_t whole = 0;               ///< extent of the dim
    std::vector<Stretch> stretches = {};  ///< core types with different extents; then the only split dim
    bool even() const { return stretches.empty() && chunk * parts == whole; }
    std::int64_t least() const;  ///< extent of the smallest part
    /// Whether every part has the same number of steps of `step` elements.
    bool same_steps(std::int64_t step) const;
  };
  std::vector<DimSplit> parts;
  /// One core fetches shared operands and sends them to all, because the estimate is faster.
  bool multicast = false;
  bool counted = false;  ///< loops over dims of uneven parts enclose those of the contraction

  std::int64_t used() const;
  const DimSplit* find(int dim) const;
  /// Index of the core's part of `dim`, as an expression of "core".
  Expr index(int dim) const;
  Expr base(int dim) const;
  /// Extent of the core's part of `dim`; the dim must be split.
  Expr extent(int dim) const;
};

/// Bytes per second that one core exchanges with the on-chip network.
double port_rate(const Share& machine);
/// Whether shared operands are fetched once and multicast. This requires that a multicast passes the sender's port
/// once; networks of routers copy no packets, so that sending to each core takes longer than fetching.
bool multicasts(const Share& machine);

/// Parts that a split may have: any; uneven parts only with loops outside the contraction's; only even parts.
enum class AllowedSplit : std::uint8_t { any, counted, even };

/// The split of a product, and the share of the machine that each working core has.
struct Divided {
  CoreSplit split;
  Share seen;  ///< the context's machine gives an equal share to each of all cores
};

/// The fastest split of the product over the machine's cores, by the cost model. Ties go to the split with the fewest
/// idle cores, then the fewest bytes. Sets problem.domain to the extents of one part. `kept`: dims that are not split.
Divided split_product(const Context& context, const Kernel& kernel, mapping::Problem& problem,
                      const std::vector<int>& kept, AllowedSplit allowed);

/// Splits one dim of a product into equal parts over all cores (of the first type). Cores multicast only on request.
/// Sets problem.domain to the extents of one part.
Divided split_along(const Context& context, mapping::Problem& problem, int dim, bool multicast = false);

/// Splits contractions that are longer than the number of results, if the estimate is clearly faster: each core sums a
/// part, and a reduction adds the parts. Requires equal parts and dense tensors.
void divide_contractions(Graph& graph, const Share& machine);

/// Splits the outer loops of a lowered kernel (of each of its steps) over the cores if each trip is proven independent:
/// it fills the slots that it uses, and stores elements that no other trip stores or loads. Otherwise the first core
/// runs the whole kernel, and the program gets a note. A step that reads "core" is split already.
void divide_loops(program::Scope& scope, program::Program& program, TensorIndex& tensors, const Share& machine);

/// If a kernel leaves cores idle, spreads its parts over the cores of all memory regions, in turn. Kernels
/// whose cores send to each other are not changed.
void take_regions_in_turn(program::Block& body, std::int64_t used, const Share& machine);

/// Calls `call` with the kernel, or with each of its steps if it consists of steps only.
template <class Call>
void for_each_step(program::Scope& kernel, const Call& call) {
  const auto is_step = [](const program::Statement& s) { return std::holds_alternative<program::Scope>(s.action); };
  if (kernel.body.empty() || !std::all_of(kernel.body.begin(), kernel.body.end(), is_step)) return call(kernel);
  for (program::Statement& step : kernel.body) call(std::get<program::Scope>(step.action));
}

/// Replaces symbols in every expression of the block.
void substitute(program::Block& block, const std::map<std::string, Expr>& values);

}  // namespace tilesim::lower
