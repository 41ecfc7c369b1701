// Files of graphs: what Graph::load, Graph::save and Graph::from_json do, with its options.
#pragma once

#include <string>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Weights may be held by reference to a file. Such a file lies beside or below the graph's own, links followed, unless
/// `weights_anywhere`: otherwise a graph from a stranger could name any file of its reader.
struct GraphFileOptions { bool weights_anywhere = false; };

Graph load_graph(const std::string& path, const GraphFileOptions& options = {});
Graph graph_from_json(const Json& json, const std::string& directory, const GraphFileOptions& options = {});
/// The old file stands until the new one is whole. UserError for .json where a weight's file lies elsewhere.
void save_graph(const Graph& graph, const std::string& path, const GraphFileOptions& options = {});
void save_compiled_graph(const Graph& graph, const std::string& path, const Json& header);

/// Whether a file lies in a directory or below it, links followed.
bool lies_below(const std::string& path, const std::string& directory);

}  // namespace tilesim
