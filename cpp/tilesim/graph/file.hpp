// Reads and writes graph files: Graph::load, Graph::save and Graph::from_json with their options.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// `weights_anywhere`: permits weights in files outside the graph's directory. By default a weight's file must be in
/// this directory or below it, after links are resolved, because a graph of unknown origin could name any file.
struct GraphFileOptions { bool weights_anywhere = false; };

Graph load_graph(const std::string& path, const GraphFileOptions& options = {});
Graph graph_from_json(const Json& json, const std::string& directory, const GraphFileOptions& options = {});
/// The graph's JSON with `weights` in place of the graph's weights, which avoids a copy of a large graph.
Json graph_to_json(const Graph& graph, const std::map<std::string, Weight>& weights);
/// Writes a graph file atomically. Throws UserError for .json if a weight's file is outside the graph's directory.
void save_graph(const Graph& graph, const std::string& path, const GraphFileOptions& options = {});
/// Writes .tsim with `header`, which has members in addition to the graph.
void save_compiled_graph(const Graph& graph, const std::string& path, const Json& header);

/// A .tsim file. The header is read once.
class GraphFile {
 public:
  explicit GraphFile(const std::string& path);
  bool compiled() const;                           ///< whether `save_compiled_graph` wrote the file
  const Json& header() const { return *header_; }  ///< header of a compiled file, with the member "graph"
  Json rest() const;                               ///< header without its long members "graph" and "program"
  Graph graph(const GraphFileOptions& options = {}) const;

 private:
  std::string path_;
  std::shared_ptr<const Json> header_;
  std::int64_t weights_ = 0;  ///< offset of the weights in bytes
};

/// Whether a file is in a directory or below it, after links are resolved.
bool lies_below(const std::string& path, const std::string& directory);

}  // namespace tilesim
