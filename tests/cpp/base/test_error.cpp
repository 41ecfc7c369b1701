#include <boost/test/unit_test.hpp>

#include "tilesim/base/cancel.hpp"
#include "tilesim/base/error.hpp"

using namespace tilesim;

BOOST_AUTO_TEST_SUITE(error)

BOOST_AUTO_TEST_CASE(absent_parts_leave_no_trace) {
  using Parts = UserError::Parts;
  const auto text = [](Parts parts) { return std::string(UserError(std::move(parts)).what()); };
  BOOST_TEST(text({"wrong", {}, {}, {}, {}}) == "wrong");
  BOOST_TEST(text({"wrong", "a.json:3", {}, {}, {}}) == "a.json:3: wrong");
  BOOST_TEST(text({"wrong", {}, "5", {}, {}}) == "wrong (got 5)");
  BOOST_TEST(text({"wrong", {}, {}, "1 to 4", {}}) == "wrong (allowed: 1 to 4)");
  BOOST_TEST(text({"wrong", "x", "5", "1 to 4", "four"}) == "x: wrong (got 5; allowed: 1 to 4). Did you mean 'four'?");
  BOOST_TEST(text({"wrong", {}, {}, {}, "Use a smaller tile"}) == "wrong. Use a smaller tile");
}

BOOST_AUTO_TEST_CASE(nearest_spelling) {
  const std::vector<std::string> words{"rows", "columns", "clock"};
  BOOST_TEST(nearest("colums", words) == "columns");
  BOOST_TEST(nearest("row", words) == "rows");
  BOOST_TEST(nearest("clokc", words) == "clock");
  BOOST_TEST(nearest("bandwidth", words) == "");
  BOOST_TEST(nearest("", words) == "");
  const std::vector<std::string> functions{"relu", "gelu_tanh", "gelu_erf", "Core-count"};
  BOOST_TEST(nearest("gelu", functions) == "gelu_erf");
  BOOST_TEST(nearest("core_c", functions) == "Core-count");
  BOOST_TEST(nearest("g", functions) == "");
  BOOST_TEST(join(words) == "rows, columns, clock");
  BOOST_TEST(join({}) == "");
}

BOOST_AUTO_TEST_CASE(families) {
  BOOST_CHECK_THROW(throw Unsupported("no"), UserError);
  BOOST_CHECK_THROW(require(false, "broken"), InternalError);
  BOOST_CHECK_NO_THROW(require(true, "fine"));
}

BOOST_AUTO_TEST_CASE(cancellation) {
  CancelToken token;
  int checks = 0, reports = 0;
  token.check = [&] { return ++checks == 2; };
  token.progress = [&](double fraction) {
    ++reports;
    BOOST_TEST(fraction == 0.5);
  };
  token.set_fraction(0.5);
  std::int64_t polls = 0;
  BOOST_CHECK_THROW(
      {
        while (true) {
          token.poll();
          ++polls;
        }
      },
      Cancelled);
  BOOST_TEST(checks == 2);
  BOOST_TEST(reports == 2);
  BOOST_TEST(polls > 100);
  BOOST_CHECK_THROW(token.poll(), Cancelled);
  CancelToken counting;
  std::vector<std::pair<std::int64_t, std::int64_t>> told;
  counting.counted = [&](std::int64_t done, std::int64_t total) { told.emplace_back(done, total); };
  const auto polled = [&] {
    const std::size_t before = told.size();
    while (told.size() == before) counting.poll();
    return told.back();
  };
  counting.begin(8);  // one run
  counting.at(3);
  BOOST_TEST((polled() == std::pair<std::int64_t, std::int64_t>(3, 8)));
  counting.begin(5);  // another one, of which nobody has said that it follows
  counting.at(1);
  BOOST_TEST((polled() == std::pair<std::int64_t, std::int64_t>(1, 5)));
  counting.expect(20);  // several
  counting.begin(12);
  counting.at(12);
  BOOST_TEST((polled() == std::pair<std::int64_t, std::int64_t>(12, 20)));
  counting.begin(8);
  counting.at(2);
  BOOST_TEST((polled() == std::pair<std::int64_t, std::int64_t>(14, 20)));
  CancelToken other;
  other.poll();
  other.request();
  BOOST_CHECK_THROW(other.poll(), Cancelled);
}

BOOST_AUTO_TEST_SUITE_END()
