// Graphs in files: .json, and .tsim, which holds the weights after a JSON header.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim {

namespace {

// .tsim: "TILESIM1", header length (64-bit little-endian), JSON header padded with blanks to a multiple of 64, weights.
// Weights of source file with an empty path lie in the same file, `byte_offset` after the header.
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

[[noreturn]] void unwritable(const std::string& path) {
  throw UserError({"the file cannot be written", path, {}, "a path in a directory that exists", {}});
}

/// `compiled`: further members of the header, beside the graph; null for a plain graph.
void write_tsim(Graph graph, const std::string& path, const Json* compiled) {
  std::vector<std::pair<std::string, Array>> stored;
  std::int64_t offset = 0;
  for (auto& [name, weight] : graph.weights) {
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
    whole.set("graph", graph.to_json());
    header = whole.dump();
  } else {
    header = graph.to_json().dump();
  }
  header.append(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(header.size()) + fixed, alignment)) -
                    fixed - header.size(),
                ' ');
  // Beside the target first: weights may be mapped from the very file that this one replaces.
  const std::string beside = path + ".partial";
  std::ofstream file(beside, std::ios::binary);
  const auto length = static_cast<std::uint64_t>(header.size());
  file.write(magic, 8).write(reinterpret_cast<const char*>(&length), 8);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const auto& [name, array] : stored) {
    const std::string padding(static_cast<std::size_t>(round_up(array.nbytes(), alignment) - array.nbytes()), '\0');
    file.write(reinterpret_cast<const char*>(array.bytes()), array.nbytes());
    file.write(padding.data(), static_cast<std::streamsize>(padding.size()));
  }
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(beside, path, failed);
  if (!file || failed) unwritable(path);
}

std::pair<Json, std::int64_t> read_header(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError({"the file cannot be read", path, {}, {}, {}});
  char head[fixed];
  file.read(head, fixed);
  std::uint64_t length = 0;
  std::memcpy(&length, head + 8, 8);
  if (file.gcount() != fixed || std::memcmp(head, magic, 8) != 0)
    throw UserError({"not a .tsim file", path, {}, "a file written by Graph.save", {}});
  if (length > std::filesystem::file_size(path))
    throw UserError({"the file is cut off",
                     path,
                     std::to_string(std::filesystem::file_size(path)) + " bytes",
                     std::to_string(length + fixed) + " bytes and the weights",
                     {}});
  std::string header(static_cast<std::size_t>(length), ' ');
  file.read(header.data(), static_cast<std::streamsize>(length));
  return {Json::parse(header, path), static_cast<std::int64_t>(length)};
}

Graph read_tsim(const std::string& path) {
  const auto [header, length] = read_header(path);
  const bool compiled = header.is_object() && header.find("graph") != nullptr;
  const Json& json = compiled ? header.at("graph") : header;
  const std::string directory = std::filesystem::path(path).parent_path().string();
  Graph graph = Graph::from_json(json, directory);
  for (auto& [name, weight] : graph.weights) {
    if (weight.source != Weight::Source::file || !json.at("weights").at(name).at("path").as_string().empty()) continue;
    weight.path = path;
    weight.byte_offset += length + fixed;
  }
  return graph;
}

}  // namespace

std::string Graph::text() const {
  const Json json = to_json();
  std::string out = "{";
  const char* separator = "\n ";
  for (const auto& [key, value] : json.members()) {
    out += separator + Json(key).dump() + ": ";
    separator = ",\n ";
    // one operation, one weight per line
    write_indented(value, key == "functions" ? 4 : 2, 1, out);
  }
  return out + "\n}\n";
}

void Graph::save(const std::string& path) const {
  if (path.ends_with(".tsim")) return write_tsim(*this, path, nullptr);
  if (!path.ends_with(".json"))
    throw UserError({"unknown kind of graph file", path, {}, "a name that ends in .json or .tsim", {}});
  std::ofstream file(path, std::ios::binary);
  file << text();
  file.flush();
  if (!file) unwritable(path);
}

void Graph::save_compiled(const std::string& path, const Json& header) const { write_tsim(*this, path, &header); }

Json Graph::compiled_header(const std::string& path) {
  Json header = read_header(path).first;
  return header.is_object() && header.find("graph") != nullptr ? header : Json();
}

Graph Graph::load(const std::string& path) {
  if (path.ends_with(".tsim")) return read_tsim(path);
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return from_json(Json::read_file(path), directory.empty() ? "." : directory);
}

}  // namespace tilesim
