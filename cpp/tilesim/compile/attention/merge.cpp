// Split keys: each part stores its largest scores, sums of weights and weighted sums; a second step merges the parts as
// the online softmax merges tiles.
#include <algorithm>

#include "tilesim/compile/attention/lowering.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

constexpr double hidden_part = -std::numeric_limits<double>::infinity();

}  // namespace

program::Scope AttentionLowering::in_parts() {
  const Shape rows{plan_.splits, p_.batch, p_.heads, p_.queries};
  Shape wide = rows;
  wide.push_back(p_.width);
  part_max_ = temporary("part_max", rows);
  part_weight_ = temporary("part_weight", rows);
  part_sum_ = temporary("part_sum", wide);
  program::Scope kernel = std::move(scope_), parts;
  parts.operation = kernel.operation;
  kernel.body.push_back(on("", write_kernel(std::move(parts), rings(), body())));
  program::Scope merging = merge();
  merging.operation = kernel.operation;
  merging.barrier = true;
  kernel.body.push_back(on("", std::move(merging)));
  return behind_tables(std::move(kernel));
}

Placement AttentionLowering::temporary(const std::string& stem, const Shape& shape, DType dtype) {
  program::Tensor tensor;
  tensor.name = placement(op_.results[0]).tensor + "." + stem;
  for (int i = 1; find_tensor(context_, tensor.name); ++i)
    tensor.name = placement(op_.results[0]).tensor + "." + stem + std::to_string(i);
  tensor.dtype = dtype;
  for (const std::int64_t extent : shape) tensor.shape.push_back(Expr(extent));
  tensor.role = program::Role::temporary;
  context_.program.tensors.push_back(tensor);
  std::vector<AxisAccess> axes(shape.size());
  for (std::size_t axis = 0; axis < axes.size(); ++axis) axes[axis].terms = {{static_cast<int>(axis), 1}};
  return {tensor.name, shape, dtype, std::move(axes), true};
}

/// Stores the largest scores, sums of weights and weighted sums of one part of the keys for a tile of queries.
void AttentionLowering::emit_part(Block& block) const {
  Compute rows = over({rows_});
  rows.output(rows.input(row("row_max")), row("part_max"));
  rows.output(rows.input(row("row_sum")), row("part_weight"));
  block.push_back(statement(std::move(rows.op)));
  Compute end = over({rows_, p_.width});
  end.output(end.input(sums("acc")), sums("y"));
  block.push_back(statement(std::move(end.op)));
  const std::vector<Expr> start{split_, batch_, head_, first_}, extent{Expr(1), Expr(1), heads_, queries_};
  const auto store = [&](const char* slot, const Placement& to, std::int64_t width) {
    const bool wide = to.tensor_shape.size() > start.size();
    std::vector<Expr> at = start, extents = extent;
    std::vector<std::int64_t> strides{0, 0, plan_.queries * width, width};
    if (wide) at.emplace_back(0), extents.emplace_back(width), strides.push_back(1);
    block.push_back(statement(program::Store{region_transfer(to, at, extents, strides, slot), {}, 0}));
  };
  store("part_max", part_max_, 1);
  store("part_weight", part_weight_, 1);
  store("y", part_sum_, p_.width);
}

program::Scope AttentionLowering::merge() {
  merged_rows_ = plan_.merged_heads * p_.queries;
  const std::int64_t trips = ceil_div(p_.heads, plan_.merged_heads);
  batch_ = index("merge_batch", p_.batch);
  head_ = index("merge_heads", trips) * Expr(plan_.merged_heads);
  heads_ = part_of(p_.heads, plan_.merged_heads, head_);
  rows_ = heads_ * Expr(p_.queries);
  const std::int64_t rows = merged_rows_, all = plan_.splits * merged_rows_;
  std::vector<Ring> rings{{"tops", DType::f32, all, 2},
                          {"weights", DType::f32, all, 2, loads_ > 1 ? 1 : 0},
                          {"parts", DType::f32, all * p_.width, 2},
                          {"top", DType::f32, rows, 1},
                          {"factors", DType::f32, all, 1},
                          {"weight", DType::f32, rows, 1},
                          {"sum", DType::f32, rows * p_.width, 1},
                          {"y", p_.stored, rows * p_.width, 2}};
  if (has_lse()) rings.push_back({"lse", DType::f32, rows, 2});
  Block block;
  load_parts("tops", part_max_, 1, block);
  load_parts("weights", part_weight_, 1, block);
  load_parts("parts", part_sum_, p_.width, block);
  merge_weights(block);
  merge_sums(block);
  return write_kernel({}, rings, around("merge_batch", p_.batch, around("merge_heads", trips, std::move(block))));
}

