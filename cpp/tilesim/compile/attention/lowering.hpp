// The attention lowering, shared by the files of this folder.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/attention/attention.hpp"
#include "tilesim/compile/vector/vector.hpp"
#include "tilesim/compile/writer/kernel_writer.hpp"

namespace tilesim::lower {

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

  program::Scope lower();

 private:
  // ---- Tiles

  static Expr index(const char* name, std::int64_t trips) { return trips > 1 ? Expr::symbol(name) : Expr(0); }
  static Expr part_of(std::int64_t extent, std::int64_t tile, const Expr& start) {
    return extent % tile == 0 ? Expr(tile) : min(Expr(tile), Expr(extent) - start);
  }
  std::int64_t tiles() const { return ceil_div(p_.queries, plan_.queries); }
  std::int64_t parts() const { return ceil_div(tiles(), plan_.per_part); }
  std::int64_t head_tiles() const { return ceil_div(p_.shared(), plan_.heads); }

  /// Number of query tiles per trip: the tiles of a part, repeated for each key head.
  Expr sequence() const { return plan_.groups > 1 ? groups_here_ * Expr(plan_.per_part) : tiles_here_; }
  /// Sets the current batch row, its number of keys, and the position of the first query among its keys.
  void find_row();
  void find_trip(const Expr& part);
  void find_tile(const Expr& number);
  /// Step between key tiles. If row lengths are data, parts take key tiles in turn, so that all parts get equally many.
  std::int64_t apart() const { return p_.lengths ? plan_.splits : 1; }
  /// First key tile that queries from `first` on see, and end of the key tiles that queries before `last` see.
  Expr begin_of(const Expr& first) const {
    if (plan_.splits > 1) return split_ * Expr(p_.lengths ? 1 : plan_.split_tiles(p_));
    if (p_.window == 0) return 0;
    return max(Expr(0), floor_div(first + offset_ + Expr(1 - p_.window), plan_.keys));
  }
  Expr end_of(const Expr& last) const {
    if (plan_.splits > 1 && !p_.lengths)
      return min(Expr(ceil_div(p_.keys, plan_.keys)), (split_ + Expr(1)) * Expr(plan_.split_tiles(p_)));
    if (!p_.causal) return ceil_div(length_, plan_.keys);
    return ceil_div(min(length_, max(Expr(0), last + offset_)), plan_.keys);
  }

  /// Whether no query of the tile sees a key for any data.
  bool sees_none() const { return trips_.is_constant() && trips_.value() == 0; }
  /// Number of trips for a row of full length.
  std::int64_t most_trips() const { return plan_.split_tiles(p_); }

  /// One key tile: its number within the query tile, its position, and the rows that see at least one of its keys.
  struct Keys { Expr number, tile, start, count, from, rows; };
  Keys keys(const Expr& number) const;

  double scale() const { return op_.attributes.number("scale", 1 / std::sqrt(static_cast<double>(p_.depth))); }

  // ---- Slots and transfers

  /// A range of arrays: those that multiply queries with keys, or weights with values.
  struct Arrays { std::int64_t first = 0, count = 1; };
  Arrays scorers() const { return {0, plan_.by_product ? arrays_ / 2 : arrays_}; }
  Arrays summers() const { return plan_.by_product ? Arrays{arrays_ / 2, arrays_ - arrays_ / 2} : scorers(); }
  std::vector<Ring> rings() const;
  /// The tensor from which statements read an integer operand: the operand, or a copy made by an earlier step.
  std::string table(std::size_t operand, const char* stem, program::Typical typical);
  std::string copied(ValueId value, const char* stem, program::Typical typical);
  void find_tables();
  /// Places the steps that compute integer tables before the kernel that reads them.
  program::Scope behind_tables(program::Scope kernel);
  const Placement& placement(ValueId value) const { return context_.placements[at(value)]; }
  /// Adds statements that run if a condition holds.
  void where(const Expr& condition, program::Block statements, program::Block& block) const;
  void load_queries(program::Block& block) const;
  program::Transfer rows_transfer(ValueId value, std::int64_t width, const std::string& slot) const;
  /// Loads a key tile. A tile that stays on chip is loaded only for the first query tile that sees it.
  void load_keys(const Keys& k, const char* slot, std::size_t operand, std::int64_t width, program::Block& block) const;
  /// Transfers of a tile's rows of k or v: one, or one per page of a paged cache.
  program::Block key_transfers(const Keys& k, const char* slot, std::size_t operand, std::int64_t width) const;
  void load_values(const Keys& k, program::Block& block) const { load_keys(k, "v", 2, p_.width, block); }
  /// Announces that the key tile has arrived, if several query tiles share it.
  void count_keys(const Keys& k, const char* slot, program::Block& block) const {
    if (held_) block.push_back(counted(slot, k.tile - part_begin_ + Expr(1)));
  }
  program::Block begin_held(const char* slot) const { return held_ ? program::Block{begun(slot)} : program::Block{}; }
  program::Block release_held(const char* slot) const;
  Expr offset_of(const Keys& k, std::int64_t width) const { return held_ ? k.start * Expr(width) : Expr(0); }

