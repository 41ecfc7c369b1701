// Vector computes for a tile of queries: the online softmax.
#include "tilesim/compile/attention/lowering.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

constexpr double lowest = -std::numeric_limits<double>::infinity();

}  // namespace

void AttentionLowering::emit_start(Block& block) const {
  Compute rows = over({rows_});
  rows.output(rows.number(lowest), row("row_max"));
  rows.output(rows.number(0), row("row_sum"));
  block.push_back(statement(std::move(rows.op)));
  Compute start = over_products({rows_, p_.width});
  start.output(start.number(0), sums("acc"));
  block.push_back(statement(std::move(start.op)));
}

Expr AttentionLowering::hides(const Keys& k) const {
  Expr result = 0;
  if (p_.causal) result = less(first_ + offset_, k.start + k.count - Expr(1));
  if (p_.window > 0) {
    const Expr near = less_equal(k.start, first_ + queries_ + offset_ - Expr(p_.window + 1));
    result = p_.causal ? logical_or(result, near) : near;
  }
  return result;
}

int AttentionLowering::visible(Compute& compute, const Keys& k) const {
  const int key = compute.position(1, k.start);
  const auto query = [&](const Expr& by) {
    return compute.position(0, first_ + k.from + by, plan_.heads > 1 ? plan_.queries : 0);
  };
  int seen = -1;
  if (p_.causal) seen = compute.apply(Function::less_equal, key, query(offset_), -1, DType::boolean);
  if (p_.window > 0) {
    const int near = compute.apply(Function::greater, key, query(offset_ - Expr(p_.window)), -1, DType::boolean);
    seen = seen < 0 ? near : compute.apply(Function::logical_and, seen, near, -1, DType::boolean);
  }
  return seen;
}

program::VectorOp AttentionLowering::changed_scores(const Keys& k, bool hidden) const {
  Compute change = over_products({k.rows, k.count});
  int x = change.input(scores("s", k));
  if (scale_ != 1) x = change.apply(Function::multiply, x, change.number(scale_));
  if (cap_ > 0) {
    const int cap = change.number(cap_);
    x = change.apply(Function::multiply, change.apply(Function::tanh, change.apply(Function::divide, x, cap)), cap);
  }
  int seen = hidden ? visible(change, k) : -1;
  if (p_.mask) {
    const int mask = change.input(mask_view(k), *p_.mask);
    if (*p_.mask != DType::boolean)
      x = change.apply(Function::add, x, mask);
    else
      seen = seen < 0 ? mask : change.apply(Function::logical_and, seen, mask, -1, DType::boolean);
  }
  if (seen >= 0) x = change.apply(Function::select, seen, x, change.number(lowest));
  change.output(x, scores("s", k));
  change.reduced(x, across("tile_max", k, k.count), Combiner::maximum, false);
  return change.op;
}

program::VectorOp AttentionLowering::largest_scores(const Keys& k, bool changed, bool hidden) const {
  if (changed) return changed_scores(k, hidden);
  Compute best = over_products({k.rows, k.count});
  best.reduced(best.input(scores("s", k)), across("tile_max", k, k.count), Combiner::maximum, false);
  return best.op;
}

program::VectorOp AttentionLowering::rescaled_rows(const Keys& k, bool changed) const {
  Compute rows = over({k.rows});
  const int before = rows.input(row("row_max", k)), sum = rows.input(row("row_sum", k));
  int best = rows.input(row("tile_max", k));
  if (!changed && scale_ != 1) best = rows.apply(Function::multiply, best, rows.number(scale_));
  const int now = rows.apply(Function::maximum, before, best);
  const int none = rows.apply(Function::equal, now, rows.number(lowest), -1, DType::boolean);
  const int shift = rows.apply(Function::select, none, rows.number(0), now);
  const int factor = rows.apply(Function::exp, rows.apply(Function::subtract, before, shift));
  rows.output(now, row("row_max", k));
  rows.output(shift, row("shift", k));
  rows.output(factor, row("factor", k));
  rows.output(rows.apply(Function::multiply, sum, factor), row("row_sum", k));
  return rows.op;
}

