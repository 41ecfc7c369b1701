// Finds the elements of tensors that the cores load and store in a kernel, by walking its loops.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/program/program.hpp"
#include "tilesim/program/reshaped.hpp"

namespace tilesim::lower {

using Region = program::Box;

/// What one core (context) stores: regions; and what it loads: one region around all of it. In the axes of the tensor
/// whose bytes they are.
struct CoreUse {
  struct Step {
    Region region;
    double times = 1;
  };
  std::vector<Region> stored;
  std::optional<Region> loaded;
  std::vector<Step> steps = {};  ///< the first loads, in order
};

/// Loads of a core and tensor that are kept in order.
constexpr std::size_t most_steps_seen = 16;

/// What a kernel does with a tensor, under the name that its transfers have for it.
struct TensorUse {
  double loaded = 0, stored = 0;    ///< bytes of all cores together: of memory, with the padding of layouts
  double elements = 0;              ///< loaded and stored
  std::vector<CoreUse> cores = {};  ///< by stream, where regions are asked for
  bool regions = true;              ///< false: rows found through another tensor, or elements apart
};

/// By tensor.
struct KernelTraffic : std::map<std::string, TensorUse> {
  std::vector<double> sent;  ///< by core, where regions are asked for: bytes that sends take through its port
};

/// Nothing where loops, addresses or conditions read tensors, or there are too many transfers.
using KernelUse = std::optional<KernelTraffic>;

class Traffic {
 public:
  explicit Traffic(const program::Program& program);
  /// `regions`: of programs of several cores, which core touches what.
  KernelUse use_of(const program::Scope& kernel, bool regions) const;

 private:
  struct Walk;
  const program::Program& program_;
  std::map<std::string, const program::Tensor*> tensors_;
};

/// The region that these fill without a gap; nothing where there is one.
std::optional<Region> joined(const std::vector<Region>& regions);
bool contains(const Region& outer, const Region& inner);
bool meet(const Region& a, const Region& b);
double volume(const Region& region);

}  // namespace tilesim::lower
