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
  CancelToken other;
  other.poll();
  other.request();
  BOOST_CHECK_THROW(other.poll(), Cancelled);
}

BOOST_AUTO_TEST_SUITE_END()
