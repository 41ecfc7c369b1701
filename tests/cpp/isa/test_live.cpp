// Sequencers that share a core: alone as a pipeline of its own, together within bounds by hand, in any order the same.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <map>
#include <random>

#include "tilesim/isa/kernel/mma_kernel.hpp"
#include "tilesim/isa/latency/dry_run.hpp"
#include "tilesim/isa/live/core.hpp"
#include "tilesim/isa/text/assemble.hpp"

using namespace tilesim;
using namespace tilesim::isa;

namespace {

constexpr int on_vector = 64;

Machine live_machine(std::int64_t loads = 1) {
  Machine machine;
  machine.name = "test";
  machine.core.array.rows = machine.core.array.columns = 8, machine.core.array.count = 2;
  machine.core.array.rates = {{DType::f32, 1}, {DType::i8, 4}};
  machine.core.vector.lanes = 8, machine.core.vector.sublanes = 4;
  machine.core.isa.loads = loads;
  return machine;
}

std::shared_ptr<PipelineTable> table_of(const Machine& machine) {
  return std::make_shared<PipelineTable>(InstructionSet::standard(), core_of(machine));
}

Kernel words_of(const std::string& text) {
  const Assembled made = assemble(*InstructionSet::standard(), text + " ret\n");
  Kernel kernel;
  kernel.words.resize(made.bytes.size() / 4);
  std::memcpy(kernel.words.data(), made.bytes.data(), made.bytes.size());
  return kernel;
}

/// So many independent loads or sums of registers.
Kernel many(int count, const std::string& instruction) {
  std::string text = " li t2, 32\n vsetvli zero, t2, e32, m1, ta, ma\n";
  for (int i = 0; i < count; ++i) {
    std::string line = instruction;
    line.replace(line.find("vd"), 2, "v" + std::to_string(8 + i % 16));
    text += line + "\n";
  }
  return words_of(text);
}

Kernel product(const Machine& machine, std::mt19937& random, unsigned array) {
  MmaForm form;
  form.moving = form.run = static_cast<std::int64_t>(random() % 70 + 1);
  form.depth = static_cast<std::int64_t>(random() % 40 + 1), form.across = static_cast<std::int64_t>(random() % 40 + 1);
  form.moving_type = form.kept_type = random() % 2 == 0 ? DType::f32 : DType::i8;
  form.accumulate = random() % 2 == 0;
  return mma_kernel(*InstructionSet::standard(), core_of(machine), form, {1 << 24, 1 << 30, 2LL << 30}, array);
}

/// Kernels one behind the other on each sequencer, in steps of `step` cycles; when each was over, by tag.
struct Together {
  explicit Together(const Machine& machine) : table(table_of(machine)), core(table) {}
  void add(int sequencer, const Kernel& kernel) {
    queues[sequencer].push_back(std::make_unique<LiveKernel>(*table->set, kernel, sequencer != on_vector));
  }
  std::map<std::uint64_t, std::int64_t> run(std::int64_t step, const std::vector<int>& order) {
    for (const int number : order) core.sequencer(number);
    std::map<std::uint64_t, std::int64_t> done;
    std::map<int, std::size_t> begun;
    std::vector<LiveEvent> events;
    std::multimap<std::int64_t, int> free;
    for (const auto& [number, all] : queues) free.emplace(0, number);
    for (std::int64_t now = 0; done.size() < total();) {
      while (!free.empty() && free.begin()->first <= now) {
        const int number = free.begin()->second;
        free.erase(free.begin());
        const std::size_t next = begun[number]++;
        if (next < queues[number].size())
          core.sequencer(number).start(*queues[number][next], static_cast<std::uint64_t>(number) * 1000 + next, now,
                                       events);
      }
      std::int64_t until = free.empty() ? now + step : std::min(free.begin()->first, now + step);
      for (const LiveEvent& event : events) until = std::min(until, event.cycle);
      core.advance(until, events);
      for (const LiveEvent& event : events) {
        BOOST_TEST_REQUIRE(event.cycle > now);
        until = std::min(until, event.cycle);
        if (event.kind == LiveEvent::done) done[event.tag] = event.cycle;
        if (event.kind == LiveEvent::free) free.emplace(event.cycle, static_cast<int>(event.tag / 1000));
        if (event.kind == LiveEvent::consumed) consumed[event.tag] = event.cycle;
      }
      events.clear();
      now = until;
    }
    return done;
  }
  std::size_t total() const {
    std::size_t count = 0;
    for (const auto& [number, all] : queues) count += all.size();
    return count;
  }
  std::int64_t busy(PipeKind kind) const {
    Ticks sum = 0;
    for (const CoreUnits::Pipe& pipe : core.units().pipes[static_cast<std::size_t>(kind)]) sum += pipe.busy;
    return sum / cycle;
  }

