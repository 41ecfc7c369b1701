// Arrays: weights, rows that stream through the array, results. Encodings are those of SiFive's VCIX on custom-2, so
// that clang's intrinsics emit them from C.
#include <algorithm>
#include <bit>

#include "tilesim/base/dtype.hpp"
#include "tilesim/isa/npu/encoding.hpp"
#include "tilesim/isa/state/npu.hpp"
#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

namespace npu_matrix {

DType dtype_of(const Hart& h, const Op& o) {
  if (o.imm >= dtype_count) illegal(o, "no element type has this number");
  const auto dtype = static_cast<DType>(o.imm);
  if (bits(dtype) != 1 << h.v.type.sew || bits(dtype) > 32)
    illegal(o, "elements of the array's type have another width than SEW");
  return dtype;
}

Npu& npu_of(Hart& h, const Op& o) {
  if (h.npu == nullptr) illegal(o, "this core has no arrays");
  if (o.rs3 >= h.npu->spec.arrays) illegal(o, "this core has fewer arrays");
  return *h.npu;
}

/// The vl elements of vs2, rounded as the array does.
template <class T>
std::vector<T> operand(Hart& h, const Op& o, DType dtype) {
  std::vector<T> values(h.v.vl);
  constexpr DType carrier = std::is_same_v<T, float> ? DType::f32 : DType::i64;
  convert(h.v.at<u8>(o.rs2), dtype, values.data(), carrier, static_cast<s64>(h.v.vl));
  if constexpr (std::is_same_v<T, float>) {
    const Numerics& numerics = h.npu->spec.numerics;
    const auto count = static_cast<s64>(values.size());
    if (numerics.multiply_tf32)
      tf32_round(values.data(), count);
    else if (rounds_operands(numerics, dtype))
      round_through(values.data(), count, *numerics.multiply);
  }
  return values;
}

template <class T>
void fill(Hart& h, const Op& o, ArrayValues<T>& array, DType dtype) {
  const std::size_t whole = std::size_t{h.npu->spec.rows} * h.npu->spec.columns;
  if (array.filled == whole) illegal(o, "the shadow set is full and no row has been pushed since");
  const std::vector<T> values = operand<T>(h, o, dtype);
  if (values.size() > whole - array.filled) illegal(o, "more weights than the array has rows left");
  array.shadow.resize(whole);
  std::copy(values.begin(), values.end(), array.shadow.begin() + static_cast<std::ptrdiff_t>(array.filled));
  array.filled += values.size();
}

template <class T>
using Stored = std::conditional_t<std::is_same_v<T, float>, float, u32>;

/// Stores or adds sums to accumulator memory.
template <class T>
void keep(Hart& h, ArrayResults& results, const std::vector<T>& sums) {
  for (const T sum : sums) {
    auto value = static_cast<Stored<T>>(sum);
    if (results.adds) value = static_cast<Stored<T>>(h.memory->load<Stored<T>>(results.target) + value);
    h.memory->store<Stored<T>>(results.target, value);
    results.target += sizeof(Stored<T>);
  }
}

/// Computes one row of results per row of operands; a short last row is padded with zeros.
template <class T>
void stream(Hart& h, const Op& o, ArrayValues<T>& array, DType dtype) {
  const std::size_t rows = h.npu->spec.rows, columns = h.npu->spec.columns;
  if (array.filled == rows * columns) {
    array.weights.swap(array.shadow);
    array.filled = 0;
  }
  if (array.weights.empty()) illegal(o, "no weights are in the array");
  const std::vector<T> values = operand<T>(h, o, dtype);
  ArrayResults& results = h.npu->results[o.rs3];
  std::vector<T> sums(columns);
  for (std::size_t row = 0; row < values.size(); row += rows) {
    std::fill(sums.begin(), sums.end(), T{});
    for (std::size_t k = 0; k < std::min(rows, values.size() - row); ++k) {
      const T* weights = array.weights.data() + k * columns;
      for (std::size_t c = 0; c < columns; ++c) sums[c] += values[row + k] * weights[c];
    }
    if (results.target != 0) {
      keep(h, results, sums);
      continue;
    }
    for (const T sum : sums) results.waiting.push_back(std::bit_cast<u32>(static_cast<Stored<T>>(sum)));
  }
  if (results.waiting.size() > std::size_t{h.npu->spec.result_rows} * columns)
    illegal(o, "the result queue is full: nothing would take its rows");
}

void weights(Hart& h, const Op& o) {
  Npu& npu = npu_of(h, o);
  const DType dtype = dtype_of(h, o);
  is_float(dtype) ? fill(h, o, npu.floats[o.rs3], dtype) : fill(h, o, npu.integers[o.rs3], dtype);
}

void push(Hart& h, const Op& o) {
  Npu& npu = npu_of(h, o);
  const DType dtype = dtype_of(h, o);
  is_float(dtype) ? stream(h, o, npu.floats[o.rs3], dtype) : stream(h, o, npu.integers[o.rs3], dtype);
}

void pop(Hart& h, const Op& o) {
  std::deque<u32>& waiting = npu_of(h, o).results[o.rs3].waiting;
  if (waiting.size() < h.v.vl) illegal(o, "fewer results are under way than vl: nothing would end the wait");
  const auto end = waiting.begin() + static_cast<std::ptrdiff_t>(h.v.vl);
  std::copy(waiting.begin(), end, h.v.at<u32>(o.rd));
  waiting.erase(waiting.begin(), end);
}

void to_memory(Hart& h, const Op& o, bool adds) {
  ArrayResults& results = npu_of(h, o).results[o.rs3];
  if (!results.waiting.empty()) illegal(o, "results of the array wait to be taken");
  results.target = h.x[o.rs1], results.adds = adds;
}

}  // namespace npu_matrix

