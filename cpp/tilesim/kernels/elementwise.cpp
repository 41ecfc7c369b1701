// elementwise: operands are read in chunks in the order of the result; within a chunk one loop per function.
// Functions without a separate loop go through the scalar table in base.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tilesim/base/functions/integer.hpp"
#include "tilesim/kernels/broadcast.hpp"
#include "tilesim/kernels/combine.hpp"
#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {
namespace {

template <class T>
struct Chunk {
  const T* a = nullptr;
  const T* b = nullptr;
  const T* c = nullptr;
  std::int64_t count = 0;
};

template <class T, class Out, class F>
bool map_one(const Chunk<T>& in, Out* out, F f) {
  for (std::int64_t i = 0; i < in.count; ++i) out[i] = static_cast<Out>(f(in.a[i]));
  return true;
}
template <class T, class Out, class F>
bool map_two(const Chunk<T>& in, Out* out, F f) {
  for (std::int64_t i = 0; i < in.count; ++i) out[i] = static_cast<Out>(f(in.a[i], in.b[i]));
  return true;
}

template <class T>
bool float_loop(Function function, const Chunk<T>& in, T* out) {
  switch (function) {
    case Function::add:
      return map_two(in, out, [](T a, T b) { return a + b; });
    case Function::subtract:
      return map_two(in, out, [](T a, T b) { return a - b; });
    case Function::multiply:
      return map_two(in, out, [](T a, T b) { return a * b; });
    case Function::divide:
      return map_two(in, out, [](T a, T b) { return a / b; });
    case Function::maximum:
      return map_two(in, out, larger<T>);
    case Function::minimum:
      return map_two(in, out, smaller<T>);
    case Function::identity:
      return map_one(in, out, [](T a) { return a; });
    case Function::negate:
      return map_one(in, out, [](T a) { return -a; });
    case Function::abs:
      return map_one(in, out, [](T a) { return std::fabs(a); });
    case Function::relu:
      return map_one(in, out, [](T a) { return a < T{0} ? T{0} : a + T{0}; });  // -0 becomes 0
    case Function::sqrt:
      return map_one(in, out, [](T a) { return std::sqrt(a); });
    case Function::reciprocal:
      return map_one(in, out, [](T a) { return T{1} / a; });
    case Function::exp:
      return map_one(in, out, [](T a) { return std::exp(a); });
    case Function::clamp:
      for (std::int64_t i = 0; i < in.count; ++i) out[i] = smaller(larger(in.b[i], in.a[i]), in.c[i]);
      return true;
    default:
      return false;
  }
}

template <class T>
bool compare_loop(Function function, const Chunk<T>& in, std::uint8_t* out) {
  switch (function) {
    case Function::equal:
      return map_two(in, out, [](T a, T b) { return a == b; });
    case Function::not_equal:
      return map_two(in, out, [](T a, T b) { return a != b; });
    case Function::less:
      return map_two(in, out, [](T a, T b) { return a < b; });
    case Function::less_equal:
      return map_two(in, out, [](T a, T b) { return a <= b; });
    case Function::greater:
      return map_two(in, out, [](T a, T b) { return a > b; });
    case Function::greater_equal:
      return map_two(in, out, [](T a, T b) { return a >= b; });
    default:
      return false;
  }
}

/// Integer division in T; the divisor -1 is separate because the smallest integer has no opposite.
template <class T>
T quotient(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(0 - static_cast<std::uint64_t>(a));
  }
  return a / b;
}
template <class T>
T rest(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return a % b;
}
template <class T>
T floor_quotient(T a, T b) {
  return static_cast<T>(static_cast<std::uint64_t>(quotient(a, b)) -
                        static_cast<std::uint64_t>(rest(a, b) != 0 && (a < 0) != (b < 0)));
}

/// T is int64_t or, for u64, uint64_t. Sums and products wrap.
template <class T>
bool integer_loop(Function function, const Chunk<T>& in, T* out) {
  using U = std::uint64_t;
  switch (function) {
    case Function::add:
      return map_two(in, out, [](T a, T b) { return static_cast<U>(a) + static_cast<U>(b); });
    case Function::subtract:
      return map_two(in, out, [](T a, T b) { return static_cast<U>(a) - static_cast<U>(b); });
    case Function::multiply:
      return map_two(in, out, [](T a, T b) { return static_cast<U>(a) * static_cast<U>(b); });
    case Function::negate:
      return map_one(in, out, [](T a) { return U{0} - static_cast<U>(a); });
    case Function::abs:
      return map_one(in, out, [](T a) { return a < T{0} ? U{0} - static_cast<U>(a) : static_cast<U>(a); });
    case Function::maximum:
      return map_two(in, out, [](T a, T b) { return std::max(a, b); });
    case Function::minimum:
      return map_two(in, out, [](T a, T b) { return std::min(a, b); });
    case Function::relu:
      return map_one(in, out, [](T a) { return std::max(a, T{0}); });
    case Function::sign:
      return map_one(in, out, [](T a) { return (a > T{0}) - (a < T{0}); });
    case Function::divide:
      return map_two(in, out, quotient<T>);
    case Function::remainder:
      return map_two(in, out, rest<T>);
    case Function::floor_divide:
      return map_two(in, out, floor_quotient<T>);
    case Function::clamp:
      for (std::int64_t i = 0; i < in.count; ++i) out[i] = std::min(std::max(in.b[i], in.a[i]), in.c[i]);
      return true;
    default:
      return false;
  }
}

