// Writes and reads graphs as JSON.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "tilesim/base/aside.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/json/tree.hpp"
#include "tilesim/graph/file.hpp"
#include "tilesim/graph/json/form.hpp"
#include "tilesim/graph/kinds/rules.hpp"
#include "tilesim/graph/limits.hpp"
#include "tilesim/graph/sharding.hpp"

namespace tilesim {

namespace {

constexpr const char* schema = "tilesim.graph";
constexpr std::int64_t version = 1;

Json named(const Value& value) {
  Json json = Json::object();
  json.set("name", Json(value.name));
  const Json type = json_form::from_type(value.type);
  for (const auto& [key, member] : type.members()) json.set(key, member);
  if (value.sharding) json.set("sharding", Json(value.sharding->text()));
  return json;
}

/// The annotation in member "sharding" of an entry; null if the entry has none.
std::shared_ptr<const Sharding> read_sharding(ObjectReader& entry) {
  const Json* text = entry.optional("sharding");
  if (!text) return nullptr;
  try {
    return std::make_shared<const Sharding>(Sharding::parse(text->as_string()));
  } catch (const UserError& error) {
    text->fail(error.parts().what + " (" + error.parts().place + ")", error.parts().allowed);
  }
}

std::shared_ptr<const Mesh> read_mesh(const Json& text) {
  try {
    return std::make_shared<const Mesh>(Mesh::parse(text.as_string()));
  } catch (const UserError& error) {
    text.fail(error.parts().what, error.parts().allowed);
  }
}

Json from_op(const Graph& graph, const GraphFunction& function, const Op& op) {
  Json json = Json::object();
  json.set("name", Json(op.name));
  json.set("kind", Json(std::string(info(op.kind).name)));
  Json operands = Json::array(), results = Json::array();
  for (const ValueId id : op.operands) operands.push(id == no_value ? Json() : Json(function.value(id).name));
  for (const ValueId id : op.results) results.push(named(function.value(id)));
  json.set("operands", std::move(operands));
  json.set("results", std::move(results));
  if (!op.attributes.all().empty()) {
    Json attributes = Json::object();
    for (const auto& [key, value] : op.attributes.all()) attributes.set(key, json_form::from_attribute(value));
    json.set("attributes", std::move(attributes));
  }
  if (!op.functions.empty()) {
    Json callees = Json::array();
    for (const std::int32_t callee : op.functions) callees.push(Json(graph.functions[at(callee)].name));
    json.set("functions", std::move(callees));
  }
  if (!op.source.empty()) json.set("source", Json(op.source));
  return json;
}

Json from_function(const Graph& graph, const GraphFunction& function) {
  Json json = Json::object(), inputs = Json::array(), outputs = Json::array();
  constexpr std::size_t few = 1 << 10;
  const std::shared_ptr<Json> ops = freed_aside(Json::array(), function.ops.size() > few);
  json.set("name", Json(function.name));
  for (const ValueId id : function.inputs) inputs.push(named(function.value(id)));
  for (const Op& op : function.ops) ops->push(from_op(graph, function, op));
  for (const ValueId id : function.outputs) outputs.push(Json(function.value(id).name));
  json.set("inputs", std::move(inputs));
  json.set("ops", std::move(*ops));
  json.set("outputs", std::move(outputs));
  if (function.aliases.empty()) return json;
  Json aliases = Json::array();
  for (const Alias& alias : function.aliases) {
    Json entry = Json::object();
    entry.set("output", Json(std::int64_t{alias.output}));
    entry.set("input", Json(std::int64_t{alias.input}));
    aliases.push(std::move(entry));
  }
  json.set("aliases", std::move(aliases));
  return json;
}

using Values = std::unordered_map<std::string, ValueId>;

/// Reads functions, callees first, so that types can be inferred.
class GraphReader {
 public:
  GraphReader(const Json& json, const std::string& directory, bool weights_anywhere) : json_(json) {
    ObjectReader reader(json);
    if (const Json& text = reader.required("schema"); text.as_string() != schema)
      text.fail("not a graph", "\"" + std::string(schema) + "\"");
    reader.integer("version", version, version);
    graph_.name = reader.string_or("name", "");
    if (const Json* mesh = reader.optional("mesh")) graph_.mesh = read_mesh(*mesh);
    if (reader.optional("devices")) graph_.devices = reader.integer("devices", 1, most_devices);
    if (const Json* weights = reader.optional("weights"))
      for (const auto& [key, value] : weights->members())
        graph_.weights.emplace(key, json_form::read_weight(value, directory, weights_anywhere));
    const std::vector<Json>& functions = reader.required("functions").items();
    if (functions.empty()) json.at("functions").fail("a graph needs at least one function");
    for (const Json& function : functions) {
      graph_.functions.emplace_back();
      graph_.functions.back().name = function.at("name").as_string();
      if (!numbers_.emplace(graph_.functions.back().name, static_cast<std::int32_t>(numbers_.size())).second)
        function.at("name").fail("two functions have the same name");
      sources_.push_back(&function);
    }
    const Json* main = reader.optional("main");
    graph_.main = main ? find_function(*main) : static_cast<std::int32_t>(functions.size()) - 1;
    reader.finish();
  }

