// Software pipelining of kernels. The instructions of one iteration are recorded, scheduled by latencies and pipes,
// given rotating registers, and written interleaved with those of adjacent iterations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tilesim/isa/pipeline/plan.hpp"
#include "tilesim/isa/schedule/code.hpp"

namespace tilesim::isa {

/// Iterations: blocks of up to `block` groups; within each block, steps; within each step, the groups of the block.
struct IterationSpace {
  std::int64_t groups = 1, steps = 1, block = 1;
  std::int64_t elements = 1, last_elements = 1;  ///< in all groups but the last, in the last
  std::int64_t totals = 1;                       ///< totals to which consecutive steps of a group add in turn
  std::int64_t ragged_from = INT64_MAX;          ///< first step with positions without elements
  std::int64_t count() const { return groups * steps; }
};

/// Iterations in which instructions run: those with all facts of `with` and none of `without`.
struct Section {
  enum Fact : std::uint8_t {
    first_step = 1,
    last_step = 2,
    first_group = 4,  ///< of the block
    last_group = 8,
    fresh = 16,  ///< first step that adds to its total
    ragged = 32,
  };
  std::uint8_t with = 0, without = 0;
  std::int64_t total = -1;  ///< only in steps that add to this total
};

class SoftwarePipeline {
 public:
  /// Lifetime of a value: one iteration; the groups of a step; the steps of a group.
  enum class Scope : std::uint8_t { iteration, step, group };
  /// Thrown if even the slowest schedule needs too many registers.
  struct OutOfRegisters {};

  SoftwarePipeline(Code& code, const InstructionSet& set, const CoreTiming& core,
                   const std::vector<StaticTiming>& timings, const IterationSpace& space, int lmul)
      : code_(code),
        set_(set),
        core_(core),
        timings_(timings),
        space_(space),
        lmul_(lmul),
        parts_(std::max<std::int64_t>(1, core.pipes[0])),
        state_(core.vlen) {}

  /// A new value, to be used as an operand of recorded instructions.
  unsigned value(Scope scope = Scope::iteration);
  std::int64_t totals() const { return space_.totals; }
  void begin(Section section);
  void end();
  /// Writes all iterations; register groups from `first` on must be free.
  void write(unsigned first);

 private:
  /// Consecutive instructions that issue together.
  struct Bundle {
    std::vector<Written> all;
    Section section;
    std::vector<unsigned> reads, writes;  ///< values
    std::size_t pipe = 0;
    std::int64_t held = 0, latency = 1;
    std::int64_t time = 0, late = 0;
    bool vector = false;
  };
  struct Value {
    Scope scope = Scope::iteration;
    std::int64_t begin = INT64_MAX, end = -1;  ///< first and last time in its iteration
    std::vector<unsigned> registers;           ///< used in turn
  };
  struct Arc {
    std::size_t value;
    std::int64_t turn, begin, length;
  };
  struct Edge {
    std::size_t from, to;
    std::int64_t distance;
  };
  struct IterationPosition { std::int64_t iteration, block, step, group, groups; };

  static constexpr std::int64_t most_turns = 12;

  void close(std::vector<Written>& open, const Section& section);
  void uses(const Written& written, std::vector<unsigned>& reads, std::vector<unsigned>& writes, bool& reads_mask,
            bool& writes_mask) const;
  void take_times(Bundle& bundle);
  void find_edges();
  double share(const Section& section) const;
  std::int64_t least_interval() const;
  void place(std::int64_t interval);
  void find_lives();
  void find_interval(unsigned first);
  bool give_registers(std::int64_t interval, unsigned first);
  bool color(std::int64_t interval, std::int64_t turns, const std::vector<bool>& free);
  bool give_arcs(const std::vector<Arc>& order, std::int64_t around, const std::vector<bool>& free);
  IterationPosition position_of(std::int64_t iteration) const;
  bool stands(const Section& section, const IterationPosition& at) const;
  std::int64_t sort_of(const IterationPosition& at) const;
  void write_bundle(const Bundle& bundle, const IterationPosition& at);
  unsigned reg(unsigned value, const IterationPosition& at) const;

  Code& code_;
  const InstructionSet& set_;
  const CoreTiming& core_;
  const std::vector<StaticTiming>& timings_;
  const IterationSpace space_;
  const int lmul_;
  const std::int64_t parts_;  ///< units of time per cycle
  VectorState state_;         ///< scratch state from which timings are computed
  std::vector<Bundle> bundles_;
  std::vector<Value> values_;
  std::vector<Edge> edges_;
  std::vector<Written> recorded_;
  Section section_;
  std::int64_t interval_ = 1, turns_ = 1, turns_of_groups_ = 1, turns_of_steps_ = 1;
};

}  // namespace tilesim::isa
