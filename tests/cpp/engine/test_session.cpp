// Sessions: several jobs, cores, priorities, cancellation, mistakes, deadlock.
#include <boost/test/unit_test.hpp>
#include <thread>

#include "engine/programs.hpp"
#include "shared.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/engine/simulator.hpp"

using namespace tilesim;
using namespace tilesim::test;

namespace {

const std::string none = R"("tensors": [], )";

program::Program busy(std::int64_t cycles) { return parse(opaque("unit", cycles), none); }

template <class Call>
std::string mistake(Call call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(session)

BOOST_AUTO_TEST_CASE(jobs_on_one_core_follow_each_other) {
  Session session(plain_machine());
  const int a = session.submit(job_of(busy(100))), b = session.submit(job_of(busy(50), {0}, 30));
  session.run();
  BOOST_TEST(*session.finished(a) == 100);
  BOOST_TEST(*session.finished(b) == 150);
  BOOST_TEST(session.result().cycles == 150);
}

BOOST_AUTO_TEST_CASE(jobs_on_two_cores_run_together) {
  Session session(plain_machine(2));
  const int a = session.submit(job_of(busy(100), {0})), b = session.submit(job_of(busy(50), {1}, 30));
  session.run();
  BOOST_TEST(*session.finished(a) == 100);
  BOOST_TEST(*session.finished(b) == 80);
}

BOOST_AUTO_TEST_CASE(arrival_then_priority_then_submission_decide) {
  Session session(plain_machine());
  const int first = session.submit(job_of(busy(10), {0}, 0)), late = session.submit(job_of(busy(10), {0}, 5, 9)),
            urgent = session.submit(job_of(busy(10), {0}, 5, 1)), last = session.submit(job_of(busy(10), {0}, 5, 9));
  session.run();
  BOOST_TEST(*session.finished(first) == 10);
  BOOST_TEST(*session.finished(urgent) == 20);
  BOOST_TEST(*session.finished(late) == 30);
  BOOST_TEST(*session.finished(last) == 40);
}

BOOST_AUTO_TEST_CASE(jobs_share_the_memory) {
  const program::Program load = transfer(16384, "load0");  // 65536 bytes at one a cycle
  const std::int64_t alone = simulate(load, plain_machine()).cycles;
  Session session(plain_machine(2));
  session.submit(job_of(load, {0}));
  session.submit(job_of(load, {1}));
  session.run();
  const Result result = session.result();
  BOOST_TEST(result.memory_read_bytes == 2 * 65536);
  BOOST_TEST(result.cycles == alone + 65536);  // the bandwidth is shared, the latency paid once
}

BOOST_AUTO_TEST_CASE(run_until_stops_on_time_and_says_when_nothing_is_left) {
  Session session(plain_machine());
  const int id = session.submit(job_of(busy(100)));
  BOOST_TEST(session.run_until(99));
  BOOST_TEST(session.now() == 99);
  BOOST_TEST(!session.finished(id).has_value());
  BOOST_TEST(!session.run_until(100));
  BOOST_TEST(*session.finished(id) == 100);
  const int next = session.submit(job_of(busy(5), {0}, 0));  // a session goes on after it was idle
  session.run();
  BOOST_TEST(*session.finished(next) == 105);
}

BOOST_AUTO_TEST_CASE(stepping_changes_nothing) {
  const Result whole = simulate(pipeline(40, 10, 7, 2), plain_machine());
  Session session(plain_machine());
  session.submit(job_of(pipeline(40, 10, 7, 2)));
  while (session.run_until(session.now() + 3)) {
  }
  BOOST_TEST(session.result().timing_hash() == whole.timing_hash());
}

BOOST_AUTO_TEST_CASE(insertion_order_and_idle_statistics_change_nothing) {
  const Result wanted = simulate(pipeline(40, 10, 7, 2), plain_machine());
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    SimulateOptions options;
    options.shuffle_seed = seed;
    options.extra_statistic = true;
    BOOST_TEST(simulate(pipeline(40, 10, 7, 2), plain_machine(), options).timing_hash() == wanted.timing_hash());
  }
}

BOOST_AUTO_TEST_CASE(events_leave_by_time_then_order_however_they_came) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    engine::EventQueue queue;
    queue.shuffle = seed;
    std::uint64_t state = seed + 1;
    for (int i = 0; i < 500; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      engine::Event event;
      event.time = static_cast<std::int64_t>(state >> 33) % 20;
      event.order = (state >> 40) % 7;
      queue.push(event);
    }
    BOOST_TEST(queue.size() == 500U);
    engine::Event before = queue.pop();
    while (!queue.empty()) {
      const engine::Event event = queue.pop();
      BOOST_TEST((before.time < event.time || (before.time == event.time && before.order <= event.order)));
      before = event;
    }
  }
}

