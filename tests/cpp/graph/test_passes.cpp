// Structure after passes; that meaning is kept is tested with the kernels. The structural check on damaged graphs.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>

#include "tilesim/base/error.hpp"
#include "tilesim/graph/builder.hpp"
#include "tilesim/graph/passes.hpp"

using namespace tilesim;

namespace {

Weight ones(const Shape& shape) {
  Weight weight;
  weight.type = {DType::f32, shape};
  weight.source = Weight::Source::data;
  weight.data = Array(DType::f32, shape);
  std::fill_n(weight.data.as<float>(), weight.data.size(), 1.0F);
  return weight;
}

/// Counts how often it is asked; gives zeros.
struct Zeros {
  int calls = 0;
  Evaluator evaluator() {
    return [this](const Graph&, const GraphFunction& function, const Op& op, const std::vector<Array>&) {
      ++calls;
      std::vector<Array> results;
      for (const ValueId id : op.results)
        results.emplace_back(function.value(id).type.dtype, function.value(id).type.shape);
      return results;
    };
  }
};

std::vector<std::string> output_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId id : graph.entry().outputs) names.push_back(graph.entry().value(id).name);
  return names;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(passes)

BOOST_AUTO_TEST_CASE(outputs_keep_their_names_and_stay_distinct) {
  Graph graph;
  Builder b(graph, "main");
  const ValueId x = b.input("x", {DType::f32, {2, 3}});
  const ValueId y = b.elementwise(Function::relu, {x}), z = b.elementwise(Function::relu, {x});
  b.output(b.reshape(y, {2, 3}), "first");
  b.output(b.transpose(z, {0, 1}), "second");
  b.output(b.reshape(x, {2, 3}), "third");
  b.finish();
  const std::vector<std::string> names{"first", "second", "third"};
  BOOST_TEST(remove_no_ops(graph) == 2);  // the third would be an input: it stays
  BOOST_TEST(output_names(graph) == names, boost::test_tools::per_element());
  BOOST_TEST(merge_common_subexpressions(graph) == 0);  // two outputs cannot be one value
  check(graph);
  BOOST_TEST(graph.entry().ops.size() == 3U);
}

BOOST_AUTO_TEST_CASE(no_ops_of_every_kind_go) {
  Graph graph;
  Builder b(graph, "main");
  const ValueId start = b.elementwise(Function::relu, {b.input("x", {DType::f32, {2, 3}})});
  ValueId x = start;
  const auto op = [&](Kind kind, const std::vector<std::pair<std::string, Attribute>>& list) {
    Attributes attributes;
    for (const auto& [name, value] : list) attributes.set(name, value);
    x = b.op(kind, {x}, attributes)[0];
  };
  using Integers = std::vector<std::int64_t>;
  const Integers zero{0, 0};
  op(Kind::slice, {{"start", zero}, {"limit", Integers{2, 3}}});
  op(Kind::pad, {{"low", zero}, {"high", zero}});
  op(Kind::broadcast, {{"shape", Integers{2, 3}}, {"dims", Integers{0, 1}}});
  op(Kind::reverse, {{"dims", Integers{}}});
  op(Kind::convert, {{"dtype", DType::f32}});
  op(Kind::copy, {});
  op(Kind::concat, {{"dim", std::int64_t{0}}});
  x = b.elementwise(Function::identity, {x});
  x = b.elementwise(Function::add, {b.scalar(0, DType::f32), x});
  x = b.elementwise(Function::divide, {x, b.scalar(1, DType::f32)});
  op(Kind::copy, {{"layout", true}});
  b.output(x, "y");
  b.finish();
  BOOST_TEST(remove_no_ops(graph) == 10);
  BOOST_TEST(remove_dead_code(graph) == 2);  // the two scalars
  BOOST_TEST(graph.weights.empty());
  check(graph);
  BOOST_TEST(graph.entry().ops.size() == 2U);  // relu, and the copy that is there for its layout
}

BOOST_AUTO_TEST_CASE(a_number_minus_x_is_no_no_op) {
  Graph graph;
  Builder b(graph, "main");
  const ValueId x = b.input("x", {DType::f32, {2}});
  b.output(b.elementwise(Function::subtract, {b.scalar(0, DType::f32), x}));
  b.output(b.elementwise(Function::add, {x, b.weight("row", ones({3, 1}))}));
  b.output(b.elementwise(Function::multiply, {b.scalar(1, DType::f32), b.weight("one", ones({}))}));
  b.finish();
  BOOST_TEST(remove_no_ops(graph) == 1);  // 1 * one
  check(graph);
}

