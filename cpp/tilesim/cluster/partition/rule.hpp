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
    parallel,  ///< results are divided as operands are
    reduced,   ///< every device has a part of a combination
    whole,     ///< every device needs all of it
  };
  std::string name;
  std::int64_t extent = 1;
  Sort sort = Sort::parallel;
  bool uneven = true;    ///< may be divided into parts of which the last ones are padded
  std::string combiner;  ///< reduced: of the parts
  bool instead = false;  ///< stands for the factor before it in an axis's list, where that one is not divided
  std::string why;       ///< whole: the reason
};

/// Factors of each axis, major first; what is left of an axis is whole.
using AxisFactors = std::vector<std::vector<int>>;

/// An axis of an operand that is read at shifted places: element i of `factor` reads from step * i + constant on, up to
/// `reach` further; where there are holes between the elements of the axis, in places with holes.
struct Halo {
  std::size_t operand = 0, axis = 0;
  int factor = 0;
  std::int64_t step = 1, constant = 0, reach = 0;
  std::int64_t divisor = 1;  ///< places from one element to the next
  std::int64_t extent = 1;   ///< elements of the axis
  bool sums = false;         ///< results are sums over the factor
};

/// What an operand gives to what is put together along an axis: its elements `from` to `to`, from `place` on.
struct Stretch {
  std::int64_t from = 0, to = 0, place = 0;
  std::int64_t extent = 0;  ///< of the operand's axis
  bool divided = true;      ///< along with the result; else each device has all of it
  std::size_t same = 0;     ///< the first operand that is the same value
};

/// Operands put together along an axis: each device gets the pieces of its part of the result.
struct Join {
  int factor = -1;  ///< none: -1
  std::size_t axis = 0;
  std::int64_t extent = 0;
  bool settled = false;  ///< it is known which operands are divided; before, short ones say nothing
  std::vector<Stretch> stretches{};
};

struct Rule {
  std::vector<Factor> factors;
  std::vector<AxisFactors> operands, results;
  std::vector<Halo> halos;
  Join join{};
  int scan = -1;         ///< the factor along which a kind accumulates: a device goes on from those before it
  int keys = -1;         ///< of an attention: devices have parts of them, and what they attend to is weighed and summed
  int ordered = -1;      ///< an axis of all tensors that each device needs whole, and that is divided again behind it
  Atoms own;             ///< over these the tensors are a device's own: they divide nothing
  bool product = false;  ///< passes divisions on only after the others have
  std::string why;       ///< nothing may be divided: the reason
};

Rule rule_of(const GraphFunction& function, const Op& op);
/// Whether a reduction finds where an extreme is.
bool is_place(const std::string& combiner);
/// Whether padding can be given the combiner's neutral element in this dtype.
bool has_neutral(const std::string& combiner, DType dtype);

/// Atoms of each factor of an operation.
using Division = std::vector<Atoms>;
/// What a tensor's layout says about factors: atoms that divide them, as far as the rule lets them.
void read_division(const Grid& grid, const Rule& rule, const AxisFactors& axes, const Layout& layout,
                   Division& division);
/// Takes away what some tensor cannot have: a minor factor of an axis whose major ones are not divided to the end.
void make_possible(const Grid& grid, const Rule& rule, Division& division);
/// Layout of a tensor under a division (without partial results).
Layout layout_of(const Grid& grid, const Rule& rule, const AxisFactors& axes, const Division& division);

namespace rules_of_kinds {
using Types = std::vector<const TensorType*>;
/// Rules of kinds whose access is not affine, by what their attributes say. False: the kind has none here.
bool special(const GraphFunction& function, const Op& op, Rule& rule);
/// Parts of an attention's keys: each device attends to its own.
void divides_keys(const Op& op, const Types& types, Rule& rule);
/// Whether the keys that a query of an attention meets depend on its place.
bool sees_by_place(const Op& op);
/// Parts of an axis of which a short piece is taken: each device gives what it has of the piece, and zeros.
int pieces(Rule& rule, std::size_t axis, std::int64_t extent, DType dtype);
/// Operands of a concat stand in its result from their places on.
void joins(const GraphFunction& function, const Op& op, Rule& rule);
/// Running sums and extremes along a divided axis, where a device that takes none of another's total can say so.
void scans(const GraphFunction& function, const Op& op, Rule& rule);
/// Batch axes that components of index vectors only number: by axis of what is indexed, those of the indices.
std::map<std::int64_t, std::size_t> numbered_axes(const GraphFunction& function, const Op& op);
}  // namespace rules_of_kinds

}  // namespace tilesim::partitioning
