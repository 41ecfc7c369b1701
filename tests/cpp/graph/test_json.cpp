// The JSON form: round trip, what may be left out, and every mistake with its place.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <unistd.h>

#include "shared.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/graph/builder.hpp"

using namespace tilesim;

namespace {

Weight filled(const TensorType& type, double first) {
  Weight weight;
  weight.type = type;
  weight.source = Weight::Source::data;
  Array wide(DType::f64, type.shape);
  for (std::int64_t i = 0; i < wide.size(); ++i) wide.as<double>()[i] = first + static_cast<double>(i) * 0.25;
  weight.data = wide.to(type.dtype);
  return weight;
}

/// A function `layer` called twice, weights of every source, an alias, two outputs.
Graph sample() {
  Graph graph;
  graph.name = "sample";
  Builder layer(graph, "layer");
  const ValueId h = layer.input("h", {DType::f32, {2, 8}}), w = layer.input("w", {DType::f32, {8, 8}});
  layer.output(layer.elementwise(Function::relu, {layer.matmul(h, w)}), "y");
  Builder builder(graph, "main");
  const ValueId x = builder.input("x", {DType::f32, {2, 8}}), state = builder.input("state", {DType::f32, {4, 8}});
  Weight random;
  random.type = {DType::f32, {8, 8}};
  random.seed = 7;
  random.offset = 0.5;
  const ValueId a = builder.weight("a", random), b = builder.weight("b", filled({DType::f32, {8, 8}}, -3));
  ValueId y = builder.op(Kind::call, {x, a}, {}, "first", 1, {layer.function_index()})[0];
  y = builder.op(Kind::call, {y, b}, {}, "second", 1, {layer.function_index()})[0];
  Attributes softmax;
  softmax.set("dim", std::int64_t{1});
  y = builder.op(Kind::softmax, {y}, softmax, "softmax")[0];
  const ValueId zero = builder.weight("zero", filled({DType::i32, {}}, 0));
  const ValueId next = builder.op(Kind::dynamic_update, {state, y, zero, zero}, {}, "append")[0];
  builder.output(y, "probabilities");
  builder.output(next, "next");
  builder.alias(1, 1);
  builder.finish();
  return graph;
}

std::string message(const std::string& text) {
  try {
    Graph::from_json(Json::parse(text, "g.json"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

/// A graph of one function over x: f32[4, 3] with these operations and output.
std::string graph_text(const std::string& ops, const std::string& output = "y", const std::string& more = "") {
  return R"({"schema": "tilesim.graph", "version": 1, "functions": [{"name": "main",
    "inputs": [{"name": "x", "dtype": "f32", "shape": [4, 3]}], "ops": [)" +
         ops + R"(], "outputs": [")" + output + "\"]" + more + "}]}";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(json)

BOOST_AUTO_TEST_CASE(a_graph_reads_back_equal) {
  const Graph graph = sample();
  const Graph back = Graph::from_json(Json::parse(graph.text()));
  BOOST_TEST((back.to_json() == graph.to_json()));
  BOOST_TEST(back.text() == graph.text());
  BOOST_TEST(back.functions.size() == 2U);
  BOOST_TEST(back.entry().aliases.size() == 1U);
  BOOST_TEST(back.weights.at("b").load("b").at(5) == graph.weights.at("b").load("b").at(5));
}

BOOST_AUTO_TEST_CASE(result_types_and_main_may_be_left_out) {
  const Graph graph = Graph::from_json(Json::parse(graph_text(
      R"({"name": "y", "kind": "reduce", "operands": ["x"], "attributes": {"dims": [1], "combiner": "add"}})")));
  BOOST_TEST(to_string(graph.entry().value(graph.entry().outputs[0]).type) == "f32[4]");
  BOOST_TEST((Graph::from_json(graph.to_json()).to_json() == graph.to_json()));
}

BOOST_AUTO_TEST_CASE(large_weights_and_non_finite_numbers_survive) {
  Graph graph;
  Builder builder(graph, "main");
  Weight odd = filled({DType::f32, {4}}, 1);
  odd.data.as<float>()[0] = -std::numeric_limits<float>::infinity();
  odd.data.as<float>()[1] = -0.0F;
  Weight nan = filled({DType::bf16, {3}}, std::nan(""));
  builder.output(builder.weight("large", filled({DType::f16, {1100}}, 0)));
  builder.output(builder.weight("odd", odd));
  builder.output(builder.weight("nan", nan));
  builder.output(builder.weight("flags", filled({DType::boolean, {2}}, 0)));
  builder.finish();
  const Graph back = Graph::from_json(Json::parse(graph.text()));
  BOOST_TEST((back.to_json() == graph.to_json()));
  for (const char* name : {"large", "odd", "nan", "flags"}) {
    const Array before = graph.weights.at(name).data, after = back.weights.at(name).data;
    BOOST_TEST(std::equal(before.bytes(), before.bytes() + before.nbytes(), after.bytes()));
  }
}

BOOST_AUTO_TEST_CASE(files_of_both_kinds_read_back) {
  const auto directory = std::filesystem::temp_directory_path() / ("tilesim_graph_" + std::to_string(::getpid()));
  std::filesystem::create_directories(directory);
  Graph graph;
  Builder builder(graph, "main");
  builder.output(builder.weight("large", filled({DType::f32, {40, 50}}, 0)));
  builder.output(builder.weight("small", filled({DType::f32, {3}}, 1)));
  builder.finish();
  for (const char* name : {"g.json", "g.tsim"}) {
    const std::string path = (directory / name).string();
    graph.save(path);
    const Graph back = Graph::load(path);
    for (const auto& [key, weight] : graph.weights) {
      const Array before = weight.load(key), after = back.weights.at(key).load(key);
      BOOST_TEST(std::equal(before.bytes(), before.bytes() + before.nbytes(), after.bytes()));
    }
  }
  const std::string path = (directory / "g.tsim").string();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 200);
  BOOST_CHECK_EXCEPTION(Graph::load(path).weights.at("large").load("large"), UserError,
                        [](const UserError& e) { return contains(e.what(), "too short"); });
  std::filesystem::resize_file(path, 40);
  BOOST_CHECK_THROW(Graph::load(path), UserError);
  BOOST_CHECK_THROW(graph.save((directory / "g.txt").string()), UserError);
  BOOST_CHECK_THROW(graph.save((directory / "none" / "g.json").string()), UserError);
  BOOST_CHECK_THROW(Graph::load((directory / "none.json").string()), UserError);
  std::filesystem::remove_all(directory);
}

BOOST_AUTO_TEST_CASE(weight_paths_start_at_the_file) {
  const std::string text = R"({"schema": "tilesim.graph", "version": 1, "functions": [{"name": "main", "ops":
      [{"name": "w", "kind": "constant", "attributes": {"reference": "w"}}], "outputs": ["w"]}],
      "weights": {"w": {"dtype": "f32", "shape": [2], "source": "file", "path": "data/w.npy"}}})";
  const Graph graph = Graph::from_json(Json::parse(text), "/models");
  BOOST_TEST(graph.weights.at("w").path == "/models/data/w.npy");
  BOOST_CHECK_EXCEPTION(graph.weights.at("w").load("w"), UserError,
                        [](const UserError& e) { return contains(e.what(), "weight \"w\""); });
}

