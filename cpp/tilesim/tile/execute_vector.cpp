// Executes vector computes: evaluates the DAG node by node over blocks, with the function switch outside the loops.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/functions/integer.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/tile/strided.hpp"

namespace tilesim {

namespace {

/// Nodes compute in f64 when any f64 takes part, otherwise each node in f32 or, for integers and bool, i64.
enum class Kind : std::uint8_t { f32, f64, i64 };

Kind kind_of(DType dtype, bool wide) {
  if (is_float(dtype) || is_complex(dtype)) return wide ? Kind::f64 : Kind::f32;
  return Kind::i64;
}

/// Values of one node over the whole tile.
struct Column {
  Kind kind = Kind::f32;
  std::vector<float> f;
  std::vector<double> d;
  std::vector<std::int64_t> i;
  void resize(Kind k, std::size_t n) {
    kind = k;
    if (k == Kind::f32)
      f.resize(n);
    else if (k == Kind::f64)
      d.resize(n);
    else
      i.resize(n);
  }
};

template <class T>
std::vector<T>& values(Column& c) {
  if constexpr (std::is_same_v<T, float>)
    return c.f;
  else if constexpr (std::is_same_v<T, double>)
    return c.d;
  else
    return c.i;
}

template <class Call>
void with_kind(Kind kind, Call call) {
  if (kind == Kind::f32)
    call(float{});
  else if (kind == Kind::f64)
    call(double{});
  else
    call(std::int64_t{});
}

/// A copy of a column as T.
template <class T>
const std::vector<T>& as(Column& c, std::vector<T>& scratch) {
  if (compute_dtype<T>() == (c.kind == Kind::f32 ? DType::f32 : c.kind == Kind::f64 ? DType::f64 : DType::i64))
    return values<T>(c);
  with_kind(c.kind, [&](auto zero) {
    using S = decltype(zero);
    const std::vector<S>& source = values<S>(c);
    scratch.resize(source.size());
    convert(source.data(), compute_dtype<S>(), scratch.data(), compute_dtype<T>(),
            static_cast<std::int64_t>(source.size()));
  });
  return scratch;
}

template <class T, class Operation>
void zip(const std::vector<T>& x, const std::vector<T>& y, std::vector<T>& out, Operation operation) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = operation(x[i], y[i]);
}

template <class T>
void apply(Function function, DType dtype, const std::vector<T>* const* x, std::vector<T>& out) {
  switch (function) {
    case Function::add:
      return zip(*x[0], *x[1], out, [](T a, T b) {
        if constexpr (std::is_integral_v<T>)
          return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
        else
          return a + b;
      });
    case Function::subtract:
      return zip(*x[0], *x[1], out, [](T a, T b) {
        if constexpr (std::is_integral_v<T>)
          return static_cast<T>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
        else
          return a - b;
      });
    case Function::multiply:
      return zip(*x[0], *x[1], out, [](T a, T b) {
        if constexpr (std::is_integral_v<T>)
          return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
        else
          return a * b;
      });
    case Function::relu:
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = (*x[0])[i] < 0 ? T(0) : (*x[0])[i] + T(0);  // -0 becomes 0
      return;
    default:
      break;
  }
  const int arity = info(function).arity;
  T operands[3] = {};
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (int a = 0; a < arity; ++a) operands[a] = (*x[a])[i];
    if constexpr (std::is_integral_v<T>)
      out[i] = evaluate(function, operands, dtype);
    else
      out[i] = evaluate(function, operands);
  }
}

template <class T>
T combine(Combiner combiner, T a, T b) {
  const T both[2] = {a, b};
  switch (combiner) {
    case Combiner::add:
      return evaluate(Function::add, both);
    case Combiner::multiply:
      return evaluate(Function::multiply, both);
    case Combiner::maximum:
      return evaluate(Function::maximum, both);
    case Combiner::minimum:
      return evaluate(Function::minimum, both);
    case Combiner::logical_and:
      return evaluate(Function::logical_and, both);
    case Combiner::logical_or:
      return evaluate(Function::logical_or, both);
  }
  return a;
}

template <class T>
T neutral_value(Combiner combiner, DType dtype) {
  if constexpr (std::is_integral_v<T>) return integer_identity(combiner, is_float(dtype) ? DType::i64 : dtype);
  return static_cast<T>(identity_element(combiner, dtype));
}

class Evaluation {
 public:
  explicit Evaluation(const VectorCompute& c) : compute_(c), columns_(c.nodes.size()) {
    for (std::int64_t extent : c.extents) count_ *= static_cast<std::size_t>(std::max<std::int64_t>(0, extent));
    for (const TileView& input : c.inputs) wide_ |= input.dtype == DType::f64;
    for (const VectorOutput& output : c.outputs) wide_ |= output.view.dtype == DType::f64;
  }

