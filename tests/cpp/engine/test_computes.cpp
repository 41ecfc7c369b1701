// Computes that a unit answers later, against the times that the same computes declare, and by hand.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <random>

#include "engine/programs.hpp"
#include "tilesim/base/error.hpp"

using namespace tilesim;
using namespace tilesim::test;

namespace {

using engine::Compute;
using engine::Done;
using engine::Offered;

/// Takes what an opaque compute declares, `width` at a time in each unit, and tells only when it is over.
class Late : public engine::ComputePort {
 public:
  Late(std::size_t width, bool says_when, bool backwards = false)
      : width_(width), says_when_(says_when), backwards_(backwards) {}

  bool takes(std::int64_t core, engine::UnitKind kind) const override {
    return core != spared && kind == engine::UnitKind::other;
  }

  Offered offer(const Compute& compute, std::uint64_t tag, std::int64_t now) override {
    BOOST_REQUIRE(now >= now_);  // never behind what it has worked for
    if (at_once) {
      std::int64_t& free = free_[compute.unit];
      if (free > now) return ++refused, Offered::refuse(free);
      return ++offered, Offered::complete(free = now + compute.descriptor->duration);
    }
    std::vector<Done>& own = under_way_[compute.unit];
    if (own.size() >= width_) {
      ++refused;
      return Offered::refuse(says_when_ ? std::ranges::min(own, {}, &Done::cycle).cycle : 0);
    }
    const std::int64_t longer = backwards_ && own.empty() ? 3 : 0;  // the first of two is answered last
    own.push_back({tag, now + compute.descriptor->duration + longer});
    ++offered;
    return Offered::later();
  }

  void drain(std::int64_t until, CancelToken* /*cancel*/, std::vector<Done>& done) override {
    if (never || idle()) return;
    std::int64_t next = until;
    for (const auto& [unit, own] : under_way_)
      for (const Done& one : own) next = std::min(next, one.cycle);
    now_ = std::max(now_, next);
    for (auto& [unit, own] : under_way_) {
      const auto over = std::ranges::partition(own, [&](const Done& one) { return one.cycle > now_; });
      done.insert(done.end(), over.begin(), over.end());
      own.erase(over.begin(), over.end());
    }
  }

  bool idle() const override {
    return std::ranges::all_of(under_way_, [](const auto& unit) { return unit.second.empty(); });
  }

  std::int64_t offered = 0, refused = 0, spared = -1;
  bool never = false, at_once = false;

 private:
  std::size_t width_;
  bool says_when_, backwards_;
  std::int64_t now_ = 0;
  std::map<std::int32_t, std::vector<Done>> under_way_;
  std::map<std::int32_t, std::int64_t> free_;
};

Result run(const program::Program& program, const std::shared_ptr<Late>& late, const Machine& machine = plain_machine(),
           std::int64_t step = 0) {
  SimulateOptions options;
  options.computes = late;
  Session session(machine, options);
  session.submit(job_of(program));
  for (std::int64_t until = 0; step > 0 && session.run_until(until); until += step) {
  }
  session.run();
  return session.result();
}

/// Loads, two computes behind one another, a store, on every core.
program::Program stream(std::int64_t trips, std::int64_t first, std::int64_t second, std::int64_t cores) {
  const std::string n = std::to_string(trips), dims = R"("dims": [{"extent": 16, "axis": 1, "stride": 1}])";
  return parse(R"({"for": "i", "extent": )" + n + R"(, "do": [
      {"acquire": "x", "queues": ["load0"]},
      {"load": {"tensor": "X", "at": ["i", 0], "slot": "x", )" +
                   dims + R"(}, "queue": "load0"},
      {"commit": "x", "queue": "load0"}, {"wait": "x", "queue": "first"},
      {"acquire": "y", "queues": ["first"]}, )" +
                   opaque("first", first) + R"(, {"commit": "y", "queue": "first"},
      {"release": "x", "queue": "first"}, {"wait": "y", "queue": "second"}, )" +
                   opaque("second", second) + R"(,
      {"release": "y", "queue": "second"}, {"wait": "y", "queue": "store0"},
      {"store": {"tensor": "Y", "at": ["i", 0], "slot": "y", )" +
                   dims + R"(}, "queue": "store0"},
      {"release": "y", "queue": "store0"}]})",
               R"("cores": )" + std::to_string(cores) + R"(, "tensors": [{"name": "X", "dtype": "f32", "shape": [)" +
                   n + R"(, 16], "role": "input"},
                     {"name": "Y", "dtype": "f32", "shape": [)" +
                   n + R"(, 16], "role": "output"}],
                     "slots": [{"name": "x", "dtype": "f32", "elements": 16, "depth": 2, "consumers": ["first"]},
                     {"name": "y", "dtype": "f32", "elements": 16, "depth": 2, "address": 256,
                      "consumers": ["second", "store0"]}], )");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(computes)