BOOST_AUTO_TEST_CASE(mistakes_name_their_place) {
  struct Case { std::string text, wanted, also; };
  const std::string relu =
      R"({"name": "y", "kind": "elementwise", "operands": ["x"], "attributes": {"function": "relu"}})";
  const Case cases[] = {
      {R"({"schema": "tilesim.graphs", "version": 1, "functions": []})", "not a graph", "schema"},
      {R"({"schema": "tilesim.graph", "version": 2, "functions": []})", "out of range", "version"},
      {graph_text(relu, "z"), "the value does not exist", "outputs[0]"},
      {graph_text(R"({"name": "y", "kind": "elementwize", "operands": ["x"]})"), "unknown kind",
       "Did you mean 'elementwise'"},
      {graph_text(R"({"name": "y", "kind": "elementwise", "operands": ["x"], "attributes": {"functoin": "relu"}})"),
       "unknown attribute", "Did you mean 'function'"},
      {graph_text(R"({"name": "y", "kind": "elementwise", "operands": ["x"], "attributes": {"function": "rellu"}})"),
       "unknown value", "Did you mean 'relu'"},
      {graph_text(R"({"name": "y", "kind": "elementwise", "operand": ["x"], "attributes": {"function": "relu"}})"),
       "wrong number of operands", "\"y\""},
      {graph_text(R"({"name": "y", "kind": "elementwise", "operands": ["x"]})"), "attribute 'function' is missing",
       "g.json:2"},
      {graph_text(R"({"name": "y", "kind": "softmax", "operands": ["x"], "attributes": {"dim": "1"}})"), "wrong type",
       "dim"},
      {graph_text(R"({"name": "y", "kind": "softmax", "operands": ["x"], "attributes": {"dim": -1}})"),
       "does not exist", "Count axes from the front: 1"},
      {graph_text(R"({"name": "y", "kind": "softmax", "operands": [null], "attributes": {"dim": 1}})"),
       "required operand is absent", "\"y\""},
      {graph_text(R"({"name": "y", "kind": "softmax", "operands": ["xx"], "attributes": {"dim": 1}})"),
       "the value does not exist", "'x'"},
      {graph_text(R"({"name": "y", "kind": "reshape", "operands": ["x"], "attributes": {"shape": [5]}})"),
       "number of elements", "f32[4, 3] to [5]"},
      {graph_text(R"({"name": "y", "kind": "convert", "operands": ["x"], "attributes": {"dtype": "bf61"}})"),
       "unknown dtype", "bf16"},
      {graph_text(R"({"name": "y", "kind": "constant", "attributes": {"reference": "w"}})"),
       "the weight does not exist", "'w'"},
      {graph_text(
           R"({"name": "y", "kind": "copy", "operands": ["x"], "results": [{"name": "y", "dtype": "f32", "shape": [3, 4]}]})"),
       "result has the wrong type", "got f32[3, 4]; allowed: f32[4, 3]"},
      {graph_text(R"({"name": "y", "kind": "copy", "operands": ["x"], "results": [{"name": "y"}, {"name": "z"}]})"),
       "results", "1"},
      {graph_text(R"({"name": "x", "kind": "copy", "operands": ["x"]})"), "defined twice", "'x'"},
      {graph_text(
           R"({"name": "y", "kind": "copy", "operands": ["x"]}, {"name": "y", "kind": "copy", "operands": ["x"]})"),
       "defined twice", "'y'"},
      {graph_text(
           R"({"name": "y", "kind": "copy", "operands": ["b"]}, {"name": "b", "kind": "copy", "operands": ["x"]})"),
       "used before it is defined", "Move operation \"b\" before this one"},
      {graph_text(
           R"({"name": "y", "kind": "copy", "operands": ["b"]}, {"name": "b", "kind": "copy", "operands": ["y"]})"),
       "cycle", "y -> b -> y"},
      {graph_text(R"({"name": "y", "kind": "call", "operands": ["x"], "functions": ["main"]})"), "cycle", "main"},
      {graph_text(R"({"name": "y", "kind": "call", "operands": ["x"], "functions": ["mian"]})"),
       "the function does not exist", "'main'"},
      {graph_text(R"({"name": "y", "kind": "copy", "operands": ["x"], "functions": ["main"]})"), "cycle", ""},
      {graph_text(relu, "y", R"(, "aliases": [{"output": 0, "input": 3}])"), "does not exist", "0 -> 3"},
      {graph_text(relu, "y", R"(, "aliasses": [])"), "unknown key", "Did you mean 'aliases'"},
      {R"({"schema": "tilesim.graph", "version": 1, "functions": [{"name": "f", "ops": [], "outputs": []}], "main": "g"})",
       "the function does not exist", "main"},
      {R"({"schema": "tilesim.graph", "version": 1, "functions": [], "weights": {"w": {"dtype": "f32", "shape": [2], "source": "data", "data": [1]}}})",
       "wrong number of elements", "weights.w.data"},
      {R"({"schema": "tilesim.graph", "version": 1, "functions": [], "weights": {"w": {"dtype": "i8", "shape": [1], "source": "data", "data": [200]}}})",
       "out of the range of i8", "weights.w.data[0]"},
      {R"({"schema": "tilesim.graph", "version": 1, "functions": [], "weights": {"w": {"dtype": "i8", "shape": [1], "source": "rnadom"}}})",
       "unknown source", "random"},
      {R"({"schema": "tilesim.graph", "version": 1, "functions": [], "weights": {"w": {"dtype": "i8", "shape": [-1], "source": "random"}}})",
       "out of range", "shape[0]"},
      {R"({"schema": "tilesim.graph", "version": 1, "functions": [], "weights": {"w": {"dtype": "f32", "shape": [2], "source": "data", "data": "AAAA"}}})",
       "base64", "weights.w.data"},
  };
  for (const Case& entry : cases) {
    const std::string got = message(entry.text);
    BOOST_TEST_CONTEXT(got << "\n  for " << entry.text) {
      BOOST_TEST(contains(got, entry.wanted));
      BOOST_TEST(contains(got, entry.also));
    }
  }
}

BOOST_AUTO_TEST_CASE(cut_off_text_is_an_error_everywhere) {
  const std::string text = sample().text();
  for (std::size_t length = 0; length + 1 < text.size(); length += 7)
    BOOST_CHECK_THROW(Graph::from_json(Json::parse(text.substr(0, length))), UserError);
}

BOOST_AUTO_TEST_SUITE_END()