  Graph read() {
    done_.assign(sources_.size(), false);
    open_.assign(sources_.size(), false);
    for (std::size_t i = 0; i < sources_.size(); ++i) read_function(i);
    check(graph_);
    return std::move(graph_);
  }

 private:
  std::int32_t find_function(const Json& name) const {
    if (const auto found = numbers_.find(name.as_string()); found != numbers_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [key, number] : numbers_) known.push_back(key);
    name.fail("the function does not exist", known.size() > most_shown ? "" : join(known),
              nearest(name.as_string(), known));
  }

  void read_function(std::size_t number) {
    if (done_[number]) return;
    open_[number] = true;
    const Json& json = *sources_[number];
    ObjectReader reader(json);
    reader.string("name");
    Values values;
    if (const Json* inputs = reader.optional("inputs"))
      for (const Json& input : inputs->items()) {
        ObjectReader entry(input);
        const std::string name = entry.string("name");
        const TensorType type = json_form::read_type(entry);
        std::shared_ptr<const Sharding> sharding = read_sharding(entry);
        entry.finish();
        graph_.functions[number].inputs.push_back(define(number, values, name, type, input));
        graph_.functions[number].values.back().sharding = std::move(sharding);
      }
    const Json& ops = reader.required("ops");
    for (const Json& op : ops.items()) read_op(number, values, op, ops);
    GraphFunction& function = graph_.functions[number];
    for (const Json& output : reader.required("outputs").items())
      function.outputs.push_back(find_value(values, output, json, ops));
    if (const Json* aliases = reader.optional("aliases"))
      for (const Json& alias : aliases->items()) {
        ObjectReader entry(alias);
        function.aliases.push_back({static_cast<std::int32_t>(entry.integer("output", 0, INT32_MAX)),
                                    static_cast<std::int32_t>(entry.integer("input", 0, INT32_MAX))});
        entry.finish();
      }
    reader.finish();
    done_[number] = true;
    open_[number] = false;
  }

  ValueId define(std::size_t number, Values& values, const std::string& name, const TensorType& type,
                 const Json& place) {
    GraphFunction& function = graph_.functions[number];
    const auto id = static_cast<ValueId>(function.values.size());
    if (!values.emplace(name, id).second) place.fail("a value is defined twice: '" + name + "'", "a new name");
    function.values.push_back({name, type});
    return id;
  }

  /// Names of the results that an operation defines.
  static std::vector<std::string> result_names(const Json& op) {
    std::vector<std::string> names;
    if (const Json* results = op.find("results"))
      for (const Json& result : results->items()) names.push_back(result.at("name").as_string());
    if (names.empty()) names.push_back(op.at("name").as_string());
    return names;
  }

