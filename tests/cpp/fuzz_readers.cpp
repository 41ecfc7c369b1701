// Reads damaged files, as tests/badinput/fuzz_core.py sends them: a letter that says what it is, four bytes of length,
// the contents. Answers one letter for each: r read, x refused; anything else ends the process. Built with sanitizers,
// it shows what a reader does beside throwing.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "tilesim/base/error.hpp"
#include "tilesim/base/expr.hpp"
#include "tilesim/base/json.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/engine/dram/part.hpp"
#include "tilesim/engine/dram/trace.hpp"
#include "tilesim/engine/noc/topology.hpp"
#include "tilesim/graph/file.hpp"
#include "tilesim/graph/graph.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/program/program.hpp"
#include "tilesim/report/result.hpp"

namespace {

using namespace tilesim;

constexpr std::int64_t small = 1 << 20;  // elements that are loaded

void use(const Graph& graph) {
  check(graph);
  graph.parameter_count();
  for (const auto& [name, weight] : graph.weights)
    if (element_count(weight.type.shape) < small) weight.load(name);
  graph_from_json(Json::parse(graph.text(), "again"), ".");
}

template <class Value>
void again(const std::string& text) {
  const Value value = Value::from_json(Json::parse(text, "fuzzed"));
  Value::from_json(Json::parse(value.to_json().dump(1), "again"));
}

void tsim(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  Graph::compiled_header(path);
  use(Graph::load(path));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: fuzz_readers path-of-a-file-to-use < frames\n"), 2;
  const std::string path = arguments[1];
  const std::map<char, std::function<void(const std::string&)>> readers{
      {'g', [](const std::string& text) { use(graph_from_json(Json::parse(text, "fuzzed"), "/nowhere")); }},
      {'t', [&](const std::string& bytes) { tsim(path, bytes); }},
      {'p',
       [](const std::string& text) {
         program::check(program::Program::from_json(Json::parse(text, "fuzzed")));
         again<program::Program>(text);
       }},
      {'m', [](const std::string& text) { again<Machine>(text); }},
      {'d', [](const std::string& text) { again<engine::dram::Part>(text); }},
      {'n', [](const std::string& text) { engine::noc::graph_from_json(Json::parse(text, "fuzzed")); }},
      {'r', [](const std::string& text) { again<Result>(text); }},
      {'c', [](const std::string& text) { engine::dram::parse_trace(text, "fuzzed"); }},
      {'j', [](const std::string& text) { Json::parse(text, "fuzzed").dump(1); }},
      {'e', [](const std::string& text) { Expr::parse(text); }},
  };
  for (int letter; (letter = std::getchar()) != EOF;) {
    unsigned char size[4];
    if (std::fread(size, 1, 4, stdin) != 4) return 2;
    std::string contents(size[0] | size[1] << 8 | size[2] << 16 | static_cast<unsigned>(size[3]) << 24, '\0');
    if (std::fread(contents.data(), 1, contents.size(), stdin) != contents.size()) return 2;
    char outcome = 'r';
    try {
      readers.at(static_cast<char>(letter))(contents);
    } catch (const InternalError& error) {
      return std::fprintf(stderr, "InternalError: %s\n", error.what()), 3;
    } catch (const Error& error) {
      if (*error.what() == '\0') return std::fprintf(stderr, "an error without words\n"), 3;
      outcome = 'x';
    } catch (const std::exception& error) {
      return std::fprintf(stderr, "another exception: %s\n", error.what()), 3;
    }
    std::putchar(outcome);
    std::fflush(stdout);
  }
}
