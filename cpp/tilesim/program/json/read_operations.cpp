// Reads loads, stores, computes and sends of a program from JSON.
#include <algorithm>
#include <cmath>

#include "tilesim/program/json/form.hpp"

namespace tilesim::program::form {

Expr expr(const Json& json) {
  if (json.is_integer()) return json.as_int();
  return at_place(json, [&] { return Expr::parse(json.as_string()); });
}

Expr expr_or(const Json* json, std::int64_t fallback) { return json ? expr(*json) : Expr(fallback); }
DType dtype(const Json& json) {
  return at_place(json, [&] { return parse_held_dtype(json.as_string()); });
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

namespace {

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
      item.fail("a dim names an axis that is missing in 'at'", "below " + std::to_string(result.at.size()));
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

Numerics numerics(const Json& json) {
  ObjectReader fields(json);
  Numerics own;
  if (const Json* multiply = fields.optional("multiply")) own.multiply = dtype(*multiply);
  own.multiply_tf32 = fields.boolean_or("multiply_tf32", false);
  own.accumulate = dtype_or(fields.optional("accumulate"), DType::f32);
  fields.finish();
  return own;
}

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
  if (const Json* own = reader.optional("numerics")) op.numerics = numerics(*own);
  op.stationary_a = reader.boolean_or("stationary_a", false);
  if (const Json* packed = reader.optional("packed"))
    op.packed = static_cast<int>(packed->as_int(1, std::max(1, op.k_dims)));
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

SparseProduct sparse_product(const Json& json, const OpaqueOp& op) {
  ObjectReader reader(json);
  SparseProduct product;
  product.a = form_named(reader.required("a"));
  product.b = form_named(reader.required("b"));
  product.k = expr(reader.required("k"));
  product.accumulate = expr_or(reader.optional("accumulate"), 0);
  product.products = expr_or(reader.optional("products"), 0);
  if (const Json* own = reader.optional("numerics")) product.numerics = numerics(*own);
  reader.finish();
  const auto dims = [&](const View& of, std::size_t wanted, const std::string& which) {
    if (of.dims.size() != wanted) json.fail(which + " has the wrong number of dims", std::to_string(wanted));
  };
  const std::size_t of_a = views_of(product.a), all = of_a + views_of(product.b);
  if (op.reads.size() != all || op.writes.size() != 1)
    json.fail("the views of a sparse product do not match its formats, or it writes none or several",
              std::to_string(all) + " to read, 1 to write");
  dims(op.writes[0], 2, "the result of a sparse product");
  for (std::size_t i = 0; i < all; ++i) {
    const bool dense = (i < of_a ? product.a : product.b) == MatrixForm::dense;
    dims(op.reads[i], dense ? 2 : 1, "operand " + std::to_string(i) + " of a sparse product");
  }
  return product;
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
      nodes.items()[i].fail("a node reads an unknown input");
    if ((n.op == VectorNode::Op::iota || n.op == VectorNode::Op::scan) &&
        n.index >= static_cast<int>(op.extents.size()))
      nodes.items()[i].fail("a node names an unknown dim");
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

}  // namespace

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
    OpaqueOp op{fields.string("target"), expr(fields.required("cycles")), {}, {}, {}};
    for (const Json& item : fields.required("reads").items()) op.reads.push_back(view(item));
    for (const Json& item : fields.required("writes").items()) op.writes.push_back(view(item));
    if (const Json* product = fields.optional("product")) op.product = sparse_product(*product, op);
    result = op;
  }
  fields.finish();
  return result;
}

}  // namespace tilesim::program::form
