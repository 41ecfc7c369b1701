// The lowering of contract and convolution; the files of this folder share it.
#pragma once

#include <optional>
#include <span>

#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/compile/writer/kernel_writer.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"
#include "tilesim/mapping/arrays.hpp"
#include "tilesim/mapping/cost.hpp"
#include "tilesim/mapping/nest.hpp"
#include "tilesim/mapping/plan.hpp"

namespace tilesim::lower {

/// The mapping problem of a kernel's anchor.
mapping::Problem product_problem(const Context& context, const Kernel& kernel);

/// The stored values from which the kernel's operations, except its anchor, compute `pending`.
std::set<ValueId> leaves_of(const Context& context, const Kernel& kernel, std::vector<ValueId> pending);

/// A value that the vector unit reads in a product kernel. `axis_of`: per axis of the value, the axis of the operand
/// (`of` 0 or 1) or of the result (`of` 2).
struct LeafSource {
  ValueId value = no_value;
  std::size_t of = 2;
  std::vector<int> axis_of;
  int bias_of = -1;  ///< the product whose bias it is; -1: operand of a fused operation
};
/// Sources of the leaves in kernel order. `sums`: the type in which the products accumulate.
std::vector<LeafSource> leaf_sources(const Context& context, const Kernel& kernel, DType sums);
bool has_bias(const Op& anchor);
/// The axes of a value in memory order, minor first: those of its tensor; for a view, the axes that move along them,
/// short strides first. Empty: row-major, or a view without such an order.
std::vector<int> layout_of(const Context& context, ValueId value);
/// Whether the sums are stored without an epilogue.
bool stores_sums(const Context& context, const Kernel& kernel, DType sums);
/// Adds a dim to the problem that numbers the kernel's products, with their second operands and results.
void add_siblings(mapping::Problem& problem, std::int64_t products);
/// Why the products of a kernel cannot share a tile loop; empty if they can.
std::string why_no_siblings(const Context& context, const Kernel& kernel);
/// The epilogue's reduction that computes a value; null if none does.
const Op* reduction_of(const Context& context, const Kernel& kernel, ValueId value);
/// Adds leaves, outputs and functions of prologues and epilogue to a problem with types and domain.
void add_vector_parts(mapping::Problem& problem, const Context& context, const Kernel& kernel);

/// Search effort; `rough` if nests are only compared to choose between splits of a kernel.
enum class Effort : std::uint8_t { rough, full };

/// The nest to use: given, from the machine's lowering profile (mapping "profile"), or by the named rule. A grouped
/// convolution uses the vector unit (problem.on_vector) if this is faster by the estimate. `machine`: the share of one
/// working core.
mapping::Nest product_nest(const Context& context, const Kernel& kernel, mapping::Problem& problem,
                           const Share& machine, Effort effort = Effort::full);
/// The nest of one rule, by default `mapping_rule`. Equal problems of a program are solved once.
mapping::Nest nest_by_rule(const Context& context, const mapping::Problem& problem, const Share& machine,
                           Effort effort = Effort::full, std::string rule = {});

constexpr int ragged_group = 0, ragged_row = 1, ragged_column = 2, ragged_depth = 3;  ///< dims of ragged_contract

/// Throws Unsupported that names the operation if the machine's arrays do not multiply this type.
void require_array(const Context& context, const Op& op, DType dtype);

/// ragged_contract as one product per group with the typical number of rows; data determine the actual number.
mapping::Problem ragged_problem(const Context& context, const Kernel& kernel);
/// A nest with groups outermost and the contraction innermost, because numbers of rows are known per group only.
mapping::Nest ragged_nest(const Context& context, const Kernel& kernel, const mapping::Problem& problem,
                          const Share& machine);

/// Whether the address of an operand depends on a dim.
bool depends_on(const Access& access, int dim);

/// The split of a product over the cores, and the nest of one part.
struct Division {
  mapping::Problem problem;  ///< problem of one core's part
  CoreSplit split;
  std::shared_ptr<const Share> seen;
  mapping::Nest nest;
  Domain domain;
  std::string refusal;  ///< why the kernel is not fused; empty if it is
  bool by_price = false, siblings = false;
};

/// Slot for the first operand's tiles with unfolded windows.
constexpr const char* unfolded_slot = "a_rows";

/// The rows (along 0) or columns (along 1) of a matrix product to compute; extent -1: the full product.
struct ProductPart { std::int64_t along = 0, extent = -1; };

/// Lowers one product kernel.
class ProductLowering {
 public:
  ProductLowering(Context& context, const Kernel& kernel, const ProductPart& part = {});
  /// Why the kernel is not fused; empty if it is.
  const std::string& refusal() const { return refusal_; }
  bool refused_by_price() const { return refused_by_price_; }
  bool refuses_siblings() const { return refuses_siblings_; }
  program::Scope lower();

