// Reads damaged files, as tests/badinput/fuzz_core.py sends them, and does with what was read what is done with it: a
// letter that says what it is, four bytes of length, the contents. Answers one letter for each: r read, x refused, l
// what was read takes long to use; anything else ends the process. Built with sanitizers, it shows what a reader does
// beside throwing.
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "tilesim/base/error.hpp"
#include "tilesim/base/expr/expr.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/json/json.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/engine/engine.hpp"
#include "tilesim/engine/memory/dram_run.hpp"
#include "tilesim/engine/noc/measure.hpp"
#include "tilesim/graph/file.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/passes.hpp"
#include "tilesim/kernels/kernels.hpp"
#include "tilesim/program/run/execute.hpp"
#include "tilesim/report/result.hpp"

namespace {

using namespace tilesim;

constexpr std::int64_t small = 1 << 20;  // elements that are loaded or computed
constexpr double patience = 1.0;         // seconds of process time for what a legal file asks for

double process_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// What a file asks for may be long: it is interrupted then, as by Ctrl-C. Reading has no such excuse.
template <class Use>
void use_for_a_while(Use use) {
  const double begin = process_seconds();
  CancelToken token;
  token.check = [&] { return process_seconds() - begin > patience; };
  const CancelScope scope(&token);
  use(token);
}

/// Elements of all values and weights, if they are few.
bool is_small(const Graph& graph) {
  std::int64_t elements = 0;
  const auto add = [&](const Shape& shape) { elements = std::min(elements + element_count(shape), small + 1); };
  for (const GraphFunction& function : graph.functions)
    for (const Value& value : function.values) add(value.type.shape);
  for (const auto& [name, weight] : graph.weights) add(weight.type.shape);
  return elements <= small;
}

void pass(const Graph& graph, const Evaluator& evaluator) {
  const auto changed = [&](const auto& change) {
    Graph copy = graph;
    change(copy);
    check(copy);
  };
  changed([](Graph& copy) { inline_calls(copy), expand(copy), remove_dead_code(copy); });
  changed([](Graph& copy) { merge_common_subexpressions(copy), remove_no_ops(copy); });
  if (!is_small(graph)) return;
  changed([&](Graph& copy) { fold_constants(copy, evaluator, 1 << 10), fold_batch_norm(copy, evaluator); });
  changed([&](Graph& copy) { recognise(copy, evaluator, recognition_passes()); });
}

void use(const Graph& graph, const std::string& folder) {
  check(graph);
  graph.parameter_count(), compulsory_bytes(graph), flops(graph);
  for (const auto& [name, weight] : graph.weights)
    if (element_count(weight.type.shape) < small) weight.load(name);
  graph_from_json(Json::parse(graph.text(), "again"), folder);
  use_for_a_while([&](CancelToken& token) {
    pass(graph, [](const Graph& of, const GraphFunction& function, const Op& op, const std::vector<Array>& operands) {
      return evaluate_op(of, function, op, operands);
    });
    if (!is_small(graph)) return;
    EvaluateOptions options;
    options.cancel = &token;
    evaluate(graph, random_inputs(graph, 1, &token), options);
  });
}

/// Bytes that an execution allocates, if they are few.
bool is_small(const program::CompiledProgram& program) {
  std::int64_t elements = 0;
  const auto add = [&](std::int64_t more) { elements = std::min(elements + std::min(more, small + 1), small + 1); };
  for (const program::CompiledTensor& tensor : program.tensors) add(element_count(tensor.shape));
  const std::int64_t contexts = program.program().cores * program.program().contexts;
  for (const program::CompiledSlot& slot : program.slots)
    for (std::int64_t i = 0; i < std::min(contexts * slot.depth, small) && elements <= small; ++i)
      add(std::max<std::int64_t>(slot.elements, 1));
  return elements <= small;
}

void run(const program::Program& program, const Machine& machine) {
  use_for_a_while([&](CancelToken& token) {
    SimulateOptions options;
    options.cancel = &token;
    options.timeline = true;
    options.max_intervals = 1000;
    simulate(program, machine, options).to_json().dump();
  });
  const program::CompiledProgram compiled(program);
  if (!is_small(compiled)) return;
  std::map<std::string, Array> zeros;
  for (const program::CompiledTensor& tensor : compiled.tensors)
    if (tensor.tensor->role == program::Role::input || tensor.tensor->role == program::Role::weight ||
        tensor.tensor->role == program::Role::state)
      zeros.emplace(tensor.name, Array(tensor.dtype, tensor.shape));
  for (const auto order : {program::Order::text, program::Order::early_loads, program::Order::random})
    use_for_a_while([&](CancelToken& token) {
      program::ExecuteOptions options;
      options.order = order;
      options.find_races = order == program::Order::text;
      options.cancel = &token;
      execute(program, zeros, options);
    });
}

template <class Value>
Value again(const std::string& text) {
  const Value value = Value::from_json(Json::parse(text, "fuzzed"));
  Value::from_json(Json::parse(value.to_json().dump(1), "again"));
  return value;
}

void tsim(const std::string& folder, const std::string& bytes) {
  const std::string path = folder + "/damaged.tsim";
  std::ofstream(path, std::ios::binary) << bytes;
  Graph::compiled_header(path);
  use(Graph::load(path), folder);
}

void request(const engine::dram::Part& part, const engine::dram::Trace& trace) {
  use_for_a_while([&](CancelToken& token) {
    engine::dram::RunOptions options;
    options.wrap = true;
    options.cancel = &token;
    run_trace(part, trace, options);
  });
}

void send(const engine::noc::Topology& network) {
  use_for_a_while([&](CancelToken& token) {
    engine::noc::Experiment experiment;
    experiment.traffic = "uniform";
    experiment.load = 0.1;
    experiment.packet_flits = 2;
    experiment.period_cycles = 20;
    experiment.warmup_periods = 1;
    experiment.most_periods = 2;
    experiment.cancel = &token;
    measure(network, {}, experiment);
  });
}

using Readers = std::map<char, std::function<void(const std::string&)>>;

/// `folder` holds machine.json, part.json, w.bin; files are written there.
Readers readers_in(const std::string& folder) {
  const auto machine = Machine::read_file(folder + "/machine.json");
  const auto part = engine::dram::Part::read_file(folder + "/part.json");
  return {
      {'g', [=](const std::string& text) { use(graph_from_json(Json::parse(text, "fuzzed"), folder), folder); }},
      {'t', [=](const std::string& bytes) { tsim(folder, bytes); }},
      {'p',
       [=](const std::string& text) {
         const auto program = again<program::Program>(text);
         program::check(program);
         run(program, machine);
       }},
      {'m',
       [](const std::string& text) {
         const auto read = again<Machine>(text);
         use_for_a_while([&](CancelToken& token) {
           SimulateOptions options;
           options.cancel = &token;
           simulate(program::Program(), read, options);
         });
       }},
      {'d',
       [](const std::string& text) {
         const auto read = again<engine::dram::Part>(text);
         request(read, engine::dram::make_trace("mixed_rand", 20, read.burst_bytes, 4 * read.burst_bytes << 8));
       }},
      {'n', [](const std::string& text) { send(engine::noc::graph_from_json(Json::parse(text, "fuzzed"))); }},
      {'r', [](const std::string& text) { again<Result>(text); }},
      {'c', [=](const std::string& text) { request(part, engine::dram::parse_trace(text, "fuzzed")); }},
      {'j', [](const std::string& text) { Json::parse(text, "fuzzed").dump(1); }},
      {'e', [](const std::string& text) { Expr::parse(text); }},
  };
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: fuzz_readers folder < frames\n"), 2;
  const Readers readers = readers_in(arguments[1]);
  for (int letter; (letter = std::getchar()) != EOF;) {
    unsigned char size[4];
    if (std::fread(size, 1, 4, stdin) != 4) return 2;
    std::string contents(size[0] | size[1] << 8 | size[2] << 16 | static_cast<unsigned>(size[3]) << 24, '\0');
    if (std::fread(contents.data(), 1, contents.size(), stdin) != contents.size()) return 2;
    char outcome = 'r';
    const double begin = process_seconds();
    try {
      readers.at(static_cast<char>(letter))(contents);
    } catch (const InternalError& error) {
      return std::fprintf(stderr, "InternalError: %s\n", error.what()), 3;
    } catch (const Cancelled&) {
      outcome = 'l';
    } catch (const Error& error) {
      if (*error.what() == '\0') return std::fprintf(stderr, "an error without words\n"), 3;
      outcome = 'x';
    } catch (const std::exception& error) {
      return std::fprintf(stderr, "another exception: %s\n", error.what()), 3;
    }
    // Sanitizers cost a factor of eight; each of up to four uses has its patience.
    if (const double took = process_seconds() - begin; took > 40 + 5 * patience)
      return std::fprintf(stderr, "%.1f s of process time\n", took), 3;
    std::putchar(outcome);
    std::fflush(stdout);
  }
}