  static std::map<std::string, const Json*> producers(const Json& ops) {
    std::map<std::string, const Json*> found;
    for (const Json& op : ops.items())
      for (const std::string& name : result_names(op)) found.emplace(name, &op);
    return found;
  }

  /// A cycle: the values from one operand of `reader` back to `value`, each computed from the next. Empty if there is
  /// none.
  static std::vector<std::string> cycle_from(const std::map<std::string, const Json*>& producers,
                                             const std::string& value, const Json& reader) {
    std::map<std::string, std::string> towards{{value, value}};
    std::vector<std::string> open{value}, chain;
    while (!open.empty()) {
      const std::string name = open.back();
      open.pop_back();
      const auto producer = producers.find(name);
      if (producer == producers.end()) continue;
      if (producer->second == &reader) {
        for (chain.push_back(name); chain.back() != value;) chain.push_back(towards.at(chain.back()));
        return chain;
      }
      if (const Json* operands = producer->second->find("operands"))
        for (const Json& operand : operands->items())
          if (operand.is_string() && towards.emplace(operand.as_string(), name).second)
            open.push_back(operand.as_string());
    }
    return chain;
  }

  [[noreturn]] static void used_early(const Json& name, const std::map<std::string, const Json*>& producers,
                                      const Json& reader) {
    std::vector<std::string> chain = cycle_from(producers, name.as_string(), reader);
    if (!chain.empty()) {
      std::string text;
      for (std::size_t i = 0; i < chain.size() && i < most_shown; ++i) text += chain[i] + " -> ";
      name.fail("operations form a cycle: " + text + (chain.size() > most_shown ? "... -> " : "") + chain.front());
    }
    name.fail("a value is used before it is defined", "values of earlier operations",
              "Move operation \"" + producers.at(name.as_string())->at("name").as_string() + "\" before this one");
  }

  ValueId find_value(const Values& values, const Json& name, const Json& reader, const Json& ops) const {
    const std::string& text = name.as_string();
    if (const auto found = values.find(text); found != values.end()) return found->second;
    if (const auto later = producers(ops); later.contains(text)) used_early(name, later, reader);
    std::vector<std::string> known;
    for (const auto& [key, id] : values) known.push_back(key);
    std::ranges::sort(known);
    name.fail("the value does not exist", known.size() > most_shown ? "" : join(known), nearest(text, known));
  }

  void read_op(std::size_t number, Values& values, const Json& json, const Json& ops) {
    ObjectReader reader(json);
    Op op;
    op.name = reader.string("name");
    const Json& kind = reader.required("kind");
    op.kind = read_kind(kind);
    op.source = reader.string_or("source", "");
    if (const Json* operands = reader.optional("operands"))
      for (const Json& operand : operands->items())
        op.operands.push_back(operand.is_null() ? no_value : find_value(values, operand, json, ops));
    if (const Json* attributes = reader.optional("attributes")) read_attributes(op, *attributes);
    if (const Json* callees = reader.optional("functions"))
      for (const Json& callee : callees->items()) op.functions.push_back(call(callee));
    const Json* results = reader.optional("results");
    const Json none = Json::array();
    define_results(number, values, std::move(op), results ? *results : none, json);
    reader.finish();
  }

  static Kind read_kind(const Json& json) {
    static const std::vector<std::string> kinds = kind_names();
    if (std::ranges::count(kinds, json.as_string()) == 0)
      json.fail("unknown kind of operation", join(kinds), nearest(json.as_string(), kinds));
    return parse_kind(json.as_string());
  }

  std::int32_t call(const Json& name) {
    const std::int32_t callee = find_function(name);
    if (open_[at(callee)]) name.fail("functions call each other in a cycle", "calls without recursion");
    if (++depth_ > deepest_calls)
      name.fail("functions call each other too deeply", "at most " + std::to_string(deepest_calls) + " levels");
    read_function(at(callee));
    --depth_;
    return callee;
  }

