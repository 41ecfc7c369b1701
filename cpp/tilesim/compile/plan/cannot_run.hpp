// The reason why a machine cannot run an operation, as a value: the operation of the input graph and the missing
// feature.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tilesim/base/error.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// What the machine lacks.
enum class Lack : std::uint8_t {
  dtype,       ///< a unit that computes on this type
  array,       ///< arrays at all
  conversion,  ///< this rounding or saturation
  comparator,  ///< this way to compare
  scratchpad,  ///< room for the least that the operation takes at once
  queues,      ///< names for so many queues
  elements,    ///< tensors without elements have no tiles
  trips,       ///< a loop's number of trips, known before it runs
  effect,      ///< sides of a branch that can be computed unasked
  devices,     ///< other devices
  lowering,    ///< any way to run the kind, or these attributes of it
};
std::string_view name(Lack lack);

struct Reason {
  std::string function;   ///< of the graph as it was given
  std::string operation;  ///< in that function; empty: of none
  Lack lack = Lack::lowering;
};

/// An Unsupported whose reason is that a machine lacks something.
class CannotRun : public Unsupported {
 public:
  /// `op`: of the graph that is prepared or lowered. Of an operation between devices the lack is always devices.
  CannotRun(const Op& op, Lack lack, Parts parts);
  const Reason& reason() const { return reason_; }

 private:
  Reason reason_;
};

/// Before passes write operations as others, whose names do not tell of what: every operation's source holds its
/// function and name beside it from here on. Passes hand sources on.
void keep_origins(Graph& graph);

/// Sources as they were given.
void drop_origins(Graph& graph);
void drop_origin(Op& op);

}  // namespace tilesim
