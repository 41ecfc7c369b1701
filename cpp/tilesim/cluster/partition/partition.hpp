// Turns a graph with shardings into the graph that every device runs on its parts. Collectives become separate
// operations.
#pragma once

#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"
#include "tilesim/graph/sharding.hpp"

namespace tilesim::partitioning {

/// A collective that the partitioner inserted, with the reason.
struct Inserted {
  std::string function, operation;  ///< names in the local graph
  std::string kind;
  std::string value;     ///< value of the input graph with the changed layout
  std::string consumer;  ///< operation of the input graph; empty: an output
  std::string reason;
  std::int64_t devices = 1;  ///< devices per group
  double bytes = 0;          ///< bytes sent per device
};

/// An input or output of the local graph.
struct Border {
  std::string name;
  TensorType type;  ///< of the unsharded tensor; a device's part is rounded up and padded
  Sharding sharding;
  std::string weight{};  ///< of a sharded constant, which is an input of the local graph
};

struct Partitioned {
  Graph graph;  ///< local shapes; `devices` is set; values carry their shardings
  std::vector<Inserted> inserted;
  std::vector<Border> inputs, outputs;
};

/// Partitions a graph that names a mesh and has shardings. Throws UserError for a mesh that does not fit them, and
/// Unsupported for partial results at inputs or outputs and for graphs that already have collectives.
Partitioned partition(const Graph& graph);

/// The graph with inlined calls and fused nodes, as the partitioner uses it. Throws as `partition` does.
Graph opened(const Graph& graph);
/// The same graph with the propagated sharding of every value.
Graph spread(const Graph& graph);

/// The sharding rule of an operation for the table of kinds: a line per factor, or the reason why it has none.
std::vector<std::string> describe_rule(const GraphFunction& function, const Op& op);

/// A graph as MLIR text in Shardy's dialect. Each operation is a custom_call with the sharding rule of its kind, and
/// backend_config "function operation" by index; loops and branches are StableHLO's. Elements are f32, or i1 for bool.
/// `graph` must be opened and name a mesh.
std::string shardy_module(const Graph& graph);

}  // namespace tilesim::partitioning
