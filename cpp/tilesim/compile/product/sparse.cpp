// A matrix product on cores whose multipliers skip zeros: tiles have the storage formats of the weights, and take the
// cycles stored with the weights. Cores with dense arrays compute the preceding rows or columns.
#include "tilesim/compile/product/sparse.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/core_sorts.hpp"
#include "tilesim/compile/product/product.hpp"
#include "tilesim/compile/writer/kernel_writer.hpp"

namespace tilesim::lower {

using program::Block;
using program::MatrixForm;

namespace {

/// Adjacent cores of one type.
struct CoreRange { std::int64_t first = 0, count = 0; };

/// The cores that multiply sparse operands, and those of the first type that does not.
struct SparseCores {
  CoreRange sparse, dense;
  std::size_t dense_sort = 0;
};

SparseCores sparse_cores(const Share& machine) {
  SparseCores found;
  if (machine.sorts.empty()) {
    if (machine.core.array.sparse.present()) found.sparse.count = machine.core.count;
    return found;
  }
  std::int64_t first = 0;
  for (std::size_t i = 0; i < machine.sorts.size(); ++i) {
    const CoreSpec& core = machine.sorts[i].core;
    const std::int64_t here = std::min(core.count, machine.core.count - first);
    CoreRange& range = core.array.sparse.present() ? found.sparse : found.dense;
    if (range.count == 0 && core.array.count > 0 && here > 0) {
      range = {first, here};
      if (&range == &found.dense) found.dense_sort = i;
    }
    first += core.count;
  }
  return found;
}

/// The block on these cores only, with core numbers from 0.
Block on_cores(const CoreRange& range, Block block) {
  const Expr core = Expr::symbol("core");
  if (range.first > 0) substitute(block, {{"core", core - Expr(range.first)}});
  Block guarded;
  const Expr inside = logical_and(less(Expr(range.first - 1), core), less(core, Expr(range.first + range.count)));
  guarded.push_back(on("", program::If{inside, std::move(block), {}}));
  return guarded;
}

class SparseLowering {
 public:
  SparseLowering(Context& context, const Kernel& kernel, const SparsePlan& plan, const CoreRange& cores)
      : context_(context),
        kernel_(kernel),
        op_(context.function.ops[at(kernel.anchor)]),
        plan_(plan),
        cores_(cores),
        problem_(product_problem(context, kernel)) {
    for (int operand : {0, 1}) {
      const std::int64_t axis =
          op_.attributes.integers(operand == 0 ? "a_contract" : "b_contract", {operand == 0 ? 1 : 0})[0];
      contracted_[operand] = static_cast<std::size_t>(axis);
    }
    extents_[0] = operand_shape(0)[1 - contracted_[0]];
    extents_[1] = operand_shape(1)[1 - contracted_[1]];
    extents_[2] = operand_shape(0)[contracted_[0]];
    base_ = plan.cut == 0 ? std::array<std::int64_t, 3>{plan.from, 0, 0} : std::array<std::int64_t, 3>{0, plan.from, 0};
    for (std::size_t d = 0; d < 3; ++d) trips_[d] = ceil_div(extents_[d] - base_[d], plan.tiles[d]);
  }

  /// Whether the plan has the operation's number of tiles.
  bool fits() const {
    const Shape wanted{trips_[0], trips_[1], trips_[2]};
    return weight("cycles").type.shape == wanted;
  }

  program::Scope lower() {
    declare("cycles", plan_.data.empty() ? "cycles of the tiles, from where the operands are not zero" : plan_.data);
    declare("products", "of what the cycles are for");
    for (int operand : {0, 1}) make_operand(operand);
    make_result();
    const std::int64_t all = trips_[0] * trips_[1], each = ceil_div(all, cores_.count);
    const Expr number = Expr::symbol("core") * Expr(each) + Expr::symbol("i_tile");
    row_ = floor_div(number, trips_[1]);
    column_ = number - row_ * Expr(trips_[1]);
    if (all == 1) row_ = column_ = 0;
    Block tile = one_tile();
    const Expr core = Expr::symbol("core");
    if (all > 1) tile = {loop("i_tile", max(Expr(0), min(Expr(each), Expr(all) - core * Expr(each))), std::move(tile))};
    program::Scope scope = write_kernel({}, rings_, std::move(tile));
    if (all == 1 && cores_.count > 1) scope.body = on_cores({0, 1}, std::move(scope.body));
    return scope;
  }

