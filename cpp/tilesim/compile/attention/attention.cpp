// The statements of an attention kernel. Per row of a tile of queries: largest score so far, sum of weights, weighted
// sum of values. Scores of the next keys are multiplied while the vector unit has those before.
#include "tilesim/compile/attention/attention.hpp"

#include <cmath>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/compile/vector/vector.hpp"

namespace tilesim::lower {

using mapping::AttentionPlan;
using mapping::AttentionProblem;
using program::Block;
using program::View;

namespace {

constexpr double lowest = -std::numeric_limits<double>::infinity();

class AttentionLowering {
 public:
  AttentionLowering(Context& context, const Kernel& kernel)
      : context_(context),
        kernel_(kernel),
        op_(context.function.ops[at(kernel.ops[0])]),
        p_(*attention_problem(context.function, op_, context.machine)),
        arrays_(context.machine.core.array.count),
        loads_(std::max<std::int64_t>(1, context.machine.core.dma.load_queues)),
        cap_(op_.attributes.number("soft_cap", 0)) {}

  program::Scope lower() {
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

 private:
  // ---- Tiles

  static Expr index(const char* name, std::int64_t trips) { return trips > 1 ? Expr::symbol(name) : Expr(0); }
  static Expr part_of(std::int64_t extent, std::int64_t tile, const Expr& start) {
    return extent % tile == 0 ? Expr(tile) : min(Expr(tile), Expr(extent) - start);
  }
  std::int64_t tiles() const { return ceil_div(p_.queries, plan_.queries); }
  std::int64_t parts() const { return ceil_div(tiles(), plan_.per_part); }
  std::int64_t head_tiles() const { return ceil_div(p_.shared(), plan_.heads); }

  void find_tile(const Expr& part) {
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

  /// Tiles of keys that a query from `first` on sees; that one before `last` sees.
  Expr begin_of(const Expr& first) const {
    if (p_.window == 0) return 0;
    return max(Expr(0), floor_div(first + Expr(p_.offset - p_.window + 1), plan_.keys));
  }
  Expr end_of(const Expr& last) const {
    if (!p_.causal) return ceil_div(p_.keys, plan_.keys);
    return ceil_div(min(Expr(p_.keys), max(Expr(0), last + Expr(p_.offset))), plan_.keys);
  }

  /// One tile of keys: its number from the tile's first one on, and where it lies.
  struct Keys {
    Expr number, tile, start, count;
  };
  Keys keys(const Expr& number) const {
    Keys result{number, begin_ + number, 0, 0};
    result.start = result.tile * Expr(plan_.keys);
    result.count = part_of(p_.keys, plan_.keys, result.start);
    return result;
  }

  double scale() const { return op_.attributes.number("scale", 1 / std::sqrt(static_cast<double>(p_.depth))); }

  // ---- Slots and transfers

  std::vector<std::string> arrays() const {
    std::vector<std::string> queues;
    for (std::int64_t i = 0; i < arrays_; ++i) queues.push_back("mma" + std::to_string(i));
    return queues;
  }

  void add_slots() {
    for (const AttentionPlan::Buffer& buffer : plan_.buffers) {
      program::Slot slot = ring_slot(buffer.name, buffer.dtype, buffer.elements, "vector", buffer.depth);
      const std::string& name = slot.name;
      if (name == "q" || name == "k" || name == "v" || name == "p") slot.consumers = arrays();
      if (name == "y") slot.consumers = {"store0"};
      slot.accumulator = buffer.sums && context_.machine.core.scratchpad.accumulator_bytes > 0;
      scope_.slots.push_back(std::move(slot));
    }
  }

  const Placement& placement(ValueId value) const { return context_.placements[at(value)]; }
  std::string load_queue(std::int64_t number) const { return "load" + std::to_string(number % loads_); }

  static void acquire(const std::string& slot, std::vector<std::string> queues, Block& block) {
    block.push_back(on("", program::Acquire{slot, std::move(queues)}));
  }
  void for_arrays(Block& block, const program::Action& action) const {
    for (const std::string& queue : arrays()) block.push_back(on(queue, action));
  }
  static void wait(const std::string& slot, const Expr& pieces, const std::string& queue, Block& block) {
    block.push_back(on(queue, program::Wait{slot, 0, {}, 0, pieces}));
  }
  static void on_vector(const program::Action& action, Block& block) { block.push_back(on("vector", action)); }

  void load_queries(Block& block) const {
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

  program::Transfer rows_transfer(ValueId value, std::int64_t width, const std::string& slot) const {
    return region_transfer(placement(value), {batch_, head_, first_, Expr(0)},
                           {Expr(1), heads_, queries_, Expr(width)}, {0, plan_.queries * width, width, 1}, slot);
  }

  /// Tiles of keys that stay are loaded by the first tile of queries that sees them.
  void load_keys(const Keys& k, const char* slot, std::size_t operand, std::int64_t width, Block& block) const {
    const std::string queue = load_queue(static_cast<std::int64_t>(operand) - 1);
    program::Transfer transfer =
        region_transfer(placement(op_.operands[operand]), {batch_, group_, k.start, Expr(0)},
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

  Expr offset_of(const Keys& k, std::int64_t width) const {
    return plan_.resident ? k.start * Expr(width) : Expr(0);
  }

  // ---- Products

  /// Rows of the tile are shared by the arrays.
  void multiply(const View& a, std::int64_t a_width, const View& b, const View& c, std::int64_t c_width,
                bool accumulate, Block& block) const {
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

  void emit_scores(const Keys& k, Block& block) const {
    load_keys(k, "k", 1, p_.depth, block);
    acquire("s", arrays(), block);
    multiply({"q", 0, 0, {{rows_, p_.depth}, {p_.depth, 1}}}, p_.depth,
             {"k", 0, offset_of(k, p_.depth), {{p_.depth, 1}, {k.count, p_.depth}}},
             {"s", 0, 0, {{rows_, plan_.keys}, {k.count, 1}}}, plan_.keys, false, block);
    if (!plan_.resident) for_arrays(block, program::Release{"k", 0});
    for_arrays(block, program::Commit{"s", 0, 1});
  }

  /// Each tile of keys: the vector unit rescales the sums, each array adds to its rows.
  Expr sums_before(const Expr& number) const { return number * Expr(1 + arrays_) + Expr(1); }

  void emit_sums(const Keys& k, Block& block) const {
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

  // ---- Vector computes

  /// A compute over rows, or rows and columns.
  struct Compute {
    program::VectorOp op;
    int input(View view, DType dtype = DType::f32) {
      op.inputs.push_back(std::move(view));
      return add_node(op.nodes,
                      {.op = VectorNode::Op::input, .index = static_cast<int>(op.inputs.size()) - 1, .dtype = dtype});
    }
    int number(double value) {
      return add_node(op.nodes, {.op = VectorNode::Op::constant, .number = value, .dtype = DType::f32});
    }
    int apply(Function function, int a, int b = -1, int c = -1, DType dtype = DType::f32) {
      return add_node(op.nodes,
                      {.op = VectorNode::Op::function, .function = function, .arguments = {a, b, c}, .dtype = dtype});
    }
    int position(int dim, const Expr& start, std::int64_t period = 0) {
      int at = add_node(op.nodes, {.op = VectorNode::Op::iota, .index = dim, .dtype = DType::i32});
      if (period > 0) {
        const int by = add_node(
            op.nodes,
            {.op = VectorNode::Op::constant, .number = static_cast<double>(period), .dtype = DType::i32});
        at = apply(Function::remainder, at, by, -1, DType::i32);
      }
      op.nodes.push_back({{.op = VectorNode::Op::scalar, .dtype = DType::i32}, start});
      return apply(Function::add, at, static_cast<int>(op.nodes.size()) - 1, -1, DType::i32);
    }
    void output(int node, View view) { op.outputs.push_back({node, std::move(view), {}, Combiner::add, 0}); }
    void reduced(int node, View view, Combiner combiner, bool accumulate) {
      op.outputs.push_back({node, std::move(view), {1}, combiner, accumulate ? 1 : 0});
    }
  };
  Compute over(const std::vector<Expr>& extents) const {
    Compute compute;
    compute.op.extents = extents;
    compute.op.lane_dim = static_cast<int>(extents.size()) - 1;
    return compute;
  }
  View row(const std::string& slot) const { return {slot, 0, 0, {{rows_, 1}}}; }
  View across(const std::string& slot, const Expr& columns) const { return {slot, 0, 0, {{rows_, 1}, {columns, 0}}}; }
  View scores(const std::string& slot, const Keys& k) const {
    return {slot, 0, 0, {{rows_, plan_.keys}, {k.count, 1}}};
  }
  View sums(const std::string& slot) const { return {slot, 0, 0, {{rows_, p_.width}, {p_.width, 1}}}; }

  void emit_start(Block& block) const {
    acquire("row_max", {"vector"}, block);
    acquire("row_sum", {"vector"}, block);
    acquire("acc", {"vector"}, block);
    Compute rows = over({rows_});
    rows.output(rows.number(lowest), row("row_max"));
    rows.output(rows.number(0), row("row_sum"));
    on_vector(std::move(rows.op), block);
    on_vector(program::Commit{"row_sum", 0, 1}, block);
    Compute start = over({rows_, p_.width});
    start.output(start.number(0), sums("acc"));
    on_vector(std::move(start.op), block);
    on_vector(program::Commit{"acc", 0, 1}, block);
    wait("row_sum", 1, "vector", block);
  }

  /// Some query of the tile does not see some key of the tile.
  Expr hides(const Keys& k) const {
    Expr result = 0;
    if (p_.causal) result = less(first_ + Expr(p_.offset), k.start + k.count - Expr(1));
    if (p_.window > 0) {
      const Expr near = less_equal(k.start, first_ + queries_ + Expr(p_.offset - p_.window - 1));
      result = p_.causal ? logical_or(result, near) : near;
    }
    return result;
  }

  int visible(Compute& compute, const Keys& k) const {
    const int key = compute.position(1, k.start);
    const auto query = [&](std::int64_t by) {
      return compute.position(0, first_ + Expr(by), plan_.heads > 1 ? plan_.queries : 0);
    };
    int seen = -1;
    if (p_.causal) seen = compute.apply(Function::less_equal, key, query(p_.offset), -1, DType::boolean);
    if (p_.window > 0) {
      const int near =
          compute.apply(Function::greater, key, query(p_.offset - p_.window), -1, DType::boolean);
      seen = seen < 0 ? near : compute.apply(Function::logical_and, seen, near, -1, DType::boolean);
    }
    return seen;
  }

  /// Scaled, capped, biased and masked scores take the place of the products.
  void change_scores(const Keys& k, bool hidden, Block& block) const {
    Compute change = over({rows_, k.count});
    int x = change.input(scores("s", k));
    if (scale_ != 1) x = change.apply(Function::multiply, x, change.number(scale_));
    if (cap_ > 0) {
      const int cap = change.number(cap_);
      x = change.apply(Function::multiply,
                       change.apply(Function::tanh, change.apply(Function::divide, x, cap)), cap);
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
    change.reduced(x, across("tile_max", k.count), Combiner::maximum, false);
    on_vector(std::move(change.op), block);
    on_vector(program::Commit{"s", 0, 1}, block);
  }

  /// What the tile's scores add: weights, and factors for what was summed before. `changed`: scores are final, and not
  /// only products that the scale turns into scores.
  Block weights(const Keys& k, bool changed, bool hidden) const {
    Block block;
    if (changed) {
      change_scores(k, hidden, block);
    } else {
      Compute best = over({rows_, k.count});
      best.reduced(best.input(scores("s", k)), across("tile_max", k.count), Combiner::maximum, false);
      on_vector(std::move(best.op), block);
    }
    on_vector(program::Commit{"tile_max", 0, 1}, block);
    wait("tile_max", 1, "vector", block);
    Compute rows = over({rows_});
    const int before = rows.input(row("row_max")), sum = rows.input(row("row_sum"));
    int best = rows.input(row("tile_max"));
    if (!changed && scale_ != 1) best = rows.apply(Function::multiply, best, rows.number(scale_));
    const int now = rows.apply(Function::maximum, before, best);
    const int none = rows.apply(Function::equal, now, rows.number(lowest), -1, DType::boolean);
    const int shift = rows.apply(Function::select, none, rows.number(0), now);
    const int factor = rows.apply(Function::exp, rows.apply(Function::subtract, before, shift));
    rows.output(now, row("row_max"));
    rows.output(shift, row("shift"));
    rows.output(factor, row("factor"));
    rows.output(rows.apply(Function::multiply, sum, factor), row("row_sum"));
    on_vector(std::move(rows.op), block);
    on_vector(program::Release{"tile_max", 0}, block);
    on_vector(program::Commit{"row_max", 0, 1}, block);
    wait("row_max", k.number + Expr(1), "vector", block);
    if (changed) wait("s", arrays_ + 1, "vector", block);
    Compute each = over({rows_, k.count});
    int x = each.input(scores("s", k));
    const int by = each.input(across("shift", k.count));
    if (!changed && scale_ != 1) x = each.apply(Function::multiply, x, each.number(scale_));
    const int weight = each.apply(Function::exp, each.apply(Function::subtract, x, by));
    each.output(weight, scores("p", k));
    each.reduced(weight, across("row_sum", k.count), Combiner::add, true);
    on_vector(std::move(each.op), block);
    return block;
  }

  void emit_weights(const Keys& k, Block& block) const {
    if (p_.mask) load_mask(k, block);
    wait("s", arrays_, "vector", block);
    acquire("tile_max", {"vector"}, block);
    acquire("shift", {"vector"}, block);
    acquire("factor", {"vector"}, block);
    acquire("p", {"vector"}, block);
    const bool always = p_.reshapes || !(scale_ > 0);
    if (p_.hides())
      block.push_back(on("", program::If{hides(k), weights(k, true, true), weights(k, always, false)}));
    else
      for (program::Statement& statement : weights(k, always, false)) block.push_back(std::move(statement));
    on_vector(program::Release{"s", 0}, block);
    if (p_.mask) on_vector(program::Release{"mask", 0}, block);
    on_vector(program::Commit{"p", 0, 1}, block);
    wait("acc", sums_before(k.number), "vector", block);
    Compute rescale = over({rows_, p_.width});
    const int old = rescale.input(sums("acc")), factor = rescale.input(across("factor", p_.width));
    rescale.output(rescale.apply(Function::multiply, old, factor), sums("acc"));
    on_vector(std::move(rescale.op), block);
    on_vector(program::Release{"shift", 0}, block);
    on_vector(program::Release{"factor", 0}, block);
    on_vector(program::Commit{"acc", 0, 1}, block);
  }

  void emit_end(Block& block) const {
    for_arrays(block, program::Release{"q", 0});
    acquire("y", {"vector"}, block);
    wait("acc", sums_before(trips_), "vector", block);
    Compute end = over({rows_, p_.width});
    const int sum = end.input(sums("acc")), weight = end.input(across("row_sum", p_.width));
    const int best = end.input(across("row_max", p_.width));
    const int unseen = end.apply(Function::equal, best, end.number(lowest), -1, DType::boolean);
    const bool zero = op_.attributes.text("masked_row", "zero") == "zero";
    const int nothing = end.number(zero ? 0 : std::numeric_limits<double>::quiet_NaN());
    end.output(end.apply(Function::select, unseen, nothing, end.apply(Function::divide, sum, weight)), sums("y"));
    on_vector(std::move(end.op), block);
    for (const char* slot : {"acc", "row_max", "row_sum"}) on_vector(program::Release{slot, 0}, block);
    on_vector(program::Commit{"y", 0, 1}, block);
    wait("y", 1, "store0", block);
    block.push_back(on("store0", program::Store{rows_transfer(op_.results[0], p_.width, "y"), {}, 0}));
    block.push_back(on("store0", program::Release{"y", 0}));
  }

  // ---- Mask: rows of a tile are queries of one head, or heads of one query

  const Shape& mask_shape() const { return context_.value(op_.operands[3]).type.shape; }
  /// Whether the mask differs along an axis of [B, H, S, T].
  bool mask_spans(std::size_t axis) const {
    const std::size_t rank = mask_shape().size();
    return axis + rank >= 4 && mask_shape()[axis + rank - 4] > 1;
  }
  bool mask_rows() const { return mask_spans(plan_.heads > 1 ? 1 : 2); }

  void load_mask(const Keys& k, Block& block) const {
    const Expr starts[] = {batch_, head_, first_, k.start}, extents[] = {Expr(1), heads_, queries_, k.count};
    std::vector<Expr> start, extent;
    std::vector<std::int64_t> strides;
    for (std::size_t axis = 4 - mask_shape().size(); axis < 4; ++axis) {
      const bool spans = mask_spans(axis);
      start.push_back(spans ? starts[axis] : Expr(0));
      extent.push_back(spans ? extents[axis] : Expr(1));
      strides.push_back(axis == 3 ? 1 : plan_.keys);
    }
    const std::string queue = load_queue(1);
    acquire("mask", {queue}, block);
    block.push_back(on(queue, program::Load{region_transfer(placement(op_.operands[3]), start, extent, strides, "mask")}));
    block.push_back(on(queue, program::Commit{"mask", 0, 1}));
    wait("mask", 1, "vector", block);
  }

  View mask_view(const Keys& k) const {
    return {"mask", 0, 0, {{rows_, mask_rows() ? plan_.keys : 0}, {k.count, mask_spans(3) ? 1 : 0}}};
  }

  // ---- All

  Block tile() const {
    Block block;
    load_queries(block);
    emit_start(block);
    for (program::Statement& statement : all_keys()) block.push_back(std::move(statement));
    emit_end(block);
    return block;
  }

  /// A tile's keys; products that give the next scores stand before those that take the weights at hand.
  Block all_keys() const {
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

  static Block around(const char* name, const Expr& trips, Block body) {
    if (trips.is_constant() && trips.value() == 1) return body;
    Block block;
    block.push_back(loop(name, trips, std::move(body)));
    return block;
  }

  Block part(const Expr& number) {
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

  Block body() {
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

  Context& context_;
  const Kernel& kernel_;
  const Op& op_;
  AttentionProblem p_;
  std::int64_t arrays_, loads_;
  double cap_, scale_ = 1;  ///< what products of queries and keys are still to be multiplied with
  AttentionPlan plan_;
  program::Scope scope_;
  Expr batch_, group_, head_, heads_, number_, tile_, first_, queries_, rows_, tiles_here_;
  Expr begin_, end_, trips_, part_begin_;
};

}  // namespace

program::Scope lower_attention(Context& context, const Kernel& kernel) {
  return AttentionLowering(context, kernel).lower();
}

}  // namespace tilesim::lower
