#include "tilesim/compile/layouts/rows.hpp"

#include <algorithm>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/layouts/wishes.hpp"
#include "tilesim/compile/plan/row_bytes.hpp"
#include "tilesim/compile/writer/kernel_writer.hpp"

namespace tilesim::lower {

namespace {

/// Adds a dense temporary; `alias_of`: whose bytes it shares, or empty.
void declare(Context& context, const std::string& name, DType dtype, const Shape& shape, const std::string& alias_of) {
  if (find_tensor(context, name)) return;
  program::Tensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.role = program::Role::temporary;
  tensor.alias_of = alias_of;
  context.program.tensors.push_back(std::move(tensor));
}

bool only_vectors(const Context& context, const Kernel& kernel) {
  return kernel.family == Family::vector && std::ranges::all_of(kernel.ops, [&](int i) {
           const Op& op = context.function.ops[at(i)];
           return op.kind != Kind::cumulative && op.kind != Kind::window_reduce && !is_arg_reduce(op);
         });
}

class Fetching {
 public:
  Fetching(Context& context, const std::vector<Kernel>& kernels, const Kernel& kernel)
      : context_(context),
        op_(context.function.ops[at(kernel.ops[0])]),
        rows_(context.placements[at(op_.results[0])]),
        table_(context.placements[at(op_.operands[0])]),
        ids_(context.placements[at(op_.operands[1])]) {
    if (op_.attributes.integer("padding_index", -1) >= 0 || !rows_.identity || !table_.identity || !ids_.identity)
      return;
    const program::Tensor* stored = find_tensor(context, rows_.tensor);
    if (!find_tensor(context, ids_.tensor)) return;
    if (!stored || stored->role != program::Role::temporary || !stored->alias_of.empty()) return;
    for (bool grown = named_.insert(rows_.tensor).second; grown;) {
      grown = false;
      for (const program::Tensor& tensor : context.program.tensors)
        if (named_.count(tensor.alias_of) && named_.insert(tensor.name).second) {
          if (tensor.role != program::Role::temporary) return;
          grown = true;
        }
    }
    may_ = all_read_here(kernels, kernel) && pays();
  }

  bool may() const { return may_; }

  /// Returns whether the kernel stays, to copy the table.
  bool apply() {
    Placement table = table_;
    const bool copied = rows_scattered(context_, table_, element_count(ids_.tensor_shape));
    if (copied) {
      table.tensor = rows_.tensor + ".table";
      declare(context_, table.tensor, table.dtype, table.tensor_shape, {});
    }
    for (const ValueId value : values_) {
      Placement& placement = context_.placements[at(value)];
      Placement fetched = table;
      const std::size_t lead = *lead_of(placement.tensor_shape);
      fetched.axes = {{}, in_one(placement, lead, placement.axes.size())};
      fetched.identity = false;
      fetched.through = ids_.tensor;
      fetched.through_axes.assign(placement.axes.begin(), placement.axes.begin() + static_cast<std::ptrdiff_t>(lead));
      if (ids_dense()) {
        fetched.through_axes = {in_one(placement, 0, lead)};
        if (ids_.tensor_shape.size() != 1) fetched.through = rows_.tensor + ".ids";
        declare(context_, fetched.through, ids_.dtype, {element_count(ids_.tensor_shape)}, ids_.tensor);
      }
      placement = std::move(fetched);
    }
    std::erase_if(context_.program.tensors, [&](const program::Tensor& tensor) { return named_.count(tensor.name); });
    context_.choices.tensors.forget();
    return copied;
  }

 private:
  bool ids_dense() const {
    const program::Tensor* ids = find_tensor(context_, ids_.tensor);
    return ids->tile.empty();
  }

  /// The axes from `first` to `last` of a row-major tensor as one.
  static AxisAccess in_one(const Placement& placement, std::size_t first, std::size_t last) {
    AxisAccess line;
    std::int64_t stride = 1;
    for (std::size_t axis = last; axis-- > first; stride *= placement.tensor_shape[axis]) {
      line.constant += stride * placement.axes[axis].constant;
      for (const AxisAccess::Term& term : placement.axes[axis].terms)
        line.terms.push_back({term.dim, stride * term.coefficient});
    }
    return line;
  }

  /// The number of leading axes of a shape of the rows' bytes that select the rows; the others are within a row. If
  /// the ids are dense, as one line, so that a run may continue over several axes.
  std::optional<std::size_t> lead_of(const Shape& shape) const {
    std::int64_t rows = 1, axis = 0;
    const std::int64_t all = element_count(ids_.tensor_shape);
    while (at(axis) < shape.size() && (rows < all || shape[at(axis)] == 1)) rows *= shape[at(axis++)];
    const Shape lead(shape.begin(), shape.begin() + axis);
    if (rows != all || (!ids_dense() && lead != ids_.tensor_shape)) return std::nullopt;
    return at(axis);
  }

  bool all_read_here(const std::vector<Kernel>& kernels, const Kernel& own) {
    for (std::size_t value = 0; value < context_.placements.size(); ++value)
      if (named_.count(context_.placements[value].tensor)) values_.insert(static_cast<ValueId>(value));
    for (const ValueId output : context_.function.outputs)
      if (values_.count(output)) return false;
    for (const Kernel& kernel : kernels) {
      if (&kernel == &own) continue;
      const auto ours = [&](ValueId value) { return value != no_value && values_.count(value); };
      if (std::ranges::any_of(kernel.outputs, ours)) return false;
      readings_ += std::ranges::count_if(kernel.inputs, ours);
      for (const int i : kernel.ops)
        if (std::ranges::any_of(context_.function.ops[at(i)].operands, ours) && !only_vectors(context_, kernel))
          return false;
      if (std::ranges::any_of(kernel.inputs, [&](ValueId value) { return ours(value) && !fits(value); })) return false;
    }
    return readings_ > 0;
  }

