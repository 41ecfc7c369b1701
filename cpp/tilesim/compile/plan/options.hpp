// What a caller of `compile` asks for, and what it may be told of the choices.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/mapping/nest.hpp"
#include "tilesim/mapping/vector.hpp"

namespace tilesim {

/// A product that was lowered: where it is, what was to be mapped, and the nest it got.
struct ProductChoice {
  std::string function, operation;
  mapping::Problem problem;
  mapping::Nest nest;
  Share machine;  ///< as the kernel sees it: its share of memory and bandwidth
};

/// A kernel of the vector unit that was lowered: its name is that of its last operation.
struct VectorChoice {
  std::string function, operation;
  mapping::VectorProblem problem;
  mapping::VectorTiles tiles;
  Share machine;
};

/// A group of operations that a rule looked at, whether or not it became a kernel.
struct FusionCandidate {
  std::string candidate;  ///< the kernel's name, behind that of its function where that is not the entry
  std::string rule;
  std::vector<std::string> operations;
  double bytes_saved = 0, cycles_saved = 0;  ///< of the group, against its parts
  double recomputed_flops = 0;
  std::string decision;  ///< taken | not worth it | not legal
  std::string reason;
};

namespace program {
struct Program;
}

/// How long a program takes, in cycles, and how long one core alone could compute: the busiest sort of unit of all
/// cores together.
struct Timed { std::int64_t cycles = 0, work = 0; };

struct CompileOptions {
  std::string fuse = "all";                             ///< all | none | names of rules with commas between
  std::string layout = "auto";                          ///< auto | given: orders of bytes in memory, see assign_layouts
  mapping::Table mappings;                              ///< tile sizes by operation name; others as `mapping` says
  std::string mapping = "profile";                      ///< one of mapping::strategies()
  std::map<std::string, mapping::VectorTiles> vectors;  ///< tiles of vector kernels, by name
  std::string only;                              ///< lower only the kernel of this name (and calls): to time it alone
  std::vector<ProductChoice>* record = nullptr;  ///< gets every product
  std::vector<VectorChoice>* record_vectors = nullptr;    ///< gets every vector kernel
  std::vector<FusionCandidate>* record_fusion = nullptr;  ///< gets every group that a rule looked at
  std::int64_t cores = 0;  ///< that share the work; 0: all of the machine, or fewer where that is timed as faster
  std::int64_t slower_memory = 1;  ///< times that kernels are lowered for, so that more stays where it is computed
  std::int64_t contexts = 0;       ///< of a core, that the program has; 0: as many as a given mapping asks for
  std::int64_t each = 0;  ///< contexts that share a kernel without a given mapping; 0: all that the program has
  /// auto | none | fitting (as many as fit): which values stay in scratchpads between kernels
  std::string residency = "none";
  std::map<std::string, std::string> levels;  ///< of values by name: memory | scratchpad, whatever `residency` says
  std::map<std::string, std::string>* unused = nullptr;  ///< gets products whose tiles of zeros are multiplied, and why
  std::vector<std::string> notes;                        ///< with which those of the program begin
  /// Runs a program in simulated time: of small ones the fastest of several is taken. Empty: estimates decide.
  std::function<Timed(const program::Program&)> timed = {};
  CancelToken* cancel = nullptr;
};

}  // namespace tilesim
