// Emits the statements of a chained-product kernel. For each block of rows, the array computes the next hidden channels
// while the vector unit processes the previous ones; the last product accumulates its sums.
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/chain/lowering.hpp"

namespace tilesim::lower {

using program::Block;

namespace {

Expr chain_part(std::int64_t extent, std::int64_t tile, const Expr& start) {
  return extent % tile == 0 ? Expr(tile) : min(Expr(tile), Expr(extent) - start);
}

Expr chain_index(const char* name, std::int64_t trips) { return trips > 1 ? Expr::symbol(name) : Expr(0); }

}  // namespace

ChainStrides ChainStrides::of(const ChainAxes& axes, std::int64_t rows, std::int64_t columns, std::int64_t channels) {
  ChainStrides strides;
  std::int64_t next = 1;
  for (int axis = std::max({axes.row, axes.column, axes.channel}); axis >= 0; --axis)
    if (axis == axes.row)
      strides.row = next, next *= rows;
    else if (axis == axes.column)
      strides.column = next, next *= columns;
    else if (axis == axes.channel)
      strides.channel = next, next *= channels;
  return strides;
}

ChainLowering::ChainLowering(Context& context, const Kernel& kernel, Chain chain, mapping::ChainPlan plan)
    : context_(context),
      kernel_(kernel),
      chain_(std::move(chain)),
      p_(chain_.problem),
      plan_(std::move(plan)),
      arrays_(std::max<std::int64_t>(1, context.machine.core.array.count)) {
  const std::int64_t rows = plan_.rows, hidden = plan_.hidden, span = p_.span_rows(rows), wide = p_.span_columns();
  columns_used_ = has(Stage::middle) ? std::min(p_.columns_in, wide - p_.column.pad) : p_.columns;
  const std::int64_t read = std::min(span, p_.rows_in);
  const ChainAxes& in = ops(has(Stage::first) ? Stage::first : Stage::middle).x;
  if (has(Stage::first)) {
    x_ = {"x", ChainStrides::of(in, p_.first_row.span(read), p_.first_column.span(columns_used_), p_.in)};
    sums_[0] = {"s0", ChainStrides::of(ops(Stage::first).y, read, columns_used_, hidden)};
    between_[0] = {"h0", ChainStrides::of(ops(Stage::first).y, span, wide, hidden)};
  } else {
    x_ = {"x", ChainStrides::of(in, span, wide, hidden)};
  }
  if (has(Stage::middle)) {
    const ChainStrides strides = ChainStrides::of(ops(Stage::middle).y, rows, p_.columns, hidden);
    sums_[1] = {"s1", strides};
    between_[1] = {"h1", strides};
    y_ = {"y", strides};
  }
  if (has(Stage::last)) {
    const ChainStrides strides = ChainStrides::of(ops(Stage::last).y, rows, p_.columns, p_.out);
    sums_[2] = {"s2", strides};
    y_ = {"y", strides};
  }
}

std::vector<Ring> ChainLowering::rings() const {
  std::vector<Ring> rings;
  for (const mapping::SlotRing& buffer : plan_.buffers) {
    Ring ring{buffer.name, buffer.dtype, buffer.elements, buffer.depth};
    ring.load_queue = buffer.name == "x" || context_.machine.core.dma.load_queues < 2 ? 0 : 1;
    ring.renewed = buffer.name != "s2";
    ring.accumulator = buffer.sums && context_.machine.core.scratchpad.accumulator_bytes > 0;
    rings.push_back(std::move(ring));
  }
  return rings;
}

void ChainLowering::find_block() {
  const std::int64_t blocks = ceil_div(p_.rows, plan_.rows);
  lead_ = chain_index("image", p_.lead);
  start_ = chain_index("rows", blocks) * Expr(plan_.rows);
  rows_ = chain_part(p_.rows, plan_.rows, start_);
  begin_ = low_ = start_;
  read_ = span_ = rows_;
  top_ = 0;
  if (!has(Stage::middle)) return;
  begin_ = start_ * Expr(p_.row.stride) - Expr(p_.row.pad);
  span_ = (rows_ - Expr(1)) * Expr(p_.row.stride) + Expr(p_.row.span(1));
  low_ = max(Expr(0), begin_);
  read_ = min(Expr(p_.rows_in), begin_ + span_) - low_;
  top_ = low_ - begin_;
}

void ChainLowering::find_tile(const Expr& number) {
  tile_ = number;
  channel_ = number * Expr(plan_.hidden);
  channels_ = chain_part(p_.hidden, plan_.hidden, channel_);
}

/// Loads the first product's input for the current block of rows.
void ChainLowering::load_rows(Block& block) const {
  if (!has(Stage::first)) return;
  const auto &row = p_.first_row, &column = p_.first_column;
  const Box box{lead_,
                low_ * Expr(row.stride) - Expr(row.pad),
                -column.pad,
                0,
                (read_ - Expr(1)) * Expr(row.stride) + Expr(row.span(1)),
                column.span(columns_used_),
                p_.in};
  program::Transfer transfer = region(anchor(Stage::first).operands[0], ops(Stage::first).x, box, x_);
  if (p_.first_taps() > 1) transfer.fill = 0.0;
  block.push_back(statement(program::Load{std::move(transfer)}));
}

void ChainLowering::emit_first(Block& block) const {
  if (!has(Stage::first)) return;
  if (!plan_.holds(Stage::first)) load_weights(Stage::first, block);
  multiply(Stage::first, x_, sums_[0], read_, p_.in, channels_, 0, block);
}

/// Emits the vector unit's work on a tile of hidden channels.
void ChainLowering::emit_vector(Block& block) const {
  if (has(Stage::first)) {
    const bool window = has(Stage::middle);
    ChainTile to = between_[0];
    if (window) to.offset = top_ * Expr(to.strides.row) + Expr(p_.column.pad * to.strides.column);
    if (window) clear_borders(block);
    finish(Stage::first, sums_[0], to, {lead_, low_, 0, channel_, read_, columns_used_, channels_}, block);
  } else {
    const Box box{lead_, begin_, -p_.column.pad, channel_, span_, p_.span_columns(), channels_};
    program::Transfer transfer = region(anchor(Stage::middle).operands[0], ops(Stage::middle).x, box, x_);
    transfer.fill = 0.0;
    block.push_back(statement(program::Load{std::move(transfer)}));
  }
  if (!has(Stage::middle)) return;
  slide(block);
  const Box box{lead_, start_, 0, channel_, rows_, p_.columns, channels_};
  finish(Stage::middle, sums_[1], has(Stage::last) ? between_[1] : y_, box, block);
  if (!has(Stage::last)) block.push_back(store(Stage::middle, box));
}

void ChainLowering::emit_last(Block& block) const {
  if (!has(Stage::last)) return;
  const ChainTile& from = between_[has(Stage::middle) ? 1 : 0];
  if (!plan_.holds(Stage::last)) load_weights(Stage::last, block);
  multiply(Stage::last, from, sums_[2], rows_, channels_, p_.out, less(Expr(0), tile_), block);
}

program::Statement ChainLowering::store(Stage stage, const Box& box) const {
  return statement(program::Store{region(ops(stage).result, ops(stage).y, box, y_), {}, 0});
}

/// Emits the statements of one block of rows.
Block ChainLowering::block() {
  const std::int64_t tiles = ceil_div(p_.hidden, plan_.hidden);
  Block all, each;
  find_block();
  load_rows(all);
  load_held(all);
  find_tile(0);
  emit_first(all);
  const Expr number = Expr::symbol("hidden");
  find_tile(number);
  emit_vector(each);
  find_tile(number + Expr(1));
  emit_first(each);
  find_tile(number);
  emit_last(each);
  if (tiles > 1) all.push_back(loop("hidden", Expr(tiles - 1), std::move(each)));
  find_tile(tiles - 1);
  emit_vector(all);
  emit_last(all);
  if (!has(Stage::last)) return all;
  const Box box{lead_, start_, 0, 0, rows_, p_.columns, p_.out};
  finish(Stage::last, sums_[2], y_, box, all);
  all.push_back(store(Stage::last, box));
  return all;
}

program::Scope ChainLowering::lower() {
  Block body = block();
  const auto around = [&](const char* name, std::int64_t trips) {
    if (trips == 1) return;
    Block inner = std::move(body);
    body.clear();
    body.push_back(loop(name, Expr(trips), std::move(inner)));
  };
  around("rows", ceil_div(p_.rows, plan_.rows));
  around("image", p_.lead);
  return write_kernel(named_scope(context_, kernel_), rings(), std::move(body));
}

Lowered lower_chain(Context& context, const Kernel& kernel) {
  std::vector<const Kernel*> stages;
  for (const Kernel& stage : kernel.stages) stages.push_back(&stage);
  auto found = find_chain(context, stages);
  const Op& op = context.function.ops[at(kernel.anchor)];
  if (const auto* why = std::get_if<std::string>(&found)) return Refusal{{*why, op.name, {}, {}, {}}};
  Chain& chain = std::get<Chain>(found);
  std::optional<mapping::ChainPlan> plan = mapping::plan_chain(chain.problem, context.machine);
  if (!plan) return Refusal{{"no tile of rows and hidden channels fits the scratchpad", op.name, {}, {}, {}}};
  return ChainLowering(context, kernel, std::move(chain), std::move(*plan)).lower();
}

}  // namespace tilesim::lower