template <class T, class Out>
void table_loop(Function function, int arity, DType dtype, const Chunk<T>& in, Out* out) {
  for (std::int64_t i = 0; i < in.count; ++i) {
    const T operands[3] = {in.a[i], arity > 1 ? in.b[i] : T{}, arity > 2 ? in.c[i] : T{}};
    if constexpr (std::is_same_v<T, std::int64_t>)
      out[i] = static_cast<Out>(evaluate(function, operands, dtype));
    else
      out[i] = static_cast<Out>(evaluate(function, operands));
  }
}

bool divides(Function function) {
  return function == Function::divide || function == Function::remainder || function == Function::floor_divide;
}

/// Integer chunks: division by zero is a UserError.
template <class Out>
void integer_chunk(const Call& call, const FunctionInfo& function, DType dtype, const Chunk<std::int64_t>& in,
                   Out* out) {
  const Function f = function.function;
  if (divides(f) && std::find(in.b, in.b + in.count, 0) != in.b + in.count) call.fail("Integer division by zero.");
  const bool wide_unsigned = dtype == DType::u64;
  const Chunk<std::uint64_t> as_unsigned{reinterpret_cast<const std::uint64_t*>(in.a),
                                         reinterpret_cast<const std::uint64_t*>(in.b),
                                         reinterpret_cast<const std::uint64_t*>(in.c), in.count};
  if constexpr (std::is_same_v<Out, std::uint8_t>) {
    if (wide_unsigned ? compare_loop(f, as_unsigned, out) : compare_loop(f, in, out)) return;
  } else {
    if (wide_unsigned ? integer_loop(f, as_unsigned, reinterpret_cast<std::uint64_t*>(out)) : integer_loop(f, in, out))
      return;
  }
  table_loop(f, function.arity, dtype, in, out);
}

template <class T, class Out>
void chunk(const Call& call, const FunctionInfo& function, DType dtype, const Chunk<T>& in, Out* out) {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    integer_chunk(call, function, dtype, in, out);
  } else {
    if constexpr (std::is_same_v<Out, std::uint8_t>) {
      if (compare_loop(function.function, in, out)) return;
    } else {
      if (float_loop(function.function, in, out)) return;
    }
    table_loop(function.function, function.arity, dtype, in, out);
  }
}

/// Operands in T, result in T or (predicates) bool.
template <class T, class Out>
void apply(const Call& call, const FunctionInfo& function, const std::vector<Array>& operands, Array& result) {
  std::vector<BroadcastReader<T>> readers;
  for (const Array& x : operands) readers.emplace_back(x.as<T>(), x.shape(), result.shape());
  const DType dtype = call.operand(0).dtype();
  constexpr std::int64_t step = BroadcastReader<T>::chunk;
  for (std::int64_t begin = 0; begin < result.size(); begin += step) {
    if (begin % (64 * step) == 0) call.poll();
    Chunk<T> in;
    in.count = std::min(step, result.size() - begin);
    const T** const slots[3] = {&in.a, &in.b, &in.c};
    for (std::size_t i = 0; i < readers.size(); ++i) *slots[i] = readers[i].read(begin, in.count);
    chunk(call, function, dtype, in, result.as<Out>() + begin);
  }
}

template <class T>
void select(const Array& condition, const Array& yes, const Array& no, Array& result) {
  BroadcastReader<std::uint8_t> c(condition.as<std::uint8_t>(), condition.shape(), result.shape());
  BroadcastReader<T> a(yes.as<T>(), yes.shape(), result.shape()), b(no.as<T>(), no.shape(), result.shape());
  constexpr std::int64_t step = BroadcastReader<T>::chunk;
  for (std::int64_t begin = 0; begin < result.size(); begin += step) {
    const std::int64_t count = std::min(step, result.size() - begin);
    const std::uint8_t* condition_chunk = c.read(begin, count);
    const T *yes_chunk = a.read(begin, count), *no_chunk = b.read(begin, count);
    T* out = result.as<T>() + begin;
    for (std::int64_t i = 0; i < count; ++i) out[i] = condition_chunk[i] != 0 ? yes_chunk[i] : no_chunk[i];
  }
}

/// Select only moves elements: by width, without a conversion.
Results select(const Call& call) {
  Array result(call.result().dtype, call.result().shape);
  const Array &condition = call.operand(0), &yes = call.operand(1), &no = call.operand(2);
  switch (host_bytes(result.dtype())) {
    case 1:
      select<std::uint8_t>(condition, yes, no, result);
      break;
    case 2:
      select<std::uint16_t>(condition, yes, no, result);
      break;
    case 4:
      select<std::uint32_t>(condition, yes, no, result);
      break;
    case 8:
      select<std::uint64_t>(condition, yes, no, result);
      break;
    default:
      select<std::array<std::uint64_t, 2>>(condition, yes, no, result);
      break;
  }
  return {result};
}

}  // namespace

Results elementwise(const Call& call) {
  const FunctionInfo& function = info(parse_function(call.attributes().text("function")));
  if (function.function == Function::select) return select(call);
  const Compute compute = compute_type(call, call.operand(0).dtype());
  std::vector<Array> operands;
  for (const Array& x : call.operands) operands.push_back(x.to(dtype_of(compute)));
  const TensorType& type = call.result();
  return with_type(compute, [&](auto zero) -> Results {
    using T = decltype(zero);
    if (function.returns_boolean) {
      Array result(DType::boolean, type.shape);
      apply<T, std::uint8_t>(call, function, operands, result);
      return {result.to(type.dtype)};
    }
    Array result(dtype_of(compute), type.shape);
    apply<T, T>(call, function, operands, result);
    return {result.to(type.dtype)};
  });
}

}  // namespace tilesim::kernels