  void run() {
    if (count_ == 0) return;
    for (std::size_t i = 0; i < compute_.nodes.size(); ++i) node(compute_.nodes[i], columns_[i]);
    for (const VectorOutput& output : compute_.outputs) write(output);
  }

 private:
  void node(const VectorNode& n, Column& out) {
    switch (n.op) {
      case VectorNode::Op::input:
        return input(compute_.inputs[static_cast<std::size_t>(n.index)], out);
      case VectorNode::Op::constant:
      case VectorNode::Op::scalar:
        out.resize(kind_of(n.dtype, wide_), count_);
        with_kind(out.kind, [&](auto zero) {
          using T = decltype(zero);
          T value;
          convert(&n.number, DType::f64, &value, compute_dtype<T>(), 1);
          std::fill(values<T>(out).begin(), values<T>(out).end(), value);
        });
        return;
      case VectorNode::Op::iota:
        return iota(static_cast<std::size_t>(n.index), out);
      case VectorNode::Op::function:
        return function(n, out);
      case VectorNode::Op::convert:
        return convert_node(n, out);
      case VectorNode::Op::scan:
        return scan(n, out);
    }
  }

  void input(const TileView& view, Column& out) {
    out.resize(kind_of(view.dtype, wide_), count_);
    std::vector<ViewDim> outer = view.dims;
    if (outer.empty()) outer.push_back({1, 0});
    const ViewDim inner = outer.back();
    outer.pop_back();
    with_kind(out.kind, [&](auto zero) {
      using T = decltype(zero);
      T* to = values<T>(out).data();
      for_each_offset(outer.data(), outer.size(), [&](std::int64_t offset) {
        read_run(view.data + offset * host_bytes(view.dtype), view.dtype, inner.stride, inner.extent, to);
        to += inner.extent;
      });
    });
  }

  std::size_t stride_of(std::size_t dim) const {
    std::size_t stride = 1;
    for (std::size_t i = dim + 1; i < compute_.extents.size(); ++i)
      stride *= static_cast<std::size_t>(compute_.extents[i]);
    return stride;
  }

  void iota(std::size_t dim, Column& out) {
    out.resize(Kind::i64, count_);
    const std::size_t stride = stride_of(dim), extent = static_cast<std::size_t>(compute_.extents[dim]);
    for (std::size_t i = 0; i < count_; ++i) out.i[i] = static_cast<std::int64_t>(i / stride % extent);
  }

