// convolution: per image and group the windows become columns (im2col), in blocks, and one matrix product each.
// Groups of one or two input channels (depthwise) accumulate rows instead.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "tilesim/base/index.hpp"
#include "tilesim/kernels/gemm.hpp"

namespace tilesim::kernels {
namespace {

using Axes = std::vector<std::int64_t>;

/// Axes of `labels` in the order lead[0], lead[1], then the spatial letters in the order of `spatial`.
Axes canonical(const std::string& labels, const std::string& lead, const std::string& spatial) {
  Axes axes;
  for (const char letter : lead + spatial) axes.push_back(static_cast<std::int64_t>(labels.find(letter)));
  return axes;
}

/// Extents of a convolution with operands as [N, C, spatial], [O, C / groups, window] and result [N, O, spatial].
struct Problem {
  std::int64_t batch = 0, channels = 0, outputs = 0, groups = 1, batch_groups = 1;
  std::int64_t result_batch = 0;
  std::int64_t depth = 0;  ///< input channels per group
  Shape in, window, out;
  /// source[axis][tap * out + o]: the input index that the tap reads at output o, or -1 (padding, holes of the input
  /// dilation)
  std::vector<std::vector<std::int64_t>> source;
  std::vector<bool> unit_step;  ///< adjacent outputs read adjacent inputs

  std::int64_t in_size() const { return element_count(in); }
  std::int64_t out_size() const { return element_count(out); }
  std::int64_t taps() const { return element_count(window); }
  const std::int64_t* sources(std::size_t axis, std::int64_t tap) const {
    return source[axis].data() + tap * out[axis];
  }
};

void fill_sources(Problem& problem, const Attributes& attributes) {
  const std::size_t rank = problem.in.size();
  const Axes ones(rank, 1);
  const Axes strides = attributes.integers("strides", ones), dilation = attributes.integers("window_dilation", ones);
  const Axes holes = attributes.integers("input_dilation", ones), pads = attributes.integers("pads", Axes(2 * rank, 0));
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::vector<std::int64_t> table;
    for (std::int64_t tap = 0; tap < problem.window[axis]; ++tap) {
      for (std::int64_t o = 0; o < problem.out[axis]; ++o) {
        const std::int64_t position = o * strides[axis] + tap * dilation[axis] - pads[2 * axis];
        const bool inside = position >= 0 && position % holes[axis] == 0 && position / holes[axis] < problem.in[axis];
        table.push_back(inside ? position / holes[axis] : -1);
      }
    }
    problem.source.push_back(std::move(table));
    problem.unit_step.push_back(strides[axis] == 1 && holes[axis] == 1);
  }
}

/// Calls visit(input row, output row) for every pair of innermost rows that `tap` connects; the input row is -1 in
/// padding.
template <class Visit>
void for_rows(const Problem& problem, const Axes& tap, std::int64_t first_row, std::int64_t rows, Visit&& visit) {
  const std::size_t outer = problem.in.size() - 1;
  for (std::int64_t row = first_row; row < first_row + rows; ++row) {
    std::int64_t rest = row, stride = 1, input = 0;
    bool inside = true;
    for (std::size_t axis = outer; axis-- > 0;) {
      const std::int64_t source = problem.sources(axis, tap[axis])[rest % problem.out[axis]];
      inside = inside && source >= 0;
      input += source * stride;
      stride *= problem.in[axis];
      rest /= problem.out[axis];
    }
    visit(inside ? input : -1, row);
  }
}

Axes tap_index(const Problem& problem, std::int64_t tap) {
  Axes index(problem.window.size());
  for (std::size_t axis = index.size(); axis-- > 0;) {
    index[axis] = tap % problem.window[axis];
    tap /= problem.window[axis];
  }
  return index;
}

/// [begin, end) of the outputs of the innermost axis for which `sources` is inside; contiguous where steps are unit.
std::pair<std::int64_t, std::int64_t> inside_range(const std::int64_t* sources, std::int64_t count) {
  std::int64_t begin = 0, end = count;
  while (begin < end && sources[begin] < 0) ++begin;
  while (end > begin && sources[end - 1] < 0) --end;
  return {begin, end};
}

template <class T>
void gather_row(const std::int64_t* sources, std::int64_t count, bool unit_step, const T* in, T* out) {
  const auto [begin, end] = inside_range(sources, count);
  std::fill(out, out + begin, T{0});
  std::fill(out + end, out + count, T{0});
  if (begin == end) return;
  if (unit_step) {
    std::memcpy(out + begin, in + sources[begin], at(end - begin) * sizeof(T));
  } else {
    for (std::int64_t i = begin; i < end; ++i) out[i] = sources[i] < 0 ? T{0} : in[sources[i]];
  }
}

/// Columns [depth * taps, rows * inner] of output rows [first_row, first_row + rows).
template <class T>
void fill_columns(const Problem& problem, const T* image, std::int64_t first_row, std::int64_t rows, T* columns) {
  const std::size_t last = problem.in.size() - 1;
  const std::int64_t inner = problem.out[last];
  for (std::int64_t channel = 0; channel < problem.depth; ++channel) {
    const T* plane = image + channel * problem.in_size();
    for (std::int64_t t = 0; t < problem.taps(); ++t) {
      const Axes tap = tap_index(problem, t);
      const std::int64_t* sources = problem.sources(last, tap[last]);
      T* line = columns + (channel * problem.taps() + t) * rows * inner;
      for_rows(problem, tap, first_row, rows, [&](std::int64_t input, std::int64_t row) {
        T* out = line + (row - first_row) * inner;
        if (input < 0) return std::fill(out, out + inner, T{0});
        gather_row(sources, inner, problem.unit_step[last], plane + input * problem.in[last], out);
      });
    }
  }
}

/// Whether every output reads exactly its own position: the image is then its own column matrix.
bool pointwise(const Problem& problem) {
  if (problem.taps() != 1 || problem.in != problem.out) return false;
  for (const auto& table : problem.source) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (table[i] != static_cast<std::int64_t>(i)) return false;
    }
  }
  return true;
}

