// Programs of several devices against the whole graph.
#include "tilesim/cluster/partition/partition.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "random_graphs.hpp"
#include "shared.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/kernels/kernels.hpp"

using namespace tilesim;

namespace {

/// The collective gives what its device has already, in the right shape.
void drop(Graph& graph, const partitioning::Inserted& entry) {
  for (GraphFunction& function : graph.functions) {
    if (function.name != entry.function) continue;
    for (Op& op : function.ops) {
      if (op.name != entry.operation) continue;
      const Shape from = function.value(op.operands[0]).type.shape, to = function.value(op.results[0]).type.shape;
      Attributes attributes;
      test::Integers start(from.size(), 0), sizes;
      if (op.kind == Kind::all_gather) {
        const auto dim = op.attributes.integer("dim");
        attributes.set("dim", dim);
        op.operands.assign(at(op.attributes.integer("group_size")), op.operands[0]);
        op.kind = Kind::concat;
      } else if (op.kind == Kind::reduce_scatter) {
        attributes.set("start", start);
        attributes.set("limit", to);
        op.kind = Kind::slice;
      } else if (op.kind == Kind::all_to_all) {
        attributes.set("shape", to);
        op.kind = Kind::reshape;
      } else {
        op.kind = Kind::copy;
      }
      op.attributes = attributes;
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(partition)

BOOST_AUTO_TEST_CASE(devices_together_equal_the_whole_graph) {
  const std::uint32_t many = trials(160);
  std::size_t collectives = 0;
  for (std::uint32_t seed = 0; seed < many; ++seed) {
    test::RandomGraph made(seed);
    const std::vector<Array> inputs = made.inputs();
    const partitioning::Partitioned local = partitioning::partition(made.graph());
    collectives += local.inserted.size();
    BOOST_TEST_CONTEXT("seed " << seed)
    BOOST_TEST(test::distance(local, *made.graph().mesh, inputs, evaluate(made.graph(), inputs)) == 0);
  }
  BOOST_TEST(collectives > many);
}

BOOST_AUTO_TEST_CASE(no_collective_is_idle) {
  int dropped = 0, noticed = 0;
  for (std::uint32_t seed = 0; seed < trials(120); ++seed) {
    test::RandomGraph made(seed);
    const std::vector<std::vector<Array>> inputs{made.inputs(), made.inputs(), made.inputs()};
    const partitioning::Partitioned local = partitioning::partition(made.graph());
    for (const partitioning::Inserted& entry : local.inserted) {
      partitioning::Partitioned less = local;
      drop(less.graph, entry);
      ++dropped;
      bool differs = false;
      for (std::size_t i = 0; i < inputs.size() && !differs; ++i)
        differs = test::distance(less, *made.graph().mesh, inputs[i], evaluate(made.graph(), inputs[i])) != 0;
      noticed += differs ? 1 : 0;
    }
  }
  BOOST_TEST(dropped > 100);
  // What is left: sums that a clamp hides, extremes and indices that parts have in common.
  BOOST_TEST(noticed * 100 >= dropped * 80, noticed << " of " << dropped);
}

BOOST_AUTO_TEST_CASE(a_contraction_over_a_divided_axis_is_one_sum) {
  Graph graph;
  graph.mesh = std::make_shared<const Mesh>(Mesh::parse("t=4"));
  Builder builder(graph, "main");
  const ValueId x = builder.input("x", {DType::f32, {8, 16}}), w = builder.input("w", {DType::f32, {16, 32}});
  builder.output(builder.matmul(x, w));
  builder.finish();
  graph.entry().values[at(w)].sharding = std::make_shared<const Sharding>(Sharding::parse("[{\"t\"}, {}]"));
  const partitioning::Partitioned local = partitioning::partition(graph);
  BOOST_REQUIRE(local.inserted.size() == 1U);
  BOOST_TEST(local.inserted[0].kind == "all_reduce");
  BOOST_TEST(local.inserted[0].bytes == 2.0 * 3 / 4 * 8 * 32 * 4);  // 2 (n - 1) / n of the result
}

BOOST_AUTO_TEST_CASE(shardings_that_do_not_fit_are_refused) {
  Graph graph;
  Builder builder(graph, "main");
  const ValueId x = builder.input("x", {DType::f32, {8, 16}});
  builder.output(builder.elementwise(Function::negate, {x}));
  builder.finish();
  BOOST_CHECK_THROW(partitioning::partition(graph), UserError);  // no mesh
  graph.mesh = std::make_shared<const Mesh>(Mesh::parse("data=4"));
  for (const char* text : {"[{\"data\"}, {\"data\"}]", "[{\"dta\"}, {}]", "[{\"data\"}]"}) {
    graph.entry().values[at(x)].sharding = std::make_shared<const Sharding>(Sharding::parse(text));
    BOOST_CHECK_THROW(partitioning::partition(graph), UserError);
  }
}

BOOST_AUTO_TEST_SUITE_END()
