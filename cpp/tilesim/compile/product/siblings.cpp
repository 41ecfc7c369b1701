// Computes several products of the same first operand as one: a separate dim, which no tile splits, enumerates the
// second operands and sums. One compute finishes the tile, and may combine the products' results.
#include <algorithm>
#include <cmath>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"
#include "tilesim/mapping/strategies/few_bytes.hpp"

namespace tilesim::lower {

void add_siblings(mapping::Problem& problem, std::int64_t products) {
  const int dim = static_cast<int>(problem.domain.extents.size());
  problem.siblings = dim;
  problem.domain.extents.push_back(products);
  problem.domain.names.emplace_back("sibling");
  problem.domain.reduction.push_back(false);
  AxisAccess axis;
  axis.terms.push_back({dim, 1});
  for (const std::size_t operand : {1, 2}) {
    Access& access = operand == 1 ? problem.domain.operands[1] : problem.domain.results[0];
    access.axes.insert(access.axes.begin(), axis);
    problem.shapes[operand].insert(problem.shapes[operand].begin(), products);
    std::vector<int>& order = problem.minor_to_major[operand];
    for (int& own : order) ++own;
    if (!order.empty()) order.push_back(0);
  }
  problem.burst_bytes[1] = 0;  // second operands are not contiguous with each other
  problem.n_dims.insert(problem.n_dims.begin(), dim);
}

std::string why_no_siblings(const Context& context, const Kernel& kernel) {
  const auto weights = [&](int product) { return context.function.ops[at(product)].operands[1]; };
  const ValueId first = weights(kernel.anchor);
  for (int product : kernel.products()) {
    const ValueId value = weights(product);
    if (!context.placed(value)) return "a second operand is computed";
    if (context.placements[at(value)].dtype != context.placements[at(first)].dtype ||
        layout_of(context, value) != layout_of(context, first))
      return "their second operands have different layouts in memory";
  }
  return {};
}

/// Values of a product's epilogue that only epilogues of other products read.
std::set<ValueId> ProductLowering::inner_values(const Kernel::SiblingProduct& part) const {
  std::set<ValueId> read, inner;
  for (int i : kernel_.ops)
    if (std::ranges::count(part.ops, i) == 0)
      read.insert(context_.function.ops[at(i)].operands.begin(), context_.function.ops[at(i)].operands.end());
  for (int i : part.ops)
    if (const ValueId value = context_.function.ops[at(i)].results[0];
        read.count(value) && std::ranges::count(kernel_.outputs, value) == 0)
      inner.insert(value);
  return inner;
}

/// Whether the first operand, and the values between kernels, would stay in the scratchpad if the products were
/// separate kernels.
ProductLowering::Stay ProductLowering::staying() const {
  constexpr double values_part = 0.75;  // share of the scratchpad; tiles have the rest
  if (!context_.options.may_stay() || context_.machine.core.count > 1) return {};
  const auto bytes = [&](ValueId value) {
    const TensorType& type = context_.value(value).type;
    return static_cast<double>(element_count(type.shape) * bits(type.dtype)) / 8;
  };
  double made = 0;
  for (const Kernel::SiblingProduct& part : kernel_.parts)
    for (ValueId value : inner_values(part)) made += bytes(value);
  const double inner = made;
  for (ValueId value : kernel_.outputs) made += bytes(value);
  const double room = values_part * static_cast<double>(context_.machine.core.scratchpad.bytes);
  const ValueId first = anchor_.operands[0];
  const bool given =
      &context_.function == &context_.graph.entry() && std::ranges::count(context_.function.inputs, first) > 0;
  return {!given && context_.placed(first) && bytes(first) + made <= room, inner > 0 && inner <= room};
}

/// Estimated cycles, with a share of hidden memory time. `between`: among kernels that hide its first loads and last
/// stores; `ends`: of those transfers; `alone`: as the only kernel, by walking its tiles. Also the bytes moved.
ProductLowering::Taken ProductLowering::taken(double kept_bytes) const {
  const Share& machine = seen_ ? *seen_ : context_.machine;
  mapping::CostModel model(problem_, machine);
  const mapping::Cost cost = model.price(nest_);
  const double walked = model.steps(nest_), launch = static_cast<double>(machine.core.kernel_launch_cycles);
  const double whole = std::isinf(walked) ? cost.bound : walked;
  const double moved = static_cast<double>(std::max<std::int64_t>(1, cost.total_bytes()));
  const double memory = cost.memory * std::max(0.0, 1 - kept_bytes / moved);
  const double units = std::max(cost.compute, cost.epilogue);
  const double ends = std::max(0.0, cost.flat - launch - std::max(units, cost.memory));
  const double rings = cost.bound > cost.flat ? cost.bound - launch : 0;  // waits of tiles for buffers
  const double fewer = cost.memory > units ? cost.memory - memory : 0;
  double between = std::max({units, memory, rings - fewer});
  if (problem_.cores > 1) between = std::max(between, whole - launch - ends - fewer);  // waits for the slowest core
  const double paid = launch + (memory < units ? mapping::price_of_memory * memory : 0);
  return {between + paid, ends, std::max(between + ends, whole - launch - fewer) + paid,
          static_cast<double>(problem_.cores) * std::max(0.0, moved - kept_bytes)};
}

/// The same for a separate kernel of one product, which stores the values that other products read.
ProductLowering::Taken ProductLowering::taken_by(const Kernel::SiblingProduct& part, Stay stay) const {
  Context apart = context_;
  Kernel alone;
  alone.family = Family::product;
  alone.anchor = part.product;
  alone.name = context_.function.ops[at(part.product)].name;
  alone.spared_bytes = kernel_.spared_bytes / static_cast<double>(kernel_.parts.size());
  const std::set<int> own(part.ops.begin(), part.ops.end());
  std::set<ValueId> inner = inner_values(part);
  for (int i : kernel_.ops) {
    const bool elsewhere = std::ranges::any_of(
        kernel_.parts, [&](const Kernel::SiblingProduct& other) { return std::ranges::count(other.ops, i) > 0; });
    if (own.count(i) || !elsewhere) alone.ops.push_back(i);  // operations of the part, and of the first operand
  }
  for (int i : part.ops)
    if (const ValueId value = context_.function.ops[at(i)].results[0];
        std::ranges::count(kernel_.outputs, value) > 0 || inner.count(value))
      alone.outputs.push_back(value);
  for (const Kernel::SiblingProduct& other : kernel_.parts)
    if (other.product != part.product)
      for (ValueId value : inner_values(other))
        for (int i : part.ops)
          if (std::ranges::count(context_.function.ops[at(i)].operands, value) > 0) inner.insert(value);
  double kept = 0;
  for (ValueId value : inner) {  // the value would have a tensor
    const TensorType& type = context_.value(value).type;
    Placement& placement = apart.placements[at(value)];
    placement.tensor = "(apart)";
    placement.dtype = type.dtype;
    placement.tensor_shape = type.shape;
    if (stay.inner) kept += static_cast<double>(element_count(type.shape) * bits(type.dtype)) / 8;
  }
  ProductLowering lowering(apart, alone);
  if (stay.first) kept += lowering.first_bytes();
  Taken found = lowering.taken(kept);
  found.refusal = lowering.refusal();
  return found;
}

/// Bytes of the first operand that the kernel moves.
double ProductLowering::first_bytes() const {
  return static_cast<double>(mapping::CostModel(problem_, seen_ ? *seen_ : context_.machine).price(nest_).bytes[0]);
}

/// Keeps siblings in one kernel only if it moves fewer bytes than separate kernels and is not slower; if it saves few
/// bytes, it must be clearly faster.
void ProductLowering::keep_siblings_worth() {
  constexpr double told_apart = 0.01, far_fewer = 0.95;
  if (kernel_.parts.empty() || !refusal_.empty()) return;
  refuses_siblings_ = problem_.on_vector;
  if (refuses_siblings_) refusal_ = "the vector unit multiplies";
  if (refuses_siblings_ || context_.options.mappings.count(anchor_.name)) return;
  const Stay stay = staying();
  double apart = 0, ends = 0, bytes = 0;
  for (const Kernel::SiblingProduct& part : kernel_.parts) {
    const Taken one = taken_by(part, stay);
    if (!one.refusal.empty()) {  // a value that no kernel can recompute is stored for all
      refusal_ = one.refusal;
      refused_by_price_ = true;
      return;
    }
    apart += one.between;
    bytes += one.bytes;
    ends = std::max(ends, one.ends);
  }
  const Taken all = taken(stay.first ? first_bytes() : 0);
  const double longest = apart + ends, faster = all.bytes < far_fewer * bytes ? 1 : 1 - told_apart;
  if (all.bytes < bytes && all.alone <= faster * longest) return;
  refuses_siblings_ = true;
  refused_by_price_ = true;
  const auto text = [](double cycles, double moved) {
    return std::to_string(std::llround(cycles)) + " cycles and " + std::to_string(std::llround(moved)) + " bytes";
  };
  refusal_ = "products that read one operand are estimated to take " + text(all.alone, all.bytes) + " in one kernel, " +
             text(longest, bytes) + " in separate kernels";
}

/// Whether one kernel would save nothing: the operand stays on chip, and no epilogue reads another product's result.
bool ProductLowering::saves_nothing() const {
  if (context_.options.mappings.count(anchor_.name) || !staying().first) return false;
  return std::ranges::all_of(kernel_.parts,
                             [&](const Kernel::SiblingProduct& part) { return inner_values(part).empty(); });
}

/// Transfers of an operand's tile; one per product for second operands of siblings.
std::vector<program::Transfer> ProductLowering::transfers_of(int index, const std::vector<Expr>& start,
                                                             const std::vector<Expr>& extent) const {
  const Operand& operand = operands_[index];
  if (index == 0 || kernel_.parts.empty())
    return {region_transfer(context_.placements[at(operand.value)], start, extent, operand.slot_strides, operand.slot)};
  const std::vector<Expr> own_start(start.begin() + 1, start.end()), own_extent(extent.begin() + 1, extent.end());
  const std::vector<std::int64_t> strides(operand.slot_strides.begin() + 1, operand.slot_strides.end());
  std::vector<program::Transfer> transfers;
  for (int product : kernel_.products()) {
    const ValueId value = context_.function.ops[at(product)].operands[1];
    const std::int64_t before = std::ssize(transfers) * operand.slot_strides[0];
    transfers.push_back(region_transfer(context_.placements[at(value)], own_start, own_extent, strides, operand.slot));
    transfers.back().offset = transfers.back().offset + Expr(before);
  }
  return transfers;
}

/// Axes of the result without the dim of siblings.
std::span<const AxisAccess> ProductLowering::finished_axes() const {
  return std::span(domain_.results[0].axes).subspan(kernel_.parts.empty() ? 0 : 1);
}

/// Strides of one product's sums.
std::vector<std::int64_t> ProductLowering::finished_strides() const {
  return {accumulator_strides_.begin() + (kernel_.parts.empty() ? 0 : 1), accumulator_strides_.end()};
}

/// Offset of a product's sums for the current window and piece.
Expr ProductLowering::sums_offset(std::size_t product) const {
  const Expr before = kernel_.parts.empty() ? 0 : static_cast<std::int64_t>(product) * accumulator_strides_[0];
  return window_offset() + piece_offset(domain_.results[0], accumulator_strides_) + before;
}

}  // namespace tilesim::lower
