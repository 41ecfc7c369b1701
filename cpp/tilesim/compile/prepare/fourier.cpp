// fft as products with constant matrices (Cooley and Tukey 1965, one product for each radix) and as a convolution for
// large primes (Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970).
//
// n = n1 rest + n2, k = k1 + radix k2: a product over n1, twiddle factors exp(2 pi i n2 k1 / n), then the same for n2.
// Real and imaginary parts are a leading axis of two, which the products contract as well; the axes transformed so far
// follow it, so that frequencies come out in order.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/transforms.hpp"
#include "tilesim/compile/prepare/fourier_plan.hpp"
#include "tilesim/compile/prepare/writer.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim::lower {

namespace {

using Axes = OpWriter::Axes;

struct Complex { ValueId re = no_value, im = no_value; };

class Fourier {
 public:
  Fourier(Builder& builder, const Op& op, const Share& machine)
      : w_(builder, op),
        op_(op),
        machine_(machine),
        shape_(w_.shape(op.operands[0])),
        dim_(op.attributes.integer("dim")),
        sign_(op.attributes.flag("inverse") ? 1 : -1) {}

  Complex run(const std::vector<bool>& wanted) {
    const DType own = w_.dtype(op_.operands[0]);
    dtype_ = own == DType::f64 ? DType::f64 : DType::f32;
    Complex x{w_.converted(op_.operands[0], dtype_), no_value};
    if (op_.operands.size() > 1 && op_.operands[1] != no_value) x.im = w_.converted(op_.operands[1], dtype_);
    const std::int64_t n = shape_[at(dim_)];
    const double scale = op_.attributes.flag("inverse") && n > 0 ? 1 / static_cast<double>(n) : 1;
    Complex y;
    if (n <= 1) {
      y = {w_.apply("re", Function::identity, {x.re}),
           x.im == no_value ? w_.zeros(dtype_, shape_) : w_.apply("im", Function::identity, {x.im})};
    } else {
      const FourierPlan plan = plan_fourier(machine_, n, static_cast<double>(element_count(shape_)));
      y = plan.circle == 0 ? staged(x, n, plan.radices, sign_, scale, wanted) : around(x, n, plan, scale, wanted);
    }
    if (y.re != no_value) y.re = w_.converted(y.re, own);
    if (y.im != no_value) y.im = w_.converted(y.im, own);
    return y;
  }

 private:
  /// Name of a constant: unique among constants of the same shape.
  static std::string label(const char* what, std::int64_t n, std::int64_t radix, double sign, double scale) {
    return "fft." + std::string(what) + "." + std::to_string(n) + "." + std::to_string(radix) +
           (sign > 0 ? ".inverse" : ".forward") + (scale == 1 ? "" : ".scaled");
  }

  /// Matrix [parts out, radix, parts in, radix] for the requested parts; the axis of a single part is omitted.
  ValueId matrix(std::int64_t radix, double sign, double scale, std::int64_t n, const Axes& out, const Axes& in) {
    std::vector<double> values;
    std::string name = label("matrix", scale == 1 ? radix : n, radix, sign, scale);
    for (const std::int64_t part : out) name += ".o" + std::to_string(part);
    for (const std::int64_t part : in) name += ".i" + std::to_string(part);
    for (const std::int64_t to : out)
      for (std::int64_t k = 0; k < radix; ++k)
        for (const std::int64_t from : in)
          for (std::int64_t j = 0; j < radix; ++j) {
            const Turn t = turn(j * k, radix, sign);
            values.push_back(scale * (to == from ? t.cos : to == 0 ? -t.sin : t.sin));
          }
    Shape shape;
    if (out.size() > 1) shape.push_back(2);
    shape.push_back(radix);
    if (in.size() > 1) shape.push_back(2);
    shape.push_back(radix);
    return w_.constant(name, dtype_, std::move(shape), values);
  }

