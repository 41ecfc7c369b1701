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

/// Element type as a load or store has it; Unsupported for those that take no whole bytes, complex ones and patterns.
int stored_bits(DType dtype);
inline constexpr const char* no_function_kernel = "no vector kernel computes this function";
[[noreturn]] void no_vector_kernel(const char* what, std::string_view value);

/// Values of one kernel take groups of 2^lmul registers, those of fewer bits than the widest the lower part of one.
class NodeWriter {
 public:
  NodeWriter(Code& code, const TypedCompute& typed, std::int64_t elements, int lmul);
  /// Of running sums, all in 32 bits or all in 64.
  NodeWriter(Code& code, const VectorCompute& compute, std::int64_t elements, int lmul);
  NodeWriter(const NodeWriter&) = delete;
  NodeWriter& operator=(const NodeWriter&) = delete;

  Held held(int node) const { return typed_.value_at(node).held; }
  void elements(std::int64_t count) { elements_ = count; }
  /// Sets vl for values of so many bits.
  void set(int bits = 32);
  int widest() const { return typed_.bits(); }
  /// Whether `load` takes a register beside its result.
  bool loads_aside(DType dtype) const { return stored_bits(dtype) < 32 || (typed_.real() && dtype == DType::f32); }
  /// As a node holds it. The pointer moves on by `step` bytes.
  void load(DType dtype, unsigned to, unsigned pointer, unsigned scratch, std::int64_t step = 0);
  /// The first element of each row of lanes, in all of them.
  void spread(unsigned to, unsigned from) { code_.op("xl.spread", {to, from}); }
  void keep_zero(unsigned reg);  ///< a register of zeros from here on
  void keep_float_zero();        ///< f1: what sums begin with
  /// to = x + 0: a sum that begins at 0, of which x is the first term.
  void from_zero(Held held, unsigned to, unsigned x) { set(bits_of(held)), code_.op("vfadd.vf", {to, x, 1}); }
  /// `is_flag`: it is 0 or 1.
  void store(DType dtype, Held held, unsigned from, unsigned pointer, unsigned scratch, bool is_flag = false);
  /// to = the node's function of its arguments, whose registers are given; `to` and `scratch` are none of them.
  void function(const VectorNode& node, unsigned to, const unsigned* arguments, unsigned scratch);
  /// Whether it compares two values, and a select may do so itself.
  bool compares(const VectorNode& node) const;
  /// A select whose condition is the comparison of two values: no register holds it.
  void select_where(const VectorNode& node, unsigned to, const unsigned* arguments, const VectorNode& comparison,
                    const unsigned* compared);
  /// Whether a node's value is its operand's.
  bool changes_nothing(const VectorNode& node) const;
  /// The same for a node that converts.
  void conversion(const VectorNode& node, unsigned to, unsigned source, unsigned scratch);
  /// The same of running sums: of numbers that nothing is known of.
  void convert(const VectorNode& node, unsigned to, unsigned source, unsigned scratch);
  void constant(const VectorNode& node, unsigned to);
  void neutral(Combiner combiner, DType dtype, Held held, unsigned to);
  /// What changes no value of this kind.
  void identity(Combiner combiner, Held held, unsigned to);
  /// A combiner's neutral number of a stored type, as a value of the kind.
  void bound(Combiner combiner, DType dtype, Held held, unsigned to);
  void combine(Combiner combiner, Held held, unsigned to, unsigned with, unsigned scratch) {
    join(combiner, held, to, to, with, scratch);
  }
  /// to = x and y combined, logically those that are 0 or 1; `to` may be one of them.
  void join(Combiner combiner, Held held, unsigned to, unsigned x, unsigned y, unsigned scratch);
  /// to = 1 where x is not 0, else 0; `to` is neither of the others.
  void truth(Held held, unsigned to, unsigned x, unsigned scratch);
  /// The same in as many bits as x has.
  void flag(Held held, unsigned to, unsigned x, unsigned scratch) {
    is_floating(held) ? truth(held, to, x, scratch) : (set(bits_of(held)), at_most_one(to, x));
  }
  /// to = an integer of 32 bits, or a float, in twice as many.
  void widen(Held from, unsigned to, unsigned x);
  /// Whether the node's instructions write v0.
  bool takes_mask(const VectorNode& node) const;
  /// Whether the node divides by what may be 0: then `keep_divisors` comes first.
  bool checks_divisor(const VectorNode& node) const;
  /// A register of the smallest divisors so far, without a sign: of 32 or 64 bits.
  void keep_divisors(int bits, unsigned reg);
  /// Ends the program in `ebreak` where a divisor was 0.
  void refuse_zeros(int bits);
  const std::string& inexact() const { return inexact_; }

 private:
  void refuse_unknown() const;
  const NodeValue& value_of(const VectorNode& node) const { return typed_.value_at(static_cast<int>(&node - first_)); }
  /// By an instruction of the user's, where it computes on what the registers hold.
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
  const VectorNode* first_;  ///< of those that are given
  std::int64_t elements_;
  int lmul_;
  unsigned zero_ = 0;          ///< 0: none
  unsigned divisors_[2] = {};  ///< of 32 and 64 bits
  std::string inexact_;
};

}  // namespace tilesim::isa
