// Keys in parts: each part stores its largest scores, sums of weights and weighted sums; a second step puts the parts
// together by the rule that puts tiles together.
#include <algorithm>

#include "tilesim/compile/attention/lowering.hpp"
#include "tilesim/compile/vector/tiling.hpp"

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
  program::Scope kernel = std::move(scope_);
  scope_ = {};
  add_slots();
  scope_.body = body();
  scope_.operation = kernel.operation;
  program::Scope merging = merge();
  merging.operation = kernel.operation;
  merging.barrier = true;
  kernel.body.push_back(on("", std::move(scope_)));
  kernel.body.push_back(on("", std::move(merging)));
  return kernel;
}

Placement AttentionLowering::temporary(const std::string& stem, const Shape& shape) {
  program::Tensor tensor;
  tensor.name = placement(op_.results[0]).tensor + "." + stem;
  for (int i = 1; find_tensor(context_, tensor.name); ++i)
    tensor.name = placement(op_.results[0]).tensor + "." + stem + std::to_string(i);
  tensor.dtype = DType::f32;
  for (const std::int64_t extent : shape) tensor.shape.push_back(Expr(extent));
  tensor.role = program::Role::temporary;
  context_.program.tensors.push_back(tensor);
  std::vector<AxisAccess> axes(shape.size());
  for (std::size_t axis = 0; axis < axes.size(); ++axis) axes[axis].terms = {{static_cast<int>(axis), 1}};
  return {tensor.name, shape, DType::f32, std::move(axes), true};
}

/// What one part of the keys leaves of a tile of queries.
void AttentionLowering::emit_part(Block& block) const {
  for (const char* slot : {"part_max", "part_weight", "y"}) acquire(slot, {"vector"}, block);
  Compute rows = over({rows_});
  rows.output(rows.input(row("row_max")), row("part_max"));
  rows.output(rows.input(row("row_sum")), row("part_weight"));
  on_vector(std::move(rows.op), block);
  Compute end = over({rows_, p_.width});
  end.output(end.input(sums("acc")), sums("y"));
  on_vector(std::move(end.op), block);
  for (const char* slot : {"acc", "row_max", "row_sum"}) on_vector(program::Release{slot, 0}, block);
  const std::vector<Expr> start{split_, batch_, head_, first_}, extent{Expr(1), Expr(1), heads_, queries_};
  const auto store = [&](const char* slot, const Placement& to, std::int64_t width) {
    const bool wide = to.tensor_shape.size() > start.size();
    std::vector<Expr> at = start, extents = extent;
    std::vector<std::int64_t> strides{0, 0, plan_.queries * width, width};
    if (wide) at.emplace_back(0), extents.emplace_back(width), strides.push_back(1);
    on_vector(program::Commit{slot, 0, 1}, block);
    wait(slot, 1, "store0", block);
    block.push_back(on("store0", program::Store{region_transfer(to, at, extents, strides, slot), {}, 0}));
    block.push_back(on("store0", program::Release{slot, 0}));
  };
  store("part_max", part_max_, 1);
  store("part_weight", part_weight_, 1);
  store("y", part_sum_, p_.width);
}

