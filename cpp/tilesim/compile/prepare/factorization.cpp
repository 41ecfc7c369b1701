// Cholesky factors and triangular solves of long matrices: halved recursively until blocks fit, with products between
// the halves. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, sections 8.1 and 10.1: any order
// of the sums has the same backward error.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/transforms.hpp"
#include "tilesim/compile/prepare/writer.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim::lower {

namespace {

using Axes = OpWriter::Axes;

bool is_cholesky(const Op& op) { return op.attributes.text("mode") == "cholesky"; }

DType wide_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

class Halving {
 public:
  Halving(Builder& builder, const Op& op, std::int64_t block) : w_(builder, op), op_(op), block_(block) {}

  ValueId run() {
    const DType dtype = w_.dtype(op_.operands[0]), wide = wide_type(dtype);
    const ValueId a = w_.converted(op_.operands[0], wide);
    rank_ = static_cast<std::int64_t>(w_.shape(a).size());
    const Attributes& given = op_.attributes;
    const bool lower = given.flag("lower", true);
    if (is_cholesky(op_)) return w_.converted(factor(a, lower), dtype);
    const Solve solve{given.flag("left_side", true), lower, given.flag("transpose_a"), given.flag("unit_diagonal")};
    return w_.converted(solved(solve, a, w_.converted(op_.operands[1], wide)), dtype);
  }

 private:
  struct Solve { bool left, lower, transpose, unit; };

  std::int64_t rows() const { return rank_ - 2; }
  std::int64_t columns() const { return rank_ - 1; }
  std::int64_t half(std::int64_t n) const { return round_up(ceil_div(n, 2), block_); }
  Axes batch() const {
    Axes axes;
    for (std::int64_t axis = 0; axis < rank_ - 2; ++axis) axes.push_back(axis);
    return axes;
  }

  ValueId box(ValueId a, std::int64_t row, std::int64_t row_end, std::int64_t column, std::int64_t column_end) {
    return w_.part(w_.part(a, rows(), row, row_end), columns(), column, column_end);
  }

  ValueId factor(ValueId a, bool lower) {
    const std::int64_t n = w_.shape(a).back();
    if (n <= block_) {
      Attributes attributes;
      attributes.set("mode", std::string("cholesky"));
      attributes.set("lower", lower);
      return w_.add("factor", Kind::linear_solve, {a}, std::move(attributes));
    }
    const std::int64_t m = half(n);
    const ValueId first = factor(box(a, 0, m, 0, m), lower);
    const ValueId beside = lower ? box(a, m, n, 0, m) : box(a, 0, m, m, n);
    // l21 l11' = a21, or u11' u12 = a12
    const ValueId panel = solved({!lower, lower, true, false}, first, beside);
    const std::int64_t summed = lower ? columns() : rows();
    const ValueId square = w_.product("square", panel, panel, {summed}, {summed}, batch());
    const ValueId second = factor(w_.apply("rest", Function::subtract, {box(a, m, n, m, n), square}), lower);
    // [l11 0; l21 l22], or [u11 u12; 0 u22]
    const std::int64_t over = lower ? columns() : rows(), beyond = lower ? rows() : columns();
    return w_.joined(w_.extended(first, over, n), w_.joined(panel, second, over), beyond);
  }

  ValueId solved(const Solve& s, ValueId a, ValueId b) {
    const std::int64_t n = w_.shape(a).back();
    if (n <= block_) {
      Attributes attributes;
      attributes.set("mode", std::string("triangular"));
      attributes.set("lower", s.lower);
      attributes.set("left_side", s.left);
      attributes.set("unit_diagonal", s.unit);
      attributes.set("transpose_a", s.transpose);
      return w_.add("solve", Kind::linear_solve, {a, b}, std::move(attributes));
    }
    const std::int64_t m = half(n), along = s.left ? rows() : columns();
    const ValueId corner[2] = {box(a, 0, m, 0, m), box(a, m, n, m, n)};
    const ValueId beside = s.lower ? box(a, m, n, 0, m) : box(a, 0, m, m, n);
    const ValueId given[2] = {w_.part(b, along, 0, m), w_.part(b, along, m, n)};
    // Solves the first half first if op(a) is lower and on the left, or upper and on the right.
    const bool lower = s.lower != s.transpose;
    const int first = lower == s.left ? 0 : 1, second = 1 - first;
    ValueId x[2];
    x[first] = solved(s, corner[first], given[first]);
    const bool turned = s.left == s.transpose;  // `beside` contracts its rows with x
    const ValueId known =
        s.left ? w_.product("known", beside, x[first], {turned ? rows() : columns()}, {rows()}, batch())
               : w_.product("known", x[first], beside, {columns()}, {turned ? rows() : columns()}, batch());
    x[second] = solved(s, corner[second], w_.apply("rest", Function::subtract, {given[second], known}));
    return w_.joined(x[0], x[1], along);
  }

  OpWriter w_;
  const Op& op_;
  std::int64_t block_, rank_ = 0;
};

}  // namespace

void divide_solves(Graph& graph, const Share& machine) {
  replace_operations(
      graph, [](const Op& op) { return op.kind == Kind::linear_solve; },
      [&](Builder& builder, const Op& op, const std::vector<bool>&) {
        const DType wide = wide_type(builder.type(op.operands[0]).dtype);
        return std::vector<ValueId>{Halving(builder, op, solve_block(machine, wide)).run()};
      });
}

}  // namespace tilesim::lower
