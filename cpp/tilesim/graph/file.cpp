// Reads and writes graphs as .json, and as .tsim with the weights after a JSON header.
#include <cstring>
#include <filesystem>

#include "tilesim/base/error.hpp"
#include "tilesim/base/file.hpp"
#include "tilesim/base/json/tree.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/file.hpp"

namespace tilesim {

namespace {

// .tsim: "TILESIM1", length of the header (64-bit little-endian), JSON header padded with blanks to a multiple of 64
// bytes, weights. A weight of source file with an empty path is in the same file, `byte_offset` bytes after the header.
constexpr char magic[] = "TILESIM1";
constexpr std::int64_t fixed = 16, alignment = 64;

void write_indented(const Json& value, int depth, int level, std::string& out) {
  const bool list = value.is_array();
  if (level >= depth || (!list && !value.is_object()) || value.size() == 0) {
    out += value.dump();
    return;
  }
  const std::string line = "\n" + std::string(static_cast<std::size_t>(level + 1), ' ');
  const char* separator = "";
  out += list ? '[' : '{';
  const auto member = [&](const std::string& key, const Json& item) {
    out += separator + line + key;
    separator = ",";
    write_indented(item, depth, level + 1, out);
  };
  if (list)
    for (const Json& item : value.items()) member("", item);
  else
    for (const auto& [key, item] : value.members()) member(Json(key).dump() + ": ", item);
  out += line.substr(0, line.size() - 1) + (list ? ']' : '}');
}

std::string text_of(const Graph& graph, const std::map<std::string, Weight>& weights) {
  const std::shared_ptr<const Json> json = json_tree(graph_to_json(graph, weights));
  std::string out = "{";
  const char* separator = "\n ";
  for (const auto& [key, value] : json->members()) {
    out += separator + Json(key).dump() + ": ";
    separator = ",\n ";
    // one operation or weight per line
    write_indented(value, key == "functions" ? 4 : 2, 1, out);
  }
  return out + "\n}\n";
}

/// `compiled`: members of the header besides the graph; null for a plain graph.
void write_tsim(const Graph& graph, const std::string& path, const Json* compiled) {
  std::map<std::string, Weight> weights = graph.weights;
  std::vector<std::pair<std::string, Array>> stored;
  std::int64_t offset = 0;
  for (auto& [name, weight] : weights) {
    const bool small = weight.source == Weight::Source::data && weight.data.size() <= 1024;
    if (weight.source == Weight::Source::random || small) continue;
    stored.emplace_back(name, weight.load(name));
    weight.source = Weight::Source::file;
    weight.path.clear();
    weight.data = Array();
    weight.byte_offset = offset;
    offset = round_up(offset + stored.back().second.nbytes(), alignment);
  }
  std::string header;
  if (compiled) {
    Json whole = *compiled;
    whole.set("graph", graph_to_json(graph, weights));
    header = json_tree(std::move(whole))->dump();
  } else {
    header = json_tree(graph_to_json(graph, weights))->dump();
  }
  header.append(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(header.size()) + fixed, alignment)) -
                    fixed - header.size(),
                ' ');
  ReplacedFile file(path);  // the old file may be the source of mapped weights
  const auto length = static_cast<std::uint64_t>(header.size());
  file.write({magic, 8});
  file.write(&length, 8);
  file.write(header);
  for (const auto& [name, array] : stored) {
    file.write(array.bytes(), array.nbytes());
    file.write(std::string(static_cast<std::size_t>(round_up(array.nbytes(), alignment) - array.nbytes()), '\0'));
  }
  file.commit();
}

