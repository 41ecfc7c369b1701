#include "tilesim/compile/chain/find.hpp"

#include <algorithm>
#include <set>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"

namespace tilesim::lower {

namespace {

using mapping::ChainStage;

std::size_t chain_index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Reads one kernel as a stage of a chain: its product and its fused operations.
class StageReader {
 public:
  StageReader(const Context& context, const Kernel& kernel)
      : context_(context), kernel_(kernel), anchor_(context.function.ops[chain_index(kernel.anchor)]) {}

  /// Returns the reason why the kernel cannot be a stage, or empty text if it can.
  std::string read() {
    if (kernel_.outputs.size() != 1) return "a value inside has other readers";
    if (kernel_.spares_kernel || kernel_.ops.front() < kernel_.anchor) return "an operand of a product is computed";
    if (zero_tiles_of(anchor_).operand >= 0 || is_exact(anchor_)) return "a product is exact, or skips tiles of zeros";
    stage.anchor = kernel_.anchor;
    stage.result = kernel_.outputs[0];
    for (int op : kernel_.ops)
      if (op != kernel_.anchor) stage.ops.push_back(op);
    if (context_.value(stage.result).type.shape != context_.value(anchor_.results[0]).type.shape)
      return "a result has another shape than its product";
    std::string why = anchor_.kind == Kind::convolution ? read_convolution() : read_contract();
    if (why.empty()) why = read_types();
    return why.empty() ? read_leaves() : why;
  }

  ChainStageOps stage;
  bool middle = false;
  bool dense = false;  ///< the window spans all channels
  mapping::ChainProblem::Window row, column;
  mapping::ChainProblem::Stage priced;
  DType x_dtype = DType::f32;

  std::int64_t extent(bool of_x, int axis) const {
    return axis < 0 ? 1 : shape(of_x ? anchor_.operands[0] : anchor_.results[0])[chain_index(axis)];
  }

 private:
  const Shape& shape(ValueId value) const { return context_.value(value).type.shape; }

  std::string read_convolution() {
    const Attributes& at = anchor_.attributes;
    const std::string &x = at.text("x_labels"), &w = at.text("w_labels"), &y = at.text("y_labels");
    if (x.size() < 3 || x.size() > 4) return "its images have more than two axes";
    std::string spatial;
    for (const char letter : x)
      if (letter != 'N' && letter != 'C') spatial += letter;
    const auto axes = [&](const std::string& labels) {
      const auto find = [&](char letter) { return static_cast<int>(labels.find(letter)); };
      return ChainAxes{find('N'), find(spatial[0]), spatial.size() > 1 ? find(spatial[1]) : -1, find('C')};
    };
    stage.x = axes(x), stage.y = axes(y);
    stage.out = static_cast<int>(w.find('O')), stage.in = static_cast<int>(w.find('I'));
    stage.row = static_cast<int>(w.find(spatial[0]));
    stage.column = spatial.size() > 1 ? static_cast<int>(w.find(spatial[1])) : -1;
    const std::vector<std::int64_t> ones(spatial.size(), 1), none(2 * spatial.size(), 0);
    const auto strides = at.integers("strides", ones), pads = at.integers("pads", none);
    const auto dilation = at.integers("window_dilation", ones), holes = at.integers("input_dilation", ones);
    if (std::ranges::any_of(holes, [](std::int64_t d) { return d != 1; })) return "its operand has holes";
    if (std::ranges::any_of(pads, [](std::int64_t pad) { return pad < 0; })) return "its window leaves out edges";
    const Shape& weights = shape(anchor_.operands[1]);
    row = {weights[chain_index(stage.row)], strides[0], dilation[0], pads[0]};
    if (stage.column >= 0) column = {weights[chain_index(stage.column)], strides[1], dilation[1], pads[2]};
    const std::int64_t groups = at.integer("groups", 1), channels = extent(true, stage.x.channel);
    if (at.integer("batch_groups", 1) != 1) return "its batch is in groups";
    const bool plain = row == mapping::ChainProblem::Window{} && column == mapping::ChainProblem::Window{} &&
                       std::ranges::all_of(pads, [](std::int64_t pad) { return pad == 0; });
    if (groups == 1 && plain) return {};
    middle = groups > 1 && groups == channels && extent(false, stage.y.channel) == channels;
    dense = groups == 1;
    if (dense && channels < context_.machine.core.array.rows)
      return "as a separate kernel its few channels share the array's rows with window positions";
    return middle || dense ? "" : "its channels are in groups of several";
  }

