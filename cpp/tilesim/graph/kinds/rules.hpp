// Helpers for the rules of all kinds: attributes, messages and access maps. Internal to this module.
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

/// The location for messages: "function "main", operation "relu" (model.py:12)".
std::string place_of(const GraphFunction& function, const Op& op);
/// Throws UserError without a location, which infer_results adds.
[[noreturn]] void refuse(const std::string& what, const std::string& got = {}, const std::string& expected = {},
                         const std::string& suggestion = {});

/// Whether operations of the kind have functions of the graph as attributes.
bool holds_functions(Kind kind);
/// Checks numbers of operands and results, missing operands, and names, types and values of attributes.
void check_form(const GraphFunction& function, const Op& op);

/// Largest stride, pad or dilation: sums and products of the settings of an axis then fit in 128 bits.
inline constexpr std::int64_t largest_setting = std::int64_t{1} << 40;
inline constexpr std::int64_t largest_extent = std::int64_t{1} << 62;

// Getters of attributes that also check the attribute against shapes.
std::int64_t axis(const Op& op, const char* name, std::int64_t rank);
Integers axes(const Op& op, const char* name, std::int64_t rank);  ///< distinct; empty if missing
/// `count` integers of at least `low`; if the attribute is missing, each is `fallback`.
Integers sized(const Op& op, const char* name, std::int64_t count, std::int64_t fallback, std::int64_t low);
Integers required_sized(const Op& op, const char* name, std::int64_t count, std::int64_t low);
Shape shape_attribute(const Op& op);
bool contains(const Integers& list, std::int64_t value);

// Checks of types; they throw UserError.
bool present(Types operands, std::size_t index);
void want_float(const TensorType& type, const char* role);
void want_integer(const TensorType& type, const char* role);
void want_rank(const TensorType& type, std::int64_t rank, const char* role);
void want_shape(const TensorType& type, const Shape& shape, const char* role);
void want_dtype(const TensorType& type, DType dtype, const char* role);
/// Requires that the type broadcasts to exactly `shape`, as in numpy.
void want_broadcastable(const TensorType& type, const Shape& shape, const char* role);
std::int64_t count(const TensorType& type);
/// The dtype of intermediate results: f64 for f64, f32 for narrower floats.
DType compute_dtype(DType dtype);

/// Number of positions of a strided window on a padded axis; 0 if the window does not fit (StableHLO, convolution).
std::int64_t window_extent(std::int64_t extent, std::int64_t window, std::int64_t stride, std::int64_t low,
                           std::int64_t high, std::int64_t dilation, std::int64_t hole);

// Builders of domains.
AxisAccess along(std::int64_t dim, std::int64_t coefficient = 1);
Access identity(std::int64_t rank);
/// Access of an operand that broadcasts to `shape` as in numpy; axis i of `shape` is dim i of the domain.
Access broadcasted(const Shape& from, const Shape& shape);
Access data_dependent();
/// A domain with dims d0, d1, ... of the given extents; the caller adds accesses.
Domain over(const Shape& extents);
Domain elementwise_domain(const Op& op, Types operands, std::span<const TensorType> results);
/// A domain in which each result element may depend on all elements of all operands.
Domain opaque_domain(const Op& op, Types operands, std::span<const TensorType> results);

// Costs.
void count_function(Flops& flops, Function function, double elements);
Flops no_flops(const Op& op, Types operands, std::span<const TensorType> results);
/// The flops of a composite operation's expansion.
Flops expansion_flops(const Op& op, Types operands, std::span<const TensorType> results);

/// Shapes of a normalize. layer, rms: `dims` of x are normalized. group, instance: x [N, C, ...] is viewed as [N,
/// groups, C / groups, ...], whose axes from the third on are normalized.
struct NormalizeShape {
  Shape extents;    ///< shape of x, or of the grouped view
  Integers dims;    ///< normalized axes of `extents`
  Shape parameter;  ///< shape of scale and bias
  Shape moments;    ///< shape of the results mean and rstd
};
NormalizeShape normalize_shape(const Op& op, const TensorType& x);

AttributeInfo optional(std::string name, AttributeType type, std::vector<std::string> allowed = {});
AttributeInfo required(std::string name, AttributeType type, std::vector<std::string> allowed = {});

// Each function adds the kinds of a family to the table of kind.cpp.
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

/// A kind with one operand, one result of the same shape, no attributes and zero flops.
KindInfo of_one(Kind kind, std::string_view name);

}  // namespace tilesim::rules