BOOST_AUTO_TEST_CASE(a_cancelled_session_stops) {
  const program::Program program = pipeline(200000, 3, 2, 2);
  const Result wanted = simulate(program, plain_machine());
  int polls = 0;
  CancelToken token;
  token.check = [&] { return ++polls == 1; };
  SimulateOptions options;
  options.cancel = &token;
  Session session(plain_machine(), options);
  session.submit(job_of(program));
  BOOST_CHECK_THROW(session.run(), Cancelled);
  BOOST_TEST(session.now() < wanted.cycles);
}

BOOST_AUTO_TEST_CASE(threads_share_a_compiled_program) {
  // Each simulation has its own state; what they share is read only (the thread sanitizer watches this test).
  const auto shared = std::make_shared<const program::CompiledProgram>(pipeline(300, 10, 7, 2));
  const Machine machine = plain_machine();
  const std::string wanted = simulate(pipeline(300, 10, 7, 2), machine).timing_hash();
  std::vector<std::string> found(4);
  std::vector<std::thread> threads;
  for (std::string& hash : found)
    threads.emplace_back([&hash, &shared, &machine] {
      for (int i = 0; i < 5; ++i) {
        Session session(machine.replace({{"core.count", 1}}));
        Job job;
        job.program = shared;
        session.submit(std::move(job));
        while (session.run_until(session.now() + 50)) {
        }
        hash = session.result().timing_hash();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& hash : found) BOOST_TEST(hash == wanted);
}

BOOST_AUTO_TEST_CASE(cancellation_comes_from_another_thread) {
  CancelToken token;
  SimulateOptions options;
  options.cancel = &token;
  Session session(plain_machine(), options);
  session.submit(job_of(pipeline(std::int64_t{1} << 40, 3, 2, 2)));
  std::thread other([&token] { token.request(); });
  BOOST_CHECK_THROW(session.run(), Cancelled);
  other.join();
}

BOOST_AUTO_TEST_CASE(mistakes_are_named) {
  const Machine machine = plain_machine();
  BOOST_TEST(contains(mistake([&] { Session(machine).submit(job_of(busy(1), {1})); }), "got 1; allowed: 0 to 0"));
  BOOST_TEST(contains(mistake([&] { Session(machine).submit(job_of(busy(1), {0, 0})); }), "wrong number of cores"));
  BOOST_TEST(contains(mistake([&] { simulate(parse(opaque("u", 1), none + R"("cores": 2, )"), machine); }), "core"));
  BOOST_TEST(
      contains(mistake([&] { simulate(parse(opaque("u", 1), none + R"("contexts": 2, )"), machine); }), "contexts"));
  BOOST_TEST(contains(mistake([&] { simulate(parse(opaque("load1", 1), none), machine); }), "load0"));
  BOOST_TEST(contains(mistake([&] { simulate(parse(opaque("mma7", 1), none), machine); }), "mma0"));
  BOOST_TEST(contains(mistake([&] { simulate(parse(opaque("mmax", 1), none), machine); }), "mmax"));
  SimulateOptions options;
  options.memory = "simpel";
  BOOST_TEST(contains(mistake([&] { simulate(busy(1), machine, options); }), "Did you mean 'simple'"));
  Session session(machine);
  BOOST_CHECK_THROW(session.finished(0), UserError);
  BOOST_TEST(contains(mistake([&] { simulate(busy(-1), machine); }), "duration"));
  const std::string reads = R"x({"for": "i", "extent": "read(n, 0)", "do": []})x";
  const std::string tensor = R"("tensors": [{"name": "n", "dtype": "i32", "shape": [1], "role": "input"}], )";
  BOOST_TEST(contains(mistake([&] { simulate(parse(reads, tensor), machine); }), "tensors"));
}

BOOST_AUTO_TEST_CASE(a_deadlock_says_who_waits_for_what) {
  const std::string body = R"({"acquire": "s", "queues": ["a"]}, {"wait": "s", "queue": "b"})";
  const std::string slot =
      R"("tensors": [], "slots": [{"name": "s", "dtype": "f32", "elements": 1, "consumers": ["b"]}], )";
  try {
    simulate(parse(body, slot), plain_machine());
    BOOST_TEST(false, "no deadlock");
  } catch (const InternalError& error) {
    BOOST_TEST(contains(error.what(), "queue b waits for slot s version 0"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
