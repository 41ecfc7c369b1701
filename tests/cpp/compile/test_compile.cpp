// From graphs to programs: results, structure, options, mistakes.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>

#include "kernels/graphs.hpp"
#include "shared.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/compile/compile.hpp"
#include "tilesim/compile/prepare/prepare.hpp"
#include "tilesim/program/run/execute.hpp"

using namespace tilesim;
using namespace tilesim::test;

namespace {

Machine small_machine() {
  Machine machine;
  machine.name = "small";
  machine.core.array.rows = machine.core.array.columns = 8;
  machine.core.array.rates = {{DType::f32, 1.0}, {DType::i8, 1.0}};
  machine.core.vector.lanes = 8;
  machine.core.vector.sublanes = 4;
  machine.core.scratchpad.bytes = 16 << 10;
  machine.memory.bytes_per_second = 10000000000;
  return machine;
}

Graph product(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype = DType::f32) {
  Graph graph;
  Builder builder(graph, "main");
  const ValueId a = builder.input("a", {dtype, {m, k}}), b = builder.input("b", {dtype, {k, n}});
  builder.output(builder.matmul(a, b, no_value, "matmul"), "y");
  builder.finish();
  return graph;
}

/// y = exp(relu(a b)), s = sums of the rows of y.
Graph chain(std::int64_t m, std::int64_t n, std::int64_t k) {
  Graph graph;
  Builder builder(graph, "main");
  const ValueId a = builder.input("a", {DType::f32, {m, k}}), b = builder.input("b", {DType::f32, {k, n}});
  const ValueId z = builder.elementwise(Function::relu, {builder.matmul(a, b, no_value, "matmul")}, "relu");
  const ValueId y = builder.elementwise(Function::tanh, {z}, "tanh");
  builder.output(y, "y");
  const std::vector<std::int64_t> last{1};
  builder.output(
      builder.op(Kind::reduce, {y}, attributes({{"dims", last}, {"combiner", std::string("add")}}), "sum")[0], "s");
  builder.finish();
  return graph;
}

std::map<std::string, Array> named(const Graph& graph, const std::vector<Array>& arrays) {
  std::map<std::string, Array> result;
  const GraphFunction& entry = graph.entry();
  for (std::size_t i = 0; i < arrays.size(); ++i) result[entry.value(entry.inputs[i]).name] = arrays[i];
  return result;
}

/// Largest difference between tiled execution and the reference kernels, over all outputs.
double difference(const Graph& graph, const program::Program& program) {
  std::vector<Array> inputs;
  for (const ValueId id : graph.entry().inputs)
    inputs.push_back(small_integers(graph.entry().value(id).type.shape, static_cast<std::uint64_t>(id) + 1,
                                    graph.entry().value(id).type.dtype));
  const std::vector<Array> wanted = evaluate(graph, inputs);
  const std::map<std::string, Array> tiled = program::execute(program, named(graph, inputs));
  double worst = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::vector<double> a = values(wanted[i]),
                              b = values(tiled.at(graph.entry().value(graph.entry().outputs[i]).name));
    BOOST_REQUIRE(a.size() == b.size());
    for (std::size_t j = 0; j < a.size(); ++j) worst = std::max(worst, std::abs(a[j] - b[j]));
  }
  return worst;
}

/// Named scopes of the program, in order.
std::vector<std::string> kernels(const program::Program& program) {
  std::vector<std::string> names;
  const std::function<void(const program::Block&)> visit = [&](const program::Block& block) {
    for (const program::Statement& statement : block) {
      if (const auto* scope = std::get_if<program::Scope>(&statement.action)) {
        if (!scope->kernel.empty()) names.push_back(scope->kernel);
        visit(scope->body);
      } else if (const auto* loop = std::get_if<program::For>(&statement.action)) {
        visit(loop->body);
      }
    }
  };
  visit(program.body);
  return names;
}

UserError::Parts mistake(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.parts();
  }
  BOOST_TEST(false, "accepted");
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(compiler)

BOOST_AUTO_TEST_CASE(products_of_any_shape_compute_what_the_kernels_do) {
  for (const std::int64_t m : {1, 7, 40})
    for (const std::int64_t n : {1, 9, 33})
      for (const std::int64_t k : {1, 8, 50}) {
        const Graph graph = product(m, n, k);
        BOOST_TEST(difference(graph, compile(graph, small_machine())) == 0, m << " " << n << " " << k);
      }
}

BOOST_AUTO_TEST_CASE(integer_products_are_exact) {
  const Graph graph = product(13, 21, 34, DType::i8);
  BOOST_TEST(difference(graph, compile(graph, small_machine())) == 0);
}

BOOST_AUTO_TEST_CASE(fusion_changes_kernels_and_not_results) {
  const Graph graph = chain(20, 30, 40);
  CompileOptions apart;
  apart.fuse = "none";
  const program::Program fused = compile(graph, small_machine()), separate = compile(graph, small_machine(), apart);
  BOOST_TEST(kernels(separate).size() == 4U);  // product, relu, tanh, sum
  BOOST_TEST(kernels(fused).size() < 4U);
  BOOST_TEST(difference(graph, fused) < 1e-4);
  BOOST_TEST(difference(graph, separate) < 1e-4);
}

