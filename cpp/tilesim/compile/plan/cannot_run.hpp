// Why a machine cannot run an operation, as a value: the operation of the input graph and the missing feature.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tilesim/base/error.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// The feature that the machine is missing.
enum class Lack : std::uint8_t {
  dtype,       ///< a unit that computes on this type
  array,       ///< an array
  conversion,  ///< the required rounding or saturation
  comparator,  ///< the required order of comparison
  scratchpad,  ///< space for the operation's smallest tile
  queues,      ///< enough queue names
  elements,    ///< tensor elements: empty tensors have no tiles
  trips,       ///< a trip count that is known before the loop runs
  effect,      ///< branches without side effects, which can run unconditionally
  devices,     ///< other devices
  lowering,    ///< a lowering of the kind or of its attributes
};
std::string_view name(Lack lack);

struct Reason {
  std::string function;   ///< name in the original graph
  std::string operation;  ///< name in this function; empty: no operation
  Lack lack = Lack::lowering;
};

/// An Unsupported error whose cause is a missing feature of the machine.
class CannotRun : public Unsupported {
 public:
  /// `op`: from the prepared or lowered graph. For an operation between devices, the feature is always `devices`.
  CannotRun(const Op& op, Lack lack, Parts parts);
  const Reason& reason() const { return reason_; }

 private:
  Reason reason_;
};

/// Appends function and name of every operation to its source, before passes replace operations by others with other
/// names. Passes copy sources.
void keep_origins(Graph& graph);

/// Undoes `keep_origins`.
void drop_origins(Graph& graph);
void drop_origin(Op& op);

}  // namespace tilesim
