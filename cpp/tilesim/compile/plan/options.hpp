// The options of `compile`, and reports about its choices.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/mapping/nest.hpp"
#include "tilesim/mapping/vector.hpp"

namespace tilesim {

/// A lowered product: its operation, its mapping problem and the selected nest.
struct ProductChoice {
  std::string function, operation;
  mapping::Problem problem;
  mapping::Nest nest;
  Share machine;  ///< the kernel's share of memory and bandwidth
};

/// A lowered kernel of the vector unit. Its name is the name of its last operation.
struct VectorChoice {
  std::string function, operation;
  mapping::VectorProblem problem;
  mapping::VectorTiles tiles;
  Share machine;
};

/// A group of operations that a fusion rule considered, whether it became a kernel or not.
struct FusionCandidate {
  std::string candidate;  ///< name of the kernel, with a prefix if its function is not the entry
  std::string rule;
  std::vector<std::string> operations;
  double bytes_saved = 0, cycles_saved = 0;  ///< separate kernels minus the group
  double recomputed_flops = 0;
  std::string decision;  ///< taken | not worth it | not legal
  std::string reason;
};

namespace program {
struct Program;
}

/// Result of a simulation: cycles; work, a lower bound: busy cycles of the busiest unit type, summed over all cores;
/// bytes to and from memory.
struct Timed { std::int64_t cycles = 0, work = 0, bytes = 0; };

struct CompileOptions {
  std::string fuse = "all";                             ///< all | none | comma-separated names of rules
  std::string layout = "auto";                          ///< auto | given: layouts in memory, see assign_layouts
  mapping::Table mappings;                              ///< nests by operation name; other operations follow `mapping`
  std::string mapping = "profile";                      ///< one of mapping::strategies()
  std::map<std::string, mapping::VectorTiles> vectors;  ///< tiles of vector kernels, by name
  std::string only;  ///< lower only the kernel with this name (and calls), to time it standalone
  std::vector<ProductChoice>* record = nullptr;           ///< receives every product
  std::vector<VectorChoice>* record_vectors = nullptr;    ///< receives every vector kernel
  std::vector<FusionCandidate>* record_fusion = nullptr;  ///< receives every group that a rule considered
  std::int64_t cores = 0;          ///< cores that share the work; 0: all, or fewer if this is faster
  std::int64_t slower_memory = 1;  ///< lowering assumes a memory slower by this factor, to keep more values on chip
  std::int64_t contexts = 0;       ///< contexts per core; 0: the number that a given mapping requests
  std::int64_t each = 0;           ///< contexts that share a kernel without a given mapping; 0: all
  /// Which values stay in scratchpads between kernels: auto | none | fitting (as many as fit).
  std::string residency = "none";
  bool counts_on_residency = true;  ///< whether lowering assumes that values stay where residency "auto" may keep them
  bool may_stay() const { return residency == "auto" && counts_on_residency; }
  std::map<std::string, std::string> levels;  ///< by value name: memory | scratchpad; overrides `residency`
  std::map<std::string, std::string>* unused =
      nullptr;                     ///< receives products that multiply zero tiles, with the reason
  std::vector<std::string> notes;  ///< precede the program's notes
  /// Attentions that are one kernel, as the rows of `record_fusion` name them. Absent: those that are faster so.
  std::optional<std::set<std::string>> attentions = {};
  /// Simulates a program. The compiler calls it to choose the fastest of several small programs. Empty: estimates
  /// decide.
  std::function<Timed(const program::Program&)> timed = {};
  CancelToken* cancel = nullptr;
};

}  // namespace tilesim
