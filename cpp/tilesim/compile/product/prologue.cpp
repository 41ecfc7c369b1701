// Decides whether to compute an operand tile by tile or to store it by a kernel before the product.
#include <algorithm>
#include <cmath>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"
#include "tilesim/mapping/strategies/few_bytes.hpp"

namespace tilesim::lower {

namespace {

/// Cycles from a request to its answer: the wait before a kernel starts.
double round_trip(const Share& machine) {
  const auto hertz = static_cast<double>(machine.core.clock.hertz);
  return static_cast<double>(machine.memory.latency_ps) * 1e-12 * hertz +
         2 * static_cast<double>(machine.network.latency_cycles) * hertz /
             static_cast<double>(machine.network.clock.hertz) +
         static_cast<double>(machine.core.dma.latency_cycles + machine.core.dma.issue_cycles);
}

/// Axes minor first of a temporary of this shape: the layout with the least padding; empty if none is denser.
std::vector<int> densest_prologue_order(const Shape& shape, const Shape& tile) {
  const auto rank = static_cast<int>(shape.size());
  if (tile.size() != 2 || rank < 2) return {};
  const auto extent = [&](int axis) { return shape[static_cast<std::size_t>(axis)]; };
  int minor = rank - 1, second = rank - 2;
  double least = INFINITY;
  for (int i = rank - 1; i >= 0; --i)
    for (int j = rank - 1; j >= 0; --j) {
      const double padding = static_cast<double>(round_up(extent(i), tile[1])) / static_cast<double>(extent(i)) *
                             (static_cast<double>(round_up(extent(j), tile[0])) / static_cast<double>(extent(j)));
      if (i != j && padding < least) least = padding, minor = i, second = j;
    }
  std::vector<int> order{minor, second};
  for (int axis = rank - 1; axis >= 0; --axis)
    if (axis != minor && axis != second) order.push_back(axis);
  return order;
}

}  // namespace

/// Cycles of the vector unit to compute operand tiles.
ProductLowering::Computed ProductLowering::computed_operands(mapping::CostModel& model) const {
  const mapping::OwnDims own = mapping::own_dims(problem_);
  const mapping::LoopPlan loops = mapping::plan_loops(problem_, nest_, own);
  Computed cycles;
  for (std::size_t operand = 0; operand < 2; ++operand) {
    if (!problem_.computed[operand]) continue;
    const auto [transfers, repeats] = loops.fetches(operand, own);
    const auto each = static_cast<double>(model.preparing(operand, nest_));
    cycles.all += static_cast<double>(transfers) * each;
    cycles.repeated += static_cast<double>(transfers - transfers / repeats) * each;
  }
  return cycles;
}

/// Rejects the prologue unless it is estimated to be faster, hidden memory time included, than a separate kernel that
/// stores the operand, or than that kernel's stores if the kernel remains.
void ProductLowering::keep_prologue_worth() {
  if ((!problem_.computed[0] && !problem_.computed[1]) || !refusal_.empty()) return;
  if (context_.options.mappings.count(anchor_.name) || context_.machine.whole.lowering.fusion) return;
  const Share& machine = seen_ ? *seen_ : context_.machine;
  mapping::Problem apart = problem_;
  const auto cores = static_cast<double>(std::max<std::int64_t>(1, problem_.cores));
  std::erase_if(apart.leaves, [](const mapping::Problem::Leaf& leaf) { return leaf.of < 2; });
  double functions = 0, operand_bytes = 0;
  for (std::size_t operand = 0; operand < 2; ++operand) {
    if (!problem_.computed[operand]) continue;
    operand_bytes += static_cast<double>(element_count(problem_.shapes[operand]) * bits(problem_.dtypes[operand])) / 8;
    functions += static_cast<double>(element_count(problem_.shapes[operand]) * problem_.prologue_functions[operand]);
    apart.computed[operand] = false;
    if (element_count(problem_.shapes[operand]) > 0)
      apart.minor_to_major[operand] = densest_prologue_order(problem_.shapes[operand], machine.layout.tile);
    apart.prologue_functions[operand] = 0;
  }
  const mapping::Nest nest = product_nest(context_, kernel_, apart, machine);
  const VectorSpec& unit = machine.core.vector;
  const double rate = static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency /
                      static_cast<double>(machine.core.clock.hertz);
  // An operand that fits the scratchpads beside tiles stays there until the product reads it. A single core reads it
  // directly; several cores read it from each other, which takes about as long as memory does.
  constexpr double room_part = 0.75;
  const bool stays = context_.options.may_stay() &&
                     operand_bytes <= room_part * cores * static_cast<double>(machine.core.scratchpad.bytes);
  const bool at_hand = stays && machine.core.count == 1;
  const double spared = stays ? std::max(0.0, kernel_.spared_bytes - operand_bytes) : kernel_.spared_bytes;
  double pass = spared / cores / std::max(rate, 1e-9);
  if (kernel_.spares_kernel)
    pass = std::max(pass, functions / cores / static_cast<double>(unit.lanes * unit.sublanes * unit.issue)) +
           static_cast<double>(machine.core.kernel_launch_cycles) + (at_hand ? round_trip(machine) : 0);
  const auto price = [](const mapping::Cost& cost, double cycles) {
    return cycles + (cost.memory < cost.compute ? mapping::price_of_memory * cost.memory : 0);
  };
  for (std::size_t operand = 0; operand < 2 && at_hand; ++operand)  // a value on chip is not loaded
    apart.computed[operand] = problem_.computed[operand];
  mapping::CostModel model(problem_, machine), model_apart(apart, machine);
  const mapping::Cost together = model.price(nest_), alone = model_apart.price(nest);
  const Computed computed = computed_operands(model);
  constexpr std::int64_t most_steps = 2000;
  const double walked = model.steps(nest_, most_steps), walked_apart = model_apart.steps(nest, most_steps);
  const bool walks = std::isfinite(walked) && std::isfinite(walked_apart);
  const double stored = price(alone, walks ? walked_apart : alone.soft);
  // Computing tiles, finishing tiles and products on the vector unit share one unit: they do not hide each other.
  const double unhidden = (problem_.on_vector ? together.compute : 0) + together.epilogue + computed.all;
  const double fused = std::max(price(together, walks ? walked : together.soft + computed.repeated), unhidden);
  if (fused <= stored + pass) return;
  refused_by_price_ = true;
  refusal_ = "computing an operand tile by tile is estimated to take " + std::to_string(std::llround(fused)) +
             " cycles, the product and a kernel before it " + std::to_string(std::llround(stored + pass));
}

}  // namespace tilesim::lower