  /// The transform over `extent` of dim, one radix after the other.
  Complex staged(const Complex& x, std::int64_t extent, const Axes& radices, double sign, double scale,
                 const std::vector<bool>& wanted) {
    ValueId state = no_value;  // [2, done, axes of x]
    std::int64_t done = 1, left = extent;
    for (std::size_t i = 0; i < radices.size(); ++i) {
      const std::int64_t radix = radices[i];
      const bool last = i + 1 == radices.size();
      const double factor = last ? scale : 1;
      left /= radix;
      const auto product = [&](const Axes& out) {
        if (i > 0) return later(state, radix, left, sign, factor, extent, out);
        return first(x, radix, left, sign, factor, extent, out);
      };
      if (last) {
        Complex y;
        if (wanted[0]) y.re = in_place(product({0}), extent);
        if (wanted[1]) y.im = in_place(product({1}), extent);
        return y;
      }
      done *= radix;
      state = turned(product({0, 1}), i > 0, radix, left, done, sign);
    }
    return {};
  }

  /// Splits dim into two axes: radix and the remaining extent.
  ValueId split(ValueId x, std::int64_t dim, std::int64_t radix, std::int64_t left) {
    Shape shape = w_.shape(x);
    shape[at(dim)] = left;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim), radix);
    return w_.reshaped(x, std::move(shape));
  }

  /// First radix, from separate real and imaginary parts; the result is [out, radix, axes of x].
  ValueId first(const Complex& x, std::int64_t radix, std::int64_t left, double sign, double scale, std::int64_t n,
                const Axes& out) {
    const std::int64_t inner = out.size() > 1 ? 2 : 1;
    const ValueId re =
        w_.product("re", matrix(radix, sign, scale, n, out, {0}), split(x.re, dim_, radix, left), {inner}, {dim_});
    if (x.im == no_value) return re;
    return w_.product("im", matrix(radix, sign, scale, n, out, {1}), split(x.im, dim_, radix, left), {inner}, {dim_},
                      {}, re);
  }

  /// Later radix; the result is [out, radix, done, axes of x].
  ValueId later(ValueId state, std::int64_t radix, std::int64_t left, double sign, double scale, std::int64_t n,
                const Axes& out) {
    const std::int64_t inner = out.size() > 1 ? 2 : 1;
    return w_.product("radix", matrix(radix, sign, scale, n, out, {0, 1}), split(state, 2 + dim_, radix, left),
                      {inner, inner + 1}, {0, 2 + dim_});
  }

  /// Multiplies [2, radix, (done), .., left, ..] by the twiddle factors of radix x left; returns [2, done, axes of x].
  ValueId turned(ValueId x, bool with_done, std::int64_t radix, std::int64_t left, std::int64_t done, double sign) {
    Shape shape(w_.shape(x).size(), 1);
    shape[0] = 2;
    shape[1] = radix;
    shape[at((with_done ? 3 : 2) + dim_)] = left;
    std::vector<double> own, other;
    for (const bool im : {false, true})
      for (std::int64_t k = 0; k < radix; ++k)
        for (std::int64_t j = 0; j < left; ++j) {
          const Turn t = turn(j * k, radix * left, sign);
          own.push_back(im ? t.sin : t.cos);
          other.push_back(im ? t.cos : -t.sin);
        }
    // The name includes the shape's unit axes, which depend on the operation.
    const std::string name = label("turn", radix * left, radix, sign, 1) + "." + std::to_string(shape.size()) + "." +
                             std::to_string(dim_) + (with_done ? "d" : "");
    const ValueId re = w_.constant(name + ".re", dtype_, shape, own),
                  im = w_.constant(name + ".im", dtype_, shape, other);
    const ValueId y = w_.apply("turned", Function::add,
                               {w_.apply("turn", Function::multiply, {w_.part(x, 0, 0, 1), re}),
                                w_.apply("turn", Function::multiply, {w_.part(x, 0, 1, 2), im})});
    Shape merged = w_.shape(y);
    if (with_done) merged.erase(merged.begin() + 2);
    merged[1] = done;
    return w_.reshaped(y, std::move(merged));
  }

  /// Moves the frequencies of [radix, (done), .., 1, ..] to dim.
  ValueId in_place(ValueId x, std::int64_t extent) {
    Shape shape{extent};
    for (std::size_t axis = 0; axis < shape_.size(); ++axis)
      if (axis != at(dim_)) shape.push_back(shape_[axis]);
    const ValueId y = w_.reshaped(x, std::move(shape));
    if (dim_ == 0) return y;
    Axes permutation;
    for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape_.size()); ++axis)
      permutation.push_back(axis < dim_ ? axis + 1 : axis == dim_ ? 0 : axis);
    return w_.transposed(y, std::move(permutation));
  }

  /// Multiplies x by complex constants along dim.
  Complex scaled(const Complex& x, ValueId re, ValueId im, const std::vector<bool>& wanted) {
    const auto times = [&](ValueId a, ValueId b) { return w_.apply("times", Function::multiply, {a, b}); };
    Complex y;
    if (wanted[0]) y.re = times(x.re, re);
    if (wanted[1]) y.im = times(x.re, im);
    if (x.im == no_value) return y;
    if (wanted[0]) y.re = w_.apply("re", Function::subtract, {y.re, times(x.im, im)});
    if (wanted[1]) y.im = w_.apply("im", Function::add, {y.im, times(x.im, re)});
    return y;
  }

  ValueId along_dim(const std::string& name, const std::vector<double>& values) {
    Shape shape(shape_.size(), 1);
    shape[at(dim_)] = static_cast<std::int64_t>(values.size());
    return w_.constant(name + "." + std::to_string(shape.size()) + "." + std::to_string(dim_), dtype_, std::move(shape),
                       values);
  }

  /// n k = (n^2 + k^2 - (k - n)^2) / 2: chirp factors before and after a circular convolution of power-of-two length.
  Complex around(const Complex& x, std::int64_t n, const FourierPlan& plan, double scale,
                 const std::vector<bool>& wanted) {
    const std::int64_t m = plan.circle;
    std::vector<double> cos(at(n)), sin(at(n)), out_cos(at(n)), out_sin(at(n)), re(at(m)), im(at(m));
    for (std::int64_t j = 0; j < n; ++j) {
      const Turn t = turn(j * j % (2 * n), 2 * n, sign_);
      cos[at(j)] = t.cos, sin[at(j)] = t.sin;
      out_cos[at(j)] = scale * t.cos, out_sin[at(j)] = scale * t.sin;
      for (const std::int64_t place : {j, (m - j) % m}) re[at(place)] = t.cos, im[at(place)] = -t.sin;
    }
    transform_exactly(re, im);
    const std::string name = label("chirp", n, m, sign_, 1);
    const std::vector<bool> both{true, true};
    Complex y = scaled(x, along_dim(name + ".cos", cos), along_dim(name + ".sin", sin), both);
    y = {w_.extended(y.re, dim_, m), w_.extended(y.im, dim_, m)};
    const Shape own = shape_;
    shape_[at(dim_)] = m;
    y = staged(y, m, plan.radices, -1, 1, both);
    y = scaled(y, along_dim(name + ".circle.re", re), along_dim(name + ".circle.im", im), both);
    y = staged(y, m, plan.radices, 1, 1 / static_cast<double>(m), both);
    shape_ = own;
    y = {w_.part(y.re, dim_, 0, n), w_.part(y.im, dim_, 0, n)};
    const std::string end = label("end", n, m, sign_, scale);
    return scaled(y, along_dim(end + ".cos", out_cos), along_dim(end + ".sin", out_sin), wanted);
  }

  OpWriter w_;
  const Op& op_;
  const Share& machine_;
  Shape shape_;
  std::int64_t dim_;
  double sign_;
  DType dtype_ = DType::f32;
};

}  // namespace

void expand_transforms(Graph& graph, const Share& machine) {
  replace_operations(
      graph, [](const Op& op) { return op.kind == Kind::fft; },
      [&](Builder& builder, const Op& op, const std::vector<bool>& wanted) {
        std::vector<bool> both = wanted;
        if (!both[0] && !both[1]) both[0] = true;  // dead code, removed later
        const Complex y = Fourier(builder, op, machine).run(both);
        return std::vector<ValueId>{y.re, y.im};
      });
}

}  // namespace tilesim::lower
