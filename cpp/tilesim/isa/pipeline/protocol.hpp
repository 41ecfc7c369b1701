// The microbenchmark loop that measures cores: eight copies of an instruction on rotated registers, addi, bnez; 512
// trips.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tilesim/isa/pipeline/pipeline.hpp"

namespace tilesim::isa {

struct LoopCase {
  std::string instruction;  ///< first copy, such as "vadd.vv v8,v16,v24,v0.t"
  unsigned sew = 8;         ///< in bits
  int lmul = 0;             ///< log2, −3 … 3
  bool one = false;         ///< vl = 1 instead of VLMAX
};

struct LoopResult {
  double cycles = 0;  ///< cycles per instruction
  std::vector<UnitTimes> units;
};

inline constexpr unsigned loop_copies = 8, loop_trips = 512;

/// The eight copies, one per line. Registers advance by the group: the wide one for widening or narrowing, by two for
/// mask operations.
std::string rotated(const LoopCase& of);

/// Runs the loop. If trips repeat, the remaining ones are skipped unless `every_trip`; the result is the same. Throws
/// UserError for an unknown instruction, Unsupported for an unsupported vtype.
LoopResult run_loop(const std::shared_ptr<const InstructionSet>& set, const CoreTiming& core, const LoopCase& of,
                    bool every_trip = false);

/// Times the instructions of an assembly text without executing them, repeated `times`, with the case's SEW and LMUL
/// and min(avl, VLMAX) elements.
void time_list(Pipeline& pipeline, const std::string& text, const LoopCase& type, std::uint64_t avl, unsigned times);

}  // namespace tilesim::isa
