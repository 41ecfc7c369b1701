// Kinds of operations, each declared once: operands, attributes, shape and cost rules, iteration domain, access maps.
//
// Definition of the kinds. x is the first operand, [..] is optional, "dims" are axes >= 0. A name followed by values in
// quotes is a text attribute.
//
// contract(a, b, [bias])
//     a_batch, b_batch, a_contract, b_contract: axes, paired in order. dtype: of the result (a's, or i32 for integers
//     below 32 bits). Result axes: batch, free axes of a, of b. bias broadcasts to the result. precision "exact": float
//     operands are multiplied unrounded and summed in f32 or wider on every machine. b_format "2:4": at least two of
//     four adjacent elements of b along the contraction are zero. Lowering may store b in a 2:4 type (one element per
//     eight adjacent ones along the single contracted axis; the last element may exceed the axis).
// convolution(x, w, [bias])
//     x_labels and y_labels "NCHW", "NHWC", "NCW", "NCDHW", ..; w_labels "OIHW", ..: spatial letters are matched by
//     name. strides, pads (low, high per spatial axis, interleaved, may be negative), window_dilation, input_dilation
//     (interior zeros), groups, batch_groups, dtype. bias[O]. The window is not flipped (cross-correlation).
// elementwise(..)
//     function: a name of functions.hpp. Operands broadcast numpy-like and have one dtype (select: the condition is
//     bool). Result dtype: bool for predicates, else the operands'.
// convert(x)     dtype, rounding "nearest_even" | "toward_zero", overflow "ieee" | "saturate" (clamps, infinities too;
//     f32 and f64 keep infinities of narrower floats). NaN becomes 0 in integers and f4e2m1fn. To bool: x != 0.
// bitcast(x)     dtype of the same width; elements of a narrower dtype form a new last axis, and the inverse
// reduce(x)
//     dims, combiner "add" | "multiply" | "maximum" | "minimum" | "logical_and" | "logical_or" | "mean" | "argmax" |
//     "argmin", keep_dims (false), dtype of the result (default x's, i64 for arg*). The first index wins ties.
// cumulative(x)  dim, combiner "add" | "multiply" | "maximum" | "minimum", reverse, exclusive
// window_reduce(x)
//     window, strides, window_dilation: one entry per axis of x; pads: two, not negative; combiner "add" | "maximum" |
//     "minimum" | "multiply". Padding contributes the combiner's neutral element.
// gather(x, indices)
//     As StableHLO's: offset_dims, collapsed_slice_dims, start_index_map, index_vector_dim, slice_sizes; mode "clip" |
//     "fill" | "error".
// embedding(table[V, D], ids)
//     ids of any integer shape -> ids.shape + [D]; padding_index (-1: none; that row reads as zero)
// dynamic_slice(x, s0, s1, ..)      sizes; one integer scalar per axis, clamped into range
// dynamic_update(x, u, s0, s1, ..)  x with u written at the clamped start; costs the written part
// reshape(x)     shape
// transpose(x)   permutation: result axis i is x's axis permutation[i]
// broadcast(x)   shape, dims: result axis of each axis of x
// slice(x)       start, limit, stride
// reverse(x)     dims
// pad(x, [value])  low, high, interior; mode "constant" | "edge" | "reflect"; value 0 by default
// concat(..)     dim
// copy(x)        layout (false): the copy changes the layout in memory and is never a no-op
// iota()         shape, dtype, dim
// constant()     reference: name of a weight
// softmax(x), log_softmax(x)
//     dim. Subtracts each row's maximum first; computes in f32 or wider. A row of -inf gives NaN.
// normalize(x, [scale], [bias]) -> y, [mean, [rstd]]
//     mode "layer" | "rms" | "group" | "instance"; epsilon. layer, rms: dims are normalized; scale and bias have the
//     shape of dims; mean and rstd have x's shape with 1 in dims. group: groups; x is [N, C, ..], scale and bias [C],
//     mean and rstd [N, groups] ([N, C] for instance). mean and rstd are f32, or f64 for f64; the mean of rms is zero.
// batch_norm(x, scale, bias, mean, variance)  feature_dim, epsilon (inference)
// attention(q[B, H, S, D], k[B, G, T, D], v[B, G, T, E], [mask], [kv_len[B]], [pages[B, P]]) -> y, [lse[B, H, S]]
//     H a multiple of G. mask broadcasts to [B, H, S, T]; bool (true: keep) or float (added). scale (1 / sqrt(D)),
//     causal, causal_offset (t <= s + offset; T - S), window (0: none; t > s + offset - window), soft_cap (0: none),
//     masked_row "zero" | "nan". kv_len (operand or attribute; T): keys from there on are ignored. pages: k, v are
//     [N, G, page, ..], key t is row t % page of page pages[b, t / page]. lse: log of the sum of exponentials, or -inf.
// rotary(x[.., D], cos, sin)
//     x cos + turn(x) sin; cos and sin broadcast to x. style "halves": turn(x) = (-x[D/2:], x[:D/2]); "pairs": every
//     (x0, x1) becomes (-x1, x0).
// call(..), fused(..)
//     functions[0] is the callee; operands are its inputs, results its outputs. fused: one kernel on the machine. role:
//     free text.
// scatter(x, indices, updates)
//     As StableHLO's: update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, index_vector_dim;
//     combiner "set" | "add" | "multiply" | "maximum" | "minimum". Windows are applied in the order of indices. A
//     window that exceeds x is dropped (mode "drop") or an error (mode "error").
// window_scatter(x, source)
//     window, strides, pads as window_reduce; select "maximum" | "minimum": adds each element of source to a zero
//     tensor of x's shape, at the position of the first extreme element in its window of x (gradient of pooling).
// sort(x, ..)
//     dim, keys (1): number of leading operands that are compared, in order; descending. Stable. NaN is larger than
//     every number, -0 equals 0. Alternatively functions[0] is a comparator (a0, b0, a1, b1, ..) -> bool "a before
//     b".
// top_k(x) -> values, indices
//     dim, k, largest (true), dtype of the indices (i64). Sorted; equal values in order of index; NaN is largest.
// ragged_contract(a[M, K], b[G, K, N], group_sizes[G]) -> [M, N]
//     Multiplies the first group_sizes[0] rows of a by b[0], the next rows by b[1], ..; remaining rows give zeros.
//     b_transposed: b is [G, N, K]. Costs count all rows, and the bytes of one matrix of b.
// while(state..)
//     functions condition(state..) -> bool and body(state..) -> state..; trips: how often the body runs (0: unknown;
//     costs then count the body once).
// branch(which, x..)
//     which: true runs functions[0], false functions[1]; an integer is the function's index, and an index out of
//     range runs the last function. Costs count the most expensive function.
// linear_solve(a, [b])
//     mode "cholesky": the lower (lower: false: upper) factor of a[.., n, n]. mode "triangular": x of op(a) x = b
//     (left_side: false: x op(a) = b), lower, unit_diagonal, transpose_a. Batch axes are equal.
// fft(re, [im]) -> re, im
//     dim, inverse (divided by the extent). Real operands: im absent.
// all_reduce, all_gather, reduce_scatter, all_to_all, permute_devices, broadcast_devices (x), device_index()
//     groups (device numbers, group after group), group_size, channel, partitions (true: devices are partitions, else
//     replicas). combiner of all_reduce and reduce_scatter; dim of all_gather and reduce_scatter; split_dim, concat_dim
//     of all_to_all; pairs (source, target, ..) of permute_devices. device_index: u32, axis "replica" | "partition".
// opaque(..)
//     target: name of a user-defined operation, which has a definition and a kernel. results: types as texts,
//     "f32[2, 3]". roundings: units of rounding by which a kernel's float result may differ from the definition (0).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tilesim/base/functions/functions.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim {

