// Passes over programs: each leaves a program that checks and computes the same; addresses come from one of them.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "kernels/graphs.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/compile/compile.hpp"
#include "tilesim/compile/passes/addresses.hpp"
#include "tilesim/program/run/execute.hpp"
#include "tilesim/program/visit.hpp"

using namespace tilesim;
using namespace tilesim::test;

namespace {

Machine small_machine(std::int64_t cores, std::int64_t contexts, bool barrier) {
  Machine machine;
  machine.name = "small";
  machine.core.count = cores;
  machine.core.contexts = contexts;
  machine.core.kernel_barrier = barrier;
  machine.core.array.rows = machine.core.array.columns = 8;
  machine.core.array.rates = {{DType::f32, 1.0}};
  machine.core.vector.lanes = 8;
  machine.core.vector.sublanes = 4;
  machine.core.scratchpad.bytes = 32 << 10;
  machine.memory.bytes_per_second = 10000000000;
  return machine;
}

/// Products, elementwise operations, a sum of rows, a turned copy: kernels of each family, and values that are read
/// twice.
Graph mixture() {
  Graph graph;
  Builder builder(graph, "main");
  const ValueId a = builder.input("a", {DType::f32, {20, 24}}), b = builder.input("b", {DType::f32, {24, 12}});
  const ValueId z = builder.elementwise(Function::relu, {builder.matmul(a, b, no_value, "first")}, "relu");
  const std::vector<std::int64_t> turned{1, 0}, last{1};
  const ValueId t = builder.op(Kind::transpose, {z}, attributes({{"permutation", turned}}), "turn")[0];
  const ValueId w = builder.matmul(z, t, no_value, "second");
  const ValueId s =
      builder.op(Kind::reduce, {w}, attributes({{"dims", last}, {"combiner", std::string("add")}}), "sum")[0];
  builder.output(builder.elementwise(Function::tanh, {w}, "tanh"), "y");
  builder.output(s, "s");
  builder.finish();
  return graph;
}

using Outputs = std::map<std::string, std::vector<double>>;

Outputs reference(const Graph& graph, std::map<std::string, Array>& inputs) {
  std::vector<Array> arrays;
  const GraphFunction& entry = graph.entry();
  for (const ValueId id : entry.inputs) {
    arrays.push_back(small_integers(entry.value(id).type.shape, static_cast<std::uint64_t>(id) + 1));
    inputs[entry.value(id).name] = arrays.back();
  }
  const std::vector<Array> found = evaluate(graph, arrays);
  Outputs outputs;
  for (std::size_t i = 0; i < found.size(); ++i) outputs[entry.value(entry.outputs[i]).name] = values(found[i]);
  return outputs;
}

void compare(const Outputs& wanted, const program::Program& program, const std::map<std::string, Array>& inputs,
             const std::string& what) {
  program::ExecuteOptions options;
  options.find_races = true;
  const std::map<std::string, Array> found = program::execute(program, inputs, options);
  for (const auto& [name, numbers] : wanted) {
    const std::vector<double> own = values(found.at(name));
    BOOST_TEST_REQUIRE(own.size() == numbers.size());
    double worst = 0;
    for (std::size_t i = 0; i < own.size(); ++i) worst = std::max(worst, std::abs(own[i] - numbers[i]));
    BOOST_TEST(worst < 1e-3, what << ", " << name);
  }
}

void run(const char* name, lower::Lowering& lowering, std::set<std::string>& over) {
  for (const lower::Pass& pass : lower::passes()) {
    if (std::string(pass.name) != name || !over.insert(name).second) continue;
    for (const char* before : pass.needs) run(before, lowering, over);
    pass.run(lowering);
  }
}

struct Case { std::int64_t cores, contexts; };
constexpr Case cases[] = {{1, 1}, {3, 1}, {1, 2}, {2, 2}};

lower::Lowering lowered_for(const Graph& graph, const Case& on, bool barrier) {
  CompileOptions options;
  options.contexts = on.contexts;
  options.fuse = "none";
  static std::deque<Machine> machines;  // which outlive what refers to them
  return lowered(graph, machines.emplace_back(small_machine(on.cores, on.contexts, barrier)), options);
}

std::vector<std::int64_t> addresses(const program::Program& program) {
  std::vector<std::int64_t> found;
  program::for_each_function(program, [&](const program::Block& body, const std::string&) {
    program::for_each(body, [&](const program::Statement& statement) {
      if (const auto* scope = std::get_if<program::Scope>(&statement.action))
        for (const program::Slot& slot : scope->slots) found.push_back(slot.address);
    });
  });
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(program_passes)

BOOST_AUTO_TEST_CASE(they_stand_in_the_order_of_their_needs) {
  std::set<std::string> over;
  std::vector<std::string> names;
  for (const lower::Pass& pass : lower::passes()) {
    for (const char* before : pass.needs) BOOST_TEST(over.count(before) == 1U, pass.name << " needs " << before);
    over.insert(pass.name);
    names.emplace_back(pass.name);
  }
  BOOST_TEST(names == (std::vector<std::string>{"divide", "residency", "overlap", "ahead", "addresses", "apart",
                                                "dying", "check"}),
             boost::test_tools::per_element());
}

// Of several cores only with what orders them, of one core each pass with nothing but its needs.
BOOST_AUTO_TEST_CASE(each_leaves_a_program_that_computes_the_same) {
  const Graph graph = mixture();
  std::map<std::string, Array> inputs;
  const Outputs wanted = reference(graph, inputs);
  for (const bool barrier : {true, false})
    for (const Case& on : cases) {
      const std::string where = std::to_string(on.cores) + " cores, " + std::to_string(on.contexts) + " contexts" +
                                (barrier ? ", barrier" : "");
      for (const lower::Pass& pass : lower::passes()) {
        if (on.cores * on.contexts > 1 && std::string(pass.name) != "overlap") continue;
        lower::Lowering lowering = lowered_for(graph, on, barrier);
        std::set<std::string> over;
        for (const char* name : {pass.name, "addresses", "check"}) run(name, lowering, over);
        compare(wanted, lowering.program, inputs, where + ", " + pass.name);
      }
      compare(wanted, lower::finished(lowered_for(graph, on, barrier)), inputs, where);
    }
}

BOOST_AUTO_TEST_CASE(addresses_are_given_at_one_place) {
  const Graph graph = mixture();
  for (const bool barrier : {true, false})
    for (const Case& on : cases) {
      lower::Lowering lowering = lowered_for(graph, on, barrier);
      for (const lower::Pass& pass : lower::passes()) {
        const std::vector<std::int64_t> before = addresses(lowering.program);
        pass.run(lowering);
        const std::vector<std::int64_t> after = addresses(lowering.program);
        const bool places = std::string(pass.name) == "addresses";
        BOOST_TEST((before == after) == !places, pass.name);
        if (places) BOOST_TEST(std::ranges::all_of(before, [](std::int64_t address) { return address == 0; }));
      }
    }
}

BOOST_AUTO_TEST_CASE(neighbours_take_turns_where_they_overlap) {
  const auto lowest = [](const program::Statement& statement) {
    std::int64_t least = INT64_MAX;
    for (const program::Slot& slot : std::get<program::Scope>(statement.action).slots)
      if (!slot.accumulator) least = std::min(least, slot.address);
    return least;
  };
  const program::Program together = lower::finished(lowered_for(mixture(), {1, 1}, false));
  const program::Program apart = lower::finished(lowered_for(mixture(), {1, 1}, true));
  BOOST_TEST_REQUIRE(together.body.size() == apart.body.size());
  for (std::size_t i = 0; i < apart.body.size(); ++i) {
    BOOST_TEST(lowest(apart.body[i]) == 0);
    const auto& kernel = std::get<program::Scope>(together.body[i].action);
    const std::int64_t high = (32 << 10) - lower::held(kernel).scratchpad;
    BOOST_TEST(lowest(together.body[i]) == (i % 2 == 0 ? 0 : high));
  }
}

BOOST_AUTO_TEST_SUITE_END()