BOOST_AUTO_TEST_CASE(tensors_have_the_roles_of_the_graph) {
  const program::Program program = compile(product(4, 5, 6), small_machine());
  BOOST_TEST(program.name == "");
  BOOST_TEST(program.machine == "small");
  BOOST_TEST((program.find_tensor("a")->role == program::Role::input));
  BOOST_TEST((program.find_tensor("y")->role == program::Role::output));
  BOOST_TEST((program.find_tensor("nothing") == nullptr));
}

BOOST_AUTO_TEST_CASE(programs_fit_the_scratchpad_at_every_size) {
  for (const std::int64_t bytes : {1 << 10, 2 << 10, 5000, 16 << 10, 1 << 20}) {
    Machine machine = small_machine();
    machine.core.scratchpad.bytes = bytes;
    const Graph graph = chain(50, 60, 70);
    const program::Program program = compile(graph, machine);  // checks the capacity itself
    BOOST_CHECK_NO_THROW(program::check(program, &machine.core.scratchpad));
    BOOST_TEST(difference(graph, program) < 1e-4);
  }
}

BOOST_AUTO_TEST_CASE(a_nest_from_outside_is_obeyed) {
  const Graph graph = product(24, 24, 24);
  CompileOptions options;
  options.mappings["matmul"] = {{8, 12, 5}, {0, 1, 2}, {2, 2, 1}};
  const program::Program program = compile(graph, small_machine(), options);
  std::vector<std::int64_t> trips;
  const std::function<void(const program::Block&)> visit = [&](const program::Block& block) {
    for (const program::Statement& statement : block) {
      if (const auto* loop = std::get_if<program::For>(&statement.action)) {
        trips.push_back(loop->extent.value());
        visit(loop->body);
      } else if (const auto* scope = std::get_if<program::Scope>(&statement.action)) {
        visit(scope->body);
      }
    }
  };
  visit(program.body);
  BOOST_TEST(trips == (std::vector<std::int64_t>{3, 2, 5}), boost::test_tools::per_element());
  BOOST_TEST(difference(graph, program) == 0);
}

BOOST_AUTO_TEST_CASE(mistakes_are_named) {
  const Graph graph = product(24, 24, 24);
  CompileOptions options;
  options.mappings["matmull"] = {{8, 8, 8}, {0, 1, 2}, {1, 1, 1}};
  BOOST_TEST(mistake([&] { compile(graph, small_machine(), options); }).suggestion == "matmul");
  options.mappings = {{"matmul", {{8, 8}, {0, 1, 2}, {1, 1, 1}}}};
  BOOST_TEST(contains(mistake([&] { compile(graph, small_machine(), options); }).what, "not legal"));
  options.mappings = {{"matmul", {{1024, 1024, 1024}, {0, 1, 2}, {9, 9, 9}}}};
  BOOST_TEST(mistake([&] { compile(graph, small_machine(), options); }).place == "matmul");

  Machine machine = small_machine();
  machine.core.scratchpad.bytes = 100;
  BOOST_TEST(contains(mistake([&] { compile(graph, machine); }).what, "no tile of matmul fits"));
  machine = small_machine();
  machine.core.array.count = 0;
  BOOST_CHECK_THROW(compile(graph, machine), Unsupported);
  machine = small_machine();
  machine.core.array.rates = {{DType::i8, 1.0}};
  BOOST_CHECK_THROW(compile(graph, machine), Unsupported);
}

BOOST_AUTO_TEST_CASE(cancellation) {
  CancelToken token;
  token.request();
  CompileOptions options;
  options.cancel = &token;
  BOOST_CHECK_THROW(compile(product(24, 24, 24), small_machine(), options), Cancelled);
}

BOOST_AUTO_TEST_CASE(preparation_expands_composites_and_keeps_the_original) {
  const Graph graph = one_op(Kind::softmax, {small_integers({4, 6}, 1)}, {{"dim", std::int64_t{1}}});
  const std::size_t before = graph.entry().ops.size();
  const Machine machine = small_machine();
  const lower::Prepared prepared =
      lower::prepare(graph, machine, {}, [](const GraphFunction&, const Op&, bool) { return 0.0; });
  BOOST_TEST(graph.entry().ops.size() == before);
  BOOST_TEST(prepared.graph.entry().ops.size() > before);
  for (const Op& op : prepared.graph.entry().ops) BOOST_TEST((op.kind != Kind::softmax));
}

BOOST_AUTO_TEST_CASE(the_same_graph_gives_the_same_program) {
  const std::string text = compile(chain(50, 60, 70), small_machine()).to_json().dump();
  for (int i = 0; i < 3; ++i) BOOST_TEST(compile(chain(50, 60, 70), small_machine()).to_json().dump() == text);
}

BOOST_AUTO_TEST_CASE(every_kind_but_fused_has_a_lowering) {
  BOOST_TEST(has_lowering(Kind::contract));
  BOOST_TEST(has_lowering(Kind::attention));
  BOOST_TEST(!has_lowering(Kind::fused));
  BOOST_TEST(!has_lowering(Kind::all_reduce));
}

BOOST_AUTO_TEST_SUITE_END()
