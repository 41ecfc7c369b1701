// Writes a program as JSON, schema "tilesim.program", version 2.
#include <cmath>

#include "tilesim/base/json/names.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::program {

namespace {

Json expr_json(const Expr& e) { return e.is_constant() ? Json(e.value()) : Json(e.text()); }

template <class Range, class Write>
Json list(const Range& range, Write write) {
  Json json = Json::array();
  for (const auto& item : range) json.push(write(item));
  return json;
}

Json strings(const std::vector<std::string>& names) {
  return list(names, [](const std::string& name) { return Json(name); });
}

/// Writes infinities and NaN as strings, because JSON has no such numbers.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

bool is_zero(const Expr& e) { return e == Expr(0); }

Json view(const View& v) {
  Json json = Json::object();
  json.set("slot", v.slot);
  if (v.back != 0) json.set("back", v.back);
  if (!is_zero(v.offset)) json.set("offset", expr_json(v.offset));
  json.set("dims", list(v.dims, [](const Dim& d) {
             Json pair = Json::array();
             pair.push(expr_json(d.extent));
             pair.push(expr_json(d.stride));
             return pair;
           }));
  return json;
}

Json transfer(const Transfer& t) {
  Json json = Json::object();
  json.set("tensor", t.tensor);
  json.set("at", list(t.at, expr_json));
  json.set("dims", list(t.dims, [](const TransferDim& d) {
             Json dim = Json::object();
             dim.set("extent", expr_json(d.extent));
             if (d.axis >= 0) dim.set("axis", d.axis);
             if (!(d.step == Expr(1))) dim.set("step", expr_json(d.step));
             dim.set("stride", expr_json(d.stride));
             if (!d.through.empty()) {
               dim.set("through", d.through);
               dim.set("through_at", list(d.through_at, expr_json));
             }
             return dim;
           }));
  json.set("slot", t.slot);
  if (t.back != 0) json.set("back", t.back);
  if (!is_zero(t.offset)) json.set("offset", expr_json(t.offset));
  if (t.fill) json.set("fill", number(*t.fill));
  return json;
}

Json node(const VectorNodeSpec& spec) {
  static const char* const names[] = {"input", "constant", "scalar", "iota", "function", "convert", "scan"};
  const VectorNode& n = spec.node;
  Json json = Json::object();
  json.set("op", names[static_cast<std::size_t>(n.op)]);
  const auto arguments = [&] {
    Json args = Json::array();
    for (int argument : n.arguments)
      if (argument >= 0) args.push(argument);
    json.set("arguments", std::move(args));
  };
  switch (n.op) {
    case VectorNode::Op::input:
      json.set("index", n.index);
      break;
    case VectorNode::Op::iota:
      json.set("dim", n.index);
      break;
    case VectorNode::Op::constant:
      json.set("value", number(n.number));
      break;
    case VectorNode::Op::scalar:
      json.set("value", expr_json(spec.scalar));
      break;
    case VectorNode::Op::function:
      json.set("function", std::string(info(n.function).name)), arguments();
      break;
    case VectorNode::Op::convert:
      arguments();
      break;
    case VectorNode::Op::scan:
      arguments();
      json.set("dim", n.index);
      json.set("combiner", std::string(name(n.combiner)));
      if (n.reverse) json.set("reverse", true);
      if (n.exclusive) json.set("exclusive", true);
  }
  if (n.dtype != DType::f32) json.set("dtype", std::string(name(n.dtype)));
  return json;
}

Json numerics(const Numerics& n) {
  Json json = Json::object();
  if (n.multiply) json.set("multiply", std::string(name(*n.multiply)));
  if (n.multiply_tf32) json.set("multiply_tf32", true);
  json.set("accumulate", std::string(name(n.accumulate)));
  return json;
}

Json sparse_product(const SparseProduct& product) {
  Json json = Json::object();
  json.set("a", std::string(form_name(product.a)));
  json.set("b", std::string(form_name(product.b)));
  json.set("k", expr_json(product.k));
  if (!is_zero(product.accumulate)) json.set("accumulate", expr_json(product.accumulate));
  if (!is_zero(product.products)) json.set("products", expr_json(product.products));
  if (!(product.numerics == Numerics{})) json.set("numerics", numerics(product.numerics));
  return json;
}

Json slot_json(const Slot& s) {
  Json json = Json::object();
  json.set("name", s.name);
  json.set("dtype", std::string(name(s.dtype)));
  json.set("elements", s.elements);
  json.set("depth", s.depth);
  json.set("address", s.address);
  if (s.accumulator) json.set("accumulator", true);
  json.set("consumers", strings(s.consumers));
  return json;
}

Json block(const Block& statements);

struct ProgramWriter {
  Json json = Json::object();

