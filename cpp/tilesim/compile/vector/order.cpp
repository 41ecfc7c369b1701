// sort and top_k: the vector unit sorts whole rows on chip; further operands are gathered by the sorted positions.
#include <algorithm>
#include <map>
#include <optional>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/vector/line_gathers.hpp"
#include "tilesim/compile/vector/tiling.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

class OrderLowering {
 public:
  OrderLowering(Context& context, const Kernel& kernel)
      : context_(context),
        kernel_(kernel),
        op_(context.function.ops[at(kernel.ops[0])]),
        shape_(context.value(op_.operands[0]).type.shape),
        dim_(at(op_.attributes.integer("dim"))) {}

  program::Scope lower() {
    scope_ = named_scope(context_, kernel_);
    choose();
    if (op_.kind == Kind::top_k)
      top_k();
    else
      sort();
    return std::move(scope_);
  }

 private:
  const Placement& placement(ValueId value) const { return context_.placements[at(value)]; }
  bool stored(std::size_t result) const {
    return op_.results[result] != no_value && context_.placed(op_.results[result]);
  }
  std::size_t keys() const { return op_.kind == Kind::sort ? at(op_.attributes.integer("keys", 1)) : 1; }
  std::int64_t kept() const { return op_.kind == Kind::top_k ? op_.attributes.integer("k") : shape_[dim_]; }
  /// Whether positions gather elements, and one gather could cover several lines.
  bool gathers() const {
    if (apart_) return false;
    bool any = op_.kind == Kind::sort && (keys() > 1 || !stored(0));
    for (std::size_t i = 1; op_.kind == Kind::sort && i < op_.operands.size(); ++i) any |= stored(i);
    return any && element_count(shape_) > shape_[dim_];
  }
  bool loaded(std::size_t operand) const { return operand < keys() || stored(operand); }

  DType position_dtype() const {
    return op_.kind == Kind::top_k ? context_.value(op_.results[1]).type.dtype : DType::i32;
  }

  /// Bytes that an element takes in all slots.
  std::int64_t bytes_per_element() const {
    std::int64_t bytes = 2 * host_bytes(position_dtype());
    for (std::size_t i = 0; i < op_.operands.size(); ++i)
      if (loaded(i)) bytes += 4 * host_bytes(placement(op_.operands[i]).dtype);
    bytes += static_cast<std::int64_t>(keys() - 1) * (4 * host_bytes(DType::i32) + 4 * host_bytes(widest_key()));
    if (gathers()) bytes += static_cast<std::int64_t>(2 * keys()) * host_bytes(DType::i32);
    return bytes;
  }

  /// The sorted axis stays whole; every buffer spans all axes.
  std::optional<TileChoice> tiles_that_fit() const {
    TileChoice choice;
    choice.space = shape_;
    choice.buffers = {{std::vector<bool>(shape_.size(), true), bytes_per_element()}};
    add_granules(choice, context_, placement(op_.operands[0]));
    choice.whole.assign(shape_.size(), false);
    choice.whole[dim_] = true;
    // Slots start at multiples of 64 bytes.
    Share padded = context_.machine;
    padded.core.scratchpad.bytes -= 2 * 64 * static_cast<std::int64_t>(2 * op_.operands.size() + 6);
    if (padded.core.scratchpad.bytes <= 0 || !choose_tiles(choice, padded)) return std::nullopt;
    return choice;
  }

  void choose() {
    std::optional<TileChoice> fitting = tiles_that_fit();
    if (!fitting && gathers()) {
      apart_ = true;
      fitting = tiles_that_fit();
    }
    if (!fitting)
      throw CannotRun(
          op_, Lack::scratchpad,
          {std::string(info(op_.kind).name) + ": a row must fit the scratchpad", op_.name,
           std::to_string(shape_[dim_] * bytes_per_element()) + " bytes for a row of " + std::to_string(shape_[dim_]),
           "at most " + std::to_string(context_.machine.core.scratchpad.bytes) + " bytes",
           "sort shorter rows, or place the operation on the host"});
    const TileChoice& choice = *fitting;
    const int last = static_cast<int>(shape_.size()) - 1;
    make_problem();
    const mapping::VectorTiles chosen = vector_tiles(context_, kernel_, problem_, {choice.tiles, last, 2});
    plan_ = mapping::plan(problem_, chosen, context_.machine);
    t_ = tiled_space(shape_, chosen.tiles, "i");
    lines_.emplace(t_, dim_, context_.machine, apart_);
    in_tiles_ = out_tiles_ = t_.tiles;
    out_tiles_[dim_] = std::max<std::int64_t>(1, kept());
  }

