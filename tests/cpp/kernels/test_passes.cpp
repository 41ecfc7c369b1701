// Passes keep a graph's meaning: random graphs evaluated before and after; every composite against its expansion.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

#include "kernels/graphs.hpp"
#include "tilesim/graph/passes.hpp"

using namespace tilesim;
using Integers = std::vector<std::int64_t>;

namespace {

const Evaluator evaluator = [](const Graph& graph, const GraphFunction& function, const Op& op,
                               const std::vector<Array>& operands) {
  return evaluate_op(graph, function, op, operands);
};

Weight random_weight(const Shape& shape, std::int64_t seed, double offset = 0) {
  Weight weight;
  weight.type = {DType::f32, shape};
  weight.seed = seed;
  weight.scale = 0.4;
  weight.offset = offset;
  return weight;
}

/// Grows a graph over values of one shape [2, 4, 5, 6] by random operations, some of them twice.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed), builder_(graph_, "main") {
    pool_.push_back(builder_.input("x", {DType::f32, shape_}));
    pool_.push_back(builder_.weight("w", random_weight(shape_, 1)));
    for (int i = 0; i < 14; ++i) {
      const unsigned kind = random_() % 10, state = static_cast<unsigned>(random_());
      choices_ = pool_.size();
      for (unsigned copy = 0; copy < 1 + state % 2; ++copy) {
        choice_.seed(state);
        pool_.push_back(grow(kind));
      }
    }
    choices_ = pool_.size();
    builder_.output(pool_.back());
    builder_.output(pick());
    builder_.finish();
  }
  Graph& graph() { return graph_; }

 private:
  /// One of the newest values, the same one for both copies of an operation.
  ValueId pick() { return pool_[choices_ - 1 - choice_() % std::min<std::size_t>(choices_, 6)]; }
  ValueId op(Kind kind, std::vector<ValueId> operands, test::NamedAttributes list) {
    return builder_.op(kind, std::move(operands), test::attributes(list))[0];
  }
  ValueId weight(const Shape& shape, double offset = 0) {
    ++weights_;
    return builder_.weight("w" + std::to_string(weights_), random_weight(shape, weights_, offset));
  }

  ValueId grow(unsigned kind) {
    switch (kind) {
      case 0:
        return builder_.elementwise(Function::add, {pick(), pick()});
      case 1:
        return builder_.elementwise(Function::tanh, {pick()});
      case 2:
        return builder_.elementwise(Function::multiply, {pick(), builder_.scalar(choice_() % 2 ? 1 : 0.5, DType::f32)});
      case 3:
        return op(Kind::softmax, {pick()}, {{"dim", std::int64_t{3}}});
      case 4: {
        const ValueId moved = builder_.transpose(pick(), {0, 1, 3, 2});
        return builder_.transpose(moved, {0, 1, 3, 2});
      }
      case 5: {
        const ValueId mean = op(Kind::reduce, {pick()},
                                {{"dims", Integers{2, 3}}, {"combiner", std::string("mean")}, {"keep_dims", true}});
        return builder_.elementwise(Function::subtract, {pick(), mean});
      }
      case 6:
        return op(Kind::normalize, {pick()},
                  {{"mode", std::string("layer")}, {"dims", Integers{3}}, {"epsilon", 1e-3}});
      case 7:
        return convolution();
      case 8:
        return builder_.elementwise(Function::multiply,
                                    {weight({1, 4, 1, 1}), builder_.elementwise(Function::exp, {weight(shape_)})});
      default:
        return builder_.reshape(builder_.reshape(pick(), {2, 4, 30}), shape_);
    }
  }

  ValueId convolution() {
    const ValueId y = op(Kind::convolution, {pick(), weight({4, 4, 3, 3})},
                         {{"x_labels", std::string("NCHW")},
                          {"w_labels", std::string("OIHW")},
                          {"y_labels", std::string("NCHW")},
                          {"strides", Integers{1, 1}},
                          {"pads", Integers{1, 1, 1, 1}},
                          {"dtype", DType::f32}});
    return op(Kind::batch_norm, {y, weight({4}, 1), weight({4}), weight({4}), weight({4}, 1)},
              {{"feature_dim", std::int64_t{1}}, {"epsilon", 1e-5}});
  }

  const Shape shape_{2, 4, 5, 6};
  std::mt19937 random_, choice_;
  Graph graph_;
  Builder builder_;
  std::vector<ValueId> pool_;
  std::size_t choices_ = 0;
  std::int64_t weights_ = 1;
};

