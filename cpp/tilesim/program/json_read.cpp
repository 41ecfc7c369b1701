// The JSON form of a program: reading.
#include <algorithm>
#include <cmath>

#include "tilesim/program/program.hpp"

namespace tilesim::program {

namespace {

/// Runs `read` and gives errors of base parsers the place of `json`.
template <class Read>
auto at_place(const Json& json, Read read) {
  try {
    return read();
  } catch (const UserError& error) {
    if (!error.parts().place.empty()) throw;
    throw UserError(
        {error.parts().what, json.place(), error.parts().value, error.parts().allowed, error.parts().suggestion});
  }
}

Expr expr(const Json& json) {
  if (json.is_integer()) return json.as_int();
  return at_place(json, [&] { return Expr::parse(json.as_string()); });
}

Expr expr_or(const Json* json, std::int64_t fallback) { return json ? expr(*json) : Expr(fallback); }
DType dtype(const Json& json) {
  return at_place(json, [&] { return parse_dtype(json.as_string()); });
}
DType dtype_or(const Json* json, DType fallback) { return json ? dtype(*json) : fallback; }

std::vector<Expr> exprs(const Json& json) {
  std::vector<Expr> values;
  for (const Json& item : json.items()) values.push_back(expr(item));
  return values;
}

std::vector<std::string> strings(const Json& json) {
  std::vector<std::string> values;
  for (const Json& item : json.items()) values.push_back(item.as_string());
  return values;
}

std::vector<Dim> dims(const Json& json) {
  std::vector<Dim> values;
  for (const Json& pair : json.items()) {
    if (pair.items().size() != 2) pair.fail("a dim is a pair", "[extent, stride]");
    values.push_back({expr(pair.items()[0]), expr(pair.items()[1])});
  }
  return values;
}

View view(const Json& json) {
  ObjectReader reader(json);
  View result;
  result.slot = reader.string("slot");
  result.back = reader.integer_or("back", 0, 0, 1 << 20);
  result.offset = expr_or(reader.optional("offset"), 0);
  result.dims = dims(reader.required("dims"));
  reader.finish();
  return result;
}

double number(const Json& json) {
  if (!json.is_string()) return json.as_double();
  const std::string& text = json.as_string();
  if (text == "inf") return HUGE_VAL;
  if (text == "-inf") return -HUGE_VAL;
  if (text == "nan") return std::nan("");
  json.fail("not a number", "a number, \"inf\", \"-inf\" or \"nan\"");
}

Transfer transfer(const Json& json) {
  ObjectReader reader(json);
  Transfer result;
  result.tensor = reader.string("tensor");
  result.at = exprs(reader.required("at"));
  for (const Json& item : reader.required("dims").items()) {
    ObjectReader fields(item);
    TransferDim dim;
    dim.extent = expr(fields.required("extent"));
    dim.axis = static_cast<int>(fields.integer_or("axis", -1, -1, 64));
    dim.step = expr_or(fields.optional("step"), 1);
    dim.stride = expr_or(fields.optional("stride"), 0);
    dim.through = fields.string_or("through", "");
    if (const Json* at = fields.optional("through_at")) dim.through_at = exprs(*at);
    fields.finish();
    if (dim.axis >= static_cast<int>(result.at.size()))
      item.fail("a dim names an axis that 'at' lacks", "below " + std::to_string(result.at.size()));
    result.dims.push_back(std::move(dim));
  }
  result.slot = reader.string("slot");
  result.back = reader.integer_or("back", 0, 0, 1 << 20);
  result.offset = expr_or(reader.optional("offset"), 0);
  if (const Json* fill = reader.optional("fill")) result.fill = number(*fill);
  reader.finish();
  return result;
}

VectorNodeSpec node(const Json& json, std::size_t index) {
  static const std::vector<std::string> names{"input", "constant", "scalar", "iota", "function", "convert", "scan"};
  ObjectReader reader(json);
  VectorNodeSpec spec;
  VectorNode& n = spec.node;
  const Json& op = reader.required("op");
  const auto found = std::find(names.begin(), names.end(), op.as_string());
  if (found == names.end()) op.fail("unknown kind of node", join(names), nearest(op.as_string(), names));
  n.op = static_cast<VectorNode::Op>(found - names.begin());
  n.dtype = dtype_or(reader.optional("dtype"), DType::f32);
  if (const Json* arguments = reader.optional("arguments")) {
    if (arguments->items().size() > 3) arguments->fail("too many arguments", "at most 3");
    for (std::size_t i = 0; i < arguments->items().size(); ++i)
      n.arguments[i] = static_cast<int>(arguments->items()[i].as_int(0, static_cast<std::int64_t>(index) - 1));
  }
  if (const Json* which = reader.optional("index")) n.index = static_cast<int>(which->as_int(0, 1 << 20));
  if (const Json* dim = reader.optional("dim")) n.index = static_cast<int>(dim->as_int(0, 63));
  if (const Json* value = reader.optional("value")) {
    if (n.op == VectorNode::Op::scalar)
      spec.scalar = expr(*value);
    else
      n.number = number(*value);
  }
  if (const Json* function = reader.optional("function"))
    n.function = at_place(*function, [&] { return parse_function(function->as_string()); });
  if (const Json* combiner = reader.optional("combiner"))
    n.combiner = at_place(*combiner, [&] { return parse_combiner(combiner->as_string()); });
  n.reverse = reader.boolean_or("reverse", false);
  n.exclusive = reader.boolean_or("exclusive", false);
  reader.finish();
  const int arity = n.op == VectorNode::Op::function                                  ? info(n.function).arity
                    : n.op == VectorNode::Op::convert || n.op == VectorNode::Op::scan ? 1
                                                                                      : 0;
  for (int i = 0; i < 3; ++i)
    if ((n.arguments[static_cast<std::size_t>(i)] >= 0) != (i < arity))
      json.fail("wrong number of arguments", std::to_string(arity));
  return spec;
}

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

MmaOp mma(const Json& json) {
  ObjectReader reader(json);
  MmaOp op;
  op.a = view(reader.required("a"));
  op.b = view(reader.required("b"));
  op.c = view(reader.required("c"));
  const Json& counts = reader.required("dims");
  if (counts.items().size() != 4) counts.fail("four counts of dims", "[batch, m, n, k]");
  int* const targets[] = {&op.batch_dims, &op.m_dims, &op.n_dims, &op.k_dims};
  for (std::size_t i = 0; i < 4; ++i) *targets[i] = static_cast<int>(counts.items()[i].as_int(0, 16));
  op.accumulate = expr_or(reader.optional("accumulate"), 0);
  if (const Json* numerics = reader.optional("numerics")) {
    ObjectReader fields(*numerics);
    if (const Json* multiply = fields.optional("multiply")) op.numerics.multiply = dtype(*multiply);
    op.numerics.multiply_tf32 = fields.boolean_or("multiply_tf32", false);
    op.numerics.accumulate = dtype_or(fields.optional("accumulate"), DType::f32);
    fields.finish();
  }
  op.stationary_a = reader.boolean_or("stationary_a", false);
  reader.finish();
  const auto ranks = [&](const View& v, int wanted, const char* which) {
    if (static_cast<int>(v.dims.size()) != wanted)
      json.fail(std::string("operand ") + which + " has the wrong number of dims", std::to_string(wanted));
  };
  ranks(op.a, op.batch_dims + op.m_dims + op.k_dims, "a");
  ranks(op.b, op.batch_dims + op.k_dims + op.n_dims, "b");
  ranks(op.c, op.batch_dims + op.m_dims + op.n_dims, "c");
  return op;
}

VectorOp vector(const Json& json) {
  ObjectReader reader(json);
  VectorOp op;
  op.extents = exprs(reader.required("extents"));
  for (const Json& input : reader.required("inputs").items()) op.inputs.push_back(view(input));
  const Json& nodes = reader.required("nodes");
  for (std::size_t i = 0; i < nodes.items().size(); ++i) {
    op.nodes.push_back(node(nodes.items()[i], i));
    const VectorNode& n = op.nodes.back().node;
    if (n.op == VectorNode::Op::input && n.index >= static_cast<int>(op.inputs.size()))
      nodes.items()[i].fail("a node reads an input that is not there");
    if ((n.op == VectorNode::Op::iota || n.op == VectorNode::Op::scan) &&
        n.index >= static_cast<int>(op.extents.size()))
      nodes.items()[i].fail("a node names a dim that is not there");
  }
  for (const Json& item : reader.required("outputs").items()) {
    ObjectReader fields(item);
    VectorOutputSpec output;
    output.node = static_cast<int>(fields.integer("node", 0, static_cast<std::int64_t>(op.nodes.size()) - 1));
    output.view = view(fields.required("view"));
    if (const Json* reduce = fields.optional("reduce"))
      for (const Json& dim : reduce->items())
        output.reduce.push_back(static_cast<int>(dim.as_int(0, static_cast<std::int64_t>(op.extents.size()) - 1)));
    if (const Json* combiner = fields.optional("combiner"))
      output.combiner = at_place(*combiner, [&] { return parse_combiner(combiner->as_string()); });
    output.accumulate = expr_or(fields.optional("accumulate"), 0);
    fields.finish();
    op.outputs.push_back(std::move(output));
  }
  op.lane_dim = static_cast<int>(reader.integer_or("lane_dim", -1, -1, 63));
  reader.finish();
  for (const View& input : op.inputs)
    if (input.dims.size() != op.extents.size())
      json.fail("an input has the wrong number of dims", std::to_string(op.extents.size()));
  for (const VectorOutputSpec& output : op.outputs)
    if (output.view.dims.size() != op.extents.size())
      json.fail("an output has the wrong number of dims", std::to_string(op.extents.size()));
  return op;
}

Send send(const Json& json) {
  ObjectReader reader(json);
  Send s;
  s.from = view(reader.required("from"));
  s.slot = reader.string("slot");
  s.offset = expr_or(reader.optional("offset"), 0);
  s.dims = dims(reader.required("dims"));
  s.cores = exprs(reader.required("cores"));
  s.pieces = reader.integer_or("pieces", 1, 1, 1 << 30);
  reader.finish();
  return s;
}

Scope scope(ObjectReader& reader) {
  Scope s;
  s.kernel = reader.string("scope");
  s.operation = reader.string_or("operation", "");
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

Action work(const std::string& which, ObjectReader& reader) {
  const Json& body = reader.required(which);
  if (which == "load") return Load{transfer(body)};
  if (which == "store") {
    Store s{transfer(body), reader.string_or("signals", ""), 0};
    s.signal_index = expr_or(reader.optional("signals_index"), 0);
    return s;
  }
  if (which == "mma") return mma(body);
  if (which == "vector") return vector(body);
  if (which == "send") return send(body);
  ObjectReader fields(body);
  Action result;
  if (which == "permute") {
    result = PermuteOp{view(fields.required("in")), view(fields.required("out"))};
  } else if (which == "indexed") {
    IndexedOp op{view(fields.required("in")),
                 view(fields.required("index")),
                 view(fields.required("out")),
                 fields.boolean_or("scatter", false),
                 {}};
    if (const Json* combiner = fields.optional("combiner"))
      op.combiner = at_place(*combiner, [&] { return parse_combiner(combiner->as_string()); });
    result = op;
  } else if (which == "sort") {
    result = SortOp{view(fields.required("in")), view(fields.required("keys")), view(fields.required("positions")),
                    fields.boolean_or("descending", false)};
  } else {
    OpaqueOp op{fields.string("target"), expr(fields.required("cycles")), {}, {}};
    for (const Json& item : fields.required("reads").items()) op.reads.push_back(view(item));
    for (const Json& item : fields.required("writes").items()) op.writes.push_back(view(item));
    result = op;
  }
  fields.finish();
  return result;
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
  return result;
}

Block block(const Json& json) {
  Block statements;
  for (const Json& item : json.items()) statements.push_back(statement(item));
  return statements;
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
  if (const Json* order = reader.optional("minor_to_major"))
    for (const Json& axis : order->items())
      t.minor_to_major.push_back(static_cast<int>(axis.as_int(0, static_cast<std::int64_t>(t.shape.size()) - 1)));
  if (const Json* tile = reader.optional("tile"))
    for (const Json& extent : tile->items()) t.tile.push_back(extent.as_int(1, 1 << 20));
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
  if (reader.integer("version", 1, 1000000) != 1) json.at("version").fail("written by a newer Tilesim", "version 1");
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