 private:
  const Shape& operand_shape(int operand) const { return context_.value(op_.operands[at(operand)]).type.shape; }
  const Weight& weight(const std::string& part) const { return context_.graph.weights.at(plan_.name + "." + part); }
  std::string of(int operand, const char* part) const { return (operand == 0 ? "a." : "b.") + std::string(part); }
  std::string named(const std::string& part) const { return plan_.name + "." + part; }
  MatrixForm form(int operand) const { return static_cast<MatrixForm>(plan_.forms[operand]); }

  void declare(const std::string& part, const std::string& how = {}) {
    if (find_tensor(context_, named(part))) return;
    const Weight& own = weight(part);
    program::Tensor tensor;
    tensor.name = tensor.weight = named(part);
    tensor.dtype = own.type.dtype;
    for (const std::int64_t extent : own.type.shape) tensor.shape.push_back(Expr(extent));
    tensor.role = program::Role::weight;
    if (!how.empty()) {
      const Array whole = own.data.to(DType::i64);
      const auto* values = whole.as<std::int64_t>();
      tensor.typical = {{values, values + whole.size()}, how};
    }
    context_.program.tensors.push_back(std::move(tensor));
  }

  Ring& add_ring(const std::string& name, DType dtype, std::int64_t elements, int operand = 0) {
    const std::int64_t depth = trips_[0] * trips_[1] * trips_[2] > 1 ? 2 : 1;
    return rings_.emplace_back(Ring{name, dtype, elements, depth, operand % context_.machine.core.dma.load_queues});
  }

  /// The largest number of elements of one tile in a stored array; `places`: the array with each tile's start.
  std::int64_t most_of(const std::string& places) const {
    const Weight& starts = weight(places);
    const auto* from = starts.data.as<std::int32_t>();
    std::int64_t most = 0;
    for (std::int64_t i = 0; i + 1 < starts.data.size(); ++i)
      most = std::max<std::int64_t>(most, from[i + 1] - from[i]);
    return most;
  }

  void make_operand(int operand) {
    const std::string stem = operand == 0 ? "a" : "b";
    const std::int64_t high = operand == 0 ? plan_.tiles[0] : plan_.tiles[2],
                       wide = operand == 0 ? plan_.tiles[2] : plan_.tiles[1];
    if (form(operand) == MatrixForm::dense) {
      add_ring(stem, problem_.dtypes[at(operand)], high * wide, operand);
      return;
    }
    const bool rows = form(operand) == MatrixForm::csr;
    for (const char* part : {"starts", "marks_at"}) declare(of(operand, part), "where the parts of stored tiles begin");
    for (const char* part : {"values", "marks"}) declare(of(operand, part));
    add_ring(stem + "_marks", weight(of(operand, "marks")).type.dtype, most_of(of(operand, "marks_at")), operand);
    if (rows) {
      declare(of(operand, "indices"));
      add_ring(stem + "_indices", DType::i32, most_of(of(operand, "starts")), operand);
    }
    add_ring(stem + "_values", weight(of(operand, "values")).type.dtype, most_of(of(operand, "starts")), operand);
  }

  void make_result() {
    const DType sums = problem_.dtypes[2];
    direct_ = stores_sums(context_, kernel_, sums);
    const bool apart =
        context_.machine.core.scratchpad.accumulator_bytes > 0 && context_.machine.core.array.separate_accumulator;
    add_ring("c", sums, plan_.tiles[0] * plan_.tiles[1]).accumulator = apart;
    if (direct_) return;
    const DType stored = context_.placements[at(kernel_.outputs[0])].dtype;
    add_ring("y", stored, plan_.tiles[0] * plan_.tiles[1]);
  }

  /// Start and extent of the current tile along m, n or k.
  Expr start(std::size_t dim) const { return Expr(base_[dim]) + tile_number(dim) * Expr(plan_.tiles[dim]); }
  Expr tile_number(std::size_t dim) const {
    return dim == 0 ? row_ : dim == 1 ? column_ : trips_[2] > 1 ? Expr::symbol("i_k") : Expr(0);
  }
  Expr extent(std::size_t dim) const {
    const std::int64_t own = extents_[dim] - base_[dim], tile = std::min(plan_.tiles[dim], own);
    return own % tile == 0 ? Expr(tile) : min(Expr(tile), Expr(extents_[dim]) - start(dim));
  }

