// Writes the instructions of single nodes of a vector compute.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tilesim/isa/kernel/code.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

enum class Held : std::uint8_t { floating, integer };  ///< what the 32 bits of a value are

/// Element type as a load or store has it; Unsupported for those that take no 8, 16 or 32 bits.
int stored_bits(DType dtype);
Held held_as(DType dtype);

class NodeWriter {
 public:
  NodeWriter(Code& code, const VectorCompute& compute, std::int64_t elements, int lmul);

  Held held(int node) const { return held_[static_cast<std::size_t>(node)]; }
  void elements(std::int64_t count) { elements_ = count; }
  /// Sets vl for values of 32 bits, or of `bits`.
  void set(int bits = 32) {
    code_.set_vl(elements_, static_cast<unsigned>(bits), lmul_ - (bits == 16 ? 1 : bits == 8 ? 2 : 0));
  }
  /// The pointer moves on by `step` bytes.
  void load(DType dtype, unsigned to, unsigned pointer, unsigned scratch, std::int64_t step = 0);
  /// The first element of each row of lanes, in all of them.
  void spread(unsigned to, unsigned from) { code_.op("xl.spread", {to, from}); }
  void keep_zero(unsigned reg) { fill(reg, 0), zero_ = reg; }  ///< a register of zeros from here on
  void store(DType dtype, Held held, unsigned from, unsigned pointer, unsigned scratch);
  /// to = the node's function of its arguments, whose registers are given; `to` and `scratch` are none of them.
  void function(const VectorNode& node, unsigned to, const unsigned* arguments, unsigned scratch);
  void convert(DType through, Held from, unsigned to, unsigned source, unsigned scratch);
  void constant(const VectorNode& node, unsigned to);
  void neutral(Combiner combiner, DType dtype, Held held, unsigned to);
  void combine(Combiner combiner, Held held, unsigned to, unsigned with, unsigned scratch) {
    join(combiner, held, to, to, with, scratch);
  }
  /// to = x and y combined; `to` may be one of them.
  void join(Combiner combiner, Held held, unsigned to, unsigned x, unsigned y, unsigned scratch);
  /// to = 1 where x is not 0, else 0; `to` is neither of the others.
  void truth(Held held, unsigned to, unsigned x, unsigned scratch);
  const std::string& inexact() const { return inexact_; }

 private:
  /// By an instruction of the user's, where it computes on what the registers hold.
  bool taken(const VectorNode& node, Held in, unsigned to, const unsigned* arguments, unsigned scratch);
  void unary(Function function, Held held, unsigned to, unsigned x, unsigned scratch);
  void binary(Function function, Held held, unsigned to, unsigned x, unsigned y, unsigned scratch);
  void compare(const char* name, bool swapped, Held held, unsigned to, unsigned x, unsigned y);
  void extreme(bool largest, Held held, unsigned to, unsigned x, unsigned y, unsigned scratch);
  void from_mask(unsigned to);
  Held work(const VectorNode& node) const;
  unsigned as(Held wanted, int node, unsigned reg, unsigned scratch);
  void fill(unsigned to, std::uint32_t bits);

  Code& code_;
  const VectorCompute& compute_;
  std::int64_t elements_;
  int lmul_;
  std::vector<Held> held_;
  unsigned zero_ = 0;  ///< 0: none
  std::string inexact_;
};

}  // namespace tilesim::isa