  static void read_attributes(Op& op, const Json& json) {
    const KindInfo& kind = info(op.kind);
    std::vector<std::string> known;
    for (const AttributeInfo& attribute : kind.attributes) known.push_back(attribute.name);
    for (const auto& [key, value] : json.members()) {
      const auto found = std::ranges::find(kind.attributes, key, &AttributeInfo::name);
      if (found == kind.attributes.end())
        throw UserError({"unknown attribute of kind '" + std::string(kind.name) + "'", value.place(), "'" + key + "'",
                         known.empty() ? "none" : join(known), nearest(key, known)});
      op.attributes.set(key, json_form::read_attribute(value, *found));
    }
  }

  /// Infers the result types. If the file gives types, they must agree.
  void define_results(std::size_t number, Values& values, Op op, const Json& results, const Json& place) {
    std::vector<std::string> names = result_names(place);
    op.results.assign(names.size(), no_value);
    GraphFunction& function = graph_.functions[number];
    std::vector<TensorType> types;
    try {
      rules::check_form(function, op);
      types = infer_results(graph_, function, op);
    } catch (const UserError& error) {
      UserError::Parts parts = error.parts();
      if (place.line() > 0) parts.place = place.place() + ", " + parts.place;
      throw UserError(std::move(parts));
    }
    if (results.size() == 0)
      while (names.size() < types.size()) names.push_back(op.name + "." + std::to_string(names.size()));
    if (names.size() != types.size() && !(types.empty() && results.size() == 0))
      place.fail("wrong number of results", std::to_string(types.size()));
    op.results.clear();
    for (std::size_t i = 0; i < types.size(); ++i) {
      std::shared_ptr<const Sharding> sharding;
      if (i < results.size()) sharding = check_stated(results.items()[i], types[i]);
      op.results.push_back(define(number, values, names[i], types[i], place));
      function.values.back().sharding = std::move(sharding);
    }
    function.ops.push_back(std::move(op));
  }

  /// The annotation of a result; null if it has none.
  static std::shared_ptr<const Sharding> check_stated(const Json& result, const TensorType& type) {
    ObjectReader reader(result);
    reader.string("name");
    if (reader.optional("dtype") || reader.optional("shape")) {
      const TensorType stated = json_form::read_type(reader);
      if (stated != type)
        throw UserError({"result has the wrong type", result.place(), to_string(stated), to_string(type), {}});
    }
    std::shared_ptr<const Sharding> sharding = read_sharding(reader);
    reader.finish();
    return sharding;
  }

  const Json& json_;
  Graph graph_;
  static constexpr std::size_t most_shown = 12;  ///< limit on names in a message
  std::map<std::string, std::int32_t> numbers_;  ///< by name of function
  std::vector<const Json*> sources_;
  std::vector<bool> done_, open_;
  int depth_ = 0;  ///< number of functions that are being read
};

}  // namespace

Json Graph::to_json() const { return graph_to_json(*this, weights); }

Json graph_to_json(const Graph& graph, const std::map<std::string, Weight>& weights) {
  Json json = Json::object(), list = Json::array();
  json.set("schema", schema);
  json.set("version", Json(version));
  json.set("name", Json(graph.name));
  json.set("main", Json(graph.entry().name));
  if (graph.mesh) json.set("mesh", Json(graph.mesh->text()));
  if (graph.devices > 1) json.set("devices", Json(graph.devices));
  for (const GraphFunction& function : graph.functions) list.push(from_function(graph, function));
  json.set("functions", std::move(list));
  Json entries = Json::object();
  for (const auto& [key, weight] : weights) entries.set(key, json_form::from_weight(weight));
  json.set("weights", std::move(entries));
  return json;
}

Graph graph_from_json(const Json& json, const std::string& directory, const GraphFileOptions& options) {
  return freed_aside(GraphReader(json, directory, options.weights_anywhere), has_many_values(json))->read();
}

Graph Graph::from_json(const Json& json, const std::string& directory) { return graph_from_json(json, directory); }

}  // namespace tilesim
