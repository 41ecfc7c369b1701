// From addresses to channels and banks: hashes keep the mapping one to one and spread strides.
#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/engine/dram/mapping.hpp"

using namespace tilesim;
using namespace tilesim::engine;

namespace {

/// Remainder of two polynomials over GF(2), by hand.
std::uint64_t remainder(std::uint64_t value, std::uint64_t polynomial) {
  while (std::bit_width(value) >= std::bit_width(polynomial))
    value ^= polynomial << (std::bit_width(value) - std::bit_width(polynomial));
  return value;
}

dram::Part hbm2() { return dram::Part::read_file(TILESIM_SOURCE_DIR "/configs/dram/HBM2-2000.json"); }

}  // namespace

BOOST_AUTO_TEST_SUITE(addresses)

BOOST_AUTO_TEST_CASE(folds_by_irreducible_polynomials) {
  std::mt19937_64 random(3);
  for (int bits = 1; bits <= 12; ++bits) {
    const dram::Fold fold(bits, true);
    const std::uint64_t polynomial = fold(1) | 1ULL << bits;  // what x^bits stands for
    for (std::uint64_t divisor = 2; static_cast<int>(std::bit_width(divisor)) <= bits; ++divisor)
      BOOST_TEST(remainder(polynomial, divisor) != 0U);
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t value = random() >> (13 + random() % 40);
      BOOST_TEST(fold(value) == remainder(value << bits, polynomial));
    }
  }
}

BOOST_AUTO_TEST_CASE(folds_by_adding_digits) {
  BOOST_TEST(dram::Fold(4, false)(0x123) == (1U ^ 2U ^ 3U));
  BOOST_TEST(dram::Fold(1, false)(0b1011) == 1U);
  BOOST_TEST(dram::Fold(0, false)(77) == 0U);
}

BOOST_AUTO_TEST_CASE(every_block_has_its_own_place) {
  for (const std::int64_t channels : {1, 2, 3, 5, 8, 12, 16}) {
    for (const char* name : {"none", "skew", "ipoly"}) {
      const dram::ChannelMap map(channels, 256, dram::channel_hash_of(name));
      std::set<std::pair<std::int64_t, std::uint64_t>> places;
      std::vector<int> blocks(static_cast<std::size_t>(channels));
      for (std::uint64_t block = 0; block < 100U * static_cast<std::uint64_t>(channels); ++block) {
        const auto target = map.locate(block * 256);
        places.insert({target.channel, target.address});
        ++blocks[static_cast<std::size_t>(target.channel)];
      }
      BOOST_TEST(places.size() == 100U * static_cast<std::size_t>(channels));
      for (const int count : blocks) BOOST_TEST(count == 100);
    }
  }
}

BOOST_AUTO_TEST_CASE(strides_of_powers_of_two_use_every_channel) {
  // As many accesses as there are channels, each power of two apart, meet no channel twice: Rau's property.
  const dram::ChannelMap hashed(16, 256, dram::ChannelHash::ipoly), plain(16, 256, dram::ChannelHash::none);
  for (int shift = 0; shift < 16; ++shift) {
    std::set<std::int64_t> seen, without;
    for (std::uint64_t i = 0; i < 16; ++i) {
      seen.insert(hashed.locate(i * 256 << shift).channel);
      without.insert(plain.locate(i * 256 << shift).channel);
    }
    BOOST_TEST(seen.size() == 16U);
    BOOST_TEST(without.size() == (std::size_t{16} >> std::min(shift, 4)));
  }
}

BOOST_AUTO_TEST_CASE(banks_spread_and_stay_one_to_one) {
  const dram::Part part = hbm2();
  const auto banks = static_cast<std::size_t>(part.banks());
  const dram::AddressMap plain(part), hashed(part, {}, dram::bank_hashes("ipoly"));
  std::uint64_t row_step = 1;  // bytes from one row of a bank to its next
  while (plain.locate(row_step).row == 0) row_step *= 2;
  std::set<std::int32_t> seen;
  for (std::uint64_t i = 0; i < banks; ++i) {
    BOOST_TEST(plain.locate(i * row_step).bank == 0);
    BOOST_TEST(hashed.locate(i * row_step).row == plain.locate(i * row_step).row);
    seen.insert(hashed.locate(i * row_step).bank);
  }
  BOOST_TEST(seen.size() == banks);
  for (const std::uint64_t row : {0ULL, 1ULL, 77ULL, 4095ULL}) {  // within a row of all banks: a permutation
    std::set<std::int32_t> of_row;
    for (std::uint64_t at = 0; at < row_step; at += static_cast<std::uint64_t>(part.burst_bytes))
      of_row.insert(hashed.locate(row * row_step + at).bank);
    BOOST_TEST(of_row.size() == banks);
  }
}

BOOST_AUTO_TEST_CASE(banks_within_a_unit_are_those_of_its_addresses) {
  const dram::Part part = hbm2();
  const auto burst = static_cast<std::uint64_t>(part.burst_bytes);
  std::uint64_t random = 12345;
  for (const char* order :
       {"", "row bank bank_group column pseudo_channel offset", "row bank column bank_group pseudo_channel offset"})
    for (const char* hash : {"none", "xor", "ipoly"}) {
      const dram::AddressMap map(part, order, dram::bank_hashes(hash));
      for (const std::uint64_t unit : {64ULL, 256ULL, 4096ULL}) {
        const std::vector<std::uint8_t> within = map.banks_within(unit, burst);
        BOOST_REQUIRE(within.size() == unit / burst);
        for (int i = 0; i < 1000; ++i) {
          random = random * 6364136223846793005ULL + 1442695040888963407ULL;
          const std::uint64_t address = (random >> 30) / burst * burst, begin = address & ~(unit - 1);
          const auto first = map.locate(begin), here = map.locate(address);
          BOOST_TEST(here.row == first.row);
          BOOST_TEST(here.bank == (first.bank ^ within[(address - begin) / burst]));
        }
      }
    }
  // Rows that change within a unit, and units that are no power of two, have no such table.
  BOOST_TEST(
      dram::AddressMap(part, "bank bank_group pseudo_channel column row offset").banks_within(256, burst).empty());
  BOOST_TEST(dram::AddressMap(part).banks_within(96, burst).empty());
}

BOOST_AUTO_TEST_CASE(unknown_names) {
  BOOST_CHECK_THROW(dram::channel_hash_of("ipol"), UserError);
  BOOST_CHECK_THROW(dram::AddressMap(hbm2(), {}, {{"rows", false}}), UserError);
}

BOOST_AUTO_TEST_SUITE_END()