  bool fits(ValueId value) const {
    const Placement& placement = context_.placements[at(value)];
    return placement.moved.empty() && !placement.fill && lead_of(placement.tensor_shape);
  }

  bool pays() const {
    const std::int64_t burst = context_.machine.memory.burst_bytes, width = table_.tensor_shape[1];
    const std::int64_t row = width * host_bytes(table_.dtype);
    return readings_ * round_up(row, burst) < round_up(row, burst) + (1 + readings_) * row;
  }

  Context& context_;
  const Op& op_;
  const Placement rows_, table_, ids_;
  std::set<std::string> named_;  ///< the tensor of the rows, and its aliases
  std::set<ValueId> values_;
  std::int64_t readings_ = 0;
  bool may_ = false;
};

/// The dims along which consecutive indices lie, inner first, for the tile's extents; without extents the first of
/// them.
std::vector<int> run_of(const Placement& placement, const std::vector<Expr>& extents) {
  std::vector<int> run;
  const std::vector<AxisAccess::Term>& terms = placement.through_axes.back().terms;
  for (std::int64_t next = 1;;) {
    const auto term = std::ranges::find_if(terms, [&](const AxisAccess::Term& one) {
      return one.coefficient == next && std::ranges::find(run, one.dim) == run.end();
    });
    if (term == terms.end()) return run;
    run.push_back(term->dim);
    if (extents.empty() || !extents[at(term->dim)].is_constant()) return run;
    next *= extents[at(term->dim)].value();
  }
}

}  // namespace

bool rows_scattered(const Context& context, const Placement& table, std::int64_t rows) {
  const program::Tensor* stored = find_tensor(context, table.tensor);
  if (!table.identity || !stored || stored->minor_to_major.empty() || stored->minor_to_major[0] != 0) return false;
  const std::int64_t burst = context.machine.memory.burst_bytes, width = table.tensor_shape[1];
  const std::int64_t bytes = host_bytes(table.dtype), saved = width * burst - round_up(width * bytes, burst);
  const double copied = padded_elements(table.tensor_shape, last_axis_minor(2), context.machine.layout.tile);
  return static_cast<double>(rows * saved) > 2 * copied * static_cast<double>(bytes);
}

void fetch_rows_in_readers(Context& context, std::vector<Kernel>& kernels) {
  for (std::size_t k = 0; k < kernels.size();) {
    const bool embeds = context.function.ops[at(kernels[k].ops[0])].kind == Kind::embedding;
    if (embeds && !context.options.vectors.count(kernels[k].name))
      if (Fetching fetching(context, kernels, kernels[k]); fetching.may() && !fetching.apply()) {
        kernels.erase(kernels.begin() + static_cast<std::ptrdiff_t>(k));
        continue;
      }
    ++k;
  }
}

program::Statement load_rows(const Placement& placement, const std::vector<Expr>& start,
                             const std::vector<Expr>& extents, const std::vector<std::int64_t>& slot_strides,
                             const Expr& offset, const std::string& slot) {
  std::vector<int> run = run_of(placement, extents);
  program::TransferDim rows{1, 0, 1, 0, placement.through, {}};
  std::int64_t stride = 0, covered = 1;
  for (std::size_t i = 0; i < run.size(); ++i) {  // as far as the rows are evenly spaced in the slot
    const std::size_t dim = at(run[i]);
    if (i == 0) stride = slot_strides[dim];
    if (slot_strides[dim] != stride * covered) run.resize(i);
    if (i >= run.size()) break;
    rows.extent = rows.extent * extents[dim];
    covered *= extents[dim].is_constant() ? extents[dim].value() : 1;
  }
  rows.stride = stride;
  std::vector<Expr> one = extents, first = start;
  Expr place = offset;
  std::set<int> loops;
  for (const AxisAccess& axis : placement.through_axes)
    for (const AxisAccess::Term& term : axis.terms) {
      one[at(term.dim)] = 1;
      const bool single = extents[at(term.dim)].is_constant() && extents[at(term.dim)].value() == 1;
      if (single || std::ranges::find(run, term.dim) != run.end() || !loops.insert(term.dim).second) continue;
      const Expr counter = Expr::symbol("j" + std::to_string(term.dim));
      first[at(term.dim)] = first[at(term.dim)] + counter;
      place = place + counter * Expr(slot_strides[at(term.dim)]);
    }
  for (const AxisAccess& axis : placement.through_axes) {
    Expr position = axis.constant;
    for (const AxisAccess::Term& term : axis.terms) position = position + first[at(term.dim)] * Expr(term.coefficient);
    rows.through_at.push_back(position);
  }
  program::Transfer load = region_transfer(placement, start, one, slot_strides, slot);
  load.offset = place;
  load.dims.insert(load.dims.begin(), std::move(rows));
  program::Statement loads = statement(program::Load{std::move(load)});
  for (const int dim : loops) loads = loop("j" + std::to_string(dim), extents[at(dim)], {std::move(loads)});
  return loads;
}

std::vector<int> rows_apart(const Placement& placement) {
  const std::vector<int> run = run_of(placement, {});
  std::set<int> apart;
  for (const AxisAccess& axis : placement.through_axes)
    for (const AxisAccess::Term& term : axis.terms)
      if (std::ranges::find(run, term.dim) == run.end()) apart.insert(term.dim);
  return {apart.begin(), apart.end()};
}

}  // namespace tilesim::lower