  void operator()(const For& s) {
    json.set("for", s.index);
    json.set("extent", expr_json(s.extent));
    json.set("do", block(s.body));
  }
  void operator()(const If& s) {
    json.set("if", expr_json(s.condition));
    json.set("then", block(s.then));
    if (!s.otherwise.empty()) json.set("else", block(s.otherwise));
  }
  void operator()(const Call& s) {
    json.set("call", s.function);
    Json tensors = Json::object(), parameters = Json::object();
    for (const auto& [formal, actual] : s.tensors) tensors.set(formal, actual);
    for (const auto& [formal, value] : s.parameters) parameters.set(formal, expr_json(value));
    json.set("tensors", std::move(tensors));
    if (parameters.size()) json.set("parameters", std::move(parameters));
  }
  void operator()(const Scope& s) {
    json.set("scope", s.kernel);
    if (!s.operation.empty()) json.set("operation", names_json(s.operation));
    if (s.launch_cycles != 0) json.set("launch_cycles", s.launch_cycles);
    if (s.barrier) json.set("barrier", true);
    json.set("slots", list(s.slots, slot_json));
    json.set("do", block(s.body));
  }
  void operator()(const Acquire& s) {
    json.set("acquire", s.slot);
    json.set("queues", strings(s.queues));
  }
  void operator()(const Receive& s) { json.set("receive", s.slot); }
  void operator()(const Commit& s) {
    json.set("commit", s.slot);
    if (s.back != 0) json.set("back", s.back);
    if (s.pieces != 1) json.set("pieces", s.pieces);
  }
  void operator()(const Release& s) {
    json.set("release", s.slot);
    if (s.back != 0) json.set("back", s.back);
  }
  void operator()(const Wait& s) {
    if (!s.counter.empty()) {
      json.set("wait_counter", s.counter);
      if (!is_zero(s.index)) json.set("index", expr_json(s.index));
    } else {
      json.set("wait", s.slot);
      if (s.back != 0) json.set("back", s.back);
    }
    if (!(s.pieces == Expr(1))) json.set("pieces", expr_json(s.pieces));
  }
  void operator()(const Signal& s) {
    json.set("signal", s.counter);
    json.set("core", expr_json(s.core));
    if (!is_zero(s.index)) json.set("index", expr_json(s.index));
    if (!(s.count == Expr(1))) json.set("count", expr_json(s.count));
  }
  void operator()(const Load& s) { json.set("load", transfer(s.transfer)); }
  void operator()(const Store& s) {
    json.set("store", transfer(s.transfer));
    if (s.signal.empty()) return;
    json.set("signals", s.signal);
    if (!is_zero(s.signal_index)) json.set("signals_index", expr_json(s.signal_index));
  }
  void operator()(const MmaOp& s) {
    Json body = Json::object();
    body.set("a", view(s.a));
    body.set("b", view(s.b));
    body.set("c", view(s.c));
    Json dims = Json::array();
    for (int count : {s.batch_dims, s.m_dims, s.n_dims, s.k_dims}) dims.push(count);
    body.set("dims", std::move(dims));
    if (!is_zero(s.accumulate)) body.set("accumulate", expr_json(s.accumulate));
    if (!(s.numerics == Numerics{})) body.set("numerics", numerics(s.numerics));
    if (s.stationary_a) body.set("stationary_a", true);
    if (s.packed != 1) body.set("packed", s.packed);
    json.set("mma", std::move(body));
  }
  void operator()(const VectorOp& s) {
    Json body = Json::object();
    body.set("extents", list(s.extents, expr_json));
    body.set("inputs", list(s.inputs, view));
    body.set("nodes", list(s.nodes, node));
    body.set("outputs", list(s.outputs, [](const VectorOutputSpec& o) {
               Json output = Json::object();
               output.set("node", o.node);
               output.set("view", view(o.view));
               if (!o.reduce.empty()) {
                 output.set("reduce", list(o.reduce, [](int dim) { return Json(dim); }));
                 output.set("combiner", std::string(name(o.combiner)));
               }
               if (!is_zero(o.accumulate)) output.set("accumulate", expr_json(o.accumulate));
               return output;
             }));
    if (s.lane_dim >= 0) body.set("lane_dim", s.lane_dim);
    json.set("vector", std::move(body));
  }
  void operator()(const PermuteOp& s) {
    Json body = Json::object();
    body.set("in", view(s.in));
    body.set("out", view(s.out));
    json.set("permute", std::move(body));
  }
  void operator()(const IndexedOp& s) {
    Json body = Json::object();
    body.set("in", view(s.in));
    body.set("index", view(s.index));
    body.set("out", view(s.out));
    if (s.scatter) body.set("scatter", true);
    if (s.combiner) body.set("combiner", std::string(name(*s.combiner)));
    json.set("indexed", std::move(body));
  }
  void operator()(const SortOp& s) {
    Json body = Json::object();
    body.set("in", view(s.in));
    body.set("keys", view(s.keys));
    body.set("positions", view(s.positions));
    if (s.descending) body.set("descending", true);
    json.set("sort", std::move(body));
  }
  void operator()(const OpaqueOp& s) {
    Json body = Json::object();
    body.set("target", s.target);
    body.set("cycles", expr_json(s.cycles));
    body.set("reads", list(s.reads, view));
    body.set("writes", list(s.writes, view));
    if (s.product) body.set("product", sparse_product(*s.product));
    json.set("opaque", std::move(body));
  }
  void operator()(const Send& s) {
    Json body = Json::object();
    body.set("from", view(s.from));
    body.set("slot", s.slot);
    if (!is_zero(s.offset)) body.set("offset", expr_json(s.offset));
    body.set("dims", list(s.dims, [](const Dim& d) {
               Json pair = Json::array();
               pair.push(expr_json(d.extent));
               pair.push(expr_json(d.stride));
               return pair;
             }));
    body.set("cores", list(s.cores, expr_json));
    if (s.pieces != 1) body.set("pieces", s.pieces);
    json.set("send", std::move(body));
  }
};

Json block(const Block& statements) {
  return list(statements, [](const Statement& statement) {
    ProgramWriter writer;
    std::visit(writer, statement.action);
    if (!statement.queue.empty()) writer.json.set("queue", statement.queue);
    if (!statement.label.empty()) writer.json.set("label", statement.label);
    return std::move(writer.json);
  });
}

Json tensor_json(const Tensor& t) {
  static const char* const roles[] = {"input", "output", "weight", "temporary", "state"};
  Json json = Json::object();
  json.set("name", t.name);
  json.set("dtype", std::string(name(t.dtype)));
  json.set("shape", list(t.shape, expr_json));
  json.set("role", roles[static_cast<std::size_t>(t.role)]);
  if (!t.alias_of.empty()) json.set("alias_of", t.alias_of);
  if (!t.minor_to_major.empty())
    json.set("minor_to_major", list(t.minor_to_major, [](int axis) { return Json(axis); }));
  if (!t.tile.empty()) json.set("tile", list(t.tile, [](std::int64_t v) { return Json(v); }));
  if (!t.weight.empty()) json.set("weight", t.weight);
  if (!t.typical.values.empty()) {
    Json typical = Json::object();
    typical.set("values", list(t.typical.values, [](std::int64_t v) { return Json(v); }));
    typical.set("how", t.typical.how);
    json.set("typical", std::move(typical));
  }
  if (t.level == Level::scratchpad) {
    json.set("level", "scratchpad");
    json.set("address", t.address);
    json.set("core_bytes", t.core_bytes);
    const auto number = [](std::int64_t v) { return Json(v); };
    if (!t.parts.empty())
      json.set("parts", list(t.parts, [&](const HeldPart& part) {
                 Json one = Json::object();
                 one.set("core", part.core);
                 one.set("low", list(part.low, number));
                 one.set("high", list(part.high, number));
                 return one;
               }));
  }
  return json;
}

}  // namespace

