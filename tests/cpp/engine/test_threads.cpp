// What threads share is not changed under a call: results are those of one thread, and the thread sanitizer, under
// which the slow tests run these cases, finds nothing to report.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <functional>
#include <latch>
#include <mutex>
#include <random>
#include <thread>

#include "engine/part_files.hpp"
#include "engine/programs.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/engine/memory/dram_run.hpp"
#include "tilesim/graph/builder.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/passes.hpp"
#include "tilesim/kernels/kernels.hpp"
#include "tilesim/program/run/execute.hpp"

using namespace tilesim;
using namespace tilesim::test;
namespace dram = tilesim::engine::dram;

namespace {

using Calls = std::vector<std::function<std::string()>>;

/// Every call `rounds` times in some order in each of four threads: what differs from what one thread gets alone.
std::vector<std::string> together(const Calls& calls, int rounds) {
  std::vector<std::string> alone, wrong;
  for (const auto& call : calls) alone.push_back(call());
  constexpr int threads = 4;
  std::latch begin(threads);
  std::mutex mutex;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    begin.arrive_and_wait();
    for (std::size_t i = 0; i < static_cast<std::size_t>(rounds) * calls.size(); ++i) {
      const std::size_t which = random() % calls.size();
      std::string found;
      try {
        found = calls[which]();
      } catch (const std::exception& error) {
        found = error.what();
      }
      if (found == alone[which]) continue;
      const std::lock_guard guard(mutex);
      wrong.push_back("call " + std::to_string(which) + ": " + found.substr(0, 200));
    }
  };
  std::vector<std::thread> running;
  for (unsigned seed = 0; seed < threads; ++seed) running.emplace_back(work, seed);
  for (std::thread& thread : running) thread.join();
  return wrong;
}

std::string hex(const std::vector<Array>& arrays) {
  std::uint64_t hash = 1469598103934665603U;
  for (const Array& array : arrays)
    for (std::int64_t i = 0; i < array.nbytes(); ++i)
      hash = (hash ^ static_cast<std::uint64_t>(array.bytes()[i])) * 1099511628211U;
  return std::to_string(hash);
}

const Evaluator evaluator = [](const Graph& graph, const GraphFunction& function, const Op& op,
                               const std::vector<Array>& operands) {
  return evaluate_op(graph, function, op, operands);
};

