// Reads a program from JSON.
#include <map>
#include <set>

#include "tilesim/base/json/names.hpp"
#include "tilesim/program/json/form.hpp"

namespace tilesim::program {

namespace {

using form::dtype;
using form::expr;
using form::expr_or;
using form::exprs;
using form::strings;
using form::work;

Slot slot(const Json& json) {
  ObjectReader reader(json);
  Slot s;
  s.name = reader.string("name");
  s.dtype = dtype(reader.required("dtype"));
  s.elements = reader.integer("elements", 1, std::int64_t{1} << 40);
  s.depth = reader.integer_or("depth", 1, 1, 1 << 20);
  s.address = reader.integer_or("address", 0, 0, std::int64_t{1} << 50);
  s.accumulator = reader.boolean_or("accumulator", false);
  s.consumers = strings(reader.required("consumers"));
  reader.finish();
  return s;
}

Block block(const Json& json);

Scope scope(ObjectReader& reader) {
  Scope s;
  s.kernel = reader.string("scope");
  if (const Json* names = reader.optional("operation")) s.operation = names_of(*names);
  s.launch_cycles = reader.integer_or("launch_cycles", 0, 0, std::int64_t{1} << 40);
  s.barrier = reader.boolean_or("barrier", false);
  if (const Json* slots = reader.optional("slots"))
    for (const Json& item : slots->items()) s.slots.push_back(slot(item));
  s.body = block(reader.required("do"));
  return s;
}

Call call(ObjectReader& reader) {
  Call s;
  s.function = reader.string("call");
  if (const Json* tensors = reader.optional("tensors"))
    for (const auto& [formal, actual] : tensors->members()) s.tensors[formal] = actual.as_string();
  if (const Json* parameters = reader.optional("parameters"))
    for (const auto& [formal, value] : parameters->members()) s.parameters[formal] = expr(value);
  return s;
}

Action structure(const std::string& which, ObjectReader& reader) {
  if (which == "for") {
    For s{reader.string("for"), expr(reader.required("extent")), block(reader.required("do"))};
    return s;
  }
  if (which == "if") {
    If s{expr(reader.required("if")), block(reader.required("then")), {}};
    if (const Json* otherwise = reader.optional("else")) s.otherwise = block(*otherwise);
    return s;
  }
  if (which == "call") return call(reader);
  return scope(reader);
}

Action synchronization(const std::string& which, ObjectReader& reader) {
  const auto back = [&] { return reader.integer_or("back", 0, 0, 1 << 20); };
  if (which == "acquire") return Acquire{reader.string("acquire"), strings(reader.required("queues"))};
  if (which == "receive") return Receive{reader.string("receive")};
  if (which == "commit") return Commit{reader.string("commit"), back(), reader.integer_or("pieces", 1, 1, 1 << 30)};
  if (which == "release") return Release{reader.string("release"), back()};
  if (which == "wait") return Wait{reader.string("wait"), back(), {}, 0, expr_or(reader.optional("pieces"), 1)};
  if (which == "wait_counter")
    return Wait{{},
                0,
                reader.string("wait_counter"),
                expr_or(reader.optional("index"), 0),
                expr_or(reader.optional("pieces"), 1)};
  return Signal{reader.string("signal"), expr(reader.required("core")), expr_or(reader.optional("index"), 0),
                expr_or(reader.optional("count"), 1)};
}

/// Requires that work is in a queue of its unit, because a misspelled queue would be a separate unit without
/// contention.
void check_queue(const Json& json, const std::string& which, const std::string& queue) {
  static const std::map<std::string, std::vector<std::string>> stems{
      {"load", {"load"}},     {"store", {"store"}},    {"mma", {"mma"}},     {"send", {"send"}},
      {"vector", {"vector"}}, {"indexed", {"vector"}}, {"sort", {"vector"}}, {"permute", {"cross_lane", "vector"}}};
  const auto found = stems.find(which);
  if (found == stems.end()) return;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (const std::string& stem : found->second)
    if (queue.starts_with(stem) &&
        std::all_of(queue.begin() + static_cast<std::ptrdiff_t>(stem.size()), queue.end(), is_digit))
      return;
  std::vector<std::string> names;
  for (const std::string& stem : found->second)
    names.push_back(stem == "vector" || stem == "send" || stem == "cross_lane" ? stem : stem + "0");
  const std::string stem = queue.substr(0, queue.find_last_not_of("0123456789") + 1);
  json.fail("a '" + which + "' cannot go to queue '" + queue + "'", join(names), nearest(stem + "0", names));
}

Statement statement(const Json& json) {
  static const std::vector<std::string> structures{"for", "if", "call", "scope"};
  static const std::vector<std::string> syncs{"acquire", "receive",      "commit", "release",
                                              "wait",    "wait_counter", "signal"};
  static const std::vector<std::string> works{"load",    "store", "mma",    "vector", "permute",
                                              "indexed", "sort",  "opaque", "send"};
  ObjectReader reader(json);
  Statement result;
  result.queue = reader.string_or("queue", "");
  result.label = reader.string_or("label", "");
  std::string which;
  std::vector<std::string> all;
  for (const auto* group : {&structures, &syncs, &works})
    for (const std::string& key : *group) {
      all.push_back(key);
      if (json.find(key)) which = which.empty() ? key : which;
    }
  if (which.empty()) {
    const std::string first = json.members().empty() ? "" : json.members()[0].first;
    json.fail("unknown kind of statement", join(all), nearest(first, all));
  }
  const auto in = [&](const std::vector<std::string>& group) {
    return std::find(group.begin(), group.end(), which) != group.end();
  };
  result.action = in(structures) ? structure(which, reader)
                  : in(syncs)    ? synchronization(which, reader)
                                 : work(which, reader);
  reader.finish();
  const bool needs_queue = !in(structures) && which != "acquire" && which != "receive";
  if (needs_queue && result.queue.empty()) json.fail("a '" + which + "' needs a queue");
  if (in(works)) check_queue(json, which, result.queue);
  return result;
}

Block block(const Json& json) {
  Block statements;
  for (const Json& item : json.items()) statements.push_back(statement(item));
  return statements;
}

HeldPart held_part(const Json& json, std::size_t rank) {
  ObjectReader reader(json);
  HeldPart part;
  part.core = reader.integer_or("core", 0, 0, 1 << 16);
  for (const Json& end : reader.required("low").items()) part.low.push_back(end.as_int(0, std::int64_t{1} << 60));
  for (const Json& end : reader.required("high").items()) part.high.push_back(end.as_int(0, std::int64_t{1} << 60));
  if (part.low.size() != rank || part.high.size() != rank)
    json.fail("a part needs two bounds along each axis", std::to_string(rank) + " axes");
  reader.finish();
  return part;
}

Tensor tensor(const Json& json) {
  static const std::vector<std::string> roles{"input", "output", "weight", "temporary", "state"};
  ObjectReader reader(json);
  Tensor t;
  t.name = reader.string("name");
  t.dtype = dtype(reader.required("dtype"));
  t.shape = exprs(reader.required("shape"));
  const Json& role = reader.required("role");
  const auto found = std::find(roles.begin(), roles.end(), role.as_string());
  if (found == roles.end()) role.fail("unknown role", join(roles), nearest(role.as_string(), roles));
  t.role = static_cast<Role>(found - roles.begin());
  t.alias_of = reader.string_or("alias_of", "");
  t.weight = reader.string_or("weight", "");
  if (const Json* order = reader.optional("minor_to_major")) {
    for (const Json& axis : order->items())
      t.minor_to_major.push_back(static_cast<int>(axis.as_int(0, static_cast<std::int64_t>(t.shape.size()) - 1)));
    const std::set<int> different(t.minor_to_major.begin(), t.minor_to_major.end());
    const std::size_t named = t.minor_to_major.size();
    if (named != different.size() || (named != 0 && named != t.shape.size()))
      order->fail("an order of axes must name each axis once", std::to_string(t.shape.size()) + " axes");
  }
  if (const Json* tile = reader.optional("tile")) {
    for (const Json& extent : tile->items()) t.tile.push_back(extent.as_int(1, 1 << 20));
    if (t.tile.size() != 0 && t.tile.size() != 2) tile->fail("a layout's tile needs two extents", "2 extents");
  }
  if (const Json* typical = reader.optional("typical")) {
    ObjectReader values(*typical);
    for (const Json& value : values.required("values").items()) t.typical.values.push_back(value.as_int());
    t.typical.how = values.string("how");
    values.finish();
  }
  if (const Json* level = reader.optional("level")) {
    static const std::vector<std::string> levels{"memory", "scratchpad"};
    const auto named = std::find(levels.begin(), levels.end(), level->as_string());
    if (named == levels.end()) level->fail("unknown level", join(levels), nearest(level->as_string(), levels));
    t.level = static_cast<Level>(named - levels.begin());
  }
  constexpr std::int64_t last_address = std::int64_t{1} << 60;
  t.address = reader.integer_or("address", 0, 0, last_address);
  t.core_bytes = reader.integer_or("core_bytes", 0, 0, last_address);
  if (const Json* parts = reader.optional("parts"))
    for (const Json& item : parts->items()) t.parts.push_back(held_part(item, t.shape.size()));
  if (t.level == Level::scratchpad && (t.role != Role::temporary || !t.alias_of.empty()))
    json.fail("only a temporary that is not an alias can stay in a scratchpad", "role temporary, no alias_of");
  reader.finish();
  return t;
}

Counter counter(const Json& json) {
  ObjectReader reader(json);
  Counter c{reader.string("name"), reader.integer_or("size", 1, 1, 1 << 30), reader.boolean_or("semaphore", false)};
  reader.finish();
  return c;
}

Function function(const Json& json) {
  ObjectReader reader(json);
  Function f{reader.string("name"), {}, {}, {}};
  if (const Json* tensors = reader.optional("tensors")) f.tensors = strings(*tensors);
  if (const Json* parameters = reader.optional("parameters")) f.parameters = strings(*parameters);
  f.body = block(reader.required("do"));
  reader.finish();
  return f;
}

}  // namespace

Program Program::from_json(const Json& json) {
  ObjectReader reader(json);
  if (reader.string("schema") != "tilesim.program") json.at("schema").fail("not a program file", "\"tilesim.program\"");
  if (reader.integer("version", 1, 1000000) > 2)
    json.at("version").fail("written by a newer Tilesim", "version 1 or 2");
  Program program;
  program.name = reader.string_or("name", "");
  program.machine = reader.string_or("machine", "");
  if (const Json* parameters = reader.optional("parameters"))
    for (const auto& [name, value] : parameters->members()) program.parameters[name] = value.as_int();
  program.cores = reader.integer_or("cores", 1, 1, 1 << 20);
  program.contexts = reader.integer_or("contexts", 1, 1, 64);
  for (const Json& item : reader.required("tensors").items()) program.tensors.push_back(tensor(item));
  const auto each = [&](const char* key, auto read) {
    if (const Json* list = reader.optional(key))
      for (const Json& item : list->items()) read(item);
  };
  each("counters", [&](const Json& item) { program.counters.push_back(counter(item)); });
  each("slots", [&](const Json& item) { program.slots.push_back(slot(item)); });
  each("functions", [&](const Json& item) { program.functions.push_back(function(item)); });
  program.body = block(reader.required("do"));
  if (const Json* notes = reader.optional("notes")) program.notes = strings(*notes);
  reader.finish();
  return program;
}

}  // namespace tilesim::program
