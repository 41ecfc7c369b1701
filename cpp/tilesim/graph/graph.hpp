// The Graph: functions of operations on single-assignment tensors. kind.hpp declares the kinds of operations.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/base/json/json.hpp"

namespace tilesim {

enum class Kind : std::uint8_t {
  contract,
  convolution,
  elementwise,
  convert,
  bitcast,
  reduce,
  cumulative,
  window_reduce,
  gather,
  embedding,
  dynamic_slice,
  dynamic_update,
  reshape,
  transpose,
  broadcast,
  slice,
  reverse,
  pad,
  concat,
  copy,
  iota,
  constant,
  softmax,
  log_softmax,
  normalize,
  batch_norm,
  attention,
  call,
  fused,
  scatter,
  window_scatter,
  sort,
  top_k,
  while_loop,
  branch,
  linear_solve,
  fft,
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  permute_devices,
  broadcast_devices,
  device_index,
  ragged_contract,
  rotary,
  opaque,
};
inline constexpr int kind_count = static_cast<int>(Kind::opaque) + 1;

/// Index of a value in its function; -1: an optional operand that is missing.
using ValueId = std::int32_t;
inline constexpr ValueId no_value = -1;

using Attribute =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<std::string>, DType>;

/// Attributes of one operation, sorted by name. Getters without fallback throw InternalError if the attribute is
/// missing, because check() guarantees presence and type.
class Attributes {
 public:
  void set(const std::string& name, Attribute value);
  const Attribute* find(std::string_view name) const;
  bool flag(std::string_view name, bool fallback = false) const;
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  double number(std::string_view name) const;
  double number(std::string_view name, double fallback) const;
  const std::string& text(std::string_view name) const;
  std::string text(std::string_view name, const std::string& fallback) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;
  std::vector<std::int64_t> integers(std::string_view name, const std::vector<std::int64_t>& fallback) const;
  DType dtype(std::string_view name) const;
  const std::vector<std::pair<std::string, Attribute>>& all() const { return values_; }
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  std::vector<std::pair<std::string, Attribute>> values_;
};

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::string to_string(const TensorType& type);  ///< "f32[2, 3]"

struct Mesh;
struct Sharding;

struct Value {
  std::string name;  ///< unique within the function
  TensorType type;
  std::shared_ptr<const Sharding> sharding{};  ///< sharding over the mesh; null: not annotated
};

struct Op {
  std::string name;  ///< unique within the function; shown to users
  Kind kind = Kind::copy;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  Attributes attributes;
  std::vector<std::int32_t> functions;  ///< callees of call, fused, while, branch; comparator of sort
  std::string source;                   ///< location in the user's model; may be empty
};

/// Output `output` of a function overwrites input `input` (state, caches), either in place or by a timed copy.
struct Alias {
  std::int32_t output = 0;
  std::int32_t input = 0;
  friend bool operator==(const Alias&, const Alias&) = default;
};

struct GraphFunction {
  std::string name;
  std::vector<Value> values;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<Op> ops;  ///< producers precede consumers (check() enforces this)
  std::vector<Alias> aliases;

  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
};

/// A weight: its type, and where its elements come from. Timing does not need the elements.
struct Weight {
  enum class Source : std::uint8_t { data, random, file };
  TensorType type;
  Source source = Source::random;
  Array data;             ///< source data
  std::int64_t seed = 0;  ///< random: uniform in [-scale, scale] + offset, a function of (seed, name, index)
  double scale = 0.05;
  double offset = 0;
  std::string path;  ///< file: .npy or raw little-endian; relative to the graph file
  std::int64_t byte_offset = 0;
  bool trainable = true;  ///< false for buffers (running statistics, scalars), which are not parameters
  /// Loads the elements. Throws UserError with `name` if the file is missing, too short or of another type.
  Array load(const std::string& name) const;
};

/// A complete model. The attribute "reference" of a `constant` operation names its weight.
class Graph {
 public:
  std::string name;
  std::vector<GraphFunction> functions;
  std::int32_t main = 0;
  std::map<std::string, Weight> weights;
  std::shared_ptr<const Mesh> mesh;  ///< devices of the sharding annotations; null: none
  std::int64_t devices = 1;          ///< number of devices that run this graph, each on its own values; for collectives

  const GraphFunction& entry() const { return functions[static_cast<std::size_t>(main)]; }
  GraphFunction& entry() { return functions[static_cast<std::size_t>(main)]; }
  std::int64_t parameter_count() const;  ///< number of elements of all trainable weights
  Json to_json() const;  ///< schema "tilesim.graph", version 1; contains weights in memory (base64 above 1024 elements)
  /// `directory`: base of relative paths of weight files. Throws UserError with the place in the text.
  static Graph from_json(const Json& json, const std::string& directory = ".");
  std::string text() const;  ///< to_json with one operation per line
  /// Writes .json (with weights in memory) or .tsim (a JSON header, then weights), according to the extension of
  /// `path`.
  void save(const std::string& path) const;
  static Graph load(const std::string& path);
  /// Writes .tsim with a header that also has other members (a compiled program); `load` reads the graph.
  void save_compiled(const std::string& path, const Json& header) const;
  /// The header of such a file; null if the file has only a graph.
  static Json compiled_header(const std::string& path);
};

/// Throws UserError, naming function and operation, if structure, attributes, operand counts, shapes or dtypes violate
/// the kinds' rules.
void check(const Graph& graph);

}  // namespace tilesim
