// linear_solve of matrices that fit on chip: the vector unit computes column after column, each dependent on the
// previous one. Longer matrices are split into blocks first (factorization.cpp).
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/plan/transforms.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/compile/vector/vector.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

constexpr const char* step_name = "step";

/// The matrix axes of a view; the axes before them are a batch.
struct MatrixView { Expr offset = 0, rows = 1, row_stride = 0, columns = 1, column_stride = 0; };

class SolveLowering {
 public:
  SolveLowering(Context& context, const Kernel& kernel)
      : context_(context),
        kernel_(kernel),
        op_(context.function.ops[static_cast<std::size_t>(kernel.ops[0])]),
        a_(placement(op_.operands[0])),
        y_(placement(op_.results[0])),
        shape_(context.value(op_.results[0]).type.shape),
        n_(context.value(op_.operands[0]).type.shape.back()),
        factors_(op_.attributes.text("mode") == "cholesky"),
        left_(op_.attributes.flag("left_side", true)),
        lower_(op_.attributes.flag("lower", true)),
        wide_(sum_dtype(context.value(op_.results[0]).type.dtype)) {}

  program::Scope lower() {
    program::Scope scope = named_scope(context_, kernel_);
    if (element_count(shape_) == 0) return scope;
    refuse_tiles(context_, kernel_);
    check_vector_dtypes(context_, {kernel_.ops[0]});
    choose();
    Block block;
    if (factors_)
      cholesky(block);
    else
      triangular(block);
    return write_kernel(std::move(scope), rings_, wrap_loops(t_, std::move(block)));
  }

 private:
  const Placement& placement(ValueId value) const { return context_.placements[static_cast<std::size_t>(value)]; }
  std::size_t batch() const { return shape_.size() - 2; }
  std::size_t row_axis() const { return batch(); }
  std::size_t column_axis() const { return batch() + 1; }
  std::size_t solved_axis() const { return left_ ? row_axis() : column_axis(); }

  /// Matrices stay whole; right-hand sides and batches are split.
  void choose() {
    TileChoice choice;
    choice.space = shape_;
    choice.whole.assign(shape_.size(), false);
    choice.whole[solved_axis()] = true;
    if (factors_) choice.whole[row_axis()] = choice.whole[column_axis()] = true;
    std::vector<bool> matrices(shape_.size(), true);
    matrices[row_axis()] = matrices[column_axis()] = false;
    const std::vector<bool> all(shape_.size(), true);
    if (factors_) {
      choice.buffers = {{all, 2 * host_bytes(a_.dtype) + host_bytes(wide_) + 2 * host_bytes(y_.dtype)}};
    } else {
      const DType b = placement(op_.operands[1]).dtype;
      choice.buffers = {{matrices, 2 * n_ * n_ * host_bytes(a_.dtype)},
                        {all, 2 * host_bytes(b) + host_bytes(wide_) + 2 * host_bytes(y_.dtype)}};
    }
    add_granules(choice, context_, y_);
    if (!choose_tiles(choice, context_.machine))
      throw CannotRun(
          op_, Lack::scratchpad,
          {"linear_solve: a matrix must fit the scratchpad", op_.name, std::to_string(n_) + " rows",
           "at most " + std::to_string(solve_block(context_.machine, wide_)), "place the operation on the host"});
    t_ = tiled_space(shape_, choice.tiles, "i");
  }

  void add_ring(const std::string& name, DType dtype, const Shape& tiles, std::int64_t depth = 2) {
    rings_.push_back({name, dtype, element_count(tiles), depth});
  }

  void load(const std::string& slot, const Placement& from, const std::vector<Expr>& start,
            const std::vector<Expr>& extent, const Shape& tiles, Block& block) {
    add_ring(slot, from.dtype, tiles);
    block.push_back(statement(program::Load{region_transfer(from, start, extent, row_major_strides(tiles), slot)}));
  }

  /// Tiles of a: full matrices, for the batch's tile.
  Shape matrix_tiles() const {
    Shape tiles(t_.tiles.begin(), t_.tiles.end() - 2);
    tiles.insert(tiles.end(), {n_, n_});
    return tiles;
  }

  void load_matrices(const std::string& slot, Block& block) {
    std::vector<Expr> start(t_.start.begin(), t_.start.end() - 2), extent(t_.extent.begin(), t_.extent.end() - 2);
    start.insert(start.end(), {Expr(0), Expr(0)});
    extent.insert(extent.end(), {Expr(n_), Expr(n_)});
    load(slot, a_, start, extent, matrix_tiles(), block);
  }

  View view(const std::string& slot, const Shape& tiles, const MatrixView& part) const {
    View result{slot, 0, part.offset, {}};
    const Shape strides = row_major_strides(tiles);
    for (std::size_t axis = 0; axis < batch(); ++axis) result.dims.push_back({t_.extent[axis], strides[axis]});
    result.dims.push_back({part.rows, part.row_stride});
    result.dims.push_back({part.columns, part.column_stride});
    return result;
  }

