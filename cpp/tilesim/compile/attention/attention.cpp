// Emits the statements of an attention kernel. Each row of a tile of queries keeps its largest score, sum of weights
// and weighted sum of values. Arrays compute the next scores while the vector unit processes the previous ones.
#include <algorithm>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/compile/attention/lowering.hpp"
#include "tilesim/compile/vector/tiling.hpp"

namespace tilesim::lower {

using mapping::AttentionPlan;
using program::Block;
using program::View;

program::Scope AttentionLowering::lower() {
  scope_ = named_scope(context_, kernel_);
  refuse_tiles(context_, kernel_);
  std::optional<AttentionPlan> plan;
  const AttentionPlans* planned = context_.choices.attentions.get();
  if (planned && planned->known.contains(p_))
    plan = planned->known.at(p_);
  else
    plan = mapping::plan_attention(p_, context_.machine);
  require(plan.has_value(), "no tile of a fused attention fits");
  plan_ = *plan;
  scale_ = plan_.folds ? 1 : scale();
  find_tables();
  held_ = plan_.resident && plan_.per_part > 1;
  if (plan_.splits > 1) return in_parts();
  return behind_tables(write_kernel(std::move(scope_), rings(), body()));
}

void AttentionLowering::find_row() {
  batch_ = index("batch", p_.batch);
  length_ = lengths_.empty() ? Expr(p_.keys) : Expr::read(lengths_, {batch_});
  offset_ = p_.ends ? length_ - Expr(p_.queries) : Expr(p_.offset);
}

void AttentionLowering::find_trip(const Expr& part) {
  find_row();
  head_tile_ = index("heads", head_tiles());
  first_group_ = index("group", ceil_div(p_.key_heads, plan_.groups)) * Expr(plan_.groups);
  groups_here_ = part_of(p_.key_heads, plan_.groups, first_group_);
  split_ = index("split", plan_.splits);
  part_ = part;
  tiles_here_ = part_of(tiles(), plan_.per_part, part * Expr(plan_.per_part));
  part_begin_ = begin_of(part * Expr(plan_.per_part * plan_.queries));
  const Expr last = min(Expr(p_.queries), (part + Expr(1)) * Expr(plan_.per_part * plan_.queries));
  sees_ = p_.all_see() ? Expr(1) : less(part_begin_, end_of(last));
}

/// Sets the current tile of queries to tile `number` of the trip.
void AttentionLowering::find_tile(const Expr& number) {
  const bool several = plan_.groups > 1;
  number_ = several ? modulo(number, plan_.per_part) : number;
  group_ = several ? first_group_ + floor_div(number, plan_.per_part) : first_group_;
  tile_ = part_ * Expr(plan_.per_part) + number_;
  first_ = tile_ * Expr(plan_.queries);
  queries_ = part_of(p_.queries, plan_.queries, first_);
  head_ = group_ * Expr(p_.shared()) + head_tile_ * Expr(plan_.heads);
  heads_ = part_of(p_.shared(), plan_.heads, head_tile_ * Expr(plan_.heads));
  rows_ = plan_.heads == 1 ? queries_ : heads_ * Expr(plan_.queries);
  begin_ = begin_of(first_);
  end_ = end_of(first_ + queries_);
  trips_ = p_.all_see() ? end_ - begin_ : ceil_div(max(Expr(0), end_ - begin_), apart());
}

AttentionLowering::Keys AttentionLowering::keys(const Expr& number) const {
  Keys k{number, begin_ + number * Expr(apart()), 0, 0, 0, rows_};
  k.start = k.tile * Expr(plan_.keys);
  k.count = p_.lengths ? min(Expr(plan_.keys), length_ - k.start) : part_of(p_.keys, plan_.keys, k.start);
  if (!p_.hides() || plan_.heads > 1) return k;
  const Expr nearest = k.start - first_ - offset_;  // first row that sees the first key
  if (p_.causal) k.from = max(Expr(0), nearest);
  Expr to = rows_;
  if (p_.window > 0) to = min(rows_, nearest + k.count + Expr(p_.window - 1));
  k.rows = to - k.from;
  return k;
}

std::vector<Ring> AttentionLowering::rings() const {
  std::vector<Ring> rings;
  for (const mapping::SlotRing& buffer : plan_.buffers) {
    const std::string& name = buffer.name;
    Ring ring{name, buffer.dtype, buffer.elements, buffer.depth};
    const bool keys = name == "k" || name == "v";
    if (keys && plan_.resident && !held_) {  // the bytes for all keys hold so many tiles
      ring.elements = buffer.elements / p_.keys * std::min(plan_.keys, p_.keys);
      const auto bytes = [&](std::int64_t elements) { return round_up(elements * host_bytes(buffer.dtype), 64); };
      ring.depth = std::max(buffer.depth, buffer.depth * bytes(buffer.elements) / bytes(ring.elements));
    }
    ring.load_queue = (name == "v" || name == "mask" ? 1 : 0) % loads_;
    ring.counted = keys && held_;
    if (name == "row_max" || name == "row_sum") ring.carried = "keys";
    ring.renewed = !ring.counted;
    ring.accumulator = buffer.sums && context_.machine.core.scratchpad.accumulator_bytes > 0;
    rings.push_back(std::move(ring));
  }
  return rings;
}

void AttentionLowering::load_queries(Block& block) const {
  block.push_back(statement(program::Load{rows_transfer(op_.operands[0], p_.depth, "q")}));
  if (!plan_.folds) return;
  const View all{"q", 0, 0, {{rows_, p_.depth}, {p_.depth, 1}}};
  Compute scaled = over({rows_, p_.depth});
  const int x = scaled.input(all, p_.stored);
  scaled.output(scaled.apply(Function::multiply, x, scaled.number(scale())), all);
  block.push_back(statement(std::move(scaled.op)));
}

program::Transfer AttentionLowering::rows_transfer(ValueId value, std::int64_t width, const std::string& slot) const {
  return region_transfer(placement(value), {batch_, head_, first_, Expr(0)}, {Expr(1), heads_, queries_, Expr(width)},
                         {0, plan_.queries * width, width, 1}, slot);
}

void AttentionLowering::load_keys(const Keys& k, const char* slot, std::size_t operand, std::int64_t width,
                                  Block& block) const {
  Expr fresh = 1;
  if (held_) fresh = logical_or(equal(number_, Expr(0)), less_equal(end_of(first_), k.tile));
  Block fetched = key_transfers(k, slot, operand, width);
  if (held_) fetched.push_back(complete(slot));
  where(fresh, std::move(fetched), block);
}

Block AttentionLowering::key_transfers(const Keys& k, const char* slot, std::size_t operand, std::int64_t width) const {
  const auto rows = [&](const Expr& lead, const Expr& start, const Expr& count, const Expr& offset) {
    program::Transfer transfer = region_transfer(placement(op_.operands[operand]), {lead, group_, start, Expr(0)},
                                                 {Expr(1), Expr(1), count, Expr(width)}, {0, 0, width, 1}, slot);
    transfer.offset = offset;
    Block block;
    block.push_back(statement(program::Load{std::move(transfer)}));
    return block;
  };
  const Expr base = offset_of(k, width);
  if (pages_.empty()) return rows(batch_, k.start, k.count, base);
  const Expr first = floor_div(k.start, p_.page);
  const auto page = [&](const Expr& number) { return Expr::read(pages_, {batch_, number}); };
  if (plan_.keys <= p_.page) return rows(page(first), modulo(k.start, p_.page), k.count, base);
  const Expr number = Expr::symbol("page"), before = number * Expr(p_.page);
  const Expr count = min(Expr(p_.page), k.count - before);
  Block all;
  all.push_back(
      loop("page", ceil_div(k.count, p_.page), rows(page(first + number), 0, count, base + before * Expr(width))));
  return all;
}

namespace {

/// Transposes the product: swaps its factors and the dims of each view.
void turn(program::MmaOp& mma) {
  std::swap(mma.a, mma.b);
  for (View* view : {&mma.a, &mma.b, &mma.c}) std::swap(view->dims[0], view->dims[1]);
}

}  // namespace

void AttentionLowering::multiply(const Arrays& arrays, const Keys& k, const View& a, const View& b, const View& c,
                                 bool accumulate, Block& block) const {
  const std::int64_t count = arrays.count;
  const Expr chunk = k.rows.is_constant()             ? Expr(ceil_div(k.rows.value(), count))
                     : p_.hides() && plan_.heads == 1 ? floor_div(k.rows + Expr(count - 1), count)
                                                      : Expr(ceil_div(plan_.rows(), count));
  for (std::int64_t i = 0; i < count; ++i) {
    const Expr rows = count == 1 ? k.rows : max(Expr(0), min(chunk, k.rows - chunk * Expr(i)));
    program::MmaOp mma;
    mma.a = a;
    mma.b = b;
    mma.c = c;
    mma.a.dims[0].extent = mma.c.dims[0].extent = rows;
    mma.a.offset = mma.a.offset + chunk * Expr(i * a.dims[0].stride);
    mma.c.offset = mma.c.offset + chunk * Expr(i * c.dims[0].stride);
    mma.accumulate = accumulate ? 1 : 0;
    mma.numerics = context_.machine.core.array.numerics;
    mma.stationary_a = plan_.queries_stay != plan_.turned;
    if (plan_.turned) turn(mma);
    Block one;
    one.push_back(on("mma" + std::to_string(arrays.first + i), std::move(mma)));
    if (i == 0 || (rows.is_constant() && rows.value() > 0))
      block.push_back(std::move(one[0]));
    else
      block.push_back(on("", program::If{less(Expr(0), rows), std::move(one), {}}));
  }
}

void AttentionLowering::emit_scores(const Keys& k, bool held, Block& block) const {
  if (!held) {
    load_keys(k, "k", 1, p_.depth, block);
    count_keys(k, "k", block);
  }
  multiply(scorers(), k, wide("q", k, p_.depth), {"k", 0, offset_of(k, p_.depth), {{p_.depth, 1}, {k.count, p_.depth}}},
           scores("s", k), false, block);
}

void AttentionLowering::emit_sums(const Keys& k, Block& block) const {
  count_keys(k, "v", block);
  multiply(summers(), k, scores("p", k), {"v", 0, offset_of(k, p_.width), {{k.count, p_.width}, {p_.width, 1}}},
           wide("acc", k, p_.width), true, block);
}

void AttentionLowering::where(const Expr& condition, Block statements, Block& block) const {
  if (statements.empty() || (condition.is_constant() && condition.value() == 0)) return;
  if (condition.is_constant())
    for (program::Statement& statement : statements) block.push_back(std::move(statement));
  else
    block.push_back(on("", program::If{condition, std::move(statements), {}}));
}

void AttentionLowering::emit_begin(bool follows, Block& block) const {
  load_queries(block);
  // The first query of a tile sees only keys that the last query of the previous tile saw, unless the window is 1.
  const bool held = follows && held_ && plan_.groups == 1 && p_.window != 1;
  if (p_.all_see()) emit_scores(keys(0), held, block);
}

/// Releases a ring of keys that stay. If the part sees none, nothing has waited for the ring.
Block AttentionLowering::release_held(const char* slot) const {
  if (!held_) return {};
  Block block;
  where(logical_not(sees_), {counted(slot, 0)}, block);
  block.push_back(released(slot));
  return block;
}

Block AttentionLowering::tile(const Expr& number, bool next) {
  Block block;
  find_tile(number);
  emit_start(block);
  all_keys(number, next, block);
  find_tile(number);
  emit_end(block);
  return block;
}

/// Processes all keys of a tile; products for the next scores precede products with the current weights.
void AttentionLowering::all_keys(const Expr& number, bool next, Block& block) {
  Block each, last, sums;
  if (!p_.all_see()) emit_scores(keys(0), false, last);
  const Expr at = Expr::symbol("keys"), turns = most_trips() > 1 ? trips_ - Expr(1) : Expr(0);
  emit_weights(keys(at), each);
  emit_scores(keys(at + Expr(1)), false, each);
  load_values(keys(at), each);
  emit_sums(keys(at), each);
  if (turns.is_constant() && turns.value() < 1) each.clear();
  if (!each.empty()) last.push_back(loop("keys", turns, std::move(each)));
  emit_weights(keys(turns), last);
  load_values(keys(turns), last);
  emit_sums(keys(turns), p_.all_see() ? sums : last);
  where(p_.all_see() ? Expr(1) : less(Expr(0), trips_), std::move(last), block);
  const bool none = sees_none();
  const Expr ends = equal(number_, tiles_here_ - Expr(1)), more = next ? less(number + Expr(1), sequence()) : Expr(0);
  where(ends, release_held("k"), block);
  if (next) {
    Block following;
    where(ends, begin_held("k"), following);
    find_tile(number + Expr(1));
    if (!none) emit_begin(true, following);
    where(more, std::move(following), block);
  }
  where(1, std::move(sums), block);
  where(ends, release_held("v"), block);
  where(logical_and(ends, more), begin_held("v"), block);
}

Block AttentionLowering::part(const Expr& number) {
  find_trip(number);
  Block block;
  for (const char* slot : {"k", "v"}) where(1, begin_held(slot), block);
  const bool one = sequence().is_constant() && sequence().value() == 1;
  const Expr first = one ? Expr(0) : Expr::symbol("tile");
  find_tile(first);
  const bool none = sees_none();
  find_tile(0);
  if (!none) emit_begin(false, block);
  Block tiles = tile(first, !one);
  for (program::Statement& statement : around("tile", sequence(), std::move(tiles)))
    block.push_back(std::move(statement));
  return block;
}

Block AttentionLowering::body() {
  const std::int64_t trips = plan_.paired ? ceil_div(parts(), 2) : parts();
  const Expr number = index("part", trips);
  Block block = part(number);
  if (plan_.paired) {
    const Expr other = Expr(parts() - 1) - number;
    Block last = part(other);
    if (parts() % 2 == 0)
      for (program::Statement& statement : last) block.push_back(std::move(statement));
    else
      block.push_back(on("", program::If{less(number, other), std::move(last), {}}));
  }
  block = around("part", trips, std::move(block));
  block = around("split", plan_.splits, std::move(block));
  block = around("heads", head_tiles(), std::move(block));
  block = around("group", ceil_div(p_.key_heads, plan_.groups), std::move(block));
  return around("batch", p_.batch, std::move(block));
}

program::Scope lower_attention(Context& context, const Kernel& kernel) {
  return AttentionLowering(context, kernel).lower();
}

}  // namespace tilesim::lower