 private:
  struct Operand {
    ValueId value = no_value;
    std::string slot;
    std::vector<std::int64_t> slot_strides;  ///< per value axis
    bool prologue = false;
  };
  /// Another input of the epilogue or a prologue, which broadcasts to the result or operand.
  struct Leaf {
    ValueId value = no_value;
    std::string slot;
    std::vector<std::int64_t> slot_strides;
    std::vector<int> axis_of;  ///< per axis of the leaf: axis of the result (or operand)
  };
  /// A value that the epilogue stores.
  struct Output {
    ValueId value = no_value;
    std::string slot;
    std::vector<std::int64_t> slot_strides;  ///< per result axis; 0 along reduced axes
    std::vector<int> reduce;                 ///< result axes that it reduces
    const Op* reduced_by = nullptr;          ///< the epilogue's reduction that computes it; null: none
  };

  // Defined in slots.cpp.
  void make_operand(int index);
  void make_leaf(const LeafSource& source, const Shape& extents);
  void make_accumulator();
  void make_leaves();
  void make_outputs();
  Ring& add_ring(const std::string& name, DType dtype, std::int64_t elements, std::int64_t depth);

  // Defined in product.cpp.
  void keep_reduced_columns_whole();
  void keep_prologue_worth();

  // Defined in siblings.cpp.
  void keep_siblings_worth();
  struct Stay { bool first = false, inner = false; };
  struct Taken {
    double between = 0, ends = 0, alone = 0, bytes = 0;
    std::string refusal = {};  ///< why a product should not compute its operand
  };
  std::set<ValueId> inner_values(const Kernel::SiblingProduct& part) const;
  Stay staying() const;
  Taken taken(double kept_bytes) const;
  Taken taken_by(const Kernel::SiblingProduct& part, Stay stay) const;
  double first_bytes() const;
  bool saves_nothing() const;
  std::vector<program::Transfer> transfers_of(int index, const std::vector<Expr>& start,
                                              const std::vector<Expr>& extent) const;

  // Defined in product.cpp.
  struct Computed { double all = 0, repeated = 0; };  ///< cycles of all tiles; of repeated tiles
  Computed computed_operands(mapping::CostModel& model) const;
  mapping::Nest nest_of_whole_rows(mapping::CostModel& model) const;
  void check_queues() const;
  void divide_over_cores();
  std::string division_key() const;
  void search_division();
  std::vector<int> reduced_result_dims() const;
  bool counts_windows() const;
  bool same_trips(const CoreSplit::DimSplit& part) const;  ///< whether all parts have the same number of trips
  program::Block level(std::size_t depth);
  bool loops(int dim) const;
  std::int64_t trips(int dim) const;
  Expr trips_here(int dim) const;  ///< number of trips on this core
  Expr own_extent(int dim) const;  ///< extent of this core's part
  Expr start(int dim) const;
  Expr extent(int dim) const;
  Expr tile_start(int dim) const;  ///< start and extent of the full tile
  Expr tile_extent(int dim) const;
  Expr axis_start(const AxisAccess& axis) const;
  Expr axis_extent(const AxisAccess& axis) const;

  // Defined in ragged.cpp.
  bool ragged() const { return anchor_.kind == Kind::ragged_contract; }
  void prepare_ragged();
  Expr first_row() const;
  Expr row_count() const;
  program::Scope ragged_offsets();
  program::Scope ragged_rest();
  void add_ragged_steps();

  // Defined in zero_tiles.cpp.
  bool skips() const { return zeros_.operand >= 0; }
  void skip_zero_tiles();
  std::string plan_zero_tiles();
  mapping::Nest zero_tile_nest(const mapping::Problem& apart, double& cycles) const;
  double uneven_zeros() const;
  bool divide_beside_zeros(double most);
  program::Block zero_tile_level(std::size_t depth);
  void finish_window(program::Block& block);
  void declare_zero_tiles();
  void expect_all_tiles();
  Expr tiles_before(bool further) const;
  Expr is_left() const;
  Expr is_needed(int index) const;
  program::Block where_left(const Expr& condition, program::Block block) const;
  void fill_zero_sums(program::Block& block);

  // Defined in multicast.cpp.
  std::string ring_name(int index, std::int64_t leader) const;
  bool goes_round(int index) const;
  program::Block by_leaders(int index, std::size_t depth);
  void emit_multicast(int index, std::vector<program::Transfer> transfers, const std::vector<Expr>& extent,
                      program::Block& block);