  program::VectorOp over(const Expr& rows, const Expr& columns) const {
    program::VectorOp op;
    op.extents.assign(t_.extent.begin(), t_.extent.end() - 2);
    op.extents.insert(op.extents.end(), {rows, columns});
    op.lane_dim = static_cast<int>(column_axis());
    return op;
  }

  static int input(program::VectorOp& op, View view, DType dtype) {
    op.inputs.push_back(std::move(view));
    return add_node(op.nodes,
                    {.op = VectorNode::Op::input, .index = static_cast<int>(op.inputs.size()) - 1, .dtype = dtype});
  }

  static int apply(program::VectorOp& op, Function function, int a, int b, int c, DType dtype) {
    return add_node(op.nodes,
                    {.op = VectorNode::Op::function, .function = function, .arguments = {a, b, c}, .dtype = dtype});
  }

  /// Writes the last node to `view` of the working slot w.
  static void into_work(program::VectorOp op, View view, Block& block) {
    const int node = static_cast<int>(op.nodes.size()) - 1;
    op.outputs.push_back({node, std::move(view), {}, Combiner::add, 0});
    block.push_back(statement(std::move(op)));
  }

  void finish(Block& block) {
    const Shape strides = row_major_strides(t_.tiles);
    block.push_back(statement(program::Store{region_transfer(y_, t_.start, t_.extent, strides, "y"), {}, 0}));
  }

  /// w holds the upper factor, rows along the lanes. Each step scales a row and subtracts its outer product below it.
  void cholesky(Block& block) {
    const Shape tiles = matrix_tiles();
    const Expr n(n_), step = Expr::symbol(step_name), rest = Expr(n_ - 1) - step, diagonal = step * Expr(n_ + 1);
    const MatrixView straight{0, n, n, n, 1}, turned{0, n, 1, n, n};
    load_matrices("x", block);
    add_ring("w", wide_, tiles, 1);
    program::VectorOp begin = over(n, n);
    input(begin, view("x", tiles, lower_ ? turned : straight), a_.dtype);
    into_work(std::move(begin), view("w", tiles, straight), block);
    const auto root = [&](const Expr& at, Block& to) {
      const View pivot = view("w", tiles, {at, 1, 0, 1, 0});
      program::VectorOp op = over(1, 1);
      apply(op, Function::sqrt, input(op, pivot, wide_), -1, -1, wide_);
      into_work(std::move(op), pivot, to);
    };
    Block each;
    root(diagonal, each);
    const View row = view("w", tiles, {diagonal + Expr(1), 1, 0, rest, 1});
    program::VectorOp scale = over(1, rest);
    const int old = input(scale, row, wide_), pivot = input(scale, view("w", tiles, {diagonal, 1, 0, rest, 0}), wide_);
    apply(scale, Function::divide, old, pivot, -1, wide_);
    into_work(std::move(scale), row, each);
    const View below = view("w", tiles, {diagonal + n + Expr(1), rest, n, rest, 1});
    program::VectorOp update = over(rest, rest);
    const int kept = input(update, below, wide_);
    const int across = input(update, view("w", tiles, {diagonal + Expr(1), rest, 1, rest, 0}), wide_),
              along = input(update, view("w", tiles, {diagonal + Expr(1), rest, 0, rest, 1}), wide_);
    apply(update, Function::subtract, kept, apply(update, Function::multiply, across, along, -1, wide_), -1, wide_);
    into_work(std::move(update), below, each);
    if (n_ > 1) block.push_back(loop(step_name, Expr(n_ - 1), std::move(each)));
    root(n_ * n_ - 1, block);
    triangle(tiles, lower_ ? turned : straight, block);
    finish(block);
  }

  /// y = the factor; the other triangle is zero.
  void triangle(const Shape& tiles, const MatrixView& part, Block& block) {
    add_ring("y", y_.dtype, tiles);
    program::VectorOp op = over(n_, n_);
    const int factor = input(op, view("w", tiles, part), wide_);
    const auto index = [&](std::size_t axis) {
      return add_node(op.nodes, {.op = VectorNode::Op::iota, .index = static_cast<int>(axis), .dtype = DType::i64});
    };
    const int row = index(row_axis()), column = index(column_axis());
    const int inside =
        apply(op, Function::less_equal, lower_ ? column : row, lower_ ? row : column, -1, DType::boolean);
    const int zero = add_node(op.nodes, {.op = VectorNode::Op::constant, .number = 0, .dtype = wide_});
    const int node = apply(op, Function::select, inside, factor, zero, wide_);
    op.outputs.push_back({node, view("y", tiles, {0, n_, n_, n_, 1}), {}, Combiner::add, 0});
    block.push_back(statement(std::move(op)));
  }

