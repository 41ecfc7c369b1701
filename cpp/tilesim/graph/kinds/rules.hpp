// Helpers that the rules of all kinds share: reading attributes, messages and access maps. Internal to this module.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim::rules {

using Types = std::span<const TensorType* const>;
using Integers = std::vector<std::int64_t>;

inline std::int64_t rank(const TensorType& type) { return static_cast<std::int64_t>(type.shape.size()); }

/// Text of a location: "function "main", operation "relu" (model.py:12)"
std::string place_of(const GraphFunction& function, const Op& op);
/// Throws UserError without a location; infer_results adds it.
[[noreturn]] void refuse(const std::string& what, const std::string& got = {}, const std::string& expected = {},
                         const std::string& suggestion = {});

/// Whether operations of the kind refer to functions of the graph.
bool holds_functions(Kind kind);
/// Checks operand and result counts, presence of operands, names, types and allowed values of attributes.
void check_form(const GraphFunction& function, const Op& op);

/// Largest stride, pad or dilation, so that sums and products of an axis's settings fit in 128 bits.
inline constexpr std::int64_t largest_setting = std::int64_t{1} << 40;
inline constexpr std::int64_t largest_extent = std::int64_t{1} << 62;

// Attributes, checked against the shapes.
std::int64_t axis(const Op& op, const char* name, std::int64_t rank);
Integers axes(const Op& op, const char* name, std::int64_t rank);  ///< distinct; {} when absent
/// `count` integers of at least `low`; all are `fallback` if the attribute is absent.
Integers sized(const Op& op, const char* name, std::int64_t count, std::int64_t fallback, std::int64_t low);
Integers required_sized(const Op& op, const char* name, std::int64_t count, std::int64_t low);
Shape shape_attribute(const Op& op);
bool contains(const Integers& list, std::int64_t value);

// Types.
bool present(Types operands, std::size_t index);
void want_float(const TensorType& type, const char* role);
void want_integer(const TensorType& type, const char* role);
void want_rank(const TensorType& type, std::int64_t rank, const char* role);
void want_shape(const TensorType& type, const Shape& shape, const char* role);
void want_dtype(const TensorType& type, DType dtype, const char* role);
/// Requires numpy broadcasting to exactly `shape`.
void want_broadcastable(const TensorType& type, const Shape& shape, const char* role);
std::int64_t count(const TensorType& type);
/// The type for computing: f64 stays, narrower floats use f32.
DType compute_dtype(DType dtype);

/// Extent of a strided window sliding over a padded axis; 0 if it does not fit (StableHLO, convolution).
std::int64_t window_extent(std::int64_t extent, std::int64_t window, std::int64_t stride, std::int64_t low,
                           std::int64_t high, std::int64_t dilation, std::int64_t hole);

// Domains.
AxisAccess along(std::int64_t dim, std::int64_t coefficient = 1);
Access identity(std::int64_t rank);
/// Access of an operand that broadcasts as in numpy to `shape`, whose axes are the dims 0..
Access broadcasted(const Shape& from, const Shape& shape);
Access data_dependent();
/// A domain with dims d0, d1, ... over `extents`; the caller adds accesses.
Domain over(const Shape& extents);
Domain elementwise_domain(const Op& op, Types operands, std::span<const TensorType> results);
/// A domain in which each result element may depend on all of every operand.
Domain opaque_domain(const Op& op, Types operands, std::span<const TensorType> results);

// Costs.
void count_function(Flops& flops, Function function, double elements);
Flops no_flops(const Op& op, Types operands, std::span<const TensorType> results);
/// Flops of a composite kind: those of its expansion.
Flops expansion_flops(const Op& op, Types operands, std::span<const TensorType> results);

/// The operand of normalize. layer, rms: `dims` of x are normalized. group, instance: x [N, C, ...] is viewed as [N,
/// groups, C / groups, ...], and all axes but the first two are normalized.
struct NormalizeShape {
  Shape extents;    ///< of x, or of the grouped view
  Integers dims;    ///< normalized axes of `extents`
  Shape parameter;  ///< shape of scale and bias
  Shape moments;    ///< shape of the results mean and rstd
};
NormalizeShape normalize_shape(const Op& op, const TensorType& x);

AttributeInfo optional(std::string name, AttributeType type, std::vector<std::string> allowed = {});
AttributeInfo required(std::string name, AttributeType type, std::vector<std::string> allowed = {});

// One function per family adds its kinds; kind.cpp builds the table.
void add_products(std::vector<KindInfo>& table);
void add_ragged(std::vector<KindInfo>& table);
void add_vector(std::vector<KindInfo>& table);
void add_windows(std::vector<KindInfo>& table);
void add_indexing(std::vector<KindInfo>& table);
void add_movement(std::vector<KindInfo>& table);
void add_composite(std::vector<KindInfo>& table);
void add_attention(std::vector<KindInfo>& table);
void add_functions(std::vector<KindInfo>& table);
void add_scatters(std::vector<KindInfo>& table);
void add_orders(std::vector<KindInfo>& table);
void add_control(std::vector<KindInfo>& table);
void add_solvers(std::vector<KindInfo>& table);
void add_collectives(std::vector<KindInfo>& table);
void add_rotary(std::vector<KindInfo>& table);
void add_opaque(std::vector<KindInfo>& table);

/// A kind with one operand, one result of the same shape, no attributes and no FLOPs.
KindInfo of_one(Kind kind, std::string_view name);

}  // namespace tilesim::rules
