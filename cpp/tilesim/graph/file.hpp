// Reads and writes graph files: Graph::load, Graph::save and Graph::from_json with their options.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Weights may refer to a file, which must be in the directory of the graph or below it, after following links, unless
/// `weights_anywhere` is set: otherwise a graph of unknown origin could name any file of its reader.
struct GraphFileOptions { bool weights_anywhere = false; };

Graph load_graph(const std::string& path, const GraphFileOptions& options = {});
Graph graph_from_json(const Json& json, const std::string& directory, const GraphFileOptions& options = {});
/// The graph's JSON with these weights in place of the graph's, which avoids a copy of a large graph.
Json graph_to_json(const Graph& graph, const std::map<std::string, Weight>& weights);
/// Keeps the old file until the new one is complete. UserError for .json if a weight's file is elsewhere.
void save_graph(const Graph& graph, const std::string& path, const GraphFileOptions& options = {});
/// Writes .tsim with a header that has more members than the graph.
void save_compiled_graph(const Graph& graph, const std::string& path, const Json& header);

/// A .tsim file; its header is read only once.
class GraphFile {
 public:
  explicit GraphFile(const std::string& path);
  bool compiled() const;                           ///< written by `save_compiled_graph`
  const Json& header() const { return *header_; }  ///< of a compiled file: includes the member "graph"
  Json rest() const;                               ///< the header without its long members "graph" and "program"
  Graph graph(const GraphFileOptions& options = {}) const;

 private:
  std::string path_;
  std::shared_ptr<const Json> header_;
  std::int64_t weights_ = 0;  ///< offset of the weights
};

/// Whether a file is in a directory or below it, after following links.
bool lies_below(const std::string& path, const std::string& directory);

}  // namespace tilesim
