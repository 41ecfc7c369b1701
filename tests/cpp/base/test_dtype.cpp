// Conversions without Python; the exhaustive comparison with ml_dtypes is in tests/unit/test_dtypes.py.
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

#include "tilesim/base/dtype.hpp"
#include "tilesim/base/error.hpp"

using namespace tilesim;

BOOST_AUTO_TEST_SUITE(dtype)

BOOST_AUTO_TEST_CASE(names_and_sizes) {
  BOOST_TEST(dtype_names().size() == static_cast<std::size_t>(dtype_count));
  for (const std::string& text : dtype_names()) {
    const DType dtype = parse_dtype(text);
    BOOST_TEST(name(dtype) == text);
    BOOST_TEST(host_bytes(dtype) == (bits(dtype) + 7) / 8);
    BOOST_TEST(packed_bytes(dtype, 3) == (3 * bits(dtype) + 7) / 8);
  }
  BOOST_TEST(packed_bytes(DType::i4, (std::int64_t{1} << 62) + 1) == (std::int64_t{1} << 61) + 1);
  BOOST_TEST((parse_dtype("bfloat16") == DType::bf16));
  BOOST_CHECK_THROW(parse_dtype("f33"), UserError);
  BOOST_TEST(is_float(DType::f4e2m1fn));
  BOOST_TEST(!is_float(DType::c64));
  BOOST_TEST(!is_integer(DType::boolean));
  BOOST_TEST(unit_roundoff(DType::bf16) == 0x1p-8);
}

BOOST_AUTO_TEST_CASE(f64_to_bf16_does_not_round_twice) {
  // just above a midpoint of two bf16; through f32 the excess is lost and the tie goes down to even
  const double value = 1 + 0x1p-8 + 0x1p-40;
  std::uint16_t direct = 0, twice = 0;
  convert(&value, DType::f64, &direct, DType::bf16, 1);
  const auto single = static_cast<float>(value);
  convert(&single, DType::f32, &twice, DType::bf16, 1);
  BOOST_TEST(direct == 0x3F81);
  BOOST_TEST(twice == 0x3F80);
}

BOOST_AUTO_TEST_CASE(vector_and_scalar_paths_agree) {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 0x10000; ++high)
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x0FFFU, 0x1000U, 0x1001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU})
      values.push_back(std::bit_cast<float>(high << 16 | low));
  const std::vector<double> wide(values.begin(), values.end());
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::uint16_t> fast(values.size()), slow(values.size());
  for (const DType target : {DType::f16, DType::bf16}) {
    convert(values.data(), DType::f32, fast.data(), target, count);
    convert(wide.data(), DType::f64, slow.data(), target, count);
    BOOST_TEST((fast == slow));
  }
}

BOOST_AUTO_TEST_CASE(every_pair_runs_at_odd_lengths) {
  for (int from = 0; from < dtype_count; ++from)
    for (int to = 0; to < dtype_count; ++to)
      for (const std::int64_t count : {0, 1, 511, 512, 513, 1025}) {
        const auto source = static_cast<DType>(from), target = static_cast<DType>(to);
        std::vector<double> ones(static_cast<std::size_t>(count), 1.0);
        std::vector<std::byte> a(static_cast<std::size_t>(count * host_bytes(source))),
            b(static_cast<std::size_t>(count * host_bytes(target)));
        convert(ones.data(), DType::f64, a.data(), source, count);
        convert(a.data(), source, b.data(), target, count);
        std::vector<double> back(ones.size());
        convert(b.data(), target, back.data(), DType::f64, count);
        BOOST_REQUIRE((back == ones));
      }
}

BOOST_AUTO_TEST_CASE(rounding_in_place) {
  float values[] = {1.0F + 0x1p-9F, 1.0F + 0x1p-11F, 3.0F + 0x1p-9F};
  float copy[3];
  std::copy(values, values + 3, copy);
  round_through(copy, 3, DType::f32);
  BOOST_TEST((copy[0] == values[0] && copy[2] == values[2]));
  round_through(copy, 3, DType::bf16);
  BOOST_TEST((copy[0] == 1 && copy[1] == 1 && copy[2] == 3));
  std::copy(values, values + 3, copy);
  tf32_round(copy, 3);
  BOOST_TEST((copy[0] == values[0] && copy[1] == 1 && copy[2] == 3.001953125F));
}

BOOST_AUTO_TEST_SUITE_END()
