// Value ranges of a vector compute's nodes, and the number of bits in which a kernel holds them.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// What the bits of a value in registers are.
enum class Held : std::uint8_t {
  floating,      ///< f32
  integer,       ///< 32 bits: the number, or the lowest ones of it where nobody asks for more
  natural,       ///< 32 bits without a sign
  wide,          ///< 64 bits
  wide_natural,  ///< 64 bits without a sign: only what functions of u64 compute in
  real,          ///< f64
};
constexpr int bits_of(Held held) {
  return held == Held::wide || held == Held::wide_natural || held == Held::real ? 64 : 32;
}
constexpr bool is_floating(Held held) { return held == Held::floating || held == Held::real; }
constexpr bool has_sign(Held held) { return held != Held::natural && held != Held::wide_natural; }
/// As a load leaves an element of the type, and a store takes it; floats as f32 but for f64.
Held held_as(DType dtype);

/// Integers between two bounds.
struct Numbers {
  std::int64_t low = std::numeric_limits<std::int64_t>::min(), high = std::numeric_limits<std::int64_t>::max();

  static Numbers all_of_type(DType dtype);  ///< all of an integer type; u64: all of 64 bits, as tile computes hold them
  bool within(const Numbers& other) const { return low >= other.low && high <= other.high; }
  bool contains(std::int64_t number) const { return low <= number && number <= high; }
  bool fits(Held held) const;
};
Numbers either(const Numbers& a, const Numbers& b);

/// Of one node. Of integers only what someone asks for is held: sums and products are right in as many bits as their
/// result takes, whatever their terms are.
struct NodeValue {
  Held held = Held::floating;
  Held work = Held::floating;  ///< what its function computes in
  int asked = 64;              ///< of integers: how many of the lowest bits someone asks for; 64: for the number
  bool whole = true;           ///< of integers: registers have the number, or its lowest bits, in all of theirs
  Numbers numbers;             ///< of integers, as the meaning has them
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();  ///< of floats, NaN aside
};

/// A compute whose functions take operands of one kind: what converts them is a separate node.
class TypedCompute {
 public:
  explicit TypedCompute(const VectorCompute& compute);

  const VectorCompute& compute() const { return compute_; }
  const NodeValue& value_at(int node) const { return values_[static_cast<std::size_t>(node)]; }
  const NodeValue& value_at(const VectorNode& node) const {
    return value_at(static_cast<int>(&node - compute_.nodes.data()));
  }
  Held total(std::size_t output) const { return totals_[output]; }     ///< in which it is combined
  bool bounded(std::size_t output) const { return bounded_[output]; }  ///< its neutral element decides with the others
  bool real() const { return real_; }                                  ///< floats are f64
  int bits() const { return bits_; }                                   ///< of the widest value
  const std::string& inexact() const { return inexact_; }              ///< why values may differ; empty: they do not

 private:
  enum class Kind : std::uint8_t { floating, integer };
  Kind kind_of(DType dtype) const;

  void as_stored();
  bool stores_wide() const;
  void as_wide();
  void take_kinds();
  int as_kind(int node, Kind kind);
  int converted(int node, DType dtype);
  void take_ranges();
  void take_needs();
  void need_of_function(std::size_t i);
  bool is_whole(std::size_t i) const;
  Numbers total_numbers(const VectorOutput& output, bool accumulated) const;
  void take_widths();
  Numbers before_truth(VectorNode node) const;
  void width_of_function(VectorNode& node, NodeValue& value, std::size_t old);
  void widths_of_outputs();
  int in_width(int node, Held wanted);
  int append(const VectorNode& node, const NodeValue& value);
  bool all_needed(std::size_t i) const;
  void ask(int node, int bits);

  VectorCompute compute_;
  std::vector<NodeValue> values_;
  std::vector<bool> needed_;  ///< more than 32 bits are asked for, and there are more
  std::vector<Held> totals_;
  std::vector<bool> bounded_;
  std::vector<Kind> kinds_;
  std::map<std::pair<int, int>, int> conversions_;
  bool real_ = false;
  int bits_ = 32;
  std::string inexact_;
};

/// Numbers that a function of integers has, from those of its operands.
Numbers numbers_of(const VectorNode& node, const Numbers* operands);
/// Bounds of a function of floats; those of all floats where nothing is known.
void float_bounds(const VectorNode& node, const NodeValue* const* operands, NodeValue& result);
/// Functions whose lowest bits come from the lowest bits of their operands.
bool is_modular(Function function);

}  // namespace tilesim::isa