Json Program::to_json() const {
  Json json = Json::object();
  json.set("schema", "tilesim.program");
  json.set("version", 2);
  json.set("name", name);
  if (!machine.empty()) json.set("machine", machine);
  Json values = Json::object();
  for (const auto& [symbol, value] : parameters) values.set(symbol, value);
  json.set("parameters", std::move(values));
  json.set("cores", cores);
  json.set("contexts", contexts);
  json.set("tensors", list(tensors, tensor_json));
  json.set("counters", list(counters, [](const Counter& c) {
             Json counter = Json::object();
             counter.set("name", c.name);
             counter.set("size", c.size);
             if (c.semaphore) counter.set("semaphore", true);
             return counter;
           }));
  json.set("slots", list(slots, slot_json));
  json.set("functions", list(functions, [](const Function& f) {
             Json function = Json::object();
             function.set("name", f.name);
             function.set("tensors", strings(f.tensors));
             function.set("parameters", strings(f.parameters));
             function.set("do", block(f.body));
             return function;
           }));
  json.set("do", block(body));
  if (!notes.empty()) json.set("notes", strings(notes));
  return json;
}

const Tensor* Program::find_tensor(const std::string& wanted) const {
  for (const Tensor& candidate : tensors)
    if (candidate.name == wanted) return &candidate;
  return nullptr;
}

}  // namespace tilesim::program
