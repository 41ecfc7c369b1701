// What is freed aside is freed once, and not while anybody holds it.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <thread>

#include "tilesim/base/aside.hpp"
#include "tilesim/base/cancel.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/json/tree.hpp"

using namespace tilesim;

namespace {

/// Counts the ends of what was not moved away.
class Counted {
 public:
  explicit Counted(std::shared_ptr<std::atomic<int>> ends) : ends_(std::move(ends)) {}
  Counted(Counted&&) = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  Counted& operator=(Counted&&) = delete;
  ~Counted() {
    if (ends_) ++*ends_;
  }

 private:
  std::shared_ptr<std::atomic<int>> ends_;
};

std::string long_text(int values) {
  std::string text = "[";
  for (int i = 0; i < values; ++i) text += "{\"a\": [1, 2]},";
  return text + "0]";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(aside_suite)

BOOST_AUTO_TEST_CASE(freed_once_by_the_last_holder) {
  for (const bool large : {false, true}) {
    const auto ends = std::make_shared<std::atomic<int>>(0);
    auto held = freed_aside(Counted(ends), large);
    auto other = held;
    held.reset();
    BOOST_TEST(*ends == 0);
    other.reset();
    while (*ends == 0) std::this_thread::yield();
    BOOST_TEST(*ends == 1);
  }
}

BOOST_AUTO_TEST_CASE(trees_of_any_size_read_back) {
  for (const int values : {0, 10, 200'000}) {
    const std::string text = long_text(values);
    const auto tree = json_tree(Json::parse(text));
    BOOST_TEST(has_many_values(*tree) == (values > 10'000));
    BOOST_TEST(tree->size() == static_cast<std::size_t>(values) + 1);
  }
}

BOOST_AUTO_TEST_CASE(a_text_that_is_cut_off_or_cancelled_is_freed) {
  std::string text = long_text(200'000);
  text.pop_back();
  BOOST_CHECK_THROW(Json::parse(text), UserError);
  CancelToken token;
  token.request();
  const CancelScope scope(&token);
  BOOST_CHECK_THROW(Json::parse(text), Cancelled);
}

BOOST_AUTO_TEST_SUITE_END()