  /// Loads a tile's elements of a stored array into its slot and returns the view for the compute.
  program::View fetch_part(const std::string& slot, const std::string& array, const std::string& places,
                           const Expr& tile, Block& block) {
    const Expr first = Expr::read(named(places), {tile}), count = Expr::read(named(places), {tile + Expr(1)}) - first;
    program::Transfer transfer;
    transfer.tensor = named(array);
    transfer.at = {first};
    transfer.dims.push_back({.extent = count, .axis = 0, .step = 1, .stride = 1, .through = {}, .through_at = {}});
    transfer.slot = slot;
    block.push_back(statement(program::Load{std::move(transfer)}));
    return {slot, 0, 0, {{count, 1}}};
  }

  std::vector<program::View> fetch_operand(int operand, Block& block) {
    const std::string stem = operand == 0 ? "a" : "b";
    const std::size_t down = operand == 0 ? 0 : 2, along = operand == 0 ? 2 : 1;
    if (form(operand) != MatrixForm::dense) {
      const Expr tile = tile_number(down) * Expr(trips_[along]) + tile_number(along);
      std::vector<program::View> views;
      const std::string marks = of(operand, "marks"), places = of(operand, "marks_at"), starts = of(operand, "starts");
      views.push_back(fetch_part(stem + "_marks", marks, places, tile, block));
      if (form(operand) == MatrixForm::csr)
        views.push_back(fetch_part(stem + "_indices", of(operand, "indices"), starts, tile, block));
      views.push_back(fetch_part(stem + "_values", of(operand, "values"), starts, tile, block));
      return views;
    }
    const std::int64_t wide = plan_.tiles[along];
    const std::size_t k = contracted_[operand], other = 1 - k;
    std::vector<Expr> from(2, 0), size(2, 0);
    std::vector<std::int64_t> strides(2, 1);
    const std::size_t across = operand == 0 ? 0 : 1;
    from[k] = start(2), size[k] = extent(2);
    from[other] = start(across), size[other] = extent(across);
    strides[operand == 0 ? other : k] = wide;
    const Placement& placement = context_.placements[at(op_.operands[at(operand)])];
    block.push_back(statement(program::Load{region_transfer(placement, from, size, strides, stem)}));
    return {{stem, 0, 0, {{extent(down), wide}, {extent(along), 1}}}};
  }

  /// Statements of one step of the contraction.
  Block step() {
    Block block;
    program::OpaqueOp compute;
    compute.target = "sparse product";
    compute.cycles = Expr::read(named("cycles"), {row_, column_, tile_number(2)});
    for (int operand : {0, 1})
      for (program::View& view : fetch_operand(operand, block)) compute.reads.push_back(std::move(view));
    compute.writes.push_back({"c", 0, 0, {{extent(0), plan_.tiles[1]}, {extent(1), 1}}});
    program::SparseProduct product;
    product.a = form(0), product.b = form(1);
    product.k = extent(2);
    product.accumulate = trips_[2] > 1 ? less(Expr(0), Expr::symbol("i_k")) : Expr(0);
    product.products = Expr::read(named("products"), {row_, column_, tile_number(2)});
    product.numerics = context_.machine.core.array.numerics;
    compute.product = std::move(product);
    block.push_back(on("mma0", std::move(compute)));
    return block;
  }

  Block one_tile() {
    Block block = step();
    if (trips_[2] > 1) block = {loop("i_k", trips_[2], std::move(block))};
    if (!direct_) block.push_back(statement(rounded()));
    const Placement& to = context_.placements[at(kernel_.outputs[0])];
    block.push_back(statement(program::Store{
        region_transfer(to, {start(0), start(1)}, {extent(0), extent(1)}, {plan_.tiles[1], 1}, direct_ ? "c" : "y"),
        {},
        0}));
    return block;
  }

  /// Rounds the sums to the type of the result.
  program::VectorOp rounded() const {
    program::VectorOp compute;
    compute.extents = {extent(0), extent(1)};
    compute.lane_dim = 1;
    const std::vector<program::Dim> dims{{extent(0), plan_.tiles[1]}, {extent(1), 1}};
    compute.inputs.push_back({"c", 0, 0, dims});
    compute.nodes.push_back({{.op = VectorNode::Op::input, .dtype = problem_.dtypes[2]}, 0});
    compute.outputs.push_back({0, {"y", 0, 0, dims}, {}, Combiner::add, 0});
    return compute;
  }