program::VectorOp AttentionLowering::weights(const Keys& k, bool changed) const {
  Compute each = over_products({k.rows, k.count});
  int x = each.input(scores("s", k));
  const int by = each.input(across("shift", k, k.count));
  if (!changed && scale_ != 1) x = each.apply(Function::multiply, x, each.number(scale_));
  const int weight = each.apply(Function::exp, each.apply(Function::subtract, x, by));
  each.output(weight, scores("p", k));
  each.reduced(weight, across("row_sum", k, k.count), Combiner::add, true);
  return each.op;
}

void AttentionLowering::emit_weights(const Keys& k, Block& block) const {
  if (p_.mask) load_mask(k, block);
  emit_either(k, [&](bool changed, bool hidden) { return largest_scores(k, changed, hidden); }, block);
  emit_either(k, [&](bool changed, bool) { return rescaled_rows(k, changed); }, block);
  emit_either(k, [&](bool changed, bool) { return weights(k, changed); }, block);
  Compute rescale = over_products({k.rows, p_.width});
  const int old = rescale.input(wide("acc", k, p_.width)), factor = rescale.input(across("factor", k, p_.width));
  rescale.output(rescale.apply(Function::multiply, old, factor), wide("acc", k, p_.width));
  block.push_back(statement(std::move(rescale.op)));
}

void AttentionLowering::emit_end(Block& block) const {
  if (plan_.splits > 1) return emit_part(block);
  Compute end = over({rows_, p_.width});
  const int sum = end.input(sums("acc")), weight = end.input(across("row_sum"));
  const int best = end.input(across("row_max"));
  const int unseen = end.apply(Function::equal, best, end.number(lowest), -1, DType::boolean);
  end.output(end.apply(Function::select, unseen, end.number(nothing()), end.apply(Function::divide, sum, weight)),
             sums("y"));
  block.push_back(statement(std::move(end.op)));
  if (has_lse()) block.push_back(statement(log_sum_exp("row_max", "row_sum")));
  block.push_back(statement(program::Store{rows_transfer(op_.results[0], p_.width, "y"), {}, 0}));
  if (has_lse()) block.push_back(statement(store_lse(first_, queries_, plan_.queries)));
}

program::VectorOp AttentionLowering::log_sum_exp(const char* best, const char* sum) const {
  Compute each = over({rows_});
  const int top = each.input(row(best)), weight = each.input(row(sum));
  const int none = each.apply(Function::equal, top, each.number(lowest), -1, DType::boolean);
  const int lse = each.apply(Function::add, top, each.apply(Function::log, weight));
  each.output(each.apply(Function::select, none, each.number(lowest), lse), row("lse"));
  return each.op;
}

program::Store AttentionLowering::store_lse(const Expr& first, const Expr& queries, std::int64_t stride) const {
  return {region_transfer(placement(op_.results[1]), {batch_, head_, first}, {Expr(1), heads_, queries}, {0, stride, 1},
                          "lse"),
          {},
          0};
}

void AttentionLowering::load_mask(const Keys& k, Block& block) const {
  const Expr starts[] = {batch_, head_, first_, k.start}, extents[] = {Expr(1), heads_, queries_, k.count};
  std::vector<Expr> start, extent;
  std::vector<std::int64_t> strides;
  for (std::size_t axis = 4 - mask_shape().size(); axis < 4; ++axis) {
    const bool spans = mask_spans(axis);
    start.push_back(spans ? starts[axis] : Expr(0));
    extent.push_back(spans ? extents[axis] : Expr(1));
    strides.push_back(axis == 3 ? 1 : plan_.keys);
  }
  block.push_back(
      statement(program::Load{region_transfer(placement(op_.operands[3]), start, extent, strides, "mask")}));
}

View AttentionLowering::mask_view(const Keys& k) const {
  const std::int64_t stride = mask_rows() ? plan_.keys : 0;
  return {"mask", 0, k.from * Expr(stride), {{k.rows, stride}, {k.count, mask_spans(3) ? 1 : 0}}};
}

}  // namespace tilesim::lower
