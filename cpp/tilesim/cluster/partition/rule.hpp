// Sharding rules of operations: loop dimensions ("factors") that tensor axes share, derived from the domain of each
// kind.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tilesim/cluster/partition/layout.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim::partitioning {

struct Factor {
  enum class Sort : std::uint8_t {
    parallel,  ///< results are sharded like operands
    reduced,   ///< every device has a partial result
    whole,     ///< every device needs the full axis
  };
  std::string name;
  std::int64_t extent = 1;
  Sort sort = Sort::parallel;
  bool uneven = true;    ///< the last parts may be padded
  std::string combiner;  ///< reduced: combiner of the parts
  bool instead = false;  ///< replaces the previous factor of an axis's list, if that is not sharded
  std::string why;       ///< whole: the reason
};

/// Factors of each axis, major first; the rest of an axis is unsharded.
using AxisFactors = std::vector<std::vector<int>>;

/// An operand axis read at shifted positions: element i of `factor` reads from position step * i + constant on, up to
/// `reach` further. Positions include holes between elements of the axis.
struct Halo {
  std::size_t operand = 0, axis = 0;
  int factor = 0;
  std::int64_t step = 1, constant = 0, reach = 0;
  std::int64_t divisor = 1;  ///< positions per element
  std::int64_t extent = 1;   ///< elements of the axis
  bool sums = false;         ///< results are sums over the factor
};

/// Elements `from` to `to` of an operand of a join, placed from `place` on.
struct Stretch {
  std::int64_t from = 0, to = 0, place = 0;
  std::int64_t extent = 0;  ///< extent of the operand's axis
  bool divided = true;      ///< sharded with the result; else full on each device
  std::size_t same = 0;     ///< first operand with the same value
};

/// Operands joined along an axis: each device receives the pieces of its part of the result.
struct Join {
  int factor = -1;  ///< -1: none
  std::size_t axis = 0;
  std::int64_t extent = 0;
  bool settled = false;  ///< known which operands are sharded; before that, short ones do not propagate
  std::vector<Stretch> stretches{};
};

struct Rule {
  std::vector<Factor> factors;
  std::vector<AxisFactors> operands, results;
  std::vector<Halo> halos;
  Join join{};
  int scan = -1;         ///< factor along which a kind accumulates: a device continues from the previous ones
  int keys = -1;         ///< of an attention: devices have parts of the keys, and combine their weighted results
  int ordered = -1;      ///< an axis of all tensors that each device needs in full, and that is sharded again
                         ///< afterwards
  Atoms own;             ///< the tensors are per-device over these: they shard no axis
  bool product = false;  ///< propagates only after other operations
  std::string why;       ///< why no axis may be sharded
};

Rule rule_of(const GraphFunction& function, const Op& op);
/// Whether a reduction returns the position of an extreme.
bool is_place(const std::string& combiner);
/// Whether padding can hold the combiner's neutral element in this dtype.
bool has_neutral(const std::string& combiner, DType dtype);

/// Atoms of each factor of an operation.
using Division = std::vector<Atoms>;
/// Reads atoms that shard factors from a tensor's layout, as far as the rule allows.
void read_division(const Grid& grid, const Rule& rule, const AxisFactors& axes, const Layout& layout,
                   Division& division);
/// Removes impossible shardings, such as of a minor factor whose major factors are not fully sharded.
void make_possible(const Grid& grid, const Rule& rule, Division& division);
/// Layout of a tensor under a division (without partial results).
Layout layout_of(const Grid& grid, const Rule& rule, const AxisFactors& axes, const Division& division);

namespace rules_of_kinds {
using Types = std::vector<const TensorType*>;
/// Derives rules of kinds without affine access from their attributes. Returns false for other kinds.
bool special(const GraphFunction& function, const Op& op, Rule& rule);
/// Adds the split of an attention's keys: each device attends to its part.
void divides_keys(const Op& op, const Types& types, Rule& rule);
/// Whether the keys visible to a query of an attention depend on its position.
bool sees_by_place(const Op& op);
/// Adds a factor for short pieces of a sharded axis: each device contributes its elements, and zeros elsewhere.
int pieces(Rule& rule, std::size_t axis, std::int64_t extent, DType dtype);
/// Adds the positions of a concat's operands in its result.
void joins(const GraphFunction& function, const Op& op, Rule& rule);
/// Adds the sharding of running sums and extremes along their axis, if there is a neutral element for the first device.
void scans(const GraphFunction& function, const Op& op, Rule& rule);
/// Batch axes that index components only enumerate: map from the axis of the indexed tensor to that of the indices.
std::map<std::int64_t, std::size_t> numbered_axes(const GraphFunction& function, const Op& op);
}  // namespace rules_of_kinds

}  // namespace tilesim::partitioning