  void function(const VectorNode& n, Column& out) {
    const int arity = info(n.function).arity;
    Kind work = Kind::i64;  // the widest of the operands (except select's condition)
    for (int a = n.function == Function::select ? 1 : 0; a < arity; ++a) {
      const Kind kind = columns_[static_cast<std::size_t>(n.arguments[static_cast<std::size_t>(a)])].kind;
      if (kind != Kind::i64) work = kind == Kind::f64 || work == Kind::f64 ? Kind::f64 : Kind::f32;
    }
    with_kind(work, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> scratch[3];
      const std::vector<T>* operands[3] = {};
      for (int a = 0; a < arity; ++a)
        operands[a] = &as<T>(columns_[static_cast<std::size_t>(n.arguments[static_cast<std::size_t>(a)])], scratch[a]);
      if (info(n.function).returns_boolean && work != Kind::i64) {
        std::vector<T> flags(count_);
        apply(n.function, n.dtype, operands, flags);
        out.resize(Kind::i64, count_);
        for (std::size_t i = 0; i < count_; ++i) out.i[i] = flags[i] != 0;
      } else {
        out.resize(work, count_);
        apply(n.function, n.dtype, operands, values<T>(out));
        if constexpr (std::is_integral_v<T>)
          if (n.dtype == DType::boolean)
            for (T& flag : values<T>(out)) flag = flag != 0;
      }
    });
  }

  void convert_node(const VectorNode& n, Column& out) {
    Column& from = columns_[static_cast<std::size_t>(n.arguments[0])];
    out.resize(kind_of(n.dtype, wide_), count_);
    std::vector<std::byte> narrow(count_ * static_cast<std::size_t>(host_bytes(n.dtype)));
    const auto size = static_cast<std::int64_t>(count_);
    with_kind(from.kind, [&](auto zero) {
      convert(values<decltype(zero)>(from).data(), compute_dtype<decltype(zero)>(), narrow.data(), n.dtype, size);
    });
    with_kind(out.kind, [&](auto zero) {
      convert(narrow.data(), n.dtype, values<decltype(zero)>(out).data(), compute_dtype<decltype(zero)>(), size);
    });
  }

  void scan(const VectorNode& n, Column& out) {
    Column& from = columns_[static_cast<std::size_t>(n.arguments[0])];
    out.resize(from.kind, count_);
    const std::size_t stride = stride_of(static_cast<std::size_t>(n.index)),
                      extent = static_cast<std::size_t>(compute_.extents[static_cast<std::size_t>(n.index)]);
    with_kind(out.kind, [&](auto zero) {
      using T = decltype(zero);
      const std::vector<T>& x = values<T>(from);
      std::vector<T>& y = values<T>(out);
      const T neutral = neutral_value<T>(n.combiner, n.dtype);
      for (std::size_t base = 0; base < count_; ++base) {
        if (base / stride % extent != 0) continue;
        T running = neutral;
        for (std::size_t step = 0; step < extent; ++step) {
          const std::size_t at = base + (n.reverse ? extent - 1 - step : step) * stride;
          if (n.exclusive) y[at] = running;
          running = combine(n.combiner, running, x[at]);
          if (!n.exclusive) y[at] = running;
        }
      }
    });
  }

  void write(const VectorOutput& output) {
    Column& column = columns_[static_cast<std::size_t>(output.node)];
    // Reductions and accumulations run in the view's type.
    const Kind kind = output.reduce.empty() && !output.accumulate ? column.kind : kind_of(output.view.dtype, wide_);
    with_kind(kind, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> scratch;
      const std::vector<T>& x = as<T>(column, scratch);
      if (output.reduce.empty() && !output.accumulate) return plain(output, x);
      reduce(output, x);
    });
  }

  template <class T>
  void plain(const VectorOutput& output, const std::vector<T>& x) {
    std::vector<ViewDim> outer = output.view.dims;
    if (outer.empty()) outer.push_back({1, 0});
    const ViewDim inner = outer.back();
    outer.pop_back();
    const T* from = x.data();
    for_each_offset(outer.data(), outer.size(), [&](std::int64_t offset) {
      write_run(from, output.view.data + offset * host_bytes(output.view.dtype), output.view.dtype, inner.stride,
                inner.extent);
      from += inner.extent;
    });
  }

  template <class T>
  void reduce(const VectorOutput& output, const std::vector<T>& x) {
    std::vector<std::int64_t> target_stride(compute_.extents.size(), 0);
    std::int64_t size = 1;
    for (std::size_t axis = compute_.extents.size(); axis-- > 0;) {
      const bool reduced =
          std::find(output.reduce.begin(), output.reduce.end(), static_cast<int>(axis)) != output.reduce.end();
      if (reduced) continue;
      target_stride[axis] = size;
      size *= compute_.extents[axis];
    }
    const T neutral = neutral_value<T>(output.combiner, output.view.dtype);
    std::vector<T> sums(static_cast<std::size_t>(size), neutral);
    if (output.reduce.empty()) sums = x;  // copied, because 0 + -0 is not -0
    std::vector<ViewDim> walk;
    for (std::size_t axis = 0; axis < compute_.extents.size(); ++axis)
      walk.push_back({compute_.extents[axis], target_stride[axis]});
    const T* from = x.data();
    if (!output.reduce.empty())
      for_each_offset(walk.data(), walk.size(), [&](std::int64_t offset) {
        T& sum = sums[static_cast<std::size_t>(offset)];
        if (output.combiner == Combiner::add)
          sum += *from++;
        else
          sum = combine(output.combiner, sum, *from++);
      });
    std::vector<ViewDim> dims;
    for (std::size_t axis = 0; axis < compute_.extents.size(); ++axis)
      if (std::find(output.reduce.begin(), output.reduce.end(), static_cast<int>(axis)) == output.reduce.end())
        dims.push_back({compute_.extents[axis], output.view.dims[axis].stride});
    std::size_t next = 0;
    for_each_offset(dims.data(), dims.size(), [&](std::int64_t offset) {
      std::byte* at = output.view.data + offset * host_bytes(output.view.dtype);
      T value = sums[next++];
      if (output.accumulate) {
        T before;
        read_run(at, output.view.dtype, 1, 1, &before);
        value = combine(output.combiner, before, value);
      }
      write_run(&value, at, output.view.dtype, 1, 1);
    });
  }

  const VectorCompute& compute_;
  std::vector<Column> columns_;
  std::size_t count_ = 1;
  bool wide_ = false;
};

}  // namespace

void execute(const VectorCompute& compute) { Evaluation(compute).run(); }

}  // namespace tilesim
