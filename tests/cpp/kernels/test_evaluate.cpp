// Walking graphs: calls, fused nodes, checks of inputs, cancellation, ownership of outputs.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "kernels/graphs.hpp"
#include "tilesim/base/error.hpp"

using namespace tilesim;
using test::floats;
using Integers = std::vector<std::int64_t>;

namespace {

/// main(x) = twice(twice(x)) by a call and a fused node.
Graph nested() {
  Graph graph;
  Builder inner(graph, "twice");
  const ValueId x = inner.input("x", {DType::f32, {3}});
  inner.output(inner.elementwise(Function::add, {x, x}, "sum"));
  Builder outer(graph, "main");
  ValueId value = outer.input("x", {DType::f32, {3}});
  value = outer.op(Kind::call, {value}, {}, "called", 1, {inner.function_index()})[0];
  Attributes role;
  role.set("role", std::string("test"));
  value = outer.op(Kind::fused, {value}, role, "node", 1, {inner.function_index()})[0];
  outer.output(value);
  outer.finish();
  return graph;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(evaluation)

BOOST_AUTO_TEST_CASE(calls_and_fused_nodes_run_their_functions) {
  const Graph graph = nested();
  std::vector<std::string> seen;
  EvaluateOptions options;
  options.observe = [&](const GraphFunction& function, const Op& op, const std::vector<Array>&) {
    seen.push_back(function.name + "/" + op.name);
  };
  const Array y = evaluate(graph, {floats({3}, {1, 2, 3})}, options)[0];
  BOOST_TEST(test::values(y) == (std::vector<double>{4, 8, 12}), boost::test_tools::per_element());
  BOOST_TEST(seen == (std::vector<std::string>{"twice/sum", "main/called", "main/node"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(inputs_are_checked_by_name) {
  const Graph graph = nested();
  BOOST_CHECK_THROW(evaluate(graph, {}), UserError);
  for (const Array& wrong : {Array(DType::f32, {4}), Array(DType::f64, {3})}) {
    BOOST_CHECK_EXCEPTION(evaluate(graph, {wrong}), UserError, [](const UserError& error) {
      return error.parts().place.find("\"x\"") != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_CASE(a_requested_stop_stops) {
  CancelToken cancel;
  cancel.request();
  EvaluateOptions options;
  options.cancel = &cancel;
  BOOST_CHECK_THROW(evaluate(nested(), {Array(DType::f32, {3})}, options), Cancelled);
}

BOOST_AUTO_TEST_CASE(outputs_own_their_memory) {
  const Array x = floats({2, 2}, {1, 2, 3, 4});
  const Graph graph = test::one_op(Kind::reshape, {x}, {{"shape", Integers{4}}});
  const Array y = evaluate(graph, {x})[0];
  BOOST_TEST(y.bytes() != x.bytes());
}

BOOST_AUTO_TEST_CASE(integer_division_by_zero_names_the_operation) {
  const Array one = floats({1}, {1}, DType::i32), zero(DType::i32, {1});
  BOOST_CHECK_EXCEPTION(test::run(Kind::elementwise, {one, zero}, {{"function", std::string("divide")}}), UserError,
                        [](const UserError& error) { return error.parts().place.find("\"op\"") != std::string::npos; });
}

BOOST_AUTO_TEST_CASE(rows_without_a_maximum) {
  const double inf = std::numeric_limits<double>::infinity();
  const Array hidden = floats({2, 2}, {-inf, -inf, 0, -inf});
  const std::vector<double> y = test::values(test::run(Kind::softmax, {hidden}, {{"dim", std::int64_t{1}}}));
  BOOST_TEST((std::isnan(y[0]) && std::isnan(y[1])));
  BOOST_TEST((y[2] == 1 && y[3] == 0));
}

BOOST_AUTO_TEST_CASE(reductions_of_nothing) {
  const Array none(DType::f32, {2, 0});
  const auto reduce = [&](const char* combiner) {
    return test::run(Kind::reduce, {none}, {{"dims", Integers{1}}, {"combiner", std::string(combiner)}});
  };
  BOOST_TEST(reduce("add").at(0) == 0);
  BOOST_TEST(reduce("maximum").at(1) == -std::numeric_limits<double>::infinity());
  BOOST_TEST(std::isnan(reduce("mean").at(0)));
  BOOST_CHECK_THROW(reduce("argmax"), UserError);
}

BOOST_AUTO_TEST_CASE(every_kind_has_a_kernel) {
  for (int kind = 0; kind < kind_count; ++kind) BOOST_TEST(has_kernel(static_cast<Kind>(kind)));
}

BOOST_AUTO_TEST_CASE(random_inputs_are_reproducible_and_legal) {
  const Array table = test::small_integers({5, 3}, 1), ids(DType::i32, {40});
  const Graph graph = test::one_op(Kind::embedding, {table, ids}, {});
  const std::vector<Array> inputs = random_inputs(graph, 7), again = random_inputs(graph, 7);
  BOOST_TEST(test::values(inputs[0]) == test::values(again[0]), boost::test_tools::per_element());
  BOOST_TEST(test::values(inputs[0]) != test::values(random_inputs(graph, 8)[0]));
  BOOST_CHECK_NO_THROW(evaluate(graph, inputs));
}

BOOST_AUTO_TEST_SUITE_END()