/// The JSON header and its length in bytes.
std::pair<Json, std::int64_t> read_header(const std::string& path) {
  const InputFile file(path);
  char head[fixed];
  const bool whole = file.read(0, head, fixed) == fixed;
  std::uint64_t length = 0;
  std::memcpy(&length, head + 8, 8);
  if (!whole || std::memcmp(head, magic, 8) != 0)
    throw UserError({"not a .tsim file", path, {}, "a file written by Graph.save or Program.save", {}});
  if (length > static_cast<std::uint64_t>(file.size() - fixed))
    throw UserError({"the file is cut off",
                     path,
                     std::to_string(file.size()) + " bytes",
                     std::to_string(length) + " bytes of a header, and the weights",
                     {}});
  std::string header(static_cast<std::size_t>(length), ' ');
  file.read(fixed, header.data(), static_cast<std::int64_t>(length));
  return {Json::parse(header, path), static_cast<std::int64_t>(length)};
}

std::string directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

}  // namespace

GraphFile::GraphFile(const std::string& path) : path_(path) {
  auto [header, length] = read_header(path);
  header_ = json_tree(std::move(header));
  weights_ = length + fixed;
}

bool GraphFile::compiled() const { return header_->is_object() && header_->find("graph") != nullptr; }

Json GraphFile::rest() const {
  if (!header_->is_object()) return *header_;
  Json json = Json::object();
  for (const auto& [key, value] : header_->members())
    if (key != "graph" && key != "program") json.set(key, value);
  return json;
}

Graph GraphFile::graph(const GraphFileOptions& options) const {
  const Json& json = compiled() ? header_->at("graph") : *header_;
  Graph graph = graph_from_json(json, directory_of(path_), options);
  for (auto& [name, weight] : graph.weights) {
    if (weight.source != Weight::Source::file || !json.at("weights").at(name).at("path").as_string().empty()) continue;
    weight.path = path_;
    weight.byte_offset += weights_;
  }
  return graph;
}

std::string Graph::text() const { return text_of(*this, weights); }

bool lies_below(const std::string& path, const std::string& directory) {
  std::error_code failed;
  const std::filesystem::path file = std::filesystem::weakly_canonical(path, failed);
  if (failed) return false;
  const std::filesystem::path relative = file.lexically_relative(std::filesystem::weakly_canonical(directory, failed));
  return !failed && !relative.empty() && *relative.begin() != "..";
}

void save_graph(const Graph& graph, const std::string& path, const GraphFileOptions& options) {
  if (path.ends_with(".tsim")) return write_tsim(graph, path, nullptr);
  if (!path.ends_with(".json"))
    throw UserError({"unknown kind of graph file", path, {}, "a name that ends in .json or .tsim", {}});
  const std::string directory = directory_of(path);
  std::map<std::string, Weight> weights = graph.weights;
  for (auto& [name, weight] : weights) {
    if (weight.source != Weight::Source::file) continue;
    const bool below = lies_below(weight.path, directory);
    if (!below && !options.weights_anywhere)
      throw UserError({"the file of a weight lies outside the graph's directory and would not be read",
                       "weight \"" + name + "\"", weight.path, "a path beside or below " + path,
                       "Save as .tsim, which holds the weights, or pass weights_anywhere=True"});
    const std::filesystem::path whole = std::filesystem::weakly_canonical(weight.path);
    weight.path = (below ? whole.lexically_relative(std::filesystem::weakly_canonical(directory)) : whole).string();
  }
  ReplacedFile file(path);
  const std::string text = text_of(graph, weights);
  file.write(text.data(), static_cast<std::int64_t>(text.size()));
  file.commit();
}

void save_compiled_graph(const Graph& graph, const std::string& path, const Json& header) {
  write_tsim(graph, path, &header);
}

Graph load_graph(const std::string& path, const GraphFileOptions& options) {
  if (path.ends_with(".tsim")) return GraphFile(path).graph(options);
  return graph_from_json(*json_tree(Json::read_file(path)), directory_of(path), options);
}

void Graph::save(const std::string& path) const { save_graph(*this, path); }

void Graph::save_compiled(const std::string& path, const Json& header) const {
  save_compiled_graph(*this, path, header);
}

Json Graph::compiled_header(const std::string& path) {
  const GraphFile file(path);
  return file.compiled() ? file.header() : Json();
}

Graph Graph::load(const std::string& path) { return load_graph(path); }

}  // namespace tilesim