/// Weights in memory and random ones, a normalization after a convolution, a softmax that is spelled out, dead code.
Graph spelled() {
  Graph graph;
  Builder builder(graph, "main");
  const auto op = [&](Kind kind, std::vector<ValueId> operands,
                      std::initializer_list<std::pair<const char*, Attribute>> list) {
    Attributes attributes;
    for (const auto& [name, value] : list) attributes.set(name, value);
    return builder.op(kind, std::move(operands), attributes)[0];
  };
  using Integers = std::vector<std::int64_t>;
  const auto weight = [&](const std::string& name, const Shape& shape, bool in_memory) {
    tilesim::Weight made;
    made.type = {DType::f32, shape};
    made.seed = 3, made.scale = 0.3, made.offset = 1;
    if (in_memory) {
      made.data = made.load(name);
      made.source = tilesim::Weight::Source::data;
    }
    return builder.weight(name, made);
  };
  ValueId x = builder.input("x", {DType::f32, {1, 4, 5, 6}});
  x = op(Kind::convolution, {x, weight("filter", {4, 4, 3, 3}, true)},
         {{"x_labels", std::string("NCHW")},
          {"w_labels", std::string("OIHW")},
          {"y_labels", std::string("NCHW")},
          {"strides", Integers{1, 1}},
          {"pads", Integers{0, 0, 0, 0}},
          {"dtype", DType::f32}});
  x = op(Kind::batch_norm,
         {x, weight("scale", {4}, true), weight("shift", {4}, false), weight("mean", {4}, true),
          weight("variance", {4}, false)},
         {{"feature_dim", std::int64_t{1}}, {"epsilon", 1e-5}});
  builder.elementwise(Function::tanh, {x});  // nothing reads it
  x = builder.elementwise(Function::add, {x, builder.elementwise(Function::exp, {weight("row", {1, 4, 3, 4}, true)})});
  const auto reduced = [&](ValueId value, const char* combiner) {
    return op(Kind::reduce, {value}, {{"dims", Integers{3}}, {"combiner", std::string(combiner)}, {"keep_dims", true}});
  };
  const ValueId e =
      builder.elementwise(Function::exp, {builder.elementwise(Function::subtract, {x, reduced(x, "maximum")})});
  builder.output(builder.elementwise(Function::divide, {e, reduced(e, "add")}));
  builder.finish();
  return graph;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(threads)

BOOST_AUTO_TEST_CASE(passes_work_on_copies_of_a_shared_graph) {
  const Graph graph = spelled();
  const std::vector<Array> inputs = random_inputs(graph, 1);
  const auto changed = [&](const std::function<void(Graph&)>& change) {
    return [&graph, change] {
      Graph copy = graph;
      change(copy);
      check(copy);
      return copy.text();
    };
  };
  const Calls calls{
      [&] { return graph.text(); },
      [&] { return hex(evaluate(graph, inputs)); },
      [&] { return std::to_string(compulsory_bytes(graph)) + " " + std::to_string(graph.parameter_count()); },
      changed([](Graph& copy) { recognise(copy, evaluator, recognition_passes()); }),
      changed([](Graph& copy) { fold_batch_norm(copy, evaluator); }),
      changed([](Graph& copy) { fold_constants(copy, evaluator); }),
      changed([](Graph& copy) { expand(copy), remove_dead_code(copy), merge_common_subexpressions(copy); }),
  };
  BOOST_TEST(together(calls, 3).empty());
  for (std::size_t pass = 3; pass < calls.size(); ++pass) BOOST_TEST(calls[pass]() != graph.text(), pass);
}

BOOST_AUTO_TEST_CASE(a_graph_is_replaced_while_others_read_it) {
  // As a Graph of Python is: readers hold the value that was there, a change takes its place.
  std::shared_ptr<const Graph> current = std::make_shared<Graph>(spelled());
  std::mutex mutex;
  const auto held = [&] {
    const std::lock_guard guard(mutex);
    return current;
  };
  const Calls calls{
      [&] {
        check(*held());
        return std::string();
      },
      [&] {
        const std::shared_ptr<const Graph> graph = held();
        return hex(random_inputs(*graph, 1));
      },
      [&] {
        auto copy = std::make_shared<Graph>(*held());
        remove_dead_code(*copy);
        recognise(*copy, evaluator, recognition_passes());
        const std::lock_guard guard(mutex);
        current = std::move(copy);
        return std::string();
      },
  };
  BOOST_TEST(together(calls, 3).empty());
}

BOOST_AUTO_TEST_CASE(simulations_share_program_machine_and_part) {
  Machine machine = plain_machine(2);
  Machine banked = machine;
  banked.memory.channels = 2;
  const auto part =
      std::make_shared<const dram::Part>(dram::Part::read_file(TILESIM_SOURCE_DIR "/configs/dram/DDR4-3200.json"));
  SimulateOptions options;
  options.memory = "bank";
  options.dram = part;
  const program::Program load = transfer(4096, "load0", 3), ring = pipeline(60, 10, 7, 2);
  const auto compiled = std::make_shared<const program::CompiledProgram>(ring);
  const Calls calls{
      [&] { return simulate(ring, machine).to_json().dump(); },
      [&] { return simulate(load, machine).to_json().dump(); },
      [&] { return simulate(load, banked, options).to_json().dump(); },
      [&] {
        Session session(machine);
        for (const std::int64_t core : {0, 1, 0}) session.submit({compiled, {core}, 5, 0, {}});
        session.run();
        return session.result().to_json().dump();
      },
      [&] { return ring.to_json().dump() + machine.to_json().dump() + part->to_json().dump(); },
      [&] {
        program::check(load);
        return std::string();
      },
  };
  BOOST_TEST(together(calls, 5).empty());
}

BOOST_AUTO_TEST_CASE(executions_share_program_and_inputs) {
  const program::Program ring = transfer(64, "load0", 40);
  Array x(DType::f32, {64});
  for (int i = 0; i < 64; ++i) x.as<float>()[i] = static_cast<float>(i);
  const std::map<std::string, Array> inputs{{"x", x}};
  Calls calls;
  for (const auto order : {program::Order::text, program::Order::early_loads, program::Order::random})
    calls.push_back([&, order] {
      program::ExecuteOptions options;
      options.order = order;
      options.find_races = true;
      std::string told;
      for (const auto& [name, array] : program::execute(ring, inputs, options)) told += name + hex({array});
      return told;
    });
  BOOST_TEST(together(calls, 4).empty());
}

BOOST_AUTO_TEST_CASE(memories_share_part_and_trace) {
  Calls calls;
  std::vector<dram::Part> parts;
  for (const std::string& file : part_files())
    if (file.find("TPU") == std::string::npos) parts.push_back(dram::Part::read_file(file));
  const dram::Trace trace = dram::make_trace("mixed_rand", 300, 64);
  for (const dram::Part& part : parts)
    calls.push_back([&] {
      dram::RunOptions options;
      options.channels = 2;
      options.wrap = true;
      const dram::RunResult result = dram::run_trace(part, trace, options);
      return std::to_string(result.cycles) + " " + std::to_string(result.counters.latency_sum);
    });
  BOOST_TEST(together(calls, 2).empty());
}

BOOST_AUTO_TEST_CASE(files_are_written_and_read_at_once) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("tilesim-threads-" + std::to_string(std::random_device{}()));
  std::filesystem::create_directory(folder);
  const Graph graph = spelled();
  const std::string tsim = folder / "graph.tsim", json = folder / "graph.json", text = graph.text();
  const Calls calls{
      [&] { return graph.save(tsim), std::string(); },
      [&] { return graph.save(json), std::string(); },
      [&] { return Graph::load(tsim).text().size() > 1000 ? "whole" : "torn"; },
      [&] { return Graph::load(json).text() == text ? "whole" : "torn"; },
  };
  BOOST_TEST(together(calls, 6).empty());
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++files;
  BOOST_TEST(files == 2U);
  std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(another_thread_ends_a_call) {
  const program::Program endless = pipeline(std::int64_t{1} << 40, 3, 2, 2);
  const Machine machine = plain_machine();
  CancelToken token;
  SimulateOptions options;
  options.cancel = &token;
  std::latch begun(2);
  std::thread stopper([&] {
    begun.arrive_and_wait();
    token.request();
  });
  begun.arrive_and_wait();
  BOOST_CHECK_THROW(simulate(endless, machine, options), Cancelled);
  stopper.join();
  BOOST_TEST(token.requested());
}

BOOST_AUTO_TEST_SUITE_END()
