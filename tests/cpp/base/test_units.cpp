#include <boost/test/unit_test.hpp>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/units.hpp"

using namespace tilesim;

BOOST_AUTO_TEST_SUITE(units)

BOOST_AUTO_TEST_CASE(quantities_are_exact) {
  BOOST_TEST(parse_frequency("940 MHz") == 940'000'000);
  BOOST_TEST(parse_frequency("1.1GHz") == 1'100'000'000);
  BOOST_TEST(parse_bytes("16 MiB") == 16 << 20);
  BOOST_TEST(parse_bytes("1 GB") == 1'000'000'000);
  BOOST_TEST(parse_bandwidth("614 GiB/s") == 614 * (std::int64_t{1} << 30));
  BOOST_TEST(parse_duration("1.5 us") == 1'500'000);
  BOOST_TEST(parse_energy("909 pJ") == 909'000);
  BOOST_TEST(parse_bytes("9223372036854775807 B") == std::numeric_limits<std::int64_t>::max());
}

BOOST_AUTO_TEST_CASE(wrong_units_are_refused) {
  for (const char* text : {"", " ", "940", "MHz", "940 MB", "940 mHz", "-1 Hz", "1.5 Hz", "1e99 Hz", "1..2 Hz",
                           "1 Hz x", "9223372036854775808 Hz", "inf Hz", "0x1 Hz", "1e Hz", "e5 Hz", ". Hz"})
    BOOST_CHECK_THROW(parse_frequency(text), UserError);
  BOOST_CHECK_THROW(parse_bandwidth("450 GB"), UserError);
  BOOST_CHECK_THROW(parse_duration("0.9375 ns"), UserError);
}

BOOST_AUTO_TEST_CASE(formatted_quantities_read_back) {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1000}, std::int64_t{1024},
                                   std::int64_t{3} << 19, std::int64_t{5} << 40}) {
    BOOST_TEST(parse_bytes(format_bytes(bytes)) == bytes);
  }
  BOOST_TEST(format_bytes(16 << 20) == "16 MiB");
  BOOST_TEST(format_frequency(940'000'000) == "940 MHz");
  BOOST_TEST(parse_frequency(format_frequency(1'100'000'000)) == 1'100'000'000);
}

BOOST_AUTO_TEST_CASE(instants_of_different_clocks_compare_exactly) {
  constexpr std::int64_t slow = 940'000'000, fast = 1'000'000'000;
  // 47 cycles at 940 MHz and 50 at 1 GHz are both 50 ns
  BOOST_TEST((compare({47, slow}, {50, fast}) == 0));
  BOOST_TEST((compare({46, slow}, {50, fast}) < 0));
  BOOST_TEST((compare({47, slow}, {49, fast}) > 0));
  // after three years of simulated time one cycle still decides, where doubles would not
  const std::int64_t years = 47 * std::int64_t{2'000'000'000'000'000};
  const std::int64_t same = years / 47 * 50;
  BOOST_TEST((compare({years, slow}, {same, fast}) == 0));
  BOOST_TEST((compare({years, slow}, {same + 1, fast}) < 0));
  BOOST_TEST((compare({years, slow}, {same - 1, fast}) > 0));
}

BOOST_AUTO_TEST_CASE(next_cycle_of_another_clock_is_an_exact_ceiling) {
  const Clock slow{940'000'000}, fast{1'000'000'000};
  BOOST_TEST(cycles_at_or_after({50, fast.hertz}, slow) == 47);
  BOOST_TEST(cycles_at_or_after({51, fast.hertz}, slow) == 48);
  BOOST_TEST(cycles_at_or_after({0, fast.hertz}, slow) == 0);
  for (std::int64_t cycles = 0; cycles < 2000; ++cycles) {
    const std::int64_t found = cycles_at_or_after({cycles, fast.hertz}, slow);
    BOOST_TEST((compare({found, slow.hertz}, {cycles, fast.hertz}) >= 0));
    BOOST_TEST((compare({found - 1, slow.hertz}, {cycles, fast.hertz}) < 0));
    BOOST_TEST(cycles_at_or_after({cycles, slow.hertz}, slow) == cycles);
  }
  BOOST_CHECK_THROW(cycles_at_or_after({std::numeric_limits<std::int64_t>::max(), 1}, fast), InternalError);
}

BOOST_AUTO_TEST_SUITE_END()