template <class T>
void by_columns(const Call& call, const Problem& problem, const T* image, const T* weights, T* out,
                std::vector<T>& scratch) {
  const std::int64_t k = problem.depth * problem.taps(), m = problem.outputs / (problem.groups * problem.batch_groups);
  const std::int64_t positions = problem.out_size();
  if (pointwise(problem)) return gemm(call, {m, positions, k, false}, weights, image, out);
  const std::int64_t inner = problem.out.back(), all_rows = positions / inner;
  constexpr std::int64_t column_elements = std::int64_t{1} << 19;
  const std::int64_t step =
      std::clamp<std::int64_t>(column_elements / std::max<std::int64_t>(1, k * inner), 1, all_rows);
  scratch.resize(at(k * step * inner + m * step * inner));
  for (std::int64_t row = 0; row < all_rows; row += step) {
    const std::int64_t rows = std::min(step, all_rows - row), width = rows * inner;
    fill_columns(problem, image, row, rows, scratch.data());
    if (step == all_rows) return gemm(call, {m, width, k, false}, weights, scratch.data(), out);
    T* part = scratch.data() + k * step * inner;
    std::fill(part, part + m * width, T{0});
    gemm(call, {m, width, k, false}, weights, scratch.data(), part);
    for (std::int64_t i = 0; i < m; ++i) std::copy_n(part + i * width, width, out + i * positions + row * inner);
  }
}

template <class T>
void multiply_row(const std::int64_t* sources, std::int64_t count, bool unit_step, T weight, const T* in, T* out) {
  const auto [begin, end] = inside_range(sources, count);
  if (begin == end) return;
  if (unit_step) {
    const T* row = in + sources[begin];
    for (std::int64_t i = begin; i < end; ++i) out[i] += weight * row[i - begin];
  } else {
    for (std::int64_t i = begin; i < end; ++i) out[i] += sources[i] < 0 ? T{0} : weight * in[sources[i]];
  }
}

template <class T>
void by_rows(const Call& call, const Problem& problem, const T* image, const T* weights, T* out) {
  const std::size_t last = problem.in.size() - 1;
  const std::int64_t inner = problem.out[last], rows = problem.out_size() / inner;
  const std::int64_t outputs = problem.outputs / (problem.groups * problem.batch_groups);
  for (std::int64_t o = 0; o < outputs; ++o) {
    call.poll();
    for (std::int64_t i = 0; i < problem.depth * problem.taps(); ++i) {
      const Axes tap = tap_index(problem, i % problem.taps());
      const T* plane = image + (i / problem.taps()) * problem.in_size();
      const T weight = weights[o * problem.depth * problem.taps() + i];
      for_rows(problem, tap, 0, rows, [&](std::int64_t input, std::int64_t row) {
        if (input < 0) return;
        multiply_row(problem.sources(last, tap[last]), inner, problem.unit_step[last], weight,
                     plane + input * problem.in[last], out + (o * rows + row) * inner);
      });
    }
  }
}

