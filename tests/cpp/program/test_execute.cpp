// Functional execution: values, orders, races, inputs, transfers at borders.
#include <boost/test/unit_test.hpp>

#include "program/programs.hpp"

using namespace tilesim;
using namespace tilesim::program;
using namespace tilesim::test;

namespace {

std::map<std::string, Array> inputs() { return {{"A", test::matrix(7, 6, 1)}, {"B", test::matrix(6, 5, 2)}}; }

std::vector<float> floats(const Array& array) { return {array.as<float>(), array.as<float>() + array.size()}; }

std::vector<float> product() {
  const Array a = test::matrix(7, 6, 1), b = test::matrix(6, 5, 2);
  std::vector<float> c;
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 5; ++j) {
      float sum = 0;
      for (int k = 0; k < 6; ++k) sum += a.as<float>()[i * 6 + k] * b.as<float>()[k * 5 + j];
      c.push_back(sum);
    }
  return c;
}

/// Loads x [4] into a slot of 6 elements from `at` on, and stores the slot to y [6].
Program window(const std::string& at, const std::string& fill) {
  return parse(R"({"acquire": "s", "queues": ["load0"]},
      {"load": {"tensor": "x", "at": [)" +
                   at + R"(], "slot": "s", "dims": [{"extent": 6, "axis": 0, "stride": 1}])" + fill +
                   R"(}, "queue": "load0"}, {"commit": "s", "queue": "load0"}, {"wait": "s", "queue": "store0"},
      {"store": {"tensor": "y", "at": [0], "slot": "s", "dims": [{"extent": 6, "axis": 0, "stride": 1}]},
       "queue": "store0"}, {"release": "s", "queue": "store0"})",
               R"("tensors": [{"name": "x", "dtype": "f32", "shape": [4], "role": "input"},
                              {"name": "y", "dtype": "f32", "shape": [6], "role": "output"}],
                  "slots": [{"name": "s", "dtype": "f32", "elements": 6, "consumers": ["store0"]}], )");
}

std::map<std::string, Array> vector_of_four() {
  Array x(DType::f32, {4});
  for (int i = 0; i < 4; ++i) x.as<float>()[i] = static_cast<float>(i + 1);
  return {{"x", x}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(executor)

BOOST_AUTO_TEST_CASE(every_order_computes_the_product) {
  for (const Order order : {Order::text, Order::early_loads, Order::random})
    for (std::int64_t seed = 0; seed < (order == Order::random ? 10 : 1); ++seed) {
      ExecuteOptions options;
      options.order = order;
      options.seed = seed;
      options.find_races = true;
      BOOST_TEST(floats(execute(gemm(), inputs(), options).at("C")) == product(), boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(every_mutant_is_reported) {
  const std::vector<Mutant> all = mutants(gemm());
  BOOST_TEST(all.size() >= 8U);
  ExecuteOptions options;
  options.find_races = true;
  for (const Mutant& mutant : all) BOOST_CHECK_THROW(execute(mutant.program, inputs(), options), RaceError);
}

BOOST_AUTO_TEST_CASE(wrong_inputs_are_named) {
  const auto said = [](std::map<std::string, Array> given) { return mistake([&] { execute(gemm(), given); }); };
  BOOST_TEST(contains(said({{"A", test::matrix(7, 6, 1)}}), "B"));
  BOOST_TEST(contains(said({{"A", test::matrix(7, 6, 1)}, {"B", test::matrix(5, 6, 1)}}), "f32[6, 5]"));
  BOOST_TEST(contains(said({{"A", test::matrix(7, 6, 1).to(DType::f64)}, {"B", test::matrix(6, 5, 2)}}), "f64[7, 6]"));
}

BOOST_AUTO_TEST_CASE(inputs_stay_as_they_were) {
  const auto given = inputs();
  const std::vector<float> before = floats(given.at("A"));
  execute(gemm(), given);
  BOOST_TEST(floats(given.at("A")) == before, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(outside_a_tensor_reads_the_fill_value_or_fails) {
  const auto y = [](const std::string& at, const std::string& fill) {
    return floats(execute(window(at, fill), vector_of_four()).at("y"));
  };
  BOOST_TEST(y("-1", R"(, "fill": 9)") == (std::vector<float>{9, 1, 2, 3, 4, 9}), boost::test_tools::per_element());
  BOOST_TEST(y("3", R"(, "fill": 0)") == (std::vector<float>{4, 0, 0, 0, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(y("-1000000", R"(, "fill": 5)") == std::vector<float>(6, 5), boost::test_tools::per_element());
  BOOST_TEST(contains(mistake([&] { y("0", ""); }), "leaves its tensor"));
  BOOST_TEST(contains(mistake([&] { y("-1", ""); }), "index -1 of axis 0"));
  BOOST_TEST(contains(mistake([&] { y("-9000000000000000000", R"(, "fill": 5)"); }), "impossibly far"));
}

BOOST_AUTO_TEST_CASE(cancellation_ends_a_long_run) {
  std::string body = gemm_body;
  body = R"({"for": "again", "extent": 1000000000, "do": [)" + body + "]}";
  CancelToken token;
  int polls = 0;
  token.check = [&] { return ++polls == 2; };
  for (const Order order : {Order::text, Order::random}) {
    ExecuteOptions options;
    options.order = order;
    options.cancel = &token;
    BOOST_CHECK_THROW(execute(parse(body, gemm_parts), inputs(), options), Cancelled);
  }
}

BOOST_AUTO_TEST_CASE(observers_see_each_operation) {
  const std::string body = R"({"scope": "kernel", "operation": "matmul", "do": [)" + gemm_body + "]}";
  std::vector<std::string> seen;
  ExecuteOptions options;
  options.observe = [&](Observed& kernel) {
    seen.insert(seen.end(), kernel.operation.begin(), kernel.operation.end());
    BOOST_TEST(floats(kernel.tensors.at("C")) == product(), boost::test_tools::per_element());
  };
  execute(parse(body, gemm_parts), inputs(), options);
  BOOST_TEST(seen == std::vector<std::string>{"matmul"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