  void make_problem() {
    problem_ = vector_problem(context_, kernel_, shape_);
    problem_.kernel += attributes_text(op_);
    problem_.lanes = {static_cast<int>(shape_.size()) - 1};
    problem_.turns = false;
    problem_.whole.assign(shape_.size(), false);
    problem_.whole[dim_] = true;
    if (op_.kind == Kind::top_k)
      describe_top_k();
    else
      describe_sort();
  }

  /// Adds the operand of a slot, placed in memory if it has a value; returns its number.
  int describe(const std::string& slot, DType dtype, mapping::VectorOperand::Use use, ValueId value = no_value) {
    mapping::VectorOperand operand;
    if (value != no_value) {
      operand = placed_operand(context_, placement(value), shape_.size(), use);
      give_access(context_, placement(value), operand);
    }
    operand.use = use;
    operand.dtype = dtype;
    operand.depth = 0;
    operand.step.assign(shape_.size(), 1);
    problem_.operands.push_back(std::move(operand));
    const auto number = static_cast<int>(problem_.operands.size()) - 1;
    numbers_[slot] = at(number);
    return number;
  }

  int describe_scratch(const std::string& slot, DType dtype) {
    return describe(slot, dtype, mapping::VectorOperand::Use::scratch);
  }

  int describe_result(const std::string& slot, DType dtype, std::size_t result) {
    if (!stored(result)) return describe_scratch(slot, dtype);
    return describe(slot, placement(op_.results[result]).dtype, mapping::VectorOperand::Use::store,
                    op_.results[result]);
  }

  void describe_inputs() {
    for (std::size_t i = 0; i < op_.operands.size(); ++i)
      if (loaded(i))
        describe(op_.kind == Kind::top_k ? "x" : numbered("x", i), placement(op_.operands[i]).dtype,
                 mapping::VectorOperand::Use::load, op_.operands[i]);
  }

  /// Adds a compute that sorts the contents of a slot or reorders its lines.
  void add_stage(ComputeKind kind, const std::string& from, const std::vector<std::string>& results) {
    mapping::VectorStage stage;
    stage.kind = kind;
    stage.dtype = problem_.operands[numbers_.at(from)].dtype;
    const auto dim = static_cast<int>(dim_);
    (kind == ComputeKind::sort ? stage.sorted : stage.line) = dim;
    stage.kept = kept();
    stage.apart = apart_;
    for (const auto& [slot, number] : numbers_) {
      const mapping::VectorOperand::Use use = problem_.operands[number].use;
      const bool result = std::find(results.begin(), results.end(), slot) != results.end();
      if (use == mapping::VectorOperand::Use::load) stage.loads.push_back(static_cast<int>(number));
      if (use == mapping::VectorOperand::Use::store && result) stage.stores.push_back(static_cast<int>(number));
    }
    problem_.stages.push_back(std::move(stage));
  }
  void add_joining(const std::string& places) {
    if (!gathers()) return;
    add_stage(ComputeKind::vector, places, {});
    problem_.stages.back().joins = true;
  }

  void describe_top_k() {
    describe_inputs();
    const int results[] = {describe_result("keys", placement(op_.operands[0]).dtype, 0),
                           describe_result("places", position_dtype(), 1)};
    for (int number : results) {
      problem_.operands[at(number)].most = shape_;
      problem_.operands[at(number)].most[dim_] = std::max<std::int64_t>(1, kept());
    }
    add_stage(ComputeKind::sort, "x", {"keys", "places"});
  }