  Context& context_;
  const Kernel& kernel_;
  const Op& op_;
  const SparsePlan& plan_;
  CoreRange cores_;
  mapping::Problem problem_;
  std::size_t contracted_[2] = {1, 0};   ///< contracted axis of each operand
  std::int64_t extents_[3] = {0, 0, 0};  ///< full extents of m, n, k
  std::array<std::int64_t, 3> base_{};   ///< start of the sparse cores' part
  std::int64_t trips_[3] = {1, 1, 1};
  Expr row_ = 0, column_ = 0;  ///< numbers of the current result tile
  bool direct_ = false;
  std::vector<Ring> rings_;
};

/// Lowers the rows or columns before the sparse cores' part for the cores with dense arrays.
std::variant<program::Scope, Refusal> dense_part(Context& context, const Kernel& kernel, const SparsePlan& plan,
                                                 const SparseCores& cores) {
  Share dense = context.machine.of_sort(cores.dense_sort);
  dense.core.count = cores.dense.count;
  Context own{context.graph,
              context.function,
              dense,
              context.options,
              context.choices,
              context.program,
              std::move(context.placements),
              context.scalars,
              context.contexts,
              context.counters};
  ProductLowering lowering(own, kernel, {plan.cut, plan.from});
  std::variant<program::Scope, Refusal> result;
  if (lowering.refusal().empty())
    result = lowering.lower();
  else
    result = Refusal{{lowering.refusal(), kernel.name, {}, {}, {}}, lowering.refused_by_price()};
  context.placements = std::move(own.placements);
  return result;
}

}  // namespace

std::optional<Lowered> lower_sparse(Context& context, const Kernel& kernel) {
  const Op& op = context.function.ops[at(kernel.anchor)];
  const std::optional<SparsePlan> plan = sparse_plan_of(context.graph, op);
  const SparseCores cores = sparse_cores(context.machine);
  if (!plan || cores.sparse.count == 0 || context.contexts != 1 || context.options.mappings.count(op.name))
    return std::nullopt;
  const std::int64_t whole = context.value(op.results[0]).type.shape[at(plan->cut)];
  if (plan->from > whole || (plan->from > 0 && cores.dense.count == 0)) return std::nullopt;
  if (plan->from == whole) {
    std::variant<program::Scope, Refusal> dense = dense_part(context, kernel, *plan, cores);
    if (auto* refused = std::get_if<Refusal>(&dense)) return std::move(*refused);
    auto& all = std::get<program::Scope>(dense);
    all.body = on_cores(cores.dense, std::move(all.body));
    return std::move(all);
  }
  if (kernel.ops.size() > 1) return Refusal{{"sums of sparse cores are stored unchanged", kernel.name, {}, {}, {}}};
  program::Scope scope;
  scope.kernel = kernel.name;
  scope.operation = {op.name};
  scope.launch_cycles = context.machine.core.kernel_launch_cycles;
  scope.barrier = true;
  if (plan->from > 0) {
    std::variant<program::Scope, Refusal> dense = dense_part(context, kernel, *plan, cores);
    if (auto* refused = std::get_if<Refusal>(&dense)) return std::move(*refused);
    auto& part = std::get<program::Scope>(dense);
    part.kernel.clear();
    part.operation.clear();
    part.launch_cycles = 0;
    part.barrier = false;
    Block body;
    body.push_back(on("", std::move(part)));
    body = on_cores(cores.dense, std::move(body));
    std::move(body.begin(), body.end(), std::back_inserter(scope.body));
  }
  SparseLowering lowering(context, kernel, *plan, cores.sparse);
  if (!lowering.fits()) return std::nullopt;
  Block body;
  body.push_back(on("", lowering.lower()));
  if (cores.sparse.count < context.machine.core.count) body = on_cores(cores.sparse, std::move(body));
  std::move(body.begin(), body.end(), std::back_inserter(scope.body));
  const std::string part = plan->from == 0 ? "all of it"
                                           : std::string(plan->cut == 0 ? "rows" : "columns") + " from " +
                                                 std::to_string(plan->from) + " of " + std::to_string(whole) + " on";
  context.program.notes.push_back(op.name + ": cores that skip zeros take " + part);
  return scope;
}

}  // namespace tilesim::lower