template <class T>
void run(const Call& call, const Problem& problem, const T* x, const T* w, T* y) {
  const std::int64_t all_groups = problem.groups * problem.batch_groups, group_outputs = problem.outputs / all_groups;
  const bool shallow = problem.depth <= 2 && group_outputs <= 4;
  std::vector<T> scratch;
  for (std::int64_t image = 0; image < problem.result_batch; ++image) {
    for (std::int64_t group = 0; group < all_groups; ++group) {
      const std::int64_t batch_group = group / problem.groups, feature_group = group % problem.groups;
      const std::int64_t source = batch_group * problem.result_batch + image;
      const T* in = x + (source * problem.channels + feature_group * problem.depth) * problem.in_size();
      const T* weights = w + group * group_outputs * problem.depth * problem.taps();
      T* out = y + (image * problem.outputs + group * group_outputs) * problem.out_size();
      if (shallow) {
        by_rows(call, problem, in, weights, out);
      } else {
        by_columns(call, problem, in, weights, out, scratch);
      }
    }
  }
}

Problem problem_of(const Call& call, const Array& x, const Array& w, const Shape& y) {
  Problem problem;
  problem.batch = x.shape()[0];
  problem.channels = x.shape()[1];
  problem.outputs = w.shape()[0];
  problem.depth = w.shape()[1];
  problem.groups = call.attributes().integer("groups", 1);
  problem.batch_groups = call.attributes().integer("batch_groups", 1);
  problem.result_batch = y[0];
  problem.in.assign(x.shape().begin() + 2, x.shape().end());
  problem.window.assign(w.shape().begin() + 2, w.shape().end());
  problem.out.assign(y.begin() + 2, y.end());
  if (problem.in.empty()) {  // no spatial axis: one position
    problem.in = problem.window = problem.out = {1};
    problem.source = {{0}};
    problem.unit_step = {true};
  } else {
    fill_sources(problem, call.attributes());
  }
  return problem;
}

}  // namespace

Results convolution(const Call& call) {
  const Attributes& attributes = call.attributes();
  const std::string &x_labels = attributes.text("x_labels"), &w_labels = attributes.text("w_labels");
  const std::string& y_labels = attributes.text("y_labels");
  std::string spatial;
  for (const char letter : x_labels) {
    if (letter != 'N' && letter != 'C') spatial += letter;
  }
  const TensorType& type = call.result();
  const DType sum_type = accumulator(call, call.operand(0).dtype(), call.operand(1).dtype(), type.dtype);
  const Array x = permuted(product_operand(call, call.operand(0), sum_type), canonical(x_labels, "NC", spatial));
  const Array w = permuted(product_operand(call, call.operand(1), sum_type), canonical(w_labels, "OI", spatial));

  // y_labels names its feature axis C (as x_labels does)
  const Axes y_axes = canonical(y_labels, "NC", spatial);
  Shape y_shape;
  Axes back(y_axes.size());
  for (std::size_t i = 0; i < y_axes.size(); ++i) {
    y_shape.push_back(type.shape[at(y_axes[i])]);
    back[at(y_axes[i])] = static_cast<std::int64_t>(i);
  }
  Array sum(sum_type, y_shape);
  if (sum.size() > 0 && w.size() > 0) {
    const Problem problem = problem_of(call, x, w, y_shape);
    with_accumulator(sum_type, [&](auto zero) {
      using T = decltype(zero);
      run(call, problem, x.as<T>(), w.as<T>(), sum.as<T>());
    });
  }
  if (!call.has(2)) return {permuted(sum.to(type.dtype), back)};
  Shape bias_shape(y_shape.size() - 1, 1);
  bias_shape[0] = y_shape[1];
  const Array bias = call.operand(2).reshaped(bias_shape);
  return {permuted(add_bias(call, std::move(sum), &bias, {type.dtype, y_shape}), back)};
}

}  // namespace tilesim::kernels