  /// The slots and computes of `sort`.
  void describe_sort() {
    describe_inputs();
    const std::size_t last = keys() - 1;
    const bool direct = keys() == 1 && stored(0);
    describe_scratch("places", DType::i32);
    if (!direct) describe_scratch(numbered("sorted", last), placement(op_.operands[last]).dtype);
    for (std::size_t key = last; key-- > 0;) {
      for (const char* stem : {"taken", "sorted"})
        describe_scratch(numbered(stem, key), placement(op_.operands[key]).dtype);
      for (const char* stem : {"moves", "places"}) describe_scratch(numbered(stem, key), DType::i32);
    }
    for (std::size_t key = 0; gathers() && key <= last; ++key) describe_scratch(numbered("joined", key), DType::i32);
    for (std::size_t i = 0; i < op_.operands.size(); ++i)
      if (stored(i)) describe_result(numbered("y", i), placement(op_.operands[i]).dtype, i);
    add_stage(ComputeKind::sort, numbered("x", last),
              direct ? std::vector<std::string>{"y0"} : std::vector<std::string>{});
    add_joining("places");
    for (std::size_t key = last; key-- > 0;) {
      add_stage(ComputeKind::indexed, numbered("x", key), {});
      add_stage(ComputeKind::sort, numbered("taken", key), {});
      add_joining(numbered("moves", key));
      add_stage(ComputeKind::indexed, "places", {});
    }
    for (std::size_t i = direct ? 1 : 0; i < op_.operands.size(); ++i)
      if (stored(i)) add_stage(ComputeKind::indexed, numbered("x", i), {numbered("y", i)});
  }

  DType widest_key() const {
    DType widest = DType::i8;
    for (std::size_t i = 0; i < keys(); ++i) {
      const DType dtype = placement(op_.operands[i]).dtype;
      if (host_bytes(dtype) >= host_bytes(widest)) widest = dtype;
    }
    return widest;
  }

  void add_ring(const std::string& name) { rings_.push_back(planned_ring(name, problem_, plan_, numbers_.at(name))); }

  /// A view of all axes, with the sorted axis last.
  View view(const std::string& slot, const Shape& tiles, std::int64_t extent) const {
    const Shape strides = row_major_strides(tiles);
    View result{slot, 0, 0, {}};
    for (std::size_t axis = 0; axis < shape_.size(); ++axis)
      if (axis != dim_) result.dims.push_back({t_.extent[axis], strides[axis]});
    result.dims.push_back({Expr(extent), strides[dim_]});
    return result;
  }

  void load(const std::string& slot, ValueId value, Block& block) {
    add_ring(slot);
    block.push_back(statement(
        program::Load{region_transfer(placement(value), t_.start, t_.extent, row_major_strides(in_tiles_), slot)}));
  }

  void store(const std::string& slot, ValueId value, Block& block) const {
    std::vector<Expr> extent = t_.extent;
    extent[dim_] = kept();
    block.push_back(statement(program::Store{
        region_transfer(placement(value), t_.start, extent, row_major_strides(out_tiles_), slot), {}, 0}));
  }

  void top_k() {
    Block block;
    load("x", op_.operands[0], block);
    add_ring("keys");
    add_ring("places");
    block.push_back(
        statement(program::SortOp{view("x", in_tiles_, shape_[dim_]), view("keys", out_tiles_, kept()),
                                  view("places", out_tiles_, kept()), op_.attributes.flag("largest", true)}));
    for (const std::size_t i : {0, 1})
      if (stored(i)) store(i == 0 ? "keys" : "places", op_.results[i], block);
    finish(std::move(block));
  }

  void finish(Block block) {
    scope_ = write_kernel(std::move(scope_), rings_, wrap_loops(plan_.rows, "i", std::move(block)));
  }

  /// Converts positions within a line to positions among all lines that one gather covers; returns their slot.
  std::string join(const std::string& places, std::size_t key, Block& block) {
    const std::string joined = numbered("joined", key);
    add_ring(joined);  // always added: tiles are chosen before it is known whether lines are joined
    if (!lines_->together()) return places;
    lines_->join(places, joined, block);
    return joined;
  }