  // Defined in pieces.cpp.
  bool in_pieces() const { return !plan_.cut.empty(); }
  std::int64_t piece_trips(int dim) const;
  Expr piece_start(int dim) const;
  bool arrives_in_pieces(int index) const;
  Expr piece_number(const std::vector<int>& dims) const;
  Expr some_elements(const std::vector<int>& dims) const;
  Expr piece_offset(const Access& access, const std::vector<std::int64_t>& strides) const;
  void wrap_pieces(const std::vector<int>& dims, program::Block body, program::Block& block) const;
  void load_in_pieces(const std::vector<int>& operands, program::Block& block);
  void multiply_in_pieces(program::Block& block);
  void finish_in_pieces(program::Block& block);
  const std::vector<int>& cut_results() const { return plan_.buffers[2].cut; }
  bool results_in_pieces() const { return plan_.buffers[2].pieces > 1; }
  Expr last_of_sums() const;

  // Defined in multiply.cpp.
  void emit_mma(program::Block& block);
  void emit_arrays(program::Block& block);
  void emit_one_mma(std::int64_t array, program::Block& block);
  void name_neighbours(program::MmaOp& mma) const;
  Expr earlier_sums() const;
  program::View product_view(const std::string& slot, const Access& access, const std::vector<std::int64_t>& strides,
                             const std::vector<int>& dims, std::int64_t array) const;
  Expr split_extent(std::size_t cut, std::int64_t array) const;
  Expr window_offset() const;

  // Defined in emit.cpp.
  void emit_operands(const std::vector<int>& operands, program::Block& block);
  void emit_load(int index, program::Block& block);
  void emit_prologue(int index, program::Block& block);
  void emit_unfold(program::Block& block);
  void emit_on_vector(program::Block& block);
  bool finishes_later() const;
  program::Block finish_of(const std::vector<Expr>& trip, std::int64_t back);
  void finish_before(program::Block& block);
  void finish_last(program::Block& block);
  void emit_finish(program::Block& block);
  void emit_results(program::Block& block);
  void emit_epilogue(program::Block& block);
  std::vector<program::View> sums_views(const std::vector<Expr>& extent) const;
  void bind_product(std::size_t sums, DagBuilder& dag) const;
  void store_output(const Output& output, const std::vector<Expr>& start, const std::vector<Expr>& extent,
                    program::Block& block) const;
  int inside_edges(int index, int node, const std::vector<Expr>& start, DagBuilder& dag) const;
  void fetch_leaf(const Leaf& leaf, const std::vector<Expr>& start, const std::vector<Expr>& extent, bool over_edges,
                  program::Block& block);
  program::View leaf_view(const Leaf& leaf, const std::vector<Expr>& extent) const;
  Expr windows_before() const;
  Expr window_pieces() const;
  std::span<const AxisAccess> finished_axes() const;
  std::vector<std::int64_t> finished_strides() const;
  Expr sums_offset(std::size_t product) const;
  std::vector<Expr> result_start() const;
  std::vector<Expr> result_extent() const;

  Context& context_;
  const Kernel& kernel_;
  const Op& anchor_;
  mapping::Problem problem_;      ///< problem of one core's part
  std::int64_t load_queues_ = 1;  ///< number of queues that load operands
  CoreSplit split_;
  std::string refusal_;
  bool refused_by_price_ = false, refuses_siblings_ = false;
  std::shared_ptr<const Share> seen_;  ///< the share of one working core; null: the context's machine
  mapping::Nest nest_;
  mapping::KernelPlan plan_;
  Domain domain_;
  program::Scope scope_;
  std::vector<Ring> rings_;
  Operand operands_[2];
  std::int64_t leader_[2] = {-1, -1};  ///< current leader of the cores that fetch an operand in turn
  std::vector<Leaf> prologue_leaves_[2], epilogue_leaves_;
  std::vector<Output> outputs_;
  std::map<int, int> bias_leaf_;                   ///< by product: index of its bias in epilogue_leaves_
  std::set<int> fused_ops_;                        ///< elementwise and reduce operations of the kernel
  std::vector<std::int64_t> accumulator_strides_;  ///< per result axis
  std::vector<int> result_dim_;                    ///< per result axis: its domain dim; -1: none
  mapping::TileWork unit_;                         ///< work of the units for one tile
  bool direct_ = false;                            ///< stored from the accumulator without an epilogue
  std::set<int> at_piece_;                         ///< split dims whose start and extent are those of the current piece
  ZeroTiles zeros_;                                ///< skipped tiles of an operand
  int zero_depth_ = -1, zero_across_ = -1;         ///< contracted and other dim of this operand
  bool columns_of_zeros_ = false;                  ///< some sums have no nonzero tiles
  std::string counts_, offsets_;                   ///< ragged: tensors of rows per group, and before it
};

}  // namespace tilesim::lower
