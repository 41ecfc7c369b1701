// The reason why a machine cannot run an operation, as a value: the operation of the input graph and the missing
// feature.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tilesim/base/error.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// The feature that the machine does not have.
enum class Lack : std::uint8_t {
  dtype,       ///< a unit that computes this type
  array,       ///< an array
  conversion,  ///< the required rounding or saturation
  comparator,  ///< the required comparison order
  scratchpad,  ///< space for the operation's smallest tile
  queues,      ///< enough queue names
  elements,    ///< elements: empty tensors have no tiles
  trips,       ///< a trip count known before the loop runs
  effect,      ///< branches without side effects, which may be computed unconditionally
  devices,     ///< other devices
  lowering,    ///< a lowering of the kind or its attributes
};
std::string_view name(Lack lack);

struct Reason {
  std::string function;   ///< name in the original graph
  std::string operation;  ///< name in that function; empty: no operation
  Lack lack = Lack::lowering;
};

/// An Unsupported error caused by a missing feature of the machine.
class CannotRun : public Unsupported {
 public:
  /// `op`: from the prepared or lowered graph. For an operation between devices the feature is always `devices`.
  CannotRun(const Op& op, Lack lack, Parts parts);
  const Reason& reason() const { return reason_; }

 private:
  Reason reason_;
};

/// Stores the function and name of every operation in its source, before passes replace operations by others with
/// unrelated names. Passes copy sources.
void keep_origins(Graph& graph);

/// Undoes `keep_origins`.
void drop_origins(Graph& graph);
void drop_origin(Op& op);

}  // namespace tilesim