  std::shared_ptr<PipelineTable> table;
  LiveCore core;
  std::map<int, std::vector<std::unique_ptr<LiveKernel>>> queues;
  std::map<std::uint64_t, std::int64_t> consumed;
};

std::int64_t last_of(const std::map<std::uint64_t, std::int64_t>& done) {
  std::int64_t last = 0;
  for (const auto& [tag, at] : done) last = std::max(last, at);
  return last;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(live)

BOOST_AUTO_TEST_CASE(a_sequencer_alone_is_a_pipeline_of_its_own) {
  std::mt19937 random(3);
  for (int i = 0; i < 12; ++i) {
    const Machine machine = live_machine(i % 2 + 1);
    const Kernel kernel =
        i % 3 == 2 ? many(static_cast<int>(random() % 60), "vfadd.vv vd, v1, v2") : product(machine, random, 0);
    DryRun own(table_of(machine), true);
    own.run(kernel);
    Together alone(machine);
    alone.add(i % 3 == 2 ? on_vector : 0, kernel);
    const auto done = alone.run(1 + static_cast<std::int64_t>(random() % 50), {});
    BOOST_TEST(last_of(done) == own.pipeline().drain());
    for (const auto& [tag, at] : alone.consumed) BOOST_TEST(at <= done.at(tag));
  }
}

/// The vector unit adds partial sums: the results of one product are taken while the rows of the next are pushed, as in
/// one kernel that does both.
BOOST_AUTO_TEST_CASE(products_behind_each_other_overlap) {
  for (const std::int64_t moving : {40, 64, 200})
    for (const bool accumulate : {false, true}) {
      const Machine machine = live_machine();
      MmaForm form;
      form.moving = form.run = moving, form.depth = 32, form.across = 16, form.accumulate = accumulate;
      const auto kernel_of = [&](std::int64_t batch) {
        MmaForm several = form;
        several.batch = batch;
        return mma_kernel(*InstructionSet::standard(), core_of(machine), several, {1 << 24, 1 << 30, 2LL << 30});
      };
      const auto one_kernel = [&](std::int64_t batch) {
        DryRun run(table_of(machine), true);
        run.run(kernel_of(batch));
        return run.pipeline().drain();
      };
      Together chain(machine);
      constexpr std::int64_t times = 6;
      for (int i = 0; i < times; ++i) chain.add(0, kernel_of(1));
      const auto done = chain.run(17, {});
      const std::int64_t took = last_of(done);
      BOOST_TEST_CONTEXT("rows " << moving << " accumulate " << accumulate) {
        // between two: the first set of weights and a few instructions that one kernel has ahead
        BOOST_TEST(took >= one_kernel(times) - 4 * times);
        BOOST_TEST(took <= one_kernel(times) + 24 * times);
      }
      std::int64_t before = 0;
      for (const auto& [tag, at] : done) {
        BOOST_TEST(at > before);
        before = at;
      }
    }
}

BOOST_AUTO_TEST_CASE(neither_steps_nor_the_order_of_sequencers_change_times) {
  std::mt19937 random(5);
  for (int i = 0; i < 10; ++i) {
    const Machine machine = live_machine();
    std::vector<std::pair<int, Kernel>> all;
    for (int k = 0; k < 5; ++k) {
      const unsigned array = random() % 2;
      all.emplace_back(static_cast<int>(array), product(machine, random, array));
      all.emplace_back(on_vector,
                       many(static_cast<int>(random() % 50), k % 2 == 0 ? "vle32.v vd, (a0)" : "vfadd.vv vd, v1, v2"));
    }
    std::vector<int> order = {0, 1, on_vector, 128};
    std::map<std::uint64_t, std::int64_t> first;
    for (int trial = 0; trial < 4; ++trial) {
      Together core(machine);
      for (const auto& [number, kernel] : all) core.add(number, kernel);
      const auto done = core.run(trial == 0   ? 1'000'000
                                 : trial == 1 ? 1
                                              : 1 + static_cast<std::int64_t>(random() % 40),
                                 order);
      if (trial == 0) first = done;
      BOOST_TEST((done == first));
      std::shuffle(order.begin(), order.end(), random);
    }
  }
}

BOOST_AUTO_TEST_CASE(one_port_serves_all) {
  // 100 registers each through one port, a beat each: 200 cycles and what filling takes; through two ports half
  for (const std::int64_t ports : {1, 2}) {
    Together core(live_machine(ports));
    core.add(0, many(100, "vle32.v vd, (a0)")), core.add(on_vector, many(100, "vle32.v vd, (a1)"));
    const auto done = core.run(1000, {});
    BOOST_TEST(core.busy(PipeKind::load) == 200);
    BOOST_TEST(last_of(done) >= 200 / ports);
    BOOST_TEST(last_of(done) <= 200 / ports + 16);
    // first come, first served: neither is held up by more than the other's queue
    const auto [early, late] = std::minmax(done.at(0), done.at(on_vector * 1000));
    BOOST_TEST(late - early <= 40);
  }
}

BOOST_AUTO_TEST_CASE(different_units_do_not_wait_for_each_other) {
  Together apart(live_machine()), loads(live_machine()), sums(live_machine());
  for (Together* one : {&apart, &loads}) one->add(0, many(100, "vle32.v vd, (a0)"));
  for (Together* one : {&apart, &sums}) one->add(on_vector, many(100, "vfadd.vv vd, v1, v2"));
  const auto done = apart.run(1000, {});
  BOOST_TEST(done.at(0) == last_of(loads.run(1000, {})));
  BOOST_TEST(done.at(on_vector * 1000) == last_of(sums.run(1000, {})));
}

BOOST_AUTO_TEST_CASE(no_less_than_the_work_of_each_pipe_and_more_ports_are_no_slower) {
  std::mt19937 random(11);
  std::map<std::int64_t, std::int64_t> sum;
  for (int i = 0; i < 12; ++i) {
    std::vector<std::pair<int, Kernel>> all;
    for (int k = 0; k < 3; ++k) {
      all.emplace_back(0, product(live_machine(), random, 0)), all.emplace_back(1, product(live_machine(), random, 1));
      all.emplace_back(on_vector, many(static_cast<int>(random() % 90), "vle32.v vd, (a0)"));
    }
    for (const std::int64_t ports : {1, 2, 4}) {
      Together core(live_machine(ports));
      for (const auto& [number, kernel] : all) core.add(number, kernel);
      const std::int64_t last = last_of(core.run(500, {}));
      for (const PipeKind kind : {PipeKind::load, PipeKind::store, PipeKind::arithmetic})
        BOOST_TEST(last >= core.busy(kind) / (kind == PipeKind::load ? ports : 1));
      sum[ports] += last;
    }
  }
  // who comes first may change with the ports, so a single trial may lose what others gain
  BOOST_TEST(sum[2] <= sum[1]);
  BOOST_TEST(sum[4] <= sum[2]);
}

BOOST_AUTO_TEST_SUITE_END()