  /// A triangle t in t x = b, solved from its first row on (`forward`) or its last. x a = b is solved as a' x' = b'.
  struct Triangle { bool turned, unit, forward; };

  /// Divides row `at` of b, without the eliminated terms, by the diagonal element: the result is a row of x.
  void divide(const Triangle& t, const Expr& at, Block& to) const {
    if (t.unit) return;
    const Expr rows = t_.extent[row_axis()], columns = t_.extent[column_axis()];
    const std::int64_t width = t_.tiles[column_axis()];
    const MatrixView known = left_ ? MatrixView{at * Expr(width), 1, 0, columns, 1} : MatrixView{at, rows, width, 1, 0};
    program::VectorOp op = over(known.rows, known.columns);
    op.lane_dim = static_cast<int>(left_ ? column_axis() : row_axis());
    const View in_place = view("w", t_.tiles, known);
    const int x = input(op, in_place, wide_),
              pivot =
                  input(op, view("a", matrix_tiles(), {at * Expr(n_ + 1), known.rows, 0, known.columns, 0}), a_.dtype);
    apply(op, Function::divide, x, pivot, -1, wide_);
    into_work(std::move(op), in_place, to);
  }

  /// Eliminates the known row of x from the remaining rows.
  void eliminate(const Triangle& t, const Expr& step, Block& to) const {
    const Expr rows = t_.extent[row_axis()], columns = t_.extent[column_axis()], rest = Expr(n_ - 1) - step;
    const Expr at = t.forward ? step : rest, first = t.forward ? step + Expr(1) : Expr(0);
    const std::int64_t width = t_.tiles[column_axis()], down = t.turned ? 1 : n_, right = t.turned ? n_ : 1;
    const Expr place = first * Expr(down) + at * Expr(right);
    MatrixView open{first * Expr(width), rest, width, columns, 1}, known{at * Expr(width), rest, 0, columns, 1},
        factor{place, rest, down, columns, 0};
    if (!left_) {
      open = {first, rows, width, rest, 1};
      known = {at, rows, width, rest, 0};
      factor = {place, rows, 0, rest, down};
    }
    program::VectorOp op = over(open.rows, open.columns);
    const int kept = input(op, view("w", t_.tiles, open), wide_), x = input(op, view("w", t_.tiles, known), wide_),
              f = input(op, view("a", matrix_tiles(), factor), a_.dtype);
    apply(op, Function::subtract, kept, apply(op, Function::multiply, f, x, -1, wide_), -1, wide_);
    into_work(std::move(op), view("w", t_.tiles, open), to);
  }

  void triangular(Block& block) {
    const bool turned = left_ == op_.attributes.flag("transpose_a");
    const Triangle t{turned, op_.attributes.flag("unit_diagonal"), lower_ != turned};
    const Shape& tiles = t_.tiles;
    const Placement& b = placement(op_.operands[1]);
    load_matrices("a", block);
    load("b", b, t_.start, t_.extent, tiles, block);
    add_ring("w", wide_, tiles, 1);
    const Expr rows = t_.extent[row_axis()], columns = t_.extent[column_axis()];
    const MatrixView whole{0, rows, tiles[column_axis()], columns, 1};
    program::VectorOp begin = over(rows, columns);
    input(begin, view("b", tiles, whole), b.dtype);
    into_work(std::move(begin), view("w", tiles, whole), block);
    const Expr step = Expr::symbol(step_name);
    Block each;
    divide(t, t.forward ? step : Expr(n_ - 1) - step, each);
    eliminate(t, step, each);
    if (n_ > 1) block.push_back(loop(step_name, Expr(n_ - 1), std::move(each)));
    divide(t, t.forward ? n_ - 1 : 0, block);
    add_ring("y", y_.dtype, tiles);
    program::VectorOp end = over(rows, columns);
    input(end, view("w", tiles, whole), wide_);
    end.outputs.push_back({0, view("y", tiles, whole), {}, Combiner::add, 0});
    block.push_back(statement(std::move(end)));
    finish(block);
  }

  Context& context_;
  const Kernel& kernel_;
  const Op& op_;
  const Placement &a_, &y_;
  const Shape& shape_;
  std::int64_t n_;
  bool factors_, left_, lower_;
  DType wide_;
  std::vector<Ring> rings_;
  TiledSpace t_;
};

}  // namespace

std::int64_t solve_block(const Share& machine, DType wide) {
  constexpr std::int64_t most = 256;  // for larger blocks, products are faster
  const std::int64_t bytes = machine.core.scratchpad.bytes - 1024;
  std::int64_t block = 1;
  // Two buffers for the matrix, two for the factor, and one to work in.
  while (block < most && 5 * 4 * block * block * host_bytes(wide) <= bytes) block *= 2;  // 4: for twice the rows
  return block;
}

program::Scope lower_solve(Context& context, const Kernel& kernel) { return SolveLowering(context, kernel).lower(); }

}  // namespace tilesim::lower
