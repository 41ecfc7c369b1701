// From a graph with shardings to one that every device runs on its parts: collectives are separate operations.
#pragma once

#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"
#include "tilesim/graph/sharding.hpp"

namespace tilesim::partitioning {

/// Why a collective is there.
struct Inserted {
  std::string function, operation;  ///< of the local graph
  std::string kind;
  std::string value;     ///< of the whole graph, that changes its layout
  std::string consumer;  ///< operation of the whole graph; empty: an output
  std::string reason;
  std::int64_t devices = 1;  ///< of a group
  double bytes = 0;          ///< sent by a device
};

struct Border {
  std::string name;
  TensorType type;  ///< of the whole tensor; a device's part is rounded up, and padded
  Sharding sharding;
  std::string weight{};  ///< a divided constant, which the local graph has as an input: its weight
};

struct Partitioned {
  Graph graph;  ///< local shapes; `devices` is set; values carry their shardings
  std::vector<Inserted> inserted;
  std::vector<Border> inputs, outputs;
};

/// `graph` names a mesh, and its values their shardings. UserError for a mesh that does not fit them; Unsupported for
/// partial results at the border, and for collectives in a graph that is to be divided.
Partitioned partition(const Graph& graph);

/// The graph with calls and fused nodes opened, as it is divided. Errors as of `partition`.
Graph opened(const Graph& graph);
/// The same with the sharding of every value.
Graph spread(const Graph& graph);

/// How the kinds may be divided, for the table of kinds and rules: of one operation, a line per factor or a reason.
std::vector<std::string> describe_rule(const GraphFunction& function, const Op& op);

/// A graph as a module of Shardy's dialect, text of MLIR: operations that Shardy knows by their rules alone. Every
/// operation is a custom_call with the rule of its kind, and backend_config "function operation" by index; loops and
/// branches are StableHLO's. Elements are f32, or i1 for bool. `graph` is opened and names a mesh.
std::string shardy_module(const Graph& graph);

}  // namespace tilesim::partitioning
