// The lowering of chained products, shared by the files of this folder.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tilesim/compile/chain/chain.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/compile/writer/kernel_writer.hpp"

namespace tilesim::lower {

/// Strides in elements of a tile in a slot. The slot has the value's order of axes.
struct ChainStrides {
  std::int64_t row = 0, column = 0, channel = 0;
  static ChainStrides of(const ChainAxes& axes, std::int64_t rows, std::int64_t columns, std::int64_t channels);
};

/// A tile in a slot, with its strides.
struct ChainTile {
  std::string slot;
  ChainStrides strides;
  Expr offset = 0;
};

class ChainLowering {
 public:
  ChainLowering(Context& context, const Kernel& kernel, Chain chain, mapping::ChainPlan plan);
  program::Scope lower();

 private:
  using Stage = mapping::ChainStage;
  /// A box of a value: start and extent along each axis.
  struct Box { Expr lead, row, column, channel, rows, columns, channels; };

  bool has(Stage stage) const { return p_.has(stage); }
  const ChainStageOps& ops(Stage stage) const { return *chain_.stages[static_cast<std::size_t>(stage)]; }
  const Op& anchor(Stage stage) const { return context_.function.ops[static_cast<std::size_t>(ops(stage).anchor)]; }
  const mapping::ChainProblem::Stage& priced(Stage stage) const { return p_.stage(stage); }
  static std::string numbered(const char* stem, Stage stage) {
    return stem + std::to_string(static_cast<std::size_t>(stage));
  }
  std::vector<Ring> rings() const;
  void find_block();
  void find_tile(const Expr& number);

  // Defined in emit.cpp.
  static std::vector<Expr> by_axes(const ChainAxes& axes, std::size_t rank, const Expr& lead, const Expr& row,
                                   const Expr& column, const Expr& channel);
  static std::vector<std::int64_t> by_axes(const ChainAxes& axes, std::size_t rank, const ChainStrides& strides);
  program::Transfer region(ValueId value, const ChainAxes& axes, const Box& box, const ChainTile& tile) const;
  int hidden_axis(Stage stage) const { return stage == Stage::last ? ops(stage).in : ops(stage).out; }
  bool holds_leaf(Stage stage) const { return plan_.holds_leaves() && stage != Stage::last; }
  static std::string leaf_slot(Stage stage, std::size_t number) {
    return numbered("l", stage) + "_" + std::to_string(number);
  }
  Expr weight_offset(Stage stage) const;
  void load_weights(Stage stage, program::Block& block) const;
  void load_leaf(Stage stage, std::size_t number, const std::vector<Expr>& start, const std::vector<Expr>& extent,
                 program::Block& block) const;
  void load_held(program::Block& block) const;
  std::vector<std::int64_t> weight_strides(Stage stage) const;
  void multiply(Stage stage, const ChainTile& from, const ChainTile& to, const Expr& rows, const Expr& depth,
                const Expr& columns, const Expr& accumulate, program::Block& block) const;
  int lane_dim(const ChainAxes& axes, std::int64_t rows, std::int64_t columns, std::int64_t channels) const;
  void zeros(const ChainTile& tile, const ChainAxes& axes, const Expr& row, const Expr& column, const Expr& rows,
             const Expr& columns, program::Block& block) const;
  void clear_borders(program::Block& block) const;
  program::View leaf_view(Stage stage, std::size_t number, const std::vector<Expr>& extent) const;
  void bind_product(Stage stage, int bias, DagBuilder& dag) const;
  void finish(Stage stage, const ChainTile& sums, const ChainTile& to, const Box& box, program::Block& block) const;
  void slide(program::Block& block) const;

  // Defined in chain.cpp.
  void load_rows(program::Block& block) const;
  void emit_first(program::Block& block) const;
  void emit_vector(program::Block& block) const;
  void emit_last(program::Block& block) const;
  program::Statement store(Stage stage, const Box& box) const;
  program::Block block();

  Context& context_;
  const Kernel& kernel_;
  Chain chain_;
  const mapping::ChainProblem& p_;
  mapping::ChainPlan plan_;
  std::int64_t arrays_;
  std::int64_t columns_used_ = 1;  ///< columns of the first product that the window reads
  ChainTile x_, sums_[mapping::chain_stages], between_[2], y_;
  Expr lead_, start_, rows_, begin_, low_, read_, top_, span_;  ///< ranges of the block of rows
  Expr tile_, channel_, channels_;                              ///< range of the tile of hidden channels
};

}  // namespace tilesim::lower