/// Largest difference relative to the largest reference value; infinite where NaN or shapes differ.
double difference(const std::vector<Array>& a, const std::vector<Array>& b) {
  double worst = 0, largest = 1e-30;
  if (a.size() != b.size()) return INFINITY;
  for (std::size_t output = 0; output < a.size(); ++output) {
    if (a[output].shape() != b[output].shape()) return INFINITY;
    const std::vector<double> left = test::values(a[output]), right = test::values(b[output]);
    for (std::size_t i = 0; i < left.size(); ++i) {
      largest = std::max(largest, std::fabs(right[i]));
      if (std::isnan(left[i]) != std::isnan(right[i])) return INFINITY;
      if (!std::isnan(left[i])) worst = std::max(worst, std::fabs(left[i] - right[i]));
    }
  }
  return worst / largest;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(passes)

BOOST_AUTO_TEST_CASE(random_graphs_keep_their_meaning) {
  int merged = 0, folded = 0, normalizations = 0, dead = 0, no_ops = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      RandomGraph made(seed);
      Graph& graph = made.graph();
      const std::vector<Array> inputs = random_inputs(graph, seed);
      const std::vector<Array> reference = evaluate(graph, inputs);
      const auto same = [&](int count) {
        check(graph);
        BOOST_TEST(difference(evaluate(graph, inputs), reference) == 0);
        return count;
      };
      merged += same(merge_common_subexpressions(graph));
      folded += same(fold_constants(graph, evaluator));
      no_ops += same(remove_no_ops(graph));
      dead += same(remove_dead_code(graph));
      normalizations += fold_batch_norm(graph, evaluator);
      check(graph);
      BOOST_TEST(difference(evaluate(graph, inputs), reference) < 1e-4);
      expand(graph);
      check(graph);
      BOOST_TEST(difference(evaluate(graph, inputs), reference) < 1e-4);
    }
  }
  BOOST_TEST_MESSAGE("merged " << merged << ", folded " << folded << ", normalizations " << normalizations << ", dead "
                               << dead << ", no-ops " << no_ops);
  BOOST_TEST(std::min({merged, folded, normalizations, dead, no_ops}) > 10);
}

namespace {

struct Composite {
  const char* name;
  Kind kind;
  std::vector<Array> operands;
  Attributes attributes;
  int results = 1;
};

Array random(const Shape& shape, unsigned seed, double low = -1, double high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  Array array(DType::f64, shape);
  for (std::int64_t i = 0; i < array.size(); ++i) array.as<double>()[i] = uniform(random);
  return array.to(DType::f32);
}

Array mask(const Shape& shape) {
  Array array = random(shape, 99);
  Array result(DType::boolean, shape);
  for (std::int64_t i = 0; i < array.size(); ++i)
    result.as<std::uint8_t>()[i] = array.at(i) > -0.2 && i >= shape.back();
  return result;
}

std::vector<Composite> composites() {
  using test::attributes;
  const Array x = random({2, 6, 3, 4}, 1), c = random({6}, 2), row = random({3, 4}, 3);
  const Array q = random({2, 4, 5, 8}, 4), k = random({2, 2, 7, 8}, 5), v = random({2, 2, 7, 3}, 6);
  const auto normalize = [&](const char* mode, const Attribute& value, const char* key) {
    return attributes({{"mode", std::string(mode)}, {"epsilon", 1e-4}, {key, value}});
  };
  std::vector<Composite> list{
      {"softmax", Kind::softmax, {x}, attributes({{"dim", std::int64_t{1}}})},
      {"log_softmax", Kind::log_softmax, {x}, attributes({{"dim", std::int64_t{3}}})},
      {"layer", Kind::normalize, {x, row, row}, normalize("layer", Integers{2, 3}, "dims"), 3},
      {"layer without scale", Kind::normalize, {x}, normalize("layer", Integers{2, 3}, "dims")},
      {"rms", Kind::normalize, {x, row}, normalize("rms", Integers{2, 3}, "dims")},
      {"group", Kind::normalize, {x, c, c}, normalize("group", std::int64_t{3}, "groups")},
      {"instance", Kind::normalize, {x, c, c}, attributes({{"mode", std::string("instance")}, {"epsilon", 1e-4}})},
      {"batch_norm",
       Kind::batch_norm,
       {x, c, c, c, random({6}, 7, 0.5, 2)},
       attributes({{"feature_dim", std::int64_t{1}}, {"epsilon", 1e-4}})},
      {"attention", Kind::attention, {q, k, v}, {}},
      {"attention, bool mask with a hidden row", Kind::attention, {q, k, v, mask({5, 7})}, {}},
      {"attention, float mask", Kind::attention, {q, k, v, random({2, 1, 5, 7}, 8)}, {}},
  };
  const test::NamedAttributes variants[] = {
      {{"causal", true}},
      {{"causal", true}, {"causal_offset", std::int64_t{-2}}},
      {{"causal", true}, {"causal_offset", std::int64_t{-2}}, {"masked_row", std::string("nan")}},
      {{"causal", true}, {"window", std::int64_t{3}}, {"scale", 0.3}},
      {{"soft_cap", 1.5}},
  };
  for (const auto& variant : variants)
    list.push_back({"attention, variant", Kind::attention, {q, k, v}, attributes(variant)});
  return list;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_expansion_equals_its_kernel) {
  for (const Composite& composite : composites()) {
    BOOST_TEST_CONTEXT(composite.name) {
      Graph graph;
      Builder builder(graph, "main");
      std::vector<ValueId> ids;
      for (const Array& x : composite.operands)
        ids.push_back(builder.input("x" + std::to_string(ids.size()), {x.dtype(), x.shape()}));
      for (const ValueId id : builder.op(composite.kind, ids, composite.attributes, "op", composite.results))
        builder.output(id);
      builder.finish();
      const std::vector<Array> reference = evaluate(graph, composite.operands);
      BOOST_TEST(expand(graph) == 1);
      check(graph);
      BOOST_TEST(std::ranges::none_of(graph.entry().ops, [](const Op& op) { return info(op.kind).composite; }));
      BOOST_TEST(difference(evaluate(graph, composite.operands), reference) < 2e-6);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
