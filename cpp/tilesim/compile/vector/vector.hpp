// The lowering of vector kernels; the files of this folder share it. Rows (the reduced axes) stay on chip if they fit;
// otherwise their tiles stream, once per level of dependent reductions.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/compile/plan/row_bytes.hpp"
#include "tilesim/compile/writer/kernel_writer.hpp"
#include "tilesim/mapping/vector/plan.hpp"

namespace tilesim::lower {

class VectorLowering {
 public:
  VectorLowering(Context& context, const Kernel& kernel);
  Lowered lower();

 private:
  /// A value in a slot. Along each space axis it has the tile's extent, or 1.
  struct Held {
    ValueId value = no_value;
    std::size_t operand = 0;  ///< index in the mapping problem
    std::string slot;
    std::vector<bool> spans;                        ///< per space axis: whether it has the tile's extent
    std::vector<std::int64_t> strides;              ///< per space axis; 0 if the extent is 1
    bool shuffled = false;                          ///< whether elements change lanes between memory and slot
    std::vector<std::int64_t> memory_strides = {};  ///< if shuffled: `strides` of the tile in memory order
  };
  /// A compute over the tile, or over one point per row (`points`). Its DAG may read inputs and finished reductions.
  struct Compute {
    program::VectorOp op;
    DagBuilder dag;
    explicit Compute(const Context& context) : dag(context) {}
  };

  const Op& op(int i) const { return context_.function.ops[static_cast<std::size_t>(i)]; }
  const Shape& shape(ValueId value) const { return context_.value(value).type.shape; }
  bool is_reduce(int i) const { return op(i).kind == Kind::reduce; }
  bool is_arg(int i) const { return is_arg_reduce(op(i)); }

  // Defined in vector.cpp.
  void find_space();
  std::vector<bool> spans(ValueId value) const;
  bool dropped(ValueId value) const;
  void make_tiles(bool rows_whole);
  void choose();
  void make_problem();
  void make_stages();
  mapping::VectorStage stage(const std::vector<ValueId>& values, const std::set<int>& finished,
                             std::vector<VectorWrite> writes) const;
  VectorPattern pattern_of(const std::vector<program::VectorNodeSpec>& nodes,
                           const std::vector<VectorWrite>& writes) const;
  std::uint32_t reduced_bits() const;
  void add_stage(mapping::VectorStage stage, int reduce, std::vector<ValueId> values = {});
  void add_outputs(const std::vector<ValueId>& values, bool points, std::int64_t pass, mapping::VectorStage::Rows rows);
  void add_division(std::size_t reduce);
  void add_arg_stages();
  mapping::VectorStage work_of(const std::vector<program::VectorNodeSpec>& nodes, const std::vector<int>& roots) const;
  DType dtype_of_input(int number) const;
  mapping::VectorOperand operand(ValueId value, mapping::VectorOperand::Use use) const;
  mapping::VectorOperand scratch(ValueId value, DType dtype) const;
  Expr start(std::size_t axis) const;
  Expr extent(std::size_t axis) const;
  Expr tile_start(std::size_t axis) const;  ///< start and extent of the full tile
  Expr tile_extent(std::size_t axis) const;
  bool cut(std::size_t axis) const { return tiles_[axis] < space_[axis]; }
  Held hold(ValueId value, std::size_t operand, const std::string& slot);
  /// Computes the strides before and after the permutation in the slot.
  void find_shuffle(Held& held) const;
  void permute(const Held& held, bool loaded, bool points, program::Block& block) const;
  void make_rings();
  /// Number of dependent reductions that must finish before the value can be computed.
  int level_of(ValueId value) const;
  program::View view(const Held& held, bool points = false) const;
  program::Statement load(const Held& held) const;
  std::vector<int> reduced_dims() const;
  std::int64_t row_count() const;
  /// An expression that is positive from the second tile of a row on.
  Expr tiles_before() const;
  bool spans_rows(const std::vector<bool>& spanned) const;
  /// Number of passes over the tiles of a row, if rows stream.
  int passes() const;
  program::Block resident_body();
  program::Block streamed_body();
  program::Block stream_pass(const mapping::VectorPhase& phase, std::set<int>& finished);