program::Scope AttentionLowering::merge() const {
  const std::int64_t splits = plan_.splits, rows = plan_.merged_heads * p_.queries, trips = ceil_div(p_.heads, plan_.merged_heads);
  const Expr batch = index("merge_batch", p_.batch), tile = index("merge_heads", trips);
  const Expr first = tile * Expr(plan_.merged_heads), heads = part_of(p_.heads, plan_.merged_heads, first);
  const Expr here = heads * Expr(p_.queries);
  program::Scope step;
  const auto slot = [&](const char* name, DType dtype, std::int64_t elements, const char* consumer, std::int64_t depth) {
    step.slots.push_back(ring_slot(name, dtype, elements, consumer, depth));
  };
  slot("tops", DType::f32, splits * rows, "vector", 2);
  slot("weights", DType::f32, splits * rows, "vector", 2);
  slot("parts", DType::f32, splits * rows * p_.width, "vector", 2);
  slot("top", DType::f32, rows, "vector", 1);
  slot("factors", DType::f32, splits * rows, "vector", 1);
  slot("weight", DType::f32, rows, "vector", 1);
  slot("sum", DType::f32, rows * p_.width, "vector", 1);
  slot("y", p_.stored, rows * p_.width, "store0", 2);
  Block block;
  const auto load = [&](const char* name, const Placement& from, std::int64_t width, std::int64_t number) {
    const bool wide = from.tensor_shape.size() > 4;
    const std::string queue = load_queue(number);
    std::vector<Expr> at{Expr(0), batch, first, Expr(0)}, extents{Expr(splits), Expr(1), heads, Expr(p_.queries)};
    std::vector<std::int64_t> strides{rows * width, 0, p_.queries * width, width};
    if (wide) at.emplace_back(0), extents.emplace_back(width), strides.push_back(1);
    acquire(name, {queue}, block);
    block.push_back(on(queue, program::Load{region_transfer(from, at, extents, strides, name)}));
    block.push_back(on(queue, program::Commit{name, 0, 1}));
    wait(name, 1, "vector", block);
  };
  load("tops", part_max_, 1, 0);
  load("weights", part_weight_, 1, 1);
  load("parts", part_sum_, p_.width, 0);
  for (const char* name : {"top", "factors", "weight", "sum"}) acquire(name, {"vector"}, block);
  const auto by_part = [&](const char* name) { return View{name, 0, 0, {{Expr(splits), rows}, {here, 1}}}; };
  const auto by_row = [&](const char* name) { return View{name, 0, 0, {{Expr(splits), 0}, {here, 1}}}; };
  const auto done = [&](const char* name) {
    on_vector(program::Commit{name, 0, 1}, block);
    wait(name, 1, "vector", block);
  };
  const auto shifted = [&](Compute& compute, int top) {
    const int none = compute.apply(Function::equal, top, compute.number(hidden_part), -1, DType::boolean);
    return compute.apply(Function::select, none, compute.number(0), top);
  };
  Compute top = over({Expr(splits), here});
  top.op.outputs.push_back({top.input(by_part("tops")), by_row("top"), {0}, Combiner::maximum, 0});
  on_vector(std::move(top.op), block);
  done("top");
  Compute factors = over({Expr(splits), here});
  const int before = factors.input(by_part("tops")), best = factors.input(by_row("top"));
  const int factor = factors.apply(Function::exp, factors.apply(Function::subtract, before, shifted(factors, best)));
  factors.output(factor, by_part("factors"));
  const int weight = factors.apply(Function::multiply, factor, factors.input(by_part("weights")));
  factors.op.outputs.push_back({weight, by_row("weight"), {0}, Combiner::add, 0});
  on_vector(std::move(factors.op), block);
  done("factors");
  Compute sum = over({Expr(splits), here, p_.width});
  const int part = sum.input({"parts", 0, 0, {{Expr(splits), rows * p_.width}, {here, p_.width}, {p_.width, 1}}});
  const int by = sum.input({"factors", 0, 0, {{Expr(splits), rows}, {here, 1}, {p_.width, 0}}});
  sum.op.outputs.push_back({sum.apply(Function::multiply, part, by),
                            {"sum", 0, 0, {{Expr(splits), 0}, {here, p_.width}, {p_.width, 1}}},
                            {0},
                            Combiner::add,
                            0});
  on_vector(std::move(sum.op), block);
  on_vector(program::Commit{"weight", 0, 1}, block);
  done("sum");
  wait("weight", 1, "vector", block);
  acquire("y", {"vector"}, block);
  const auto across_row = [&](const char* name) { return View{name, 0, 0, {{here, 1}, {p_.width, 0}}}; };
  const auto whole = [&](const char* name) { return View{name, 0, 0, {{here, p_.width}, {p_.width, 1}}}; };
  Compute end = over({here, p_.width});
  const int all = end.input(whole("sum")), total = end.input(across_row("weight"));
  const int seen = end.input(across_row("top"));
  end.output(end.apply(Function::select, end.apply(Function::equal, seen, end.number(hidden_part), -1, DType::boolean),
                       end.number(nothing()), end.apply(Function::divide, all, total)),
             whole("y"));
  on_vector(std::move(end.op), block);
  for (const char* name : {"tops", "weights", "parts", "top", "factors", "weight", "sum"})
    on_vector(program::Release{name, 0}, block);
  on_vector(program::Commit{"y", 0, 1}, block);
  wait("y", 1, "store0", block);
  block.push_back(on("store0", program::Store{region_transfer(placement(op_.results[0]),
                                                              {batch, first, Expr(0), Expr(0)},
                                                              {Expr(1), heads, Expr(p_.queries), Expr(p_.width)},
                                                              {0, p_.queries * p_.width, p_.width, 1}, "y"),
                                              {}, 0}));
  block.push_back(on("store0", program::Release{"y", 0}));
  step.body = around("merge_batch", p_.batch, around("merge_heads", trips, std::move(block)));
  return step;
}

}  // namespace tilesim::lower