  // ---- Products

  /// Distributes the rows that see at least one of the keys over the arrays.
  void multiply(const Arrays& arrays, const Keys& k, const program::View& a, const program::View& b,
                const program::View& c, bool accumulate, program::Block& block) const;
  /// `held`: the previous query tile has already waited for these keys.
  void emit_scores(const Keys& k, bool held, program::Block& block) const;
  void emit_sums(const Keys& k, program::Block& block) const;
  // ---- Vector computes

  /// A vector compute over rows, or over rows and columns.
  struct Compute {
    program::VectorOp op;
    int input(program::View view, DType dtype = DType::f32) {
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
            op.nodes, {.op = VectorNode::Op::constant, .number = static_cast<double>(period), .dtype = DType::i32});
        at = apply(Function::remainder, at, by, -1, DType::i32);
      }
      op.nodes.push_back({{.op = VectorNode::Op::scalar, .dtype = DType::i32}, start});
      return apply(Function::add, at, static_cast<int>(op.nodes.size()) - 1, -1, DType::i32);
    }
    void output(int node, program::View view) { op.outputs.push_back({node, std::move(view), {}, Combiner::add, 0}); }
    void reduced(int node, program::View view, Combiner combiner, bool accumulate) {
      op.outputs.push_back({node, std::move(view), {1}, combiner, accumulate ? 1 : 0});
    }
  };
  Compute over(const std::vector<Expr>& extents) const {
    Compute compute;
    compute.op.extents = extents;
    compute.op.lane_dim = static_cast<int>(extents.size()) - 1;
    return compute;
  }
  /// A compute over the products of one array, with their lane axis.
  Compute over_products(const std::vector<Expr>& extents) const {
    Compute compute = over(extents);
    if (plan_.turned) compute.op.lane_dim = 0;
    return compute;
  }
  /// A view of all rows of the tile, or of the rows that see at least one of the keys.
  program::View row(const std::string& slot) const { return {slot, 0, 0, {{rows_, 1}}}; }
  static program::View row(const std::string& slot, const Keys& k) { return {slot, 0, k.from, {{k.rows, 1}}}; }
  program::View across(const std::string& slot) const { return {slot, 0, 0, {{rows_, 1}, {p_.width, 0}}}; }
  static program::View across(const std::string& slot, const Keys& k, const Expr& columns) {
    return {slot, 0, k.from, {{k.rows, 1}, {columns, 0}}};
  }
  program::View scores(const std::string& slot, const Keys& k) const {
    return {slot, 0, k.from * Expr(plan_.keys), {{k.rows, plan_.keys}, {k.count, 1}}};
  }
  program::View wide(const std::string& slot, const Keys& k, std::int64_t width) const {
    return {slot, 0, k.from * Expr(width), {{k.rows, width}, {width, 1}}};
  }
  program::View sums(const std::string& slot) const { return {slot, 0, 0, {{rows_, p_.width}, {p_.width, 1}}}; }

  void emit_start(program::Block& block) const;
  /// Condition: a key of the tile is hidden from a query of the tile.
  Expr hides(const Keys& k) const;
  int visible(Compute& compute, const Keys& k) const;
  /// Computes scaled, capped, biased and masked scores from products.
  program::VectorOp changed_scores(const Keys& k, bool hidden) const;
  /// `make` returns the compute for tiles with or without changed scores and hidden keys. `changed`: the scores are
  /// final; else they are products before scaling.
  template <class Make>
  void emit_either(const Keys& k, const Make& make, program::Block& block) const {
    const bool always = p_.reshapes || !(scale_ > 0);
    program::Block plain{statement(make(always, false))};
    if (p_.hides())
      block.push_back(statement(program::If{hides(k), {statement(make(true, true))}, std::move(plain)}));
    else
      block.push_back(std::move(plain[0]));
  }

  program::VectorOp largest_scores(const Keys& k, bool changed, bool hidden) const;
  /// Updates the running maximum, and computes the factor that rescales sums of earlier tiles.
  program::VectorOp rescaled_rows(const Keys& k, bool changed) const;
  program::VectorOp weights(const Keys& k, bool changed) const;
  void emit_weights(const Keys& k, program::Block& block) const;
  double nothing() const {
    const bool zero = op_.attributes.text("masked_row", "zero") == "zero";
    return zero ? 0 : std::numeric_limits<double>::quiet_NaN();
  }
  void emit_end(program::Block& block) const;
  /// The log-sum-exp of rows, from their maxima and sums of weights, into ring "lse".
  program::VectorOp log_sum_exp(const char* best, const char* sum) const;
  program::Store store_lse(const Expr& first, const Expr& queries, std::int64_t stride) const;
  bool has_lse() const { return op_.results.size() > 1 && context_.placed(op_.results[1]); }

  // ---- Split keys

  program::Scope in_parts();
  Placement temporary(const std::string& stem, const Shape& shape, DType dtype = DType::f32);
  void emit_part(program::Block& block) const;
  program::Scope merge();
  void load_parts(const char* slot, const Placement& from, std::int64_t width, program::Block& block) const;
  void merge_weights(program::Block& block) const;
  void merge_sums(program::Block& block) const;

  // ---- Mask: the rows of a tile are queries of one head, or heads of one query

  const Shape& mask_shape() const { return context_.value(op_.operands[3]).type.shape; }
  /// Whether the mask varies along an axis of [B, H, S, T].
  bool mask_spans(std::size_t axis) const {
    const std::size_t rank = mask_shape().size();
    return axis + rank >= 4 && mask_shape()[axis + rank - 4] > 1;
  }
  bool mask_rows() const { return mask_spans(plan_.heads > 1 ? 1 : 2); }

  void load_mask(const Keys& k, program::Block& block) const;
  program::View mask_view(const Keys& k) const;
  // ---- Tiles of queries

  /// Loads the queries of a tile and computes its first scores; these statements precede the previous tile's last sums.
  void emit_begin(bool follows, program::Block& block) const;
  /// The other statements of a tile, which surround the beginning of the next tile.
  program::Block tile(const Expr& number, bool next);
  void all_keys(const Expr& number, bool next, program::Block& block);
  static program::Block around(const char* name, const Expr& trips, program::Block body) {
    if (trips.is_constant() && trips.value() == 1) return body;
    program::Block block;
    block.push_back(loop(name, trips, std::move(body)));
    return block;
  }

  program::Block part(const Expr& number);
  program::Block body();
  Context& context_;
  const Kernel& kernel_;
  const Op& op_;
  mapping::AttentionProblem p_;
  std::int64_t arrays_, loads_;
  double cap_, scale_ = 1;  ///< factors that products of queries and keys do not yet contain
  mapping::AttentionPlan plan_;
  program::Scope scope_;
  Expr batch_, group_, head_, heads_, head_tile_, part_, number_, tile_, first_, queries_, rows_, tiles_here_;
  Expr groups_here_, first_group_, split_;
  std::int64_t merged_rows_ = 1;
  Placement part_max_, part_weight_, part_sum_;  ///< partial results for split keys
  Expr begin_, end_, trips_, part_begin_;
  Expr length_, offset_, sees_;
  bool held_ = false;                      ///< keys stay on chip for several query tiles
  std::string lengths_, pages_;            ///< names of tensors; empty: none
  std::vector<program::Statement> steps_;  ///< steps that compute these tensors
};

}  // namespace tilesim::lower