BOOST_AUTO_TEST_CASE(constants_fold_within_the_limit) {
  Graph graph;
  Builder b(graph, "main");
  const ValueId small = b.elementwise(Function::exp, {b.weight("small", ones({8}))});
  const ValueId large = b.elementwise(Function::exp, {b.weight("large", ones({9}))});
  b.output(b.elementwise(Function::negate, {small}), "a");
  b.output(large, "b");
  b.finish();
  Zeros zeros;
  BOOST_TEST(fold_constants(graph, zeros.evaluator(), 8) == 2);
  BOOST_TEST(zeros.calls == 2);
  check(graph);
  BOOST_TEST(remove_dead_code(graph) == 2);
  BOOST_TEST((output_names(graph) == std::vector<std::string>{"a", "b"}));
  BOOST_TEST(graph.weights.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_batch_norm_folds_only_behind_its_own_product) {
  for (const bool shared : {false, true}) {
    Graph graph;
    Builder b(graph, "main");
    const ValueId x = b.input("x", {DType::f32, {4, 3}});
    const ValueId y = b.matmul(x, b.weight("w", ones({3, 5})), b.weight("bias", ones({5})));
    Attributes attributes;
    attributes.set("feature_dim", std::int64_t{1});
    attributes.set("epsilon", 1e-5);
    const ValueId c = b.weight("c", ones({5}));
    b.output(b.op(Kind::batch_norm, {y, c, c, c, c}, attributes, "norm")[0], "y");
    if (shared) b.output(y);
    b.finish();
    Zeros zeros;
    BOOST_TEST(fold_batch_norm(graph, zeros.evaluator()) == (shared ? 0 : 1));
    check(graph);
    BOOST_TEST(output_names(graph)[0] == "y");
    BOOST_TEST(graph.weights.count("w.folded") == (shared ? 0U : 1U));
  }
}

BOOST_AUTO_TEST_CASE(nested_calls_become_plain_operations) {
  Graph graph;
  Builder inner(graph, "inner");
  const ValueId a = inner.input("a", {DType::f32, {2}});
  inner.output(inner.elementwise(Function::exp, {a}));
  inner.output(a);  // passes its input on
  Builder outer(graph, "outer");
  const auto both =
      outer.op(Kind::call, {outer.input("b", {DType::f32, {2}})}, {}, "deep", 2, {inner.function_index()});
  outer.output(outer.elementwise(Function::add, {both[0], both[1]}));
  Builder b(graph, "main");
  ValueId x = b.input("x", {DType::f32, {2}});
  for (int i = 0; i < 2; ++i)
    x = b.op(Kind::call, {x}, {}, "layer" + std::to_string(i), 1, {outer.function_index()})[0];
  b.output(x, "y");
  b.finish();
  BOOST_TEST(flops(graph).transcendental == 4);
  BOOST_TEST(inline_calls(graph) == 3);
  check(graph);
  BOOST_TEST((output_names(graph) == std::vector<std::string>{"y"}));
  BOOST_TEST(std::ranges::none_of(graph.entry().ops, [](const Op& op) { return op.kind == Kind::call; }));
  BOOST_TEST(flops(graph).transcendental == 4);
  BOOST_TEST(remove_dead_code(graph) == 0);
  BOOST_TEST(graph.functions.size() == 1U);
}

BOOST_AUTO_TEST_CASE(an_expanded_operation_keeps_its_name) {
  Graph graph;
  Builder b(graph, "main");
  Attributes attributes;
  attributes.set("dim", std::int64_t{1});
  const ValueId x = b.input("x", {DType::f16, {2, 3}});
  b.output(b.op(Kind::softmax, {x}, attributes, "probabilities")[0]);
  b.finish();
  BOOST_TEST(expand(graph, [](const Op&) { return false; }) == 0);
  BOOST_TEST(expand(graph) == 1);
  check(graph);
  BOOST_TEST(graph.entry().ops.back().name == "probabilities");
  BOOST_TEST(output_names(graph)[0] == "probabilities");
  BOOST_TEST(expand(graph) == 0);
}

BOOST_AUTO_TEST_CASE(expansion_finds_constants_that_come_later) {
  Graph graph;
  Builder b(graph, "main");
  Attributes attributes;
  attributes.set("mode", std::string("rms"));
  attributes.set("dims", std::vector<std::int64_t>{1});
  attributes.set("epsilon", 0.5);
  const ValueId x = b.input("x", {DType::f32, {2, 3}});
  const ValueId y = b.op(Kind::normalize, {x}, attributes)[0];
  b.output(b.elementwise(Function::add, {y, b.scalar(0.5, DType::f32)}));
  b.finish();
  BOOST_TEST(expand(graph) == 1);
  check(graph);
  BOOST_TEST(std::ranges::count(graph.entry().ops, Kind::constant, &Op::kind) == 1);
}

BOOST_AUTO_TEST_CASE(damaged_graphs_are_found) {
  Graph good;
  Builder b(good, "main");
  const ValueId x = b.input("x", {DType::f32, {2}});
  const ValueId y = b.elementwise(Function::exp, {x}, "y");
  b.output(b.elementwise(Function::add, {x, y}, "z"));
  b.finish();
  const auto refused = [&](const char* part, const std::function<void(Graph&)>& damage) {
    Graph graph = good;
    damage(graph);
    BOOST_CHECK_EXCEPTION(check(graph), UserError, [&](const UserError& e) {
      BOOST_TEST_MESSAGE(e.what());
      return std::string(e.what()).find(part) != std::string::npos;
    });
  };
  refused("no main function", [](Graph& g) { g.main = 3; });
  refused("same name", [](Graph& g) { g.functions.push_back(g.functions[0]); });
  refused("same name", [](Graph& g) { g.entry().values[1].name = "x"; });
  refused("same name", [](Graph& g) { g.entry().ops[1].name = "y"; });
  refused("used before it is defined", [](Graph& g) { std::swap(g.entry().ops[0], g.entry().ops[1]); });
  refused("cycle", [](Graph& g) { g.entry().ops[0].operands[0] = g.entry().ops[1].results[0]; });
  refused("never defined", [](Graph& g) { g.entry().values.push_back({"w", {}}), g.entry().ops[0].operands[0] = 3; });
  refused("must be a value", [](Graph& g) { g.entry().ops[0].operands[0] = 77; });
  refused("must be a value", [](Graph& g) { g.entry().ops[0].results[0] = -5; });
  refused("defined twice", [](Graph& g) { g.entry().ops[1].results[0] = g.entry().ops[0].results[0]; });
  refused("no producer", [](Graph& g) { g.entry().outputs.push_back(9); });
  refused("wrong type", [](Graph& g) { g.entry().values[1].type.shape = {3}; });
  refused("takes no function", [](Graph& g) {
    g.entry().ops[0].functions = {0};
    g.functions.push_back({});
    g.functions[1].name = "f";
    g.entry().ops[0].functions = {1};
  });
  refused("cycle", [](Graph& g) {
    g.entry().ops[0].kind = Kind::call;
    g.entry().ops[0].functions = {0};
  });
  refused("does not exist", [](Graph& g) {
    g.entry().ops[0].kind = Kind::call;
    g.entry().ops[0].attributes = {};
    g.entry().ops[0].functions = {8};
  });
  refused("alias", [](Graph& g) { g.entry().aliases = {{0, 1}}; });
  refused("aliased twice", [](Graph& g) { g.entry().aliases = {{0, 0}, {0, 0}}; });
}

BOOST_AUTO_TEST_CASE(fuzzed_text_is_read_or_refused) {
  Graph graph;
  Builder b(graph, "main");
  const ValueId x = b.input("x", {DType::f32, {2, 3}});
  Attributes attributes;
  attributes.set("dim", std::int64_t{1});
  const ValueId y = b.op(Kind::softmax, {b.matmul(x, b.weight("w", ones({3, 3})))}, attributes)[0];
  b.output(y);
  b.finish();
  const std::string text = graph.text();
  std::mt19937 random(7);
  const std::string symbols = "{}[]\",:0123456789-.enulltrue fxyw\\";
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string changed = text;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % changed.size();
      if (random() % 3 == 0)
        changed.erase(at, 1 + random() % 8);
      else
        changed[at] = symbols[random() % symbols.size()];
    }
    try {
      const Graph back = Graph::from_json(Json::parse(changed));
      BOOST_TEST((Graph::from_json(back.to_json()).to_json() == back.to_json()));
      ++read;
    } catch (const UserError&) {
    }
  }
  BOOST_TEST((read > 50 && read < 2900));
}

BOOST_AUTO_TEST_SUITE_END()