  std::string read_contract() {
    const Attributes& at = anchor_.attributes;
    const Shape &a = shape(anchor_.operands[0]), &b = shape(anchor_.operands[1]);
    const auto summed = at.integers("a_contract", {}), across = at.integers("b_contract", {});
    const auto last = static_cast<std::int64_t>(a.size()) - 1;
    if (!at.integers("a_batch", {}).empty() || a.size() < 2 || a.size() > 4 || b.size() != 2 || summed.size() != 1 ||
        across.size() != 1 || (summed[0] != last && summed[0] != -1))
      return "it is not a product of rows with a matrix";
    if (at.find("a_format") || at.find("b_format")) return "an operand is sparse";
    stage.x.channel = stage.y.channel = static_cast<int>(last);
    stage.x.row = stage.y.row = static_cast<int>(last) - 1;
    constexpr std::int64_t few = 128;  // up to this many rows, a tile spans several matrices, whose rows are columns
    if (last == 3 || (last == 2 && a[1] <= few && a[0] > 1 && a[0] >= context_.machine.core.count)) {
      stage.x.row = stage.y.row = static_cast<int>(last) - 2;
      stage.x.column = stage.y.column = static_cast<int>(last) - 1;
    }
    if (stage.x.row > 0) stage.x.lead = stage.y.lead = 0;
    stage.in = static_cast<int>(across[0] < 0 ? across[0] + 2 : across[0]);
    stage.out = 1 - stage.in;
    return {};
  }

  std::string read_types() {
    const auto& rates = context_.machine.core.array.rates;
    const auto multiplies = [&](DType dtype) {
      const auto rate = rates.find(dtype);
      return (dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16) && rate != rates.end() &&
             rate->second > 0;
    };
    x_dtype = context_.value(anchor_.operands[0]).type.dtype;
    priced.there = true;
    priced.weights = context_.value(anchor_.operands[1]).type.dtype;
    priced.result = context_.value(stage.result).type.dtype;
    if (!multiplies(x_dtype) || !multiplies(priced.weights) || x_dtype != priced.weights || !is_float(priced.result))
      return "the array does not multiply its types as they are";
    if (context_.value(anchor_.operands[1]).type.shape.empty() || context_.scalars.count(anchor_.operands[1]))
      return "its weights are a number";
    return {};
  }

  std::string read_leaves() {
    const Shape& result = shape(stage.result);
    std::set<ValueId> own{anchor_.results[0]}, seen;
    const auto add = [&](ValueId value, bool bias) -> std::string {
      ChainLeaf leaf{value, {}, bias, false};
      const Shape& size = shape(value);
      for (std::size_t axis = 0; axis < size.size(); ++axis) {
        const std::size_t of = axis + result.size() - size.size();
        leaf.axis_of.push_back(static_cast<int>(of));
        if (bias && anchor_.kind == Kind::convolution) leaf.axis_of.back() = stage.y.channel;
        if (size[axis] > 1 && leaf.axis_of.back() != stage.y.channel) leaf.whole = true;
      }
      if (leaf.whole && size != result) return "what is read behind a product is neither per channel nor of its shape";
      priced.leaves.push_back({context_.value(value).type.dtype, leaf.whole});
      stage.leaves.push_back(std::move(leaf));
      return {};
    };
    if (anchor_.operands.size() > 2 && anchor_.operands[2] != no_value) {
      if (context_.scalars.count(anchor_.operands[2])) return "a bias is a number";
      if (std::string why = add(anchor_.operands[2], true); !why.empty()) return why;
      ++priced.functions[0];
    }
    for (int i : stage.ops) {
      const Op& op = context_.function.ops[chain_index(i)];
      if (op.kind == Kind::elementwise) {
        const FlopClass flops = info(parse_function(op.attributes.text("function"))).flop_class;
        priced.functions[flops == FlopClass::multiply         ? 1
                         : flops == FlopClass::divide         ? 2
                         : flops == FlopClass::transcendental ? 3
                                                              : 0] += 1;
      }
      for (ValueId operand : op.operands)
        if (operand != no_value && !own.count(operand) && !context_.scalars.count(operand) &&
            !context_.counters.count(operand) && seen.insert(operand).second)
          if (std::string why = add(operand, false); !why.empty()) return why;
      own.insert(op.results.begin(), op.results.end());
    }
    return {};
  }

