// Integer tensors that an attention's statements read: number of keys per batch row, and its pages.
#include <algorithm>

#include "tilesim/compile/attention/lowering.hpp"
#include "tilesim/graph/attention.hpp"

namespace tilesim::lower {

using program::Block;

std::string AttentionLowering::table(std::size_t operand, const char* stem, program::Typical typical) {
  const ValueId value = op_.operands[operand];
  const Placement& own = placement(value);
  program::Tensor* tensor = find_tensor(context_, own.tensor);
  const bool given = tensor && own.identity && tensor->alias_of.empty();
  if (given && tensor->role == program::Role::weight) {
    const Weight& weight = context_.graph.weights.at(tensor->weight);
    if (weight.source == Weight::Source::data) {
      const Array known = weight.data.to(DType::i64);
      typical = {{known.as<std::int64_t>(), known.as<std::int64_t>() + known.size()}, "constants"};
    }
    tensor->typical = std::move(typical);
    return tensor->name;
  }
  if (!given || tensor->role != program::Role::input) return copied(value, stem, std::move(typical));
  tensor->typical = std::move(typical);
  return tensor->name;
}

/// Copies a tensor row by row, as many columns at a time as a slot holds.
std::string AttentionLowering::copied(ValueId value, const char* stem, program::Typical typical) {
  constexpr std::int64_t most = 1024;
  const Shape& shape = context_.value(value).type.shape;
  const Placement& from = placement(value);
  const Placement to = temporary(stem, shape, from.dtype);
  find_tensor(context_, to.tensor)->typical = std::move(typical);
  const std::int64_t columns = shape.back(), tile = std::min(columns, most), trips = ceil_div(columns, tile);
  const std::int64_t rows = shape.size() > 1 ? shape[0] : 1;
  const std::string row = std::string(stem) + "_row", column = std::string(stem) + "_column";
  const Expr first = index(column.c_str(), trips) * Expr(tile);
  std::vector<Expr> start{first}, extent{part_of(columns, tile, first)};
  std::vector<std::int64_t> strides{1};
  if (shape.size() > 1)
    start.insert(start.begin(), index(row.c_str(), rows)), extent.insert(extent.begin(), Expr(1)),
        strides.insert(strides.begin(), 0);
  program::Scope step;
  step.operation = scope_.operation;
  Block block{statement(program::Load{region_transfer(from, start, extent, strides, "integers")}),
              statement(program::Store{region_transfer(to, start, extent, strides, "integers"), {}, 0})};
  block = around(row.c_str(), rows, around(column.c_str(), trips, std::move(block)));
  steps_.push_back(on("", write_kernel(std::move(step), {{"integers", from.dtype, tile}}, std::move(block))));
  return to.tensor;
}

void AttentionLowering::find_tables() {
  const AttentionShape shape = attention_shape(context_.function, op_);
  const auto typical = [](const Array& values, const char* how) {
    return program::Typical{{values.as<std::int64_t>(), values.as<std::int64_t>() + values.size()}, how};
  };
  if (p_.lengths) lengths_ = table(attention_kv_len, "kv_len", typical(full_lengths(shape), "full caches"));
  if (p_.page > 0) pages_ = table(attention_pages, "pages", typical(pages_in_order(shape), "consecutive pages"));
}

program::Scope AttentionLowering::behind_tables(program::Scope kernel) {
  if (steps_.empty()) return kernel;
  program::Scope all;
  std::swap(all.kernel, kernel.kernel);
  std::swap(all.launch_cycles, kernel.launch_cycles);
  all.operation = kernel.operation;
  all.barrier = kernel.barrier;
  std::swap(all.body, steps_);
  kernel.barrier = true;  // the kernel's expressions read the tensors that the steps store
  all.body.push_back(on("", std::move(kernel)));
  return all;
}

}  // namespace tilesim::lower
