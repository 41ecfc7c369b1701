#include "tilesim/compile/groups/rules.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"

namespace tilesim::lower {

const std::vector<RuleInfo>& fusion_rules() {
  constexpr std::string_view stored_and_read = "each value inside: written once, read once by every reader";
  constexpr std::string_view equal = "none: each value is rounded to its dtype as if it were stored";
  static const std::vector<RuleInfo> rules{
      {Rule::epilogue, "epilogue",
       "a product or convolution and the elementwise operations and conversions that read its result, or each other",
       "results have the product's shape; no path leaves the group and comes back; a value that something else reads "
       "too is stored beside",
       stored_and_read, equal},
      {Rule::row_extremes, "row_extremes", "a maximum or minimum over the columns of a product's result",
       "whole rows fit the scratchpad; only where the chip's own compiler does it", stored_and_read, equal},
      {Rule::prologue, "prologue",
       "elementwise operations and conversions in front of either operand of a product or convolution: activations, "
       "quantized weights (with scales of blocks: axes of the product are cut where values repeat), a normalization "
       "whose "
       "statistics of rows are a kernel of their own",
       "only products, and operations at their ends, read the result; computing it again for every tile that needs it "
       "is estimated to cost less",
       "the operand: written once, read by each product, less what the product reads in its place", equal},
      {Rule::elementwise, "elementwise", "elementwise operations and conversions of one shape that read each other",
       "no path leaves the group and comes back; at most 24 tensors pass through one kernel", stored_and_read, equal},
      {Rule::branches, "branches",
       "kernels of elementwise operations and row reductions whose results one operation combines",
       "as elementwise, of both kernels together", stored_and_read, equal},
      {Rule::siblings, "siblings",
       "elementwise operations and row reductions that read the same tensor (several kinds of reduction in one pass); "
       "kernels of one shape that compute the same again",
       "as elementwise", "the tensor: read once instead of by each", equal},
      {Rule::sibling_products, "sibling_products",
       "products or convolutions of one first operand with what stands at their ends, which may combine their results: "
       "queries, keys and values; gate and up of a gated layer",
       "second operands and results of the same shape and type, both in memory; none reads what another makes; tiles "
       "of "
       "all fit beside each other, and one kernel is estimated to cost less than one of each",
       "the operand: read once instead of by each; results that only the others' ends read: written and read once",
       equal},
      {Rule::rows, "rows",
       "reductions along the same axes (sums, extremes, products) with the elementwise operations before and behind "
       "them: normalizations, softmax",
       "whole rows of all that is read and stored fit the scratchpad; the reduction keeps its axes", stored_and_read,
       equal},
      {Rule::recompute, "recompute", "elementwise operations that several kernels read, computed in each of them",
       "only elementwise operations and reductions read them; only where the chip's own compiler does it",
       "the value: written once, read by each kernel, less what each reads in its place", equal},
      {Rule::views, "views", "a reshape between what makes a value and the elementwise operation that alone reads it",
       "every other operand of that operation has the shape before the reshape too, without being moved; the result is "
       "not wider",
       "nothing itself: the reshape stands behind the operation, which other rules then join to what is before it",
       equal},
      {Rule::attention, "attention", "attention: two products with the softmax between them, by the online softmax",
       "a tile of queries and keys fits the scratchpad; the estimate finds it faster than its parts",
       "scores and weights: each written and read once or more",
       "sums of a row are taken tile by tile, rescaled by the largest score so far: within the bound of a sum in "
       "another order"},
      {Rule::recurrence, "recurrence",
       "all trips of a counted loop whose values keep to their axes from trip to trip: selective scans, gated averages",
       "positions follow from the counter; no product mixes the elements of a state; its tiles fit the scratchpad",
       "the state: read and written in every trip",
       "sums of a trip may be taken in another order, within the bound of a sum; all else as if it were stored"},
      {Rule::chain, "chain",
       "products one behind the other with the elementwise operations at their ends: two products over channels (an "
       "MLP, convolutions of one point), a convolution of each channel before or behind one, or between two",
       "nothing else reads what lies between; only the last one reads values of its result's shape beside; a tile of "
       "rows and hidden channels fits the scratchpad; rows that neighbouring tiles both need are computed twice; only "
       "machines with arrays and cores of one sort that do not pad lanes in memory",
       "what lies between: written once, read once", equal},
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
