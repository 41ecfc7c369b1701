// Jobs of a session: who starts when, against a plain search over all of them; what they leave; what they cost.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>

#include "engine/programs.hpp"
#include "tilesim/engine/simulator.hpp"

using namespace tilesim;
using namespace tilesim::test;

namespace {

using Compiled = std::shared_ptr<const program::CompiledProgram>;

/// A kernel that does nothing for so many cycles, on each of `cores`.
Compiled work(std::int64_t cycles, std::int64_t cores = 1) {
  const std::string kernel = R"({"scope": "k", "do": [)" + opaque("unit", cycles) + "]}";
  return std::make_shared<const program::CompiledProgram>(
      parse(kernel, R"("tensors": [], "cores": )" + std::to_string(cores) + ", "));
}

Job job(Compiled program, std::vector<std::int64_t> cores, std::int64_t arrival = 0, std::int64_t priority = 0) {
  Job made;
  made.program = std::move(program);
  made.cores = std::move(cores);
  made.arrival_cycles = arrival;
  made.priority = priority;
  return made;
}

struct Wanted {
  std::vector<std::int64_t> cores;
  std::int64_t arrival = 0, priority = 0, cycles = 0;
  std::int64_t start = -1;
};

/// The rule said plainly: whenever a job comes or ends, all that wait are looked at in order of (arrival, priority,
/// number); one that finds no room keeps its cores from those behind it. A core has one job at a time.
void schedule(std::vector<Wanted>& jobs, std::int64_t cores) {
  std::vector<std::size_t> order(jobs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(jobs[a].arrival, jobs[a].priority) < std::pair(jobs[b].arrival, jobs[b].priority);
  });
  std::vector<std::int64_t> busy_until(static_cast<std::size_t>(cores), 0);
  for (std::int64_t now = 0;;) {
    std::vector<bool> wanted(static_cast<std::size_t>(cores), false);
    for (const std::size_t i : order) {
      Wanted& own = jobs[i];
      if (own.start >= 0 || own.arrival > now) continue;
      const bool free = std::all_of(own.cores.begin(), own.cores.end(), [&](std::int64_t core) {
        return busy_until[static_cast<std::size_t>(core)] <= now && !wanted[static_cast<std::size_t>(core)];
      });
      if (free) own.start = now;
      for (const std::int64_t core : own.cores)
        if (free)
          busy_until[static_cast<std::size_t>(core)] = now + own.cycles;
        else
          wanted[static_cast<std::size_t>(core)] = true;
    }
    std::int64_t next = INT64_MAX;
    for (const Wanted& own : jobs)
      if (own.arrival > now) next = std::min(next, own.arrival);
    for (const std::int64_t end : busy_until)
      if (end > now) next = std::min(next, end);
    if (next == INT64_MAX) return;
    now = next;
  }
}

Wanted random_job(std::mt19937& random, std::int64_t cores) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  Wanted wanted;
  std::vector<std::int64_t> all(static_cast<std::size_t>(cores));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  std::shuffle(all.begin(), all.end(), random);
  wanted.cores.assign(all.begin(), all.begin() + draw(1, cores));
  wanted.arrival = draw(0, 3) * draw(0, 20);  // many at once, many at zero
  wanted.priority = draw(-1, 1);
  wanted.cycles = draw(1, 12);
  return wanted;
}

/// Jobs that admission looked at, of so many that wait for one core from the start on.
std::int64_t looked(int count) {
  engine::Simulator simulator(plain_machine(), {});
  const Compiled program = work(10);
  for (int i = 0; i < count; ++i) simulator.submit(job(program, {0}));
  simulator.run_until(INT64_MAX);
  return simulator.jobs().admission().looked();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(jobs)

BOOST_AUTO_TEST_CASE(jobs_start_as_a_search_over_all_of_them_says) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const std::int64_t cores = 1 + round % 4;
    std::vector<Wanted> wanted(1 + random() % 25);
    for (Wanted& own : wanted) own = random_job(random, cores);
    Session session(plain_machine(cores));
    std::vector<int> ids;
    for (const Wanted& own : wanted)
      ids.push_back(session.submit(
          job(work(own.cycles, static_cast<std::int64_t>(own.cores.size())), own.cores, own.arrival, own.priority)));
    schedule(wanted, cores);
    session.run();
    for (std::size_t i = 0; i < wanted.size(); ++i)
      BOOST_TEST(*session.finished(ids[i]) == wanted[i].start + wanted[i].cycles, "round " << round << " job " << i);
  }
}

