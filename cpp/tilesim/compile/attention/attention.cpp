// The statements of an attention kernel. Per row of a tile of queries: largest score so far, sum of weights, weighted
// sum of values. Scores of the next keys are multiplied while the vector unit has those before.
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
  const std::optional<AttentionPlan> plan = mapping::plan_attention(p_, context_.machine);
  require(plan.has_value(), "an attention was kept whole of which no tile fits");
  plan_ = *plan;
  scale_ = plan_.folds ? 1 : scale();
  add_slots();
  scope_.body = body();
  return std::move(scope_);
}

void AttentionLowering::find_tile(const Expr& part) {
  batch_ = index("batch", p_.batch);
  group_ = index("group", p_.key_heads);
  const Expr head_tile = index("heads", head_tiles());
  number_ = index("tile", plan_.per_part);
  tile_ = part * Expr(plan_.per_part) + number_;
  first_ = tile_ * Expr(plan_.queries);
  queries_ = part_of(p_.queries, plan_.queries, first_);
  head_ = group_ * Expr(p_.shared()) + head_tile * Expr(plan_.heads);
  heads_ = part_of(p_.shared(), plan_.heads, head_tile * Expr(plan_.heads));
  rows_ = plan_.heads == 1 ? queries_ : heads_ * Expr(plan_.queries);
  tiles_here_ = part_of(tiles(), plan_.per_part, part * Expr(plan_.per_part));
  begin_ = begin_of(first_);
  end_ = end_of(first_ + queries_);
  trips_ = p_.hides() ? max(Expr(0), end_ - begin_) : end_;
  part_begin_ = begin_of(part * Expr(plan_.per_part * plan_.queries));
}

void AttentionLowering::add_slots() {
  for (const AttentionPlan::Buffer& buffer : plan_.buffers) {
    program::Slot slot = ring_slot(buffer.name, buffer.dtype, buffer.elements, "vector", buffer.depth);
    const std::string& name = slot.name;
    if (name == "q" || name == "k" || name == "v" || name == "p") slot.consumers = arrays();
    if (name == "y") slot.consumers = {"store0"};
    slot.accumulator = buffer.sums && context_.machine.core.scratchpad.accumulator_bytes > 0;
    scope_.slots.push_back(std::move(slot));
  }
}

void AttentionLowering::load_queries(Block& block) const {
  acquire("q", {load_queue(0)}, block);
  block.push_back(on(load_queue(0), program::Load{rows_transfer(op_.operands[0], p_.depth, "q")}));
  block.push_back(on(load_queue(0), program::Commit{"q", 0, 1}));
  if (plan_.folds) {
    const View all{"q", 0, 0, {{rows_, p_.depth}, {p_.depth, 1}}};
    wait("q", 1, "vector", block);
    Compute scaled = over({rows_, p_.depth});
    const int x = scaled.input(all, p_.stored);
    scaled.output(scaled.apply(Function::multiply, x, scaled.number(scale())), all);
    on_vector(std::move(scaled.op), block);
    on_vector(program::Commit{"q", 0, 1}, block);
  }
  for_arrays(block, program::Wait{"q", 0, {}, 0, plan_.folds ? 2 : 1});
}

program::Transfer AttentionLowering::rows_transfer(ValueId value, std::int64_t width, const std::string& slot) const {
  return region_transfer(placement(value), {batch_, head_, first_, Expr(0)}, {Expr(1), heads_, queries_, Expr(width)},
                         {0, plan_.queries * width, width, 1}, slot);
}

/// Tiles of keys that stay are loaded by the first tile of queries that sees them.
void AttentionLowering::load_keys(const Keys& k, const char* slot, std::size_t operand, std::int64_t width,
                                  Block& block) const {
  const std::string queue = load_queue(static_cast<std::int64_t>(operand) - 1);
  program::Transfer transfer = region_transfer(placement(op_.operands[operand]), {batch_, group_, k.start, Expr(0)},
                                               {Expr(1), Expr(1), k.count, Expr(width)}, {0, 0, width, 1}, slot);
  if (plan_.resident) transfer.offset = k.start * Expr(width);
  Block load;
  load.push_back(on(queue, program::Load{std::move(transfer)}));
  load.push_back(on(queue, program::Commit{slot, 0, 1}));
  if (!plan_.resident) acquire(slot, {queue}, block);
  if (plan_.resident && plan_.per_part > 1) {
    const Expr fresh = logical_or(equal(number_, Expr(0)), less_equal(end_of(first_), k.tile));
    block.push_back(on("", program::If{fresh, std::move(load), {}}));
  } else {
    std::move(load.begin(), load.end(), std::back_inserter(block));
  }
  for_arrays(block, program::Wait{slot, 0, {}, 0, plan_.resident ? k.tile - part_begin_ + Expr(1) : Expr(1)});
}

