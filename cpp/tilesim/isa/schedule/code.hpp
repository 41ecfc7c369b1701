// Writes the machine code of kernels instruction by instruction, with loops and their counters.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa {

/// A loop of a kernel: its counter decreases to 0.
struct KernelLoop {
  std::size_t begin = 0, end = 0;  ///< word indices: first word of the body, word of the jump back
  std::uint8_t counter = 0;        ///< x register
};

/// A function without arguments that returns by `ret`; addresses of operands are constants in its code.
struct Kernel {
  std::vector<std::uint32_t> words;
  std::vector<KernelLoop> loops;
  std::vector<std::uint32_t> data;  ///< after the instructions

  std::vector<std::uint32_t> image() const;           ///< instructions followed by data
  std::string text(const InstructionSet& set) const;  ///< an assembly listing
};

/// A recorded instruction; vector operands from 32 on are values without a register.
struct Written {
  const InstructionInfo* info = nullptr;
  std::vector<std::int64_t> operands;
  std::int64_t type = -1;  ///< vtype in effect
};

class Code {
 public:
  explicit Code(const InstructionSet& set) : set_(set) {}

  /// Records all later instructions, independently of the number of elements; null: writes code again.
  void record(std::vector<Written>* to) { recorded_ = to, forget_vl(); }
  /// Writes a recorded instruction with its operands replaced.
  void put(const Written& written, const std::vector<std::int64_t>& operands, std::int64_t elements);

  /// Operands are in the order of the assembler's text; missing ones get their default.
  void op(std::string_view name, std::initializer_list<std::int64_t> operands) {
    op(name, std::vector<std::int64_t>(operands));
  }
  void op(std::string_view name, const std::vector<std::int64_t>& operands);
  void load_constant(unsigned x, std::int64_t value);
  /// Loads the address of words that follow the kernel's instructions.
  void load_address(unsigned x, const std::vector<std::uint32_t>& words);
  /// x[reg] += by; keeps a large constant in a register for the whole kernel, if one is free.
  void advance(unsigned reg, std::int64_t by) {
    if (by != 0) add(reg, reg, by);
  }
  void add(unsigned to, unsigned from, std::int64_t by);
  /// Sets vl and vtype unless already set. `stay`: masked-off elements keep their values.
  void set_vl(std::int64_t elements, unsigned sew, int lmul, bool stay = false);
  void forget_vl() { vl_ = -1; }
  void begin_loop(unsigned counter, std::int64_t trips);
  void end_loop();
  /// Begins a separate piece of code, which `join` places one or more times; vl is unknown at its start.
  void begin_piece();
  void end_piece();
  std::size_t pieces() const { return pieces_.size(); }
  /// Writes pieces in this order; a repeated piece becomes a loop, a repeated sequence of loops an outer loop.
  void join(const std::vector<std::size_t>& order);
  /// Adds the loads of constants, all code, and `ret`.
  Kernel finish();
  std::size_t size() const { return words_.size(); }
  const InstructionSet& set() const { return set_; }
  /// Marks a position to which later code may jump back.
  void mark() { mark_ = words_.size(); }
  std::int64_t from_mark() const {  ///< in bytes, negative
    return 4 * (static_cast<std::int64_t>(mark_) - static_cast<std::int64_t>(words_.size()));
  }

 private:
  struct Repeated {
    std::size_t piece = 0;
    std::int64_t times = 1;
    friend bool operator==(const Repeated&, const Repeated&) = default;
  };
  void put(const Repeated& run);
  std::uint32_t encode(const InstructionInfo& info, std::span<const std::int64_t> operands) const;
  void set_type(std::int64_t elements, std::int64_t type);
  unsigned kept(std::int64_t value);

  const InstructionSet& set_;
  std::vector<std::uint32_t> words_;
  std::vector<std::uint32_t> outside_;
  std::vector<std::vector<std::uint32_t>> pieces_;
  std::vector<KernelLoop> loops_;
  std::vector<std::size_t> open_;
  std::map<std::int64_t, unsigned> constants_;
  std::vector<Written>* recorded_ = nullptr;
  std::int64_t vl_ = -1, type_ = -1;
  std::size_t mark_ = 0;
  struct Address { std::size_t word = 0, data = 0; };
  std::vector<Address> addresses_;
  std::vector<std::uint32_t> data_;
};

/// x registers by their numbers.
enum X : std::uint8_t {
  zero = 0,
  ra = 1,
  t0 = 5,
  t1 = 6,
  t2 = 7,
  a0 = 10,
  a1,
  a2,
  a3,
  a4,
  a5,
  a6,
  a7,
  s2 = 18,
  t3 = 28,
  t6 = 31
};

}  // namespace tilesim::isa