  static std::string numbered(const char* stem, std::size_t i) { return stem + std::to_string(i); }

  void sort_by(const std::string& in, const std::string& keys, const std::string& places, Block& block) const {
    const std::int64_t extent = shape_[dim_];
    block.push_back(statement(program::SortOp{view(in, in_tiles_, extent), view(keys, in_tiles_, extent),
                                              view(places, in_tiles_, extent), descending_}));
  }

  /// Sorts by the last key first: a stable sort by an earlier key keeps the order of later ones.
  void sort() {
    read_comparator();
    Block block;
    for (std::size_t i = 0; i < op_.operands.size(); ++i)
      if (loaded(i)) load(numbered("x", i), op_.operands[i], block);
    add_ring("places");
    const std::size_t last = keys() - 1;
    const bool direct = keys() == 1 && stored(0);  // the sorted keys are the first result
    const std::string sorted = direct ? "y0" : numbered("sorted", last);
    add_ring(sorted);
    sort_by(numbered("x", last), sorted, "places", block);
    std::string places = gathers() ? join("places", last, block) : "places";
    for (std::size_t key = last; key-- > 0;) places = refine(key, places, block);
    for (std::size_t i = 0; i < op_.operands.size(); ++i) {
      if (!stored(i)) continue;
      const std::string y = numbered("y", i);
      if (!(direct && i == 0)) {
        add_ring(y);
        lines_->gather(numbered("x", i), places, y, block);
      }
      store(y, op_.results[i], block);
    }
    finish(std::move(block));
  }

  /// Sorts the order in `places` by one more key; returns the slot of the new positions.
  std::string refine(std::size_t key, const std::string& places, Block& block) {
    const std::string taken = numbered("taken", key), sorted = numbered("sorted", key), moves = numbered("moves", key),
                      result = numbered("places", key);
    for (const std::string& ring : {taken, sorted, moves, result}) add_ring(ring);
    lines_->gather(numbered("x", key), places, taken, block);
    sort_by(taken, sorted, moves, block);
    const std::string order = gathers() ? join(moves, key, block) : moves;
    lines_->gather(places, order, result, block);
    return result;
  }

  /// Accepts a comparator of the first operand's two elements as an order by key.
  void read_comparator() {
    descending_ = op_.attributes.flag("descending");
    if (op_.functions.empty()) return;
    const GraphFunction& function = context_.graph.functions[at(op_.functions[0])];
    const auto plain = [&](const char* name) {
      if (function.ops.size() != 1 || function.ops[0].kind != Kind::elementwise) return false;
      const Op& op = function.ops[0];
      return op.attributes.text("function") == name && op.results[0] == function.outputs[0] &&
             op.operands == std::vector<ValueId>{function.inputs[0], function.inputs[1]};
    };
    descending_ = plain("greater");
    if (!descending_ && !plain("less"))
      throw CannotRun(op_, Lack::comparator,
                      {"sort: the vector unit sorts by keys, not by a custom comparator", op_.name,
                       "function \"" + function.name + "\"", "less or greater of the first operand's elements",
                       "sort by the attribute 'keys'"});
  }

  Context& context_;
  const Kernel& kernel_;
  const Op& op_;
  const Shape& shape_;
  std::size_t dim_;
  bool descending_ = false;
  bool apart_ = false;  ///< no space for positions among joined lines
  program::Scope scope_;
  std::vector<Ring> rings_;
  mapping::VectorProblem problem_;
  std::map<std::string, std::size_t> numbers_;  ///< operand numbers by slot
  mapping::VectorPlan plan_;
  std::optional<LineGathers> lines_;
  TiledSpace t_;
  Shape in_tiles_, out_tiles_;
};

}  // namespace

program::Scope lower_order(Context& context, const Kernel& kernel) { return OrderLowering(context, kernel).lower(); }

}  // namespace tilesim::lower
