// Every kind: result types by hand, what it refuses, and that costs and domains are consistent with the types.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "graph/kind_cases.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/builder.hpp"

using namespace tilesim;
using namespace tilesim::kind_cases;

namespace {

/// Terms name dims that exist; an access that may not leave stays inside.
void check_access(const Access& access, const Domain& domain, const TensorType& type) {
  if (!access.affine) {
    BOOST_TEST(access.axes.empty());
    return;
  }
  BOOST_TEST(access.axes.size() == type.shape.size());
  for (std::size_t i = 0; i < access.axes.size(); ++i) {
    std::int64_t low = access.axes[i].constant, high = low;
    bool empty = type.shape[i] == 0;
    for (const AxisAccess::Term& term : access.axes[i].terms) {
      BOOST_TEST_REQUIRE((term.dim >= 0 && static_cast<std::size_t>(term.dim) < domain.extents.size()));
      const std::int64_t reach = term.coefficient * (domain.extents[static_cast<std::size_t>(term.dim)] - 1);
      empty |= domain.extents[static_cast<std::size_t>(term.dim)] == 0;
      (reach < 0 ? low : high) += reach;
    }
    if (empty || access.axes[i].may_leave) continue;
    BOOST_TEST((low >= 0 && high <= (type.shape[i] - 1) * access.axes[i].divisor));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kinds)

BOOST_AUTO_TEST_CASE(the_table_is_in_order_and_names_read_back) {
  for (int i = 0; i < kind_count; ++i) {
    const Kind kind = static_cast<Kind>(i);
    BOOST_TEST((info(kind).kind == kind));
    BOOST_TEST((parse_kind(info(kind).name) == kind));
    BOOST_TEST((info(kind).infer && info(kind).flops && info(kind).domain));
  }
  BOOST_TEST(kind_names().size() == static_cast<std::size_t>(kind_count));
  BOOST_CHECK_EXCEPTION(parse_kind("atention"), UserError,
                        [](const UserError& e) { return e.parts().suggestion == "attention"; });
}

BOOST_AUTO_TEST_CASE(result_types_costs_and_domains) {
  std::set<Kind> seen{Kind::constant, Kind::call, Kind::fused};  // in test_json.cpp and test_passes.cpp
  seen.insert({Kind::while_loop, Kind::branch});                 // with their functions, in the tests of kernels
  for (const Case& entry : legal()) {
    BOOST_TEST_CONTEXT(info(entry.kind).name << " -> " << entry.results[0]) {
      seen.insert(entry.kind);
      Graph graph;
      Builder builder(graph, "main");
      const std::vector<ValueId> results = add(builder, entry);
      BOOST_TEST_REQUIRE(results.size() == entry.results.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        BOOST_TEST(to_string(builder.type(results[i])) == entry.results[i]);
        builder.output(results[i]);
      }
      builder.finish();
      const GraphFunction& function = graph.entry();
      const Op& op = function.ops.back();
      BOOST_TEST(flops(graph, function, op).total() >= 0);
      BOOST_TEST(compulsory_bytes(graph, function, op) >= 0);
      const Domain nest = domain(function, op);
      BOOST_TEST((nest.names.size() == nest.extents.size() && nest.reduction.size() == nest.extents.size()));
      BOOST_TEST_REQUIRE((nest.operands.size() == op.operands.size() && nest.results.size() == op.results.size()));
      for (std::size_t i = 0; i < op.operands.size(); ++i)
        if (op.operands[i] != no_value) check_access(nest.operands[i], nest, function.value(op.operands[i]).type);
      for (std::size_t i = 0; i < op.results.size(); ++i)
        check_access(nest.results[i], nest, function.value(op.results[i]).type);
      BOOST_TEST((Graph::from_json(graph.to_json()).to_json() == graph.to_json()));
    }
  }
  BOOST_TEST(seen.size() == static_cast<std::size_t>(kind_count));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_with_the_name_of_the_operation) {
  for (const Case& entry : illegal()) {
    std::string described(info(entry.kind).name);
    for (const TensorType& type : entry.operands) described += " " + to_string(type);
    BOOST_TEST_CONTEXT(described) {
      Graph graph;
      Builder builder(graph, "main");
      BOOST_CHECK_EXCEPTION(add(builder, entry), UserError, [](const UserError& e) {
        return e.parts().place.find("operation \"op\"") != std::string::npos;
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(flops_by_class) {
  const auto count = [](Kind kind, std::vector<TensorType> operands, NamedAttributes attributes) {
    Graph graph;
    Builder builder(graph, "main");
    add(builder, {kind, std::move(operands), std::move(attributes), {}});
    return flops(graph, graph.functions[0], graph.functions[0].ops.back());
  };
  const TensorType x = f32({2, 3, 4});
  BOOST_TEST(count(Kind::contract, {f32({2, 3}), f32({3, 5}), f32({5})}, matrix).matrix == 60);
  BOOST_TEST(count(Kind::contract, {f32({2, 3}), f32({3, 5}), f32({5})}, matrix).simple == 10);
  BOOST_TEST(count(Kind::elementwise, {x}, {{"function", text("exp")}}).transcendental == 24);
  BOOST_TEST(count(Kind::elementwise, {x, x}, {{"function", text("divide")}}).divide == 24);
  BOOST_TEST(count(Kind::elementwise, {x}, {{"function", text("identity")}}).total() == 0);
  BOOST_TEST(count(Kind::convert, {x}, {{"dtype", DType::bf16}}).simple == 24);
  BOOST_TEST(count(Kind::reduce, {x}, {{"dims", Integers{2}}, {"combiner", text("mean")}}).simple == 24);
  BOOST_TEST(count(Kind::reduce, {x}, {{"dims", Integers{2}}, {"combiner", text("mean")}}).multiply == 6);
  BOOST_TEST(count(Kind::window_reduce, {x}, {{"window", Integers{1, 2, 2}}, {"combiner", text("add")}}).simple ==
             2 * 2 * 3 * 4);
  BOOST_TEST(count(Kind::transpose, {x}, {{"permutation", Integers{2, 1, 0}}}).total() == 0);
  // batch_norm: subtract, multiply, add per element; add and two multiplies beside rsqrt per channel
  const Flops norm = count(Kind::batch_norm, {x, f32({3}), f32({3}), f32({3}), f32({3})},
                           {{"feature_dim", number(1)}, {"epsilon", 1e-5}});
  BOOST_TEST((norm.simple == 51 && norm.multiply == 27 && norm.divide == 3));
}

BOOST_AUTO_TEST_SUITE_END()
