// Value ranges of a vector compute's nodes, and the number of bits with which a kernel represents them.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// The representation of a value in registers.
enum class Held : std::uint8_t {
  floating,      ///< f32
  integer,       ///< 32 bits: the number, or its low bits if readers need no more
  natural,       ///< 32 bits, unsigned
  wide,          ///< 64 bits
  wide_natural,  ///< 64 bits, unsigned: only functions of u64 compute in it
  real,          ///< f64
};
constexpr int bits_of(Held held) {
  return held == Held::wide || held == Held::wide_natural || held == Held::real ? 64 : 32;
}
constexpr bool is_floating(Held held) { return held == Held::floating || held == Held::real; }
constexpr bool has_sign(Held held) { return held != Held::natural && held != Held::wide_natural; }
/// The representation after a load and before a store of the type; floats are f32 except for f64.
Held held_as(DType dtype);

/// A range of integers.
struct Numbers {
  std::int64_t low = std::numeric_limits<std::int64_t>::min(), high = std::numeric_limits<std::int64_t>::max();

  static Numbers all_of_type(DType dtype);  ///< the range of an integer type; u64: all 64 bits, as in tile computes
  bool within(const Numbers& other) const { return low >= other.low && high <= other.high; }
  bool contains(std::int64_t number) const { return low <= number && number <= high; }
  bool fits(Held held) const;
};
Numbers either(const Numbers& a, const Numbers& b);

/// Representation of a node. Only the requested low bits of integers are kept: the low bits of sums and products depend
/// on no higher bits of their operands.
struct NodeValue {
  Held held = Held::floating;
  Held work = Held::floating;  ///< representation for its function
  int asked = 64;              ///< integers: number of requested low bits; 64: the number itself
  bool whole = true;           ///< integers: whether registers hold the number, or only its low bits
  Numbers numbers;             ///< range of integers, by the definition
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();  ///< bounds of floats, except NaN
};

/// A compute with functions on operands of one representation: conversions are separate nodes.
class TypedCompute {
 public:
  explicit TypedCompute(const VectorCompute& compute);

  const VectorCompute& compute() const { return compute_; }
  const NodeValue& value_at(int node) const { return values_[static_cast<std::size_t>(node)]; }
  const NodeValue& value_at(const VectorNode& node) const {
    return value_at(static_cast<int>(&node - compute_.nodes.data()));
  }
  Held total(std::size_t output) const { return totals_[output]; }     ///< representation of its total
  bool bounded(std::size_t output) const { return bounded_[output]; }  ///< comparisons include its neutral element
  bool real() const { return real_; }                                  ///< floats are f64
  int bits() const { return bits_; }                                   ///< width of the widest value
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
  std::vector<bool> needed_;  ///< more than 32 bits are requested and may be set
  std::vector<Held> totals_;
  std::vector<bool> bounded_;
  std::vector<Kind> kinds_;
  std::map<std::pair<int, int>, int> conversions_;
  bool real_ = false;
  int bits_ = 32;
  std::string inexact_;
};

/// Range of an integer function's result, from the ranges of its operands.
Numbers numbers_of(const VectorNode& node, const Numbers* operands);
/// Bounds of a float function's result; infinite if unknown.
void float_bounds(const VectorNode& node, const NodeValue* const* operands, NodeValue& result);
/// Whether the low bits of a result depend only on low bits of the operands.
bool is_modular(Function function);

}  // namespace tilesim::isa
