// Damaged text and random code end in words. TILESIM_FUZZ_ROUNDS says how many; a million is a matter of minutes.
#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "isa/fuzz.hpp"

BOOST_AUTO_TEST_SUITE(fuzzing)

BOOST_AUTO_TEST_CASE(damaged_text_and_random_code_end_in_words) {
  const char* asked = std::getenv("TILESIM_FUZZ_ROUNDS");
  const long rounds = asked != nullptr ? std::atol(asked) : 2000;
  const auto outcomes = fuzz::outcomes(rounds, 7);
  BOOST_TEST(outcomes.contains("assembled"));
  BOOST_TEST(outcomes.contains("refused"));
  BOOST_TEST(outcomes.contains("illegal instruction"));
  BOOST_TEST(outcomes.contains("transfers trapped"));
  BOOST_TEST(outcomes.contains("transfers over"));
}

BOOST_AUTO_TEST_SUITE_END()