  const Context& context_;
  const Kernel& kernel_;
  const Op& anchor_;
};

std::string fill(Chain& chain, const Context& context, const std::vector<StageReader>& readers) {
  mapping::ChainProblem& p = chain.problem;
  bool behind_middle = false;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    const StageReader& reader = readers[i];
    const ChainStage which = reader.middle                              ? ChainStage::middle
                             : behind_middle || i + 1 == readers.size() ? ChainStage::last
                                                                        : ChainStage::first;
    const auto at = static_cast<std::size_t>(which);
    if (chain.stages[at] || (reader.middle && behind_middle))
      return "it is not a chain of two products with a window between";
    behind_middle |= reader.middle;
    if (reader.dense && which != ChainStage::first) return "a window over all channels stands behind another product";
    if (which == ChainStage::first) p.first_row = reader.row, p.first_column = reader.column;
    chain.stages[at] = reader.stage;
    p.stages[at] = reader.priced;
    const Op& anchor = context.function.ops[chain_index(reader.stage.anchor)];
    const auto innermost = static_cast<int>(context.value(anchor.operands[1]).type.shape.size()) - 1;
    p.stages[at].hidden_minor = (which == ChainStage::last ? reader.stage.in : reader.stage.out) == innermost;
    for (const ChainLeaf& leaf : reader.stage.leaves)
      if (leaf.whole && which != ChainStage::last) return "only the last product may read more values of its shape";
    if (reader.middle) p.row = reader.row, p.column = reader.column;
  }
  const StageReader &begin = readers.front(), &end = readers.back();
  const ChainAxes &x = begin.stage.x, &y = end.stage.y;
  p.x = begin.x_dtype;
  p.lead = begin.extent(true, x.lead);
  p.x_rows = begin.extent(true, x.row), p.x_columns = begin.extent(true, x.column);
  const bool first = p.has(ChainStage::first);
  p.rows_in = first ? begin.extent(false, begin.stage.y.row) : p.x_rows;
  p.columns_in = first ? begin.extent(false, begin.stage.y.column) : p.x_columns;
  p.rows = end.extent(false, y.row), p.columns = end.extent(false, y.column);
  p.in = begin.extent(true, x.channel), p.out = end.extent(false, y.channel);
  p.hidden = first ? begin.extent(false, begin.stage.y.channel) : p.in;
  for (const std::int64_t extent :
       {p.lead, p.x_rows, p.x_columns, p.rows_in, p.columns_in, p.rows, p.columns, p.in, p.hidden, p.out})
    if (extent < 1) return "it has no elements";
  return {};
}

}  // namespace

std::variant<Chain, std::string> find_chain(const Context& context, const std::vector<const Kernel*>& kernels) {
  const Share& machine = context.machine;
  const Numerics& numerics = machine.core.array.numerics;
  if (kernels.size() < 2 || kernels.size() > mapping::chain_stages) return "it has more than three products";
  if (!machine.sorts.empty() || !machine.layout.tile.empty() || machine.core.array.count < 1)
    return "the machine has several core types, pads its lanes in memory, or has no arrays";
  if (numerics.accumulate != DType::f32 || numerics.multiply) return "the arrays round what they multiply";
  std::vector<StageReader> readers;
  for (const Kernel* kernel : kernels) {
    readers.emplace_back(context, *kernel);
    if (std::string why = readers.back().read(); !why.empty()) return why;
  }
  Chain chain;
  if (std::string why = fill(chain, context, readers); !why.empty()) return why;
  return chain;
}

}  // namespace tilesim::lower