enum class AttributeType : std::uint8_t { flag, integer, number, text, integers, texts, dtype };
enum class Effect : std::uint8_t { pure, random, state, collective };

struct AttributeInfo {
  std::string name;
  AttributeType type;
  bool required;
  std::vector<std::string> allowed;  ///< values of a text attribute; empty: any
};

/// Affine access along a tensor axis: index = constant + sum(coefficient * domain dim).
struct AxisAccess {
  struct Term {
    int dim;
    std::int64_t coefficient;
  };
  std::vector<Term> terms;
  std::int64_t constant = 0;
  bool may_leave = false;    ///< the index may be outside the axis (padding), where the kind's fill is read
  std::int64_t divisor = 1;  ///< > 1 (input dilation): the sum is divided; indices that are no multiples read fill
  std::int64_t window = 1;   ///< number of consecutive elements that every point reads from the index on
};
struct Access {
  std::vector<AxisAccess> axes;
  bool affine = true;  ///< false (gather, reshape): `axes` is empty, and the entire operand may be read
};

/// The loop nest of an operation: extents of dims, which dims are reduced, and an access map per operand and result.
struct Domain {
  std::vector<std::int64_t> extents;
  std::vector<std::string> names;  ///< "m", "n", "k", "b", ... for messages and mappings
  std::vector<bool> reduction;
  std::vector<Access> operands;
  std::vector<Access> results;
};

/// Operations by unit: a multiply-add counts 2 in `matrix`; other functions count in the member of their FlopClass.
struct Flops {
  double matrix = 0;
  double simple = 0, multiply = 0, divide = 0, transcendental = 0;
  double total() const { return matrix + simple + multiply + divide + transcendental; }
  Flops& operator+=(const Flops& other);
};

struct KindInfo {
  Kind kind;
  std::string_view name;
  int min_operands, max_operands;  ///< max -1: any number
  int min_results, max_results;
  std::vector<std::string> operand_names;
  std::vector<AttributeInfo> attributes;
  Effect effect = Effect::pure;
  bool composite = false;  ///< has an expansion into primitives
  bool movement = false;   ///< moves or reinterprets bytes, without arithmetic
  /// Result types from operand types (null for missing optional operands). Throws UserError if they do not match.
  std::vector<TensorType> (*infer)(const Op& op, std::span<const TensorType* const> operands, const Graph& graph);
  Flops (*flops)(const Op& op, std::span<const TensorType* const> operands, std::span<const TensorType> results);
  Domain (*domain)(const Op& op, std::span<const TensorType* const> operands, std::span<const TensorType> results);
};

const KindInfo& info(Kind kind);
Kind parse_kind(std::string_view name);
std::vector<std::string> kind_names();

/// Types of an operation's operands; null for a missing operand.
std::vector<const TensorType*> operand_types(const GraphFunction& function, const Op& op);
std::vector<TensorType> infer_results(const Graph& graph, const GraphFunction& function, const Op& op);
Flops flops(const Graph& graph, const GraphFunction& function, const Op& op);  ///< includes calls
Flops flops(const Graph& graph);
Domain domain(const GraphFunction& function, const Op& op);
/// Least bytes that cross the chip's boundary: inputs, weights and outputs of the graph, each once, packed.
std::int64_t compulsory_bytes(const Graph& graph);
/// The same for one operation or fused node: operands and results once; of the tensors that slices, gathers and updates
/// access, the accessed part.
std::int64_t compulsory_bytes(const Graph& graph, const GraphFunction& function, const Op& op);
/// Per elementwise operation: share of its elements that other operations or outputs read; 1 for other kinds.
std::vector<double> read_shares(const Graph& graph, const GraphFunction& function);

}  // namespace tilesim
