// The architectural state of one hart, and its execution loop.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "tilesim/isa/state/memory.hpp"
#include "tilesim/isa/state/op.hpp"
#include "tilesim/isa/state/vector_state.hpp"

namespace tilesim::isa {

class InstructionSet;
class Blocks;
class Marks;
struct Npu;
struct Block;

/// Encoding of rounding modes in frm and instructions.
enum class Round : std::uint8_t { nearest_even = 0, zero = 1, down = 2, up = 3, nearest_away = 4, dynamic = 7 };

/// Bits of fflags.
enum Flag : std::uint8_t { inexact = 1, underflow = 2, overflow = 4, divide_by_zero = 8, invalid = 16 };

/// Handles environment calls: Linux, or a bare machine.
class Environment {
 public:
  virtual ~Environment() = default;
  /// Executes ecall, with pc after it. Throws Exit or Trap.
  virtual void call(Hart& hart, const Op& op) = 0;
  /// Called for a trap; true: the hart continues at its pc (a bare machine's handler).
  virtual bool trapped(Hart&, const Trap&, std::uint64_t /*pc*/) { return false; }
  /// Reads CSRs of the core; false: unknown.
  virtual bool read_csr(Hart&, unsigned /*number*/, std::uint64_t& /*value*/) { return false; }
  virtual bool write_csr(Hart&, unsigned /*number*/, std::uint64_t /*value*/) { return false; }
  /// Executes mret and others; false: illegal.
  virtual bool privileged(Hart&, const Op&) { return false; }
};

/// Called before each instruction (the next instruction's pc shows whether a branch was taken). Uses a second
/// instantiation of the interpreter's loop, so that runs without an observer have no overhead. It must not use floating
/// point, because the hart uses the processor's flags.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void issue(const Op& op, const Hart& before) = 0;
  virtual void trapped(const Op&) {}  ///< the last instruction was not executed
  /// The cycle of the last instruction if time is measured; otherwise negative.
  virtual std::int64_t cycles() const { return -1; }
  /// Whether the transfer of a ticket is complete, or with ticket 0 all of a DMA queue; true without measured time.
  virtual bool moved(std::uint64_t, unsigned) const { return true; }
};

/// The reason why a run ended.
struct Stop {
  enum Kind : std::uint8_t { exited, trapped, limit, returned };
  Kind kind = exited;
  std::int64_t status = 0;
  Trap trap;                      ///< if trapped
  std::uint64_t pc = 0;           ///< pc of the trapping instruction, or pc at which the run would continue
  std::uint32_t instruction = 0;  ///< bits of the trapping instruction; 0 if it could not be fetched
};

struct Hart {
  Hart(std::shared_ptr<const InstructionSet> set, std::uint32_t vlen);
  ~Hart();
  Hart(const Hart&) = delete;
  Hart& operator=(const Hart&) = delete;

  /// Runs from pc until the program ends, traps, reaches `until` (0: never), or has executed `limit` more instructions.
  /// Polls the call's token every few thousand instructions. Instructions are decoded once per address: after code
  /// changes, the program must execute fence.i.
  Stop run(Memory& memory, std::uint64_t limit, Observer* observer = nullptr, Address until = 0);

  std::array<std::uint64_t, 33> x{};  ///< x[32] takes writes to x0
  std::array<std::uint64_t, 32> f{};  ///< narrower values are NaN-boxed
  VectorState v;
  Address pc = 0;
  std::uint64_t instret = 0;
  std::uint64_t vector_instructions = 0, element_operations = 0;
  std::uint8_t fflags = 0;  ///< flags so far; the processor may hold more: `flags()`
  Round frm = Round::nearest_even;
  Round host = Round::nearest_even;   ///< rounding mode of the processor while the hart runs
  Address reservation = ~Address{0};  ///< address reserved by lr
  std::uint64_t reserved = 0;         ///< value that lr read
  Memory* memory = nullptr;           ///< valid while it runs
  Environment* environment = nullptr;
  Npu* npu = nullptr;               ///< arrays of an NPU core; null: a standard core
  Marks* marks = nullptr;           ///< marked regions; null: not recorded
  const Observer* clock = nullptr;  ///< of a timed run
  /// Value of the counters `cycle` and `time`: cycles if time is measured, otherwise instructions.
  std::uint64_t cycles() const {
    const std::int64_t timed = clock != nullptr ? clock->cycles() : -1;
    return timed < 0 ? instret : static_cast<std::uint64_t>(timed);
  }
  const InstructionSet& set() const { return *set_; }

  std::uint8_t flags();  ///< fflags combined with the processor's flags, which are cleared
  void set_flags(std::uint8_t flags);
  void set_rounding(unsigned mode);  ///< sets frm, and the processor's mode if it has this mode
  /// Polls the call's token after this much work (see `worked`), with the caller's floating-point environment.
  void poll(std::uint64_t work);

 private:
  template <bool observed>
  Stop loop(std::uint64_t limit, Observer* observer, Address until);
  Block* following(Block* block);

  std::shared_ptr<const InstructionSet> set_;
  std::unique_ptr<Blocks> blocks_;
};

}  // namespace tilesim::isa
