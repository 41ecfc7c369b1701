// Reads and writes graph files: Graph::load, Graph::save and Graph::from_json with their options.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Weights may be held by reference to a file. Such a file lies beside or below the graph's own, links followed, unless
/// `weights_anywhere`: otherwise a graph from a stranger could name any file of its reader.
struct GraphFileOptions { bool weights_anywhere = false; };

Graph load_graph(const std::string& path, const GraphFileOptions& options = {});
Graph graph_from_json(const Json& json, const std::string& directory, const GraphFileOptions& options = {});
/// Its JSON form with these weights for its own: a graph of many operations takes long to copy.
Json graph_to_json(const Graph& graph, const std::map<std::string, Weight>& weights);
/// The old file stands until the new one is whole. UserError for .json where a weight's file lies elsewhere.
void save_graph(const Graph& graph, const std::string& path, const GraphFileOptions& options = {});
/// .tsim with a header that holds more than the graph.
void save_compiled_graph(const Graph& graph, const std::string& path, const Json& header);

/// A .tsim file, whose header is read once, whatever is asked of it.
class GraphFile {
 public:
  explicit GraphFile(const std::string& path);
  bool compiled() const;                           ///< written by `save_compiled_graph`
  const Json& header() const { return *header_; }  ///< of such a file: with the member "graph"
  Json rest() const;                               ///< the header without its long members "graph" and "program"
  Graph graph(const GraphFileOptions& options = {}) const;

 private:
  std::string path_;
  std::shared_ptr<const Json> header_;
  std::int64_t weights_ = 0;  ///< where they begin
};

/// Whether a file lies in a directory or below it, links followed.
bool lies_below(const std::string& path, const std::string& directory);

}  // namespace tilesim
