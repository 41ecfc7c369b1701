// Kernels for sequencers: decoded once, with the points at which operands are released.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "tilesim/isa/latency/latency.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

inline constexpr Address live_code = 0x10000;  ///< where kernels stand

struct LiveKernel {
  enum Role : std::uint8_t {
    carried = 1,  ///< a scalar instruction that is carried out
    reads = 2,    ///< an operand that can be released
    pushes = 4,   ///< rows into an array
    takes = 8,    ///< results of an array, which a `stores` follows
    stores = 16,
    weights = 32,
    completes = 64,  ///< the first set of weights: the push behind it takes that into use
    targets = 128,   ///< where an array adds what is pushed from here on
  };
  LiveKernel(const InstructionSet& set, const Kernel& kernel, bool product);
  void find_end(const Kernel& kernel);

  std::vector<Op> ops;
  std::vector<std::uint8_t> roles;  ///< of each
  std::size_t consumed = 0;         ///< from this place on nothing reads operands
  std::size_t drains = 0;           ///< from this place on it loads no weights, and the next kernel may begin
  std::size_t pushed = 0;           ///< from this place on results of an array are taken, and nothing else
  std::uint8_t step = stores;       ///< what its steps end with
};

/// Kernels of a core's computes, each made when it is first asked for. One thread at a time.
class LiveKernels {
 public:
  explicit LiveKernels(const Machine& machine);

  const std::shared_ptr<PipelineTable>& table() const { return alone_.table(); }
  const Machine& machine() const { return machine_; }
  /// Sets of weights that a product loads; 0: no kernel does it.
  std::int64_t sets_of(const Descriptor& descriptor, const ComputeSource& source);
  /// For array number `array`. `resident`: its only set of weights is there. Null: no kernel, as `why` says.
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
