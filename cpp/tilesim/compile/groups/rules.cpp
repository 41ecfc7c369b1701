#include "tilesim/compile/groups/rules.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"

namespace tilesim::lower {

const std::vector<RuleInfo>& fusion_rules() {
  constexpr std::string_view stored_and_read = "each value inside: written once, read once by every reader";
  constexpr std::string_view equal = "no change: each value is rounded to its dtype as if it were stored";
  static const std::vector<RuleInfo> rules{
      {Rule::epilogue, "epilogue",
       "a product or convolution and the elementwise operations and conversions that read its result, or each other",
       "results have the product's shape; no path leaves the group and returns; a value with other readers is stored "
       "as well",
       stored_and_read, equal},
      {Rule::row_extremes, "row_extremes", "a maximum or minimum over the columns of a product's result",
       "whole rows fit the scratchpad; only where the chip's own compiler does it", stored_and_read, equal},
      {Rule::prologue, "prologue",
       "elementwise operations and conversions in front of either operand of a product or convolution: activations, "
       "quantized weights (with scales of blocks: axes of the product are cut where values repeat), a normalization "
       "whose "
       "statistics of rows run as a separate kernel",
       "only products, and operations at their ends, read the result; recomputing it for every tile is estimated to "
       "cost less",
       "the operand: written once, read by each product, minus the bytes each product reads instead", equal},
      {Rule::elementwise, "elementwise", "elementwise operations and conversions of one shape that read each other",
       "no path leaves the group and returns; at most 24 tensors per kernel", stored_and_read, equal},
      {Rule::branches, "branches",
       "kernels of elementwise operations and row reductions whose results one operation combines",
       "as elementwise, of both kernels together", stored_and_read, equal},
      {Rule::siblings, "siblings",
       "elementwise operations and row reductions that read the same tensor (several kinds of reduction in one pass); "
       "kernels of one shape with common operations",
       "as elementwise", "the tensor: read once instead of once per kernel", equal},
      {Rule::sibling_products, "sibling_products",
       "products or convolutions of one first operand with the operations at their ends, which may combine their "
       "results: "
       "queries, keys and values; gate and up of a gated layer",
       "second operands and results of the same shape and type, both in memory; none reads another's result; the tiles "
       "of all fit together, and one kernel is estimated to cost less than separate ones",
       "the operand: read once instead of once per product; results read only by the other products' ends: written and "
       "read once",
       equal},
      {Rule::rows, "rows",
       "reductions along the same axes (sums, extremes, products) with the elementwise operations before and after "
       "them: normalizations, softmax",
       "full rows of all operands and results fit the scratchpad; the reduction keeps its axes", stored_and_read,
       equal},
      {Rule::recompute, "recompute", "elementwise operations that several kernels read, computed in each of them",
       "only elementwise operations and reductions read them; only where the chip's own compiler does it",
       "the value: written once, read by each kernel, minus the bytes each reads instead", equal},
      {Rule::views, "views", "a reshape between the producer of a value and its only reader, an elementwise operation",
       "every other operand of that operation also has the shape before the reshape without a move; the result is not "
       "wider",
       "nothing directly: the reshape moves behind the operation, so other rules can fuse the operation with its "
       "producer",
       equal},
      {Rule::attention, "attention", "attention: two products with the softmax between them, by the online softmax",
       "a tile of queries and keys fits the scratchpad; it is estimated to be faster than its parts",
       "scores and weights: each written and read once or more",
       "row sums run tile by tile, rescaled by the largest score so far: within the bound of a sum in another order"},
      {Rule::recurrence, "recurrence",
       "all trips of a counted loop whose values stay on their axes from trip to trip: selective scans, gated averages",
       "positions follow from the counter; no product mixes the elements of a state; its tiles fit the scratchpad",
       "the state: read and written in every trip",
       "the sums of a trip may run in another order, within the bound of a sum; all other values as if stored"},
      {Rule::chain, "chain",
       "consecutive products with the elementwise operations at their ends: two products over channels (an "
       "MLP, convolutions of one point), a convolution of each channel before or behind one, or between two",
       "no other reader of the intermediate values; only the last product reads further values of its result's shape; "
       "a tile of rows and hidden channels fits the scratchpad; rows shared by adjacent tiles are computed twice; only "
       "machines with arrays, one core type and unpadded lanes in memory",
       "the intermediate values: written once, read once", equal},
  };
  return rules;
}

const RuleInfo& info(Rule rule) { return fusion_rules()[static_cast<std::size_t>(rule)]; }

RuleSet RuleSet::parse(const std::string& text) {
  RuleSet set;
  std::vector<std::string> known;
  for (const RuleInfo& rule : fusion_rules()) {
    known.emplace_back(rule.name);
    if (text == "all") set.on_ |= 1U << static_cast<unsigned>(rule.rule);
  }
  if (text == "all" || text == "none" || text.empty()) return set;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end())
      throw UserError({"no rule of fusion has this name", "fuse", "'" + name + "'", "all, none, " + join(known),
                       nearest(name, known)});
    set.on_ |= 1U << static_cast<unsigned>(found - known.begin());
    begin = end + 1;
  }
  return set;
}

FusionRules FusionRules::of(const Share& machine, const CompileOptions& options) {
  const std::optional<LoweringProfile::Fusion>& own = machine.whole.lowering.fusion;
  return {own.value_or(LoweringProfile::Fusion{}), RuleSet::parse(options.fuse), own.has_value()};
}

}  // namespace tilesim::lower
