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

/// Encoding of rounding modes in frm and in instructions.
enum class Round : std::uint8_t { nearest_even = 0, zero = 1, down = 2, up = 3, nearest_away = 4, dynamic = 7 };

/// fflags.
enum Flag : std::uint8_t { inexact = 1, underflow = 2, overflow = 4, divide_by_zero = 8, invalid = 16 };

/// Handles environment calls: Linux, or a bare machine.
class Environment {
 public:
  virtual ~Environment() = default;
  /// ecall, with the hart's pc behind it. Throws Exit, or Trap.
  virtual void call(Hart& hart, const Op& op) = 0;
  /// Called for a trap; true: the hart continues at its pc (a bare machine's handler).
  virtual bool trapped(Hart&, const Trap&, std::uint64_t /*pc*/) { return false; }
  /// Reads CSRs of the core; false: unknown.
  virtual bool read_csr(Hart&, unsigned /*number*/, std::uint64_t& /*value*/) { return false; }
  virtual bool write_csr(Hart&, unsigned /*number*/, std::uint64_t /*value*/) { return false; }
  /// Executes mret and others; false: illegal.
  virtual bool privileged(Hart&, const Op&) { return false; }
};

/// Called before each instruction executes (the next one's pc shows whether a branch was taken), from a second
/// instantiation of the interpreter's loop, so that runs without one pay nothing. It must not use floating point,
/// because the hart's flags are the processor's.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void issue(const Op& op, const Hart& before) = 0;
  virtual void trapped(const Op&) {}  ///< the last one was not executed
  /// The cycle of the last instruction if time is measured; otherwise below zero.
  virtual std::int64_t cycles() const { return -1; }
  /// Whether the transfer of a ticket has completed, or with ticket 0 all of a DMA queue; true if time is not measured.
  virtual bool moved(std::uint64_t, unsigned) const { return true; }
};

/// The reason why a run ended.
struct Stop {
  enum Kind : std::uint8_t { exited, trapped, limit, returned };
  Kind kind = exited;
  std::int64_t status = 0;
  Trap trap;                      ///< if trapped
  std::uint64_t pc = 0;           ///< of the trapping instruction, or at which it would continue
  std::uint32_t instruction = 0;  ///< bits of the trapping instruction, 0 if it could not be fetched
};

struct Hart {
  Hart(std::shared_ptr<const InstructionSet> set, std::uint32_t vlen);
  ~Hart();
  Hart(const Hart&) = delete;
  Hart& operator=(const Hart&) = delete;

  /// Runs from pc until the program ends, traps, reaches `until` (0: never), or `limit` more instructions are done.
  /// Polls the call's token every few thousand instructions. An instruction set is decoded once per address: after a
  /// change of code the program says fence.i.
  Stop run(Memory& memory, std::uint64_t limit, Observer* observer = nullptr, Address until = 0);

  std::array<std::uint64_t, 33> x{};  ///< x[32] takes what is written to x0
  std::array<std::uint64_t, 32> f{};  ///< narrower values are boxed in ones
  VectorState v;
  Address pc = 0;
  std::uint64_t instret = 0;
  std::uint64_t vector_instructions = 0, element_operations = 0;
  std::uint8_t fflags = 0;  ///< those so far; more may wait in the processor's: `flags()`
  Round frm = Round::nearest_even;
  Round host = Round::nearest_even;   ///< what the processor is set to while it runs
  Address reservation = ~Address{0};  ///< of lr
  std::uint64_t reserved = 0;         ///< what it read there
  Memory* memory = nullptr;           ///< while it runs
  Environment* environment = nullptr;
  Npu* npu = nullptr;               ///< arrays of an NPU core; null: none
  Marks* marks = nullptr;           ///< of regions; null: they are not kept
  const Observer* clock = nullptr;  ///< of a run that is timed
  /// What `cycle` and `time` read: cycles where time is kept, else instructions.
  std::uint64_t cycles() const {
    const std::int64_t timed = clock != nullptr ? clock->cycles() : -1;
    return timed < 0 ? instret : static_cast<std::uint64_t>(timed);
  }
  const InstructionSet& set() const { return *set_; }

  std::uint8_t flags();  ///< fflags with the processor's, which are cleared
  void set_flags(std::uint8_t flags);
  void set_rounding(unsigned mode);  ///< frm, and the processor where it can
  /// Polls the call's token after so many units of work (see `worked`); what it calls back finds the usual environment
  /// of floating point.
  void poll(std::uint64_t work);

 private:
  template <bool observed>
  Stop loop(std::uint64_t limit, Observer* observer, Address until);
  Block* following(Block* block);

  std::shared_ptr<const InstructionSet> set_;
  std::unique_ptr<Blocks> blocks_;
};

}  // namespace tilesim::isa
