// Work is counted per thread, and polls the token of the call that the thread is in.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

#include "tilesim/base/array.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/json/json.hpp"

using namespace tilesim;

namespace {

/// Units until a requested token is seen; at most `limit`.
std::int64_t worked_until_cancelled(std::int64_t limit) {
  for (std::int64_t units = 0; units < limit; ++units) {
    try {
      worked(1);
    } catch (const Cancelled&) {
      return units;
    }
  }
  return limit;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(interrupt_suite)

BOOST_AUTO_TEST_CASE(without_a_token_nothing_is_polled) {
  BOOST_TEST(CancelScope::current() == nullptr);
  BOOST_TEST(worked_until_cancelled(1 << 18) == 1 << 18);
}

BOOST_AUTO_TEST_CASE(a_requested_token_ends_the_work_soon) {
  CancelToken token;
  const CancelScope scope(&token);
  BOOST_TEST(worked_until_cancelled(1 << 18) == 1 << 18);
  token.request();
  BOOST_TEST(worked_until_cancelled(1 << 18) <= 1 << 16);
}

BOOST_AUTO_TEST_CASE(scopes_nest) {
  CancelToken outer, inner;
  outer.request();
  const CancelScope scope(&outer);
  {
    const CancelScope within(&inner);
    BOOST_TEST(CancelScope::current() == &inner);
    BOOST_TEST(worked_until_cancelled(1 << 18) == 1 << 18);
    const CancelScope none(nullptr);
    BOOST_TEST(worked_until_cancelled(1 << 18) == 1 << 18);
  }
  BOOST_TEST(CancelScope::current() == &outer);
  BOOST_TEST(worked_until_cancelled(1 << 18) <= 1 << 16);
}

BOOST_AUTO_TEST_CASE(long_steps_of_this_room_are_counted) {
  CancelToken token;
  const Array array(DType::f32, {1 << 24});
  Json list = Json::array();
  for (int i = 0; i < 100'000; ++i) list.push(Json(std::int64_t{i}));
  const std::string text = list.dump();
  token.request();
  const CancelScope scope(&token);
  BOOST_CHECK_THROW(array.clone(), Cancelled);
  BOOST_CHECK_THROW(array.to(DType::f64), Cancelled);
  BOOST_CHECK_THROW(list.dump(), Cancelled);
  BOOST_CHECK_THROW(Json::parse(text), Cancelled);
}

BOOST_AUTO_TEST_CASE(every_thread_has_its_own) {
  constexpr int count = 8;
  std::vector<CancelToken> tokens(count);
  std::atomic<int> ended = 0, waiting = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      const CancelScope scope(&tokens[static_cast<std::size_t>(i)]);
      ++waiting;
      try {
        for (;;) worked(64);
      } catch (const Cancelled&) {
        ++ended;
      }
    });
  while (waiting < count) std::this_thread::yield();
  for (int i = 0; i < count; ++i) {
    tokens[static_cast<std::size_t>(i)].request();
    threads[static_cast<std::size_t>(i)].join();
    BOOST_TEST(ended == i + 1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