BOOST_AUTO_TEST_CASE(an_answer_that_comes_late_changes_no_time) {
  std::mt19937_64 random(7);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  std::int64_t refused = 0;
  for (int i = 0; i < 60; ++i) {
    const std::int64_t trips = pick(1, 12), first = pick(0, 30), second = pick(0, 30), cores = pick(1, 3);
    const program::Program program =
        i % 2 == 0 ? pipeline(trips, first, second, pick(1, 3)) : stream(trips, first, second, cores);
    const Machine machine = plain_machine(3);
    const auto late = std::make_shared<Late>(1, i % 3 == 0);
    late->at_once = i % 5 == 4;  // an answer known at once goes the same way
    if (i % 4 == 3) late->spared = 0;
    const Result wanted = run(program, nullptr, machine), found = run(program, late, machine, i % 7 == 6 ? 5 : 0);
    BOOST_TEST(found.cycles == wanted.cycles, i << ": " << found.cycles << " " << wanted.cycles);
    BOOST_TEST_REQUIRE(found.units.size() == wanted.units.size());
    for (std::size_t u = 0; u < found.units.size(); ++u) {
      BOOST_TEST(found.units[u].cycles[0] == wanted.units[u].cycles[0], i << " " << found.units[u].unit);
      BOOST_TEST(found.units[u].operations == wanted.units[u].operations);
    }
    const std::int64_t on_core = 2 * trips, taken = i % 2 == 0 ? 1 : cores;
    BOOST_TEST(late->offered == on_core * (taken - (late->spared == 0 ? 1 : 0)));
    refused += late->refused;
  }
  BOOST_TEST(refused > 50);
}

BOOST_AUTO_TEST_CASE(a_unit_may_have_several_under_way) {
  const program::Program program = pipeline(6, 10, 0, 6);
  BOOST_TEST(run(program, std::make_shared<Late>(1, false)).cycles == 60);
  BOOST_TEST(run(program, std::make_shared<Late>(2, false)).cycles == 30);
  BOOST_TEST(run(program, std::make_shared<Late>(3, true)).cycles == 20);
}

BOOST_AUTO_TEST_CASE(what_follows_waits_for_all_before_it) {
  // Pairs: one answer after 13 cycles, the other after 10; commits show in order, so the pair ends after 13.
  const Result result = run(pipeline(2, 10, 1, 2), std::make_shared<Late>(2, false, true));
  // second: from 13 on, 1 + 3 cycles for the first of its own pair, 1 for the other
  BOOST_TEST(result.cycles == 17);
}

BOOST_AUTO_TEST_CASE(a_unit_that_never_answers_is_told) {
  const auto late = std::make_shared<Late>(1, false);
  late->never = true;
  BOOST_CHECK_EXCEPTION(run(pipeline(2, 5, 5, 1), late), InternalError, [](const InternalError& error) {
    return std::string(error.what()).find("without an answer") != std::string::npos;
  });
}

BOOST_AUTO_TEST_SUITE_END()