void AttentionLowering::load_parts(const char* slot, const Placement& from, std::int64_t width, Block& block) const {
  std::vector<Expr> at{Expr(0), batch_, head_, Expr(0)}, extents{Expr(plan_.splits), Expr(1), heads_, Expr(p_.queries)};
  std::vector<std::int64_t> strides{merged_rows_ * width, 0, p_.queries * width, width};
  if (from.tensor_shape.size() > 4) at.emplace_back(0), extents.emplace_back(width), strides.push_back(1);
  block.push_back(statement(program::Load{region_transfer(from, at, extents, strides, slot)}));
}

/// Computes the factor of each part: exp of its largest score minus the largest score of all parts.
void AttentionLowering::merge_weights(Block& block) const {
  const Expr splits = plan_.splits;
  const auto by_part = [&](const char* name) { return View{name, 0, 0, {{splits, merged_rows_}, {rows_, 1}}}; };
  const auto by_row = [&](const char* name) { return View{name, 0, 0, {{splits, 0}, {rows_, 1}}}; };
  Compute top = over({splits, rows_});
  top.op.outputs.push_back({top.input(by_part("tops")), by_row("top"), {0}, Combiner::maximum, 0});
  block.push_back(statement(std::move(top.op)));
  Compute factors = over({splits, rows_});
  const int before = factors.input(by_part("tops")), best = factors.input(by_row("top"));
  const int none = factors.apply(Function::equal, best, factors.number(hidden_part), -1, DType::boolean);
  const int shift = factors.apply(Function::select, none, factors.number(0), best);
  const int factor = factors.apply(Function::exp, factors.apply(Function::subtract, before, shift));
  factors.output(factor, by_part("factors"));
  const int weight = factors.apply(Function::multiply, factor, factors.input(by_part("weights")));
  factors.op.outputs.push_back({weight, by_row("weight"), {0}, Combiner::add, 0});
  block.push_back(statement(std::move(factors.op)));
}

void AttentionLowering::merge_sums(Block& block) const {
  const Expr splits = plan_.splits, width = p_.width;
  Compute sum = over({splits, rows_, width});
  const int part = sum.input({"parts", 0, 0, {{splits, merged_rows_ * p_.width}, {rows_, p_.width}, {width, 1}}});
  const int by = sum.input({"factors", 0, 0, {{splits, merged_rows_}, {rows_, 1}, {width, 0}}});
  const View all{"sum", 0, 0, {{splits, 0}, {rows_, p_.width}, {width, 1}}};
  sum.op.outputs.push_back({sum.apply(Function::multiply, part, by), all, {0}, Combiner::add, 0});
  block.push_back(statement(std::move(sum.op)));
  Compute end = over({rows_, width});
  const int total = end.input(sums("sum")), weight = end.input(across("weight"));
  const int unseen = end.apply(Function::equal, end.input(across("top")), end.number(hidden_part), -1, DType::boolean);
  end.output(end.apply(Function::select, unseen, end.number(nothing()), end.apply(Function::divide, total, weight)),
             sums("y"));
  block.push_back(statement(std::move(end.op)));
  if (has_lse()) block.push_back(statement(log_sum_exp("top", "weight")));
  const program::Transfer transfer =
      region_transfer(placement(op_.results[0]), {batch_, head_, Expr(0), Expr(0)},
                      {Expr(1), heads_, Expr(p_.queries), width}, {0, p_.queries * p_.width, p_.width, 1}, "y");
  block.push_back(statement(program::Store{transfer, {}, 0}));
  if (has_lse()) block.push_back(statement(store_lse(0, Expr(p_.queries), p_.queries)));
}

}  // namespace tilesim::lower