/// Rows of the tile are shared by the arrays.
void AttentionLowering::multiply(const View& a, std::int64_t a_width, const View& b, const View& c,
                                 std::int64_t c_width, bool accumulate, Block& block) const {
  const std::int64_t chunk = ceil_div(plan_.rows(), arrays_);
  for (std::int64_t i = 0; i < arrays_; ++i) {
    const Expr rows = arrays_ == 1 ? rows_ : max(Expr(0), min(Expr(chunk), rows_ - Expr(i * chunk)));
    program::MmaOp mma;
    mma.a = a;
    mma.b = b;
    mma.c = c;
    mma.a.dims[0].extent = mma.c.dims[0].extent = rows;
    mma.a.offset = mma.a.offset + Expr(i * chunk * a_width);
    mma.c.offset = mma.c.offset + Expr(i * chunk * c_width);
    mma.accumulate = accumulate ? 1 : 0;
    mma.numerics = context_.machine.core.array.numerics;
    mma.stationary_a = plan_.queries_stay;
    Block one;
    one.push_back(on("mma" + std::to_string(i), std::move(mma)));
    if (rows.is_constant() && rows.value() == 0) continue;
    if (rows.is_constant() || i == 0)
      block.push_back(std::move(one[0]));
    else
      block.push_back(on("", program::If{less(Expr(0), rows), std::move(one), {}}));
  }
}

void AttentionLowering::emit_scores(const Keys& k, Block& block) const {
  load_keys(k, "k", 1, p_.depth, block);
  acquire("s", arrays(), block);
  multiply({"q", 0, 0, {{rows_, p_.depth}, {p_.depth, 1}}}, p_.depth,
           {"k", 0, offset_of(k, p_.depth), {{p_.depth, 1}, {k.count, p_.depth}}},
           {"s", 0, 0, {{rows_, plan_.keys}, {k.count, 1}}}, plan_.keys, false, block);
  if (!plan_.resident) for_arrays(block, program::Release{"k", 0});
  for_arrays(block, program::Commit{"s", 0, 1});
}

void AttentionLowering::emit_sums(const Keys& k, Block& block) const {
  load_keys(k, "v", 2, p_.width, block);
  for_arrays(block, program::Wait{"p", 0, {}, 0, 1});
  for_arrays(block, program::Wait{"acc", 0, {}, 0, sums_before(k.number) + Expr(1)});
  multiply({"p", 0, 0, {{rows_, plan_.keys}, {k.count, 1}}}, plan_.keys,
           {"v", 0, offset_of(k, p_.width), {{k.count, p_.width}, {p_.width, 1}}},
           {"acc", 0, 0, {{rows_, p_.width}, {p_.width, 1}}}, p_.width, true, block);
  for_arrays(block, program::Release{"p", 0});
  if (!plan_.resident) for_arrays(block, program::Release{"v", 0});
  for_arrays(block, program::Commit{"acc", 0, 1});
}

Block AttentionLowering::tile() const {
  Block block;
  load_queries(block);
  emit_start(block);
  for (program::Statement& statement : all_keys()) block.push_back(std::move(statement));
  emit_end(block);
  return block;
}

/// A tile's keys; products that give the next scores stand before those that take the weights at hand.
Block AttentionLowering::all_keys() const {
  if (trips_.is_constant() && trips_.value() < 1) return {};
  Block block, each;
  const Expr number = Expr::symbol("keys"), turns = trips_ - Expr(1);
  emit_scores(keys(0), block);
  emit_weights(keys(number), each);
  emit_scores(keys(number + Expr(1)), each);
  emit_sums(keys(number), each);
  if (!turns.is_constant() || turns.value() > 0) block.push_back(loop("keys", turns, std::move(each)));
  emit_weights(keys(turns), block);
  emit_sums(keys(turns), block);
  if (trips_.is_constant()) return block;
  Block some;
  some.push_back(on("", program::If{less(Expr(0), trips_), std::move(block), {}}));
  return some;
}

Block AttentionLowering::part(const Expr& number) {
  find_tile(number);
  Block block = plan_.per_part > 1 ? around("tile", tiles_here_, tile()) : tile();
  if (!plan_.resident) return block;
  Block whole;
  acquire("k", {load_queue(0)}, whole);
  acquire("v", {load_queue(1)}, whole);
  for (program::Statement& statement : block) whole.push_back(std::move(statement));
  for_arrays(whole, program::Release{"k", 0});
  for_arrays(whole, program::Release{"v", 0});
  return whole;
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
  block = around("heads", head_tiles(), std::move(block));
  block = around("group", p_.key_heads, std::move(block));
  return around("batch", p_.batch, std::move(block));
}

program::Scope lower_attention(Context& context, const Kernel& kernel) {
  return AttentionLowering(context, kernel).lower();
}

}  // namespace tilesim::lower