BOOST_AUTO_TEST_CASE(what_a_job_costs_does_not_grow_with_those_that_wait_or_have_ended) {
  BOOST_TEST(looked(10) <= 3 * 10);  // when it comes, when it is the first, when its core becomes free
  BOOST_TEST(looked(1000) <= 3 * 1000);
  engine::Simulator simulator(plain_machine(), {});
  const Compiled program = work(10);
  const auto events = [&] {
    const std::int64_t before = simulator.result().events;
    simulator.submit(job(program, {0}, simulator.now()));
    simulator.run_until(INT64_MAX);
    return simulator.result().events - before;
  };
  const std::int64_t first = events();
  for (int i = 0; i < 200; ++i) events();
  BOOST_TEST(events() == first);
}

BOOST_AUTO_TEST_CASE(a_job_that_has_ended_leaves_a_row) {
  engine::Simulator simulator(plain_machine(2), {});
  const Compiled program = work(10, 2);
  const long used = program.use_count();
  for (int i = 0; i < 50; ++i) simulator.submit(job(program, {0, 1}, 7 * i));
  BOOST_TEST(simulator.jobs().live().size() == 50U);
  simulator.run_until(INT64_MAX);
  BOOST_TEST(simulator.jobs().live().empty());
  BOOST_TEST(simulator.jobs().streams().size() == 0U);
  BOOST_TEST(simulator.jobs().rows().size() == 50U);
  BOOST_TEST(simulator.jobs().rows().programs().size() == 1U);
  BOOST_TEST(program.use_count() <= used + 2);  // what is loaded of it, and the first job's for the result
  BOOST_TEST(simulator.result().jobs.back().finish == 500);
}

BOOST_AUTO_TEST_CASE(programs_that_nobody_keeps_go_with_their_last_job) {
  engine::Simulator simulator(plain_machine(), {});
  simulator.submit(job(work(10), {0}));
  const Compiled kept = work(20);
  std::weak_ptr<const program::CompiledProgram> gone;
  {
    const Compiled program = work(30);
    gone = program;
    simulator.submit(job(program, {0}));
  }
  simulator.submit(job(kept, {0}));
  simulator.run_until(INT64_MAX);
  BOOST_TEST(gone.expired());
  const Result result = simulator.result();
  BOOST_TEST(result.operations.size() == 3U);
  BOOST_TEST(result.operations[1].cycles == 30);
}

BOOST_AUTO_TEST_CASE(kernels_of_all_jobs_of_a_program_add_up) {
  Session session(plain_machine(2));
  const Compiled one = work(10), other = work(25);
  session.submit(job(one, {0}));
  session.submit(job(other, {1}));
  session.submit(job(one, {0}, 3));
  session.submit(job(one, {1}, 3));
  session.run_until(12);  // some are under way
  const Result so_far = session.result();
  BOOST_TEST(so_far.operations[0].count == 2);
  BOOST_TEST(so_far.jobs[3].finish == -1);
  BOOST_TEST(so_far.cycles >= 12);
  session.run();
  const Result result = session.result();
  BOOST_TEST(result.operations.size() == 2U);
  const OperationUse &a = result.operations[0], &b = result.operations[1];
  BOOST_TEST(a.count == 3);
  BOOST_TEST(a.cycles == 30);
  BOOST_TEST(a.start == 0);
  BOOST_TEST(a.finish == 35);
  BOOST_TEST(b.count == 1);
  BOOST_TEST(b.cycles == 25);
}

BOOST_AUTO_TEST_CASE(what_comes_for_a_job_that_has_ended_is_nobodys) {
  // The signal takes ten cycles to the other core, where nobody waits for it; the job ends before.
  const std::string body = R"({"if": "1 - core", "then": [)" + opaque("unit", 5) +
                           R"(, {"signal": "c", "core": 1, "queue": "unit"}], "else": []})";
  const auto program = std::make_shared<const program::CompiledProgram>(
      parse(body, R"("tensors": [], "cores": 2, "counters": [{"name": "c", "semaphore": true}], )"));
  engine::Simulator simulator(plain_machine(2), {});
  for (int i = 0; i < 4; ++i) simulator.submit(job(program, {0, 1}));
  simulator.run_until(INT64_MAX);
  for (int i = 0; i < 4; ++i) BOOST_TEST(*simulator.finished(i) == 5 * (i + 1));
}

BOOST_AUTO_TEST_SUITE_END()
