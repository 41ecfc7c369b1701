// One cache level: a slice in front of each memory channel, and access counts per tensor.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tilesim/engine/cache/slice.hpp"

namespace tilesim::engine::cache {

/// Cache statistics of a tensor. A request that hits or misses covers at most one sector.
struct TensorUse {
  std::string name;
  bool resident = false;
  std::int64_t bytes = 0;                          ///< size of the tensor, rounded up to pages
  std::int64_t read_bytes = 0, written_bytes = 0;  ///< bytes that cores requested
  std::int64_t hits = 0, misses = 0;
  std::int64_t fetched_bytes = 0, returned_bytes = 0, bypassed_bytes = 0;  ///< from memory; to memory; past the cache
};

/// The tensors of all jobs, indexed by tensor number. The caches of all memory regions share this table.
struct Tensors {
  std::vector<TensorUse> uses;
  bool plan = false;  ///< true if the user named resident tensors; all other tensors then bypass the cache

  bool kept(std::int32_t tensor, bool software) const {
    if (tensor < 0) return false;
    return plan || software ? uses[static_cast<std::size_t>(tensor)].resident : true;
  }
};

class Level {
 public:
  /// `tensors` must outlive the level.
  Level(const Spec& spec, Tensors& tensors) : spec_(spec), tensors_(tensors) {}
  void add_slice(std::unique_ptr<Below> below);

  struct Taken {
    std::int64_t cycle = 0;    ///< cycle in which the last part of the request entered the slice
    std::int64_t answers = 0;  ///< number of parts that the slice will answer; 0 for a write
    std::int64_t below = 0;    ///< bytes transferred between the slice and its channel
  };
  /// Requests bytes of one channel from cycle `request.due` on, past the cache if the address is not `known`.
  Taken request(std::size_t slice, const Access& request, std::int32_t tensor, bool known);

  std::size_t size() const { return slices_.size(); }
  Slice& slice(std::size_t index) { return slices_[index]; }
  const Slice& slice(std::size_t index) const { return slices_[index]; }
  const Below& below(std::size_t index) const { return *below_[index]; }
  const Spec& spec() const { return spec_; }

 private:
  Spec own(const Spec& spec) const;

  Spec spec_;
  Tensors& tensors_;
  std::vector<std::unique_ptr<Below>> below_;
  std::deque<Slice> slices_;
};

}  // namespace tilesim::engine::cache