  // Defined in emit.cpp.
  void load_inputs(const std::vector<int>& wanted, program::Block& block, bool points = false) const;
  std::vector<ValueId> inputs_of(const std::vector<ValueId>& values) const;
  Compute begin(bool points, const std::set<int>& finished) const;
  void bind_result(Compute& compute, std::size_t index) const;
  int result_node(std::vector<program::VectorNodeSpec>& nodes, std::size_t index, int sum) const;
  bool divides_rows(std::size_t index) const;
  void divide_sum(std::size_t index, program::Block& block) const;
  static void finish(Compute& compute);
  void emit_reduce(std::size_t index, const std::set<int>& finished, const Expr& accumulate,
                   program::Block& block) const;
  void emit_outputs(Compute& compute, const std::vector<ValueId>& values, program::Block& block) const;
  void store_outputs(Compute& compute, const std::vector<const Held*>& targets, program::Block& block) const;

  // Defined in pieces.cpp.
  std::int64_t piece_trips(std::size_t axis) const { return plan_.pieces[axis]; }
  Expr piece_start(std::size_t axis) const;
  bool arrives_in_pieces(const Held& held) const { return plan_.buffers[held.operand].in_pieces; }
  program::Statement piece_loops(program::Block body) const;
  void only_elements(program::Block body, program::Block& block) const;
  Expr pieces_before() const;
  program::Block body_in_pieces();
  void reduce_in_pieces(int reduce, const std::set<int>& finished, program::Block& block);
  void load_in_pieces(program::Block& block);
  void outputs_in_pieces(const std::vector<ValueId>& values, const std::set<int>& finished, program::Block& block);

  // Defined in arg.cpp.
  program::Block arg_body();
  void arg_of_tile(program::Block& block) const;
  void merge_arg(program::Block& block) const;
  int flat_index(std::vector<program::VectorNodeSpec>& nodes, bool streamed) const;
  int where_node(std::vector<program::VectorNodeSpec>& nodes, int x, int best, bool streamed) const;
  std::array<int, 2> merged_nodes(std::vector<program::VectorNodeSpec>& nodes, const std::array<int, 4>& inputs) const;

  Context& context_;
  const Kernel& kernel_;
  std::set<int> ops_;
  Shape space_, tiles_;
  std::vector<bool> reduced_;
  mapping::VectorProblem problem_;
  /// What a stage of the problem computes: a reduction, or these outputs.
  struct Source {
    int reduce = -1;
    std::vector<ValueId> values;
  };
  std::vector<Source> sources_;
  mapping::VectorPlan plan_;
  Shape sub_;              ///< extents of a piece; empty: tiles have no pieces
  bool at_piece_ = false;  ///< whether starts and extents are those of the current piece
  bool tiles_fit_ = false, streamed_ = false;
  int lane_ = -1;               ///< lane axis
  std::int64_t overfetch_ = 1;  ///< bytes that memory moves / bytes of the tile
  std::vector<Ring> rings_;
  std::vector<int> reduces_;
  std::set<ValueId> dropped_;                ///< results of reductions that drop their axes
  std::unordered_map<ValueId, int> levels_;  ///< cache of `level_of` for the kernel's values
  std::unordered_map<ValueId, int> makers_;  ///< by result: operation
  std::vector<Held> inputs_, sums_, outputs_;
};

/// The transfer in a load statement.
inline program::Transfer transfer_of(const program::Statement& load) {
  return std::get<program::Load>(load.action).transfer;
}
/// Per node: whether one of `roots` depends on it.
std::vector<bool> needed_nodes(const std::vector<program::VectorNodeSpec>& nodes, const std::vector<int>& roots);
int add_node(std::vector<program::VectorNodeSpec>& nodes, VectorNode node);
/// A node that divides the sum by `count`.
int mean_node(std::vector<program::VectorNodeSpec>& nodes, int sum, std::int64_t count, DType dtype);

}  // namespace tilesim::lower
