#include <boost/test/unit_test.hpp>

#include <random>

#include "tilesim/base/error.hpp"
#include "tilesim/tile/latency_book.hpp"

using namespace tilesim;

BOOST_AUTO_TEST_SUITE(latency_book)

BOOST_AUTO_TEST_CASE(text_reads_back) {
  std::mt19937 random(3);
  const auto draw = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random); };
  for (int i = 0; i < 200; ++i) {
    Descriptor d;
    d.kind = static_cast<ComputeKind>(draw(5));
    d.dtype = draw(1) ? DType::bf16 : DType::i8;
    if (d.kind == ComputeKind::mma) {
      d.second = draw(1) ? DType::f32 : DType::i8;
      d.batch = draw(9), d.m = draw(5000), d.n = draw(5000), d.k = draw(5000), d.k_outer = draw(49);
      d.stationary_a = draw(1) > 0;
    } else if (d.kind == ComputeKind::opaque) {
      d.duration = draw(100000);
    } else {
      d.elements = draw(1000000), d.lane_extent = draw(512), d.lane_reductions = draw(3);
      if (d.kind == ComputeKind::sort) d.k = draw(512);
      for (auto& count : d.functions) count = static_cast<std::int32_t>(draw(20));
    }
    const History history{draw(1) > 0, draw(1) > 0};
    const auto [read, past] = parse_compute(compute_text(d, history));
    BOOST_TEST((read == d));
    BOOST_TEST(past.weights_resident == history.weights_resident);
    BOOST_TEST(past.pipelined == history.pipelined);
  }
}

BOOST_AUTO_TEST_CASE(asks_the_model_once) {
  class Counting final : public LatencyModel {
   public:
    using LatencyModel::latency;
    TileLatency latency(const Descriptor& d, const History&, const ComputeSource&) override {
      ++asked;
      return {d.m, d.m, d.m, d.m, d.m + 1, "rows"};
    }
    std::string_view name() const override { return "counting"; }
    int asked = 0;
  } model;
  Descriptor d;
  d.m = 7;
  LatencyBook own("counting"), other("elsewhere");
  for (LatencyBook* book : {&own, &other}) {
    BookedLatency booked(*book, model);
    BOOST_TEST(booked.latency(d, {}).done == 8);
    BOOST_TEST(booked.latency(d, {}).done == 8);
  }
  BOOST_TEST(model.asked == 3);  // a book of another source takes nothing in
  BOOST_TEST(own.hits == 1);
  BOOST_TEST(own.misses == 1);
  BOOST_TEST(other.misses == 2);
  BOOST_TEST(other.entries().empty());
}

BOOST_AUTO_TEST_CASE(impossible_latencies) {
  LatencyBook book("rtl");
  BOOST_CHECK_THROW(book.put("mma", {-1, 0, 0, 0, 0, ""}, ""), UserError);
  BOOST_CHECK_THROW(book.put("mma", {5, 0, 0, 0, 4, ""}, ""), UserError);
}

BOOST_AUTO_TEST_SUITE_END()
