// Kernels for sequencers: decoded once, with the points at which operands are released.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "tilesim/isa/latency/latency.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

inline constexpr Address live_code = 0x10000;  ///< address of kernels

struct LiveKernel {
  enum Role : std::uint8_t {
    carried = 1,  ///< a scalar instruction to execute
    reads = 2,    ///< an operand may be released
    pushes = 4,   ///< pushes rows into an array
    takes = 8,    ///< takes results of an array; an instruction with role `stores` follows
    stores = 16,
    weights = 32,
    completes = 64,  ///< last load of the first weight set: the next push uses the set
    targets = 128,   ///< sets where an array adds later pushes
  };
  LiveKernel(const InstructionSet& set, const Kernel& kernel, bool product);
  void find_end(const Kernel& kernel);

  std::vector<Op> ops;
  std::vector<std::uint8_t> roles;  ///< roles of each instruction
  std::size_t consumed = 0;         ///< no instruction from here on reads operands
  std::size_t drains = 0;           ///< no instruction from here on loads weights: the next kernel may start
  std::size_t pushed = 0;           ///< instructions from here on only take results of an array
  std::uint8_t step = stores;       ///< last role of its steps
};

/// Kernels of a core's computes, built at their first use. Use it in one thread.
class LiveKernels {
 public:
  explicit LiveKernels(const Machine& machine);

  const std::shared_ptr<PipelineTable>& table() const { return alone_.table(); }
  const Machine& machine() const { return machine_; }
  /// Number of weight sets that a product loads; 0: no kernel computes it.
  std::int64_t sets_of(const Descriptor& descriptor, const ComputeSource& source);
  /// The kernel for an array; null: none, with the reason in `why`. `resident`: it holds the only set of weights.
  const LiveKernel* find(const Descriptor& descriptor, const ComputeSource& source, unsigned array, bool resident,
                         std::string& why);

 private:
  struct Key {
    std::uint64_t signature = 0;
    unsigned array = 0;
    bool resident = false;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return static_cast<std::size_t>(key.signature ^ (std::uint64_t{key.array} << 1 | (key.resident ? 1U : 0U)));
    }
  };
  struct CachedKernel {
    std::unique_ptr<const LiveKernel> kernel;
    std::string why;
  };
  Kernel choose(const Descriptor& descriptor, const ComputeSource& source, unsigned array, bool resident);

  Machine machine_;
  InstructionLatency alone_;
  std::unordered_map<Key, CachedKernel, Hash> cached_;
  std::unordered_map<std::uint64_t, std::int64_t> sets_;  ///< by signature
};

}  // namespace tilesim::isa
