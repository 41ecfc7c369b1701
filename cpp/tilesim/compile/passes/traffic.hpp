// Finds, by a walk of a kernel's loops, which elements of tensors each core loads and stores.
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

/// The regions that one core (context) stores, and the bounding box of its loads, on the axes of the owning tensor.
struct CoreUse {
  struct Step {
    Region region;
    double times = 1;
  };
  std::vector<Region> stored;
  std::optional<Region> loaded;
  std::vector<Step> steps = {};  ///< the first loads, in order
};

/// Number of loads per core and tensor whose order is recorded.
constexpr std::size_t most_steps_seen = 16;

/// A kernel's accesses to a tensor, under the name that its transfers use.
struct TensorUse {
  double loaded = 0, stored = 0;    ///< bytes that all cores move from and to memory, with layout padding
  double elements = 0;              ///< elements loaded and stored
  std::vector<CoreUse> cores = {};  ///< per stream, if regions are requested
  bool regions = true;              ///< false: another tensor selects rows, or elements are strided
};

/// Accesses by tensor name.
struct KernelTraffic : std::map<std::string, TensorUse> {
  std::vector<double> sent;  ///< per core, if regions are requested: bytes sent through its port
};

/// Traffic of a kernel; empty if loops, addresses or conditions read tensors, or if there are too many transfers.
using KernelUse = std::optional<KernelTraffic>;

class Traffic {
 public:
  explicit Traffic(const program::Program& program);
  /// `regions`: in programs of several cores, also record which core accesses which region.
  KernelUse use_of(const program::Scope& kernel, bool regions) const;

 private:
  struct Walk;
  const program::Program& program_;
  std::map<std::string, const program::Tensor*> tensors_;
};

/// The region that these regions fill without gaps; empty if there is a gap.
std::optional<Region> joined(const std::vector<Region>& regions);
bool contains(const Region& outer, const Region& inner);
bool meet(const Region& a, const Region& b);
double volume(const Region& region);

}  // namespace tilesim::lower
