// Writes the instructions of single nodes of a vector compute.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tilesim/isa/kernel/vector_values.hpp"
#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// Element width of a load or store; throws Unsupported for sub-byte, complex and pattern types.
int stored_bits(DType dtype);
inline constexpr const char* no_function_kernel = "no vector kernel computes this function";
[[noreturn]] void no_vector_kernel(const char* what, std::string_view value);

/// Writes the nodes of one kernel. Values use groups of 2^lmul registers; narrower values the lower part of a group.
class NodeWriter {
 public:
  NodeWriter(Code& code, const TypedCompute& typed, std::int64_t elements, int lmul);
  /// For kernels with running sums: all values have 32 bits, or all have 64.
  NodeWriter(Code& code, const VectorCompute& compute, std::int64_t elements, int lmul);
  NodeWriter(const NodeWriter&) = delete;
  NodeWriter& operator=(const NodeWriter&) = delete;

  Held held(int node) const { return typed_.value_at(node).held; }
  void elements(std::int64_t count) { elements_ = count; }
  /// Sets vl for values of this width.
  void set(int bits = 32);
  int widest() const { return typed_.bits(); }
  /// Whether `load` needs a temporary register.
  bool loads_aside(DType dtype) const { return stored_bits(dtype) < 32 || (typed_.real() && dtype == DType::f32); }
  /// Loads in the representation of a node, and advances the pointer by `step` bytes.
  void load(DType dtype, unsigned to, unsigned pointer, unsigned scratch, std::int64_t step = 0);
  /// Broadcasts the first element of each row over its lanes.
  void spread(unsigned to, unsigned from) { code_.op("xl.spread", {to, from}); }
  void keep_zero(unsigned reg);  ///< uses a register of zeros from here on
  void keep_float_zero();        ///< f1: initial value of sums
  /// to = x + 0: a sum with initial value 0 and first term x.
  void from_zero(Held held, unsigned to, unsigned x) { set(bits_of(held)), code_.op("vfadd.vf", {to, x, 1}); }
  /// `is_flag`: the value is 0 or 1.
  void store(DType dtype, Held held, unsigned from, unsigned pointer, unsigned scratch, bool is_flag = false);
  /// to = the node's function of the argument registers, which must differ from `to` and `scratch`.
  void function(const VectorNode& node, unsigned to, const unsigned* arguments, unsigned scratch);
  /// Whether the node compares two values, so that a select may include the comparison.
  bool compares(const VectorNode& node) const;
  /// A select with a comparison as its condition, which then needs no register.
  void select_where(const VectorNode& node, unsigned to, const unsigned* arguments, const VectorNode& comparison,
                    const unsigned* compared);
  /// Whether a node returns its operand unchanged.
  bool changes_nothing(const VectorNode& node) const;
  /// The same for a conversion.
  void conversion(const VectorNode& node, unsigned to, unsigned source, unsigned scratch);
  /// The same for running sums, which have no known ranges.
  void convert(const VectorNode& node, unsigned to, unsigned source, unsigned scratch);
  void constant(const VectorNode& node, unsigned to);
  void neutral(Combiner combiner, DType dtype, Held held, unsigned to);
  /// The neutral element of this representation.
  void identity(Combiner combiner, Held held, unsigned to);
  /// A combiner's neutral element of a stored type, in this representation.
  void bound(Combiner combiner, DType dtype, Held held, unsigned to);
  void combine(Combiner combiner, Held held, unsigned to, unsigned with, unsigned scratch) {
    join(combiner, held, to, to, with, scratch);
  }
  /// to = x combined with y, logically for 0 or 1; `to` may be one of them.
  void join(Combiner combiner, Held held, unsigned to, unsigned x, unsigned y, unsigned scratch);
  /// to = 1 if x is not 0, else 0; `to` must differ from the other registers.
  void truth(Held held, unsigned to, unsigned x, unsigned scratch);
  /// The same, with a result of x's width.
  void flag(Held held, unsigned to, unsigned x, unsigned scratch) {
    is_floating(held) ? truth(held, to, x, scratch) : (set(bits_of(held)), at_most_one(to, x));
  }
  /// to = a 32-bit integer or float x in twice the width.
  void widen(Held from, unsigned to, unsigned x);
  /// Whether the node's instructions write v0.
  bool takes_mask(const VectorNode& node) const;
  /// Whether a divisor of the node may be 0: call `keep_divisors` first.
  bool checks_divisor(const VectorNode& node) const;
  /// Uses a register for the smallest unsigned divisors so far, of 32 or 64 bits.
  void keep_divisors(int bits, unsigned reg);
  /// Ends the program with `ebreak` if a divisor was 0.
  void refuse_zeros(int bits);
  const std::string& inexact() const { return inexact_; }

 private:
  void refuse_unknown() const;
  const NodeValue& value_of(const VectorNode& node) const { return typed_.value_at(static_cast<int>(&node - first_)); }
  /// Writes a user-defined instruction if one supports the representation in registers.
  bool taken(const VectorNode& node, Held in, unsigned to, const unsigned* arguments, unsigned scratch);
  void unary(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned scratch);
  void float_unary(Function function, Held in, unsigned to, unsigned x, unsigned scratch);
  void integer_unary(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned scratch);
  void binary(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned y, unsigned scratch);
  void float_binary(Function function, unsigned to, unsigned x, unsigned y);
  void integer_binary(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned y, unsigned scratch);
  void whole_number(Function function, Held in, unsigned to, unsigned x, unsigned scratch);
  void divide(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned y, unsigned scratch);
  void shift(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned y, unsigned scratch);
  void count_bits(DType dtype, Held in, unsigned to, unsigned x, unsigned scratch);
  void logical(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned y, unsigned scratch);
  void at_most_one(unsigned to, unsigned x);
  void to_32_bits(unsigned to, unsigned x, int from);
  void compared(Function function, Held in, unsigned to, unsigned x, unsigned y);
  void select(const VectorNode& node, unsigned to, const unsigned* arguments);
  void compare(Function function, Held in, unsigned x, unsigned y);
  void extreme(bool largest, Held in, unsigned to, unsigned x, unsigned y);
  void from_mask(unsigned to);
  void change(DType through, Held from, Held held, const NodeValue* known, int asked, unsigned to, unsigned source,
              unsigned scratch);
  void to_integer(Held from, const NodeValue* known, Held held, unsigned to, unsigned source, unsigned scratch);
  void modulo(Held from, Held held, unsigned to, unsigned source, unsigned scratch);
  void to_odd(Held from, unsigned to, unsigned x, unsigned scratch);
  void to_float(DType through, Held from, const NodeValue* known, unsigned to, unsigned source, unsigned scratch);
  void through_float(DType through, Held from, unsigned to, unsigned source, unsigned scratch);
  void wrap(DType through, unsigned to, unsigned source, int of = 32);
  void in_float_register(double value, Held held);
  void fill(unsigned to, std::uint32_t bits);
  void fill_wide(unsigned to, std::int64_t bits);

  Code& code_;
  std::optional<TypedCompute> own_;
  const TypedCompute& typed_;
  const VectorCompute& compute_;
  const VectorNode* first_;  ///< first node of the given compute
  std::int64_t elements_;
  int lmul_;
  unsigned zero_ = 0;          ///< register; 0: none
  unsigned divisors_[2] = {};  ///< registers for 32 and 64 bits
  std::string inexact_;
};

}  // namespace tilesim::isa
