// Kinds of operations, each declared once: operands, attributes, shape and cost rules, iteration domain with access
// maps.
//
// Meaning of the kinds (x: first operand; "dims" are axes >= 0; [..] optional):
//  contract(a, b, [bias])      a_batch, b_batch, a_contract, b_contract: integers; dtype: result type. Result dims:
//  batch, free dims
//                              of a, free dims of b, in that order. bias broadcasts numpy-like to the result.
//  convolution(x, w, [bias])   x_labels "NCHW"/"NHWC"/"NCW"/"NCDHW".., w_labels "OIHW".., y_labels; strides, pads (low,
//  high per spatial axis,
//                              interleaved, may be negative), window_dilation, input_dilation (interior zeros), groups,
//                              batch_groups; dtype. bias[O]. Spatial letters are matched by name between labels.
//                              Cross-correlation (no kernel flip).
//  elementwise(...)            function (name in functions.hpp). Operands broadcast numpy-like. Same dtype for all but
//  select's condition (bool).
//                              Result dtype: bool for predicates, else the operands'.
//  convert(x)                  dtype, rounding "nearest_even"|"toward_zero", overflow "ieee"|"saturate".   bitcast(x)
//  dtype (same bits). reduce(x)                   dims, combiner
//  add|multiply|maximum|minimum|logical_and|logical_or|mean|argmax|argmin, keep_dims (false), dtype (result;
//                              default x's, i64 for arg*). First index wins ties.
//  cumulative(x)               dim, combiner add|multiply|maximum|minimum, reverse, exclusive.
//  window_reduce(x)            window, strides, pads (2*rank interleaved), window_dilation: one entry per axis of x;
//  combiner add|maximum|minimum|multiply.
//                              Padding contributes the combiner's neutral element.
//  gather(x, indices)          StableHLO: offset_dims, collapsed_slice_dims, start_index_map, index_vector_dim,
//  slice_sizes; mode clip|fill|error. embedding(table, ids)       table[V, D], ids any integer shape -> ids.shape +
//  [D]; padding_index (-1: none; that row reads as zero). dynamic_slice(x, s0, s1..)  sizes; one i32/i64 scalar per
//  axis, clamped into range. dynamic_update(x, u, s0..)  result is x with u written at the (clamped) start; costs the
//  written part. reshape(x) shape · transpose(x) permutation (result axis i is x's axis permutation[i]) · broadcast(x)
//  shape, dims (x axis -> result axis) slice(x) start, limit, stride · reverse(x) dims · pad(x, [value]) low, high,
//  interior; mode constant|edge|reflect; default value 0 concat(...) dim · copy(x) · iota() shape, dtype, dim ·
//  constant() reference softmax(x) dim · log_softmax(x) dim     (any row is shifted by its maximum; computed in f32 or
//  wider) normalize(x, [scale], [bias])  mode layer|rms|group|instance; dims (layer, rms: normalized axes, scale/bias
//  have their shape);
//                              groups (group: x is N, C, ...; scale/bias [C]); epsilon. Results y, [mean, rstd] (as
//                              many as listed).
//  batch_norm(x, scale, bias, mean, variance)  feature_dim, epsilon (inference).
//  attention(q, k, v, [mask])  q[B, H, S, D], k[B, G, T, D], v[B, G, T, E], H a multiple of G; mask broadcastable to
//  [B, H, S, T], bool (true: keep) or
//                              float (added); scale (default 1/sqrt(D)), causal, causal_offset (key t visible to query
//                              s iff t <= s + offset; default T - S), window (0: none; else t > s + offset - window),
//                              soft_cap (0: none), masked_row "zero"|"nan".
//  call(...) / fused(...)      functions[0] is the callee; operands are its inputs, results its outputs. fused: one
//  kernel on the machine; attribute "role".
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tilesim/base/functions.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim {

enum class AttributeType : std::uint8_t { flag, integer, number, text, integers, texts, dtype };
enum class Effect : std::uint8_t { pure, random, state, collective };

struct AttributeInfo {
  std::string name;
  AttributeType type;
  bool required;
  std::vector<std::string> allowed;  ///< of a text attribute; empty: any
};

/// Affine access: index of each tensor axis = constant + sum(coefficient * domain dim).
struct AxisAccess {
  struct Term {
    int dim;
    std::int64_t coefficient;
  };
  std::vector<Term> terms;
  std::int64_t constant = 0;
  bool may_leave = false;  ///< may fall outside the axis (padding): then the fill of the kind is read
  std::int64_t divisor =
      1;  ///< > 1: only multiples exist (input dilation): floor-divided after the sum, others read fill
};
struct Access {
  std::vector<AxisAccess> axes;
  bool affine = true;  ///< false: data-dependent or not affine (gather, reshape); then `axes` is empty and the whole
                       ///< operand may be read
};

/// The loop nest that an operation means: `extents` of dims, which of them are reduced, an access map per operand and
/// result.
struct Domain {
  std::vector<std::int64_t> extents;
  std::vector<std::string> names;  ///< "m", "n", "k", "b", ... for messages and mappings
  std::vector<bool> reduction;
  std::vector<Access> operands;
  std::vector<Access> results;
};

/// Operations by unit: multiply-adds count 2 under matrix; vector classes per FlopClass.
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
  bool movement = false;   ///< moves or views bytes, computes nothing
  /// Result types from operand types (absent optional operands are skipped as null). Throws UserError on a mismatch.
  std::vector<TensorType> (*infer)(const Op& op, std::span<const TensorType* const> operands, const Graph& graph);
  Flops (*flops)(const Op& op, std::span<const TensorType* const> operands, std::span<const TensorType> results);
  Domain (*domain)(const Op& op, std::span<const TensorType* const> operands, std::span<const TensorType> results);
};

const KindInfo& info(Kind kind);
Kind parse_kind(std::string_view name);
std::vector<std::string> kind_names();

/// Operand types of an operation in its function (null where absent).
std::vector<const TensorType*> operand_types(const GraphFunction& function, const Op& op);
std::vector<TensorType> infer_results(const Graph& graph, const GraphFunction& function, const Op& op);
Flops flops(const Graph& graph, const GraphFunction& function, const Op& op);  ///< calls included
Flops flops(const Graph& graph);
Domain domain(const GraphFunction& function, const Op& op);
/// Bytes that must cross the chip's border at least: distinct inputs, weights and outputs of the graph, packed.
std::int64_t compulsory_bytes(const Graph& graph);
/// Compulsory bytes of one operation (or fused node): operands and results once; only the touched part of slices,
/// gathers, updates.
std::int64_t compulsory_bytes(const Graph& graph, const GraphFunction& function, const Op& op);

}  // namespace tilesim
