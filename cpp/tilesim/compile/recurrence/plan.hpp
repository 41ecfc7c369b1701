// The plan of a recurrence: on-chip buffers, tiles and the vector computes of a trip.
#pragma once

#include <string>
#include <vector>

#include "tilesim/compile/recurrence/recurrence.hpp"
#include "tilesim/compile/vector/tiling.hpp"

namespace tilesim::lower {

/// A ring of buffers for a value of the body, per trip or per chunk of trips.
struct RecurrenceBuffer {
  enum class Use : std::uint8_t { whole, read, write, state, sum };
  Use use = Use::whole;
  ValueId value = no_value;
  std::string slot;
  DType dtype = DType::f32;
  std::vector<bool> spans;            ///< per axis of the space
  std::vector<std::int64_t> strides;  ///< per axis of the space, in the tile; the lane axis is innermost
  std::int64_t tile = 1;              ///< elements of one trip
};

/// Results of one vector compute, all of one level and along the same axes.
struct RecurrenceStage {
  int level = 0;
  std::vector<bool> spans;
  struct Result {
    ValueId value = no_value;
    const Op* sum = nullptr;           ///< the reduction or product computed here
    std::vector<std::size_t> buffers;  ///< buffers that it writes
  };
  std::vector<Result> results;
};

struct RecurrencePlan {
  Shape tiles;
  int lane = 0;            ///< lane axis of the space
  std::int64_t chunk = 1;  ///< trips whose slices are loaded together
  std::vector<RecurrenceBuffer> buffers;
  std::vector<RecurrenceStage> stages;
  bool fits = false;
};

RecurrencePlan plan_recurrence(const Recurrence& recurrence, const LoopPlan& plan, const Share& machine);

}  // namespace tilesim::lower