void declare_npu_matrix(Declarations& d) {
  using namespace npu_matrix;
  constexpr Group one{Group::group, 0};
  d.extension = "Xtilesimnpu", d.unit = Unit::matrix, d.traits = is_vector | never_masked;
  const auto line = [&](const char* name, const char* operands, Encoding encoding, const char* timing, Execute run,
                        GroupRule groups, const char* description) -> InstructionInfo& {
    InstructionInfo& info = d(name, operands, encoding, timing, nullptr, description);
    info.by_width = {run, run, run, nullptr};
    info.groups = groups;
    return info;
  };
  line("mx.weights", "vs2, array7, dtype", vcix(vcix_xv, 1, true, vcix_i) | field(11, 10, 0), "array-weights", weights,
       {{}, {}, one, 1}, "vl elements of weights, row by row, into the shadow set of an array.");
  line("mx.push", "vs2, array7, dtype", vcix(vcix_xv, 0, true, vcix_i) | field(11, 10, 0), "array-push", push,
       {{}, {}, one, 1},
       "Rows of operands into an array; the first row after a complete shadow set activates the set.");
  InstructionInfo& popped =
      line("mx.pop", "vd, array20", vcix(vcix_x, 0, false, vcix_i) | field(24, 23, 0) | field(19, 15, 0), "array-pop",
           pop, {one, {}, {}, 1}, "The next vl results of an array, once they are ready.");
  popped.by_width = {nullptr, nullptr, pop, nullptr};
  d.traits = 0;
  const Encoding to = vcix(vcix_x, 0, true, vcix_r) | field(11, 10, 0) | field(24, 20, 0);
  const auto with_op = [&](std::uint32_t op) { return Encoding{to.match | op << 26, to.mask}; };
  d("mx.add", "array7, rs1", with_op(1), "array-target", MEANS(npu_matrix::to_memory(h, o, true)),
    "Adds an array's following results to memory at rs1; 0: they wait to be taken again.");
  d("mx.put", "array7, rs1", with_op(2), "array-target", MEANS(npu_matrix::to_memory(h, o, false)),
    "Writes an array's following results to memory at rs1; 0: they wait to be taken again.");
  d.traits = 0;
}

}  // namespace tilesim::isa
