// One program over several cores: which part of a kernel each core takes.
#pragma once

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "tilesim/compile/plan/core_sorts.hpp"
#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/mapping/nest.hpp"

namespace tilesim::lower {

/// Dims of a product's domain cut into parts, one per core. The core's number is a mixed radix of its parts: `parts[0]`
/// varies slowest. Cores from `used()` on have no part.
struct CoreSplit {
  struct DimSplit {
    int dim = -1;
    std::int64_t parts = 1;
    std::int64_t chunk = 0;  ///< extent of a part, of the largest where they differ; the last one may be shorter
    std::int64_t whole = 0;  ///< extent of the dim
    std::vector<Stretch> stretches = {};  ///< cores of several sorts: their extents; the only part then
    bool even() const { return stretches.empty() && chunk * parts == whole; }
    std::int64_t least() const;  ///< extent of the smallest part
    /// Whether every part takes as many steps of so many elements.
    bool same_steps(std::int64_t step) const;
  };
  std::vector<DimSplit> parts;
  /// Operands that several cores need are fetched by one of them and sent to all: faster by the estimate.
  bool multicast = false;
  bool counted = false;  ///< loops over dims of uneven parts go around the contraction's

  std::int64_t used() const;
  const DimSplit* find(int dim) const;
  /// Which part of `dim` the core has, as an expression of "core".
  Expr index(int dim) const;
  Expr base(int dim) const;
  /// Extent of the core's part of `dim`; the dim must be cut.
  Expr extent(int dim) const;
};

/// Bytes per second that one core takes from the network, or gives to it.
double port_rate(const Share& machine);
/// Whether operands that several cores need are fetched once and sent on. Only where a multicast passes the sender's
/// port once: networks of routers copy no packets, so there a send to each core takes longer than fetching.
bool multicasts(const Share& machine);

/// Which parts a division may have: any; uneven ones only with their loops outside of the contraction's; even ones.
enum class AllowedSplit : std::uint8_t { any, counted, even };

/// How a product is divided, and what each core at work has of the machine.
struct Divided {
  CoreSplit split;
  Share seen;  ///< the context's has an equal share for each of all cores
};

/// The fastest way to divide the product over the machine's cores, by the cost model; of ways that take as long, the
/// one that leaves fewest cores idle, then the one of fewest bytes. Leaves in problem.domain the extents of one part.
/// `kept`: dims that stay whole.
Divided split_product(const Context& context, const Kernel& kernel, mapping::Problem& problem,
                      const std::vector<int>& kept, AllowedSplit allowed);

/// One dim of a product in equal parts over all cores (those of the first sort), none of which sends to another unless
/// that is wanted. Leaves in problem.domain the extents of one part.
Divided split_along(const Context& context, mapping::Problem& problem, int dim, bool multicast = false);

/// Contractions that are longer than the results are many: where the estimate says that it is clearly faster, each core
/// sums a part of the contraction, and a reduction adds the parts. Only where parts are equal and tensors lie dense.
void divide_contractions(Graph& graph, const Share& machine);

/// Divides the outer loops of a lowered kernel (of each of its steps) over the cores where each trip is proven to stand
/// alone: it fills the slots that it uses, and stores elements that no other trip stores or loads. Otherwise the first
/// core runs the whole kernel, and the program says so in a note. A step that asks which core runs it is divided.
void divide_loops(program::Scope& scope, program::Program& program, TensorIndex& tensors, const Share& machine);

/// Parts of a kernel of which the cores from `used` on have none go to the regions of the memory in turn, instead of
/// all to the first. Not for kernels whose cores send to each other.
void take_regions_in_turn(program::Block& body, std::int64_t used, const Share& machine);

/// Calls `call` with the kernel, or with each of its steps where it is nothing else.
template <class Call>
void for_each_step(program::Scope& kernel, const Call& call) {
  const auto is_step = [](const program::Statement& s) { return std::holds_alternative<program::Scope>(s.action); };
  if (kernel.body.empty() || !std::all_of(kernel.body.begin(), kernel.body.end(), is_step)) return call(kernel);
  for (program::Statement& step : kernel.body) call(std::get<program::Scope>(step.action));
}

/// Replaces symbols in every expression of the block.
void substitute(program::Block& block, const std::map<std::string, Expr>& values);

}  // namespace tilesim::lower
