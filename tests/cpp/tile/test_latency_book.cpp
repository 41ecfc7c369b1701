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
    } else if (d.kind == ComputeKind::permute) {
      d.elements = draw(1000000), d.lane_extent = draw(512), d.k = draw(5000), d.k_outer = draw(8), d.batch = draw(2);
    } else if (d.kind == ComputeKind::indexed) {
      d.second = draw(1) ? DType::i32 : DType::i64;
      d.elements = draw(1000000), d.m = draw(5000), d.k = draw(5000);
      d.functions[0] = static_cast<std::int32_t>(draw(1)), d.functions[1] = static_cast<std::int32_t>(draw(1));
    } else {
      d.elements = draw(1000000), d.lane_extent = draw(512), d.lane_reductions = draw(3);
      if (d.kind == ComputeKind::sort) d.k = draw(512);
      for (auto& count : d.functions) count = static_cast<std::int32_t>(draw(20));
      d.combined = 1 + draw(4);
      if (draw(1)) d.moves.counts[0] = 1;
      for (auto& count : d.moves.counts)
        if (d.moves.known() && draw(3) == 0) count = static_cast<std::uint16_t>(1 + draw(65534));
    }
    if (draw(1)) d.signature = random();
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

BOOST_AUTO_TEST_CASE(signature_is_the_last_word) {
  Descriptor d;
  d.signature = 0xAB;
  const std::string text = compute_text(d, {true, true});
  BOOST_TEST(text.substr(text.rfind(' ')) == " g00000000000000ab");
  for (const char* wrong : {"gab", "g00000000000000AB", "g000000000000000ab", "g", "g00000000000000ax"})
    BOOST_CHECK_THROW(parse_compute("mma f32 f32 b1 m1 n1 k1 ko1 " + std::string(wrong)), UserError);
}

namespace {

/// Twice a fixed time, but for products of 13 rows.
class Doubling final : public LatencyModel {
 public:
  using LatencyModel::latency;
  TileLatency latency(const Descriptor& d, const History&, const ComputeSource& source) override {
    ++asked;
    if (d.m == 13) throw Unsupported({"no kernel for 13 rows", {}, {}, {}, {}});
    const std::int64_t cycles = 2 * std::get<Opaque>(source.compute()).cycles;
    return {cycles, cycles, cycles, cycles, cycles, "doubled"};
  }
  std::string_view name() const override { return instruction_source; }
  int asked = 0;
};

class FixedForm final : public LatencyModel {
 public:
  using LatencyModel::latency;
  TileLatency latency(const Descriptor&, const History&, const ComputeSource&) override {
    return {5, 5, 5, 5, 5, "fixed"};
  }
  std::string_view name() const override { return "closed form"; }
};

struct OpaqueSource final : ComputeSource {
  TileCompute compute() const override { return Opaque{"x", {}, {}, 21}; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(own_model_is_asked_once_and_refusals_are_noted) {
  Doubling own;
  FixedForm form;
  LatencyBook book{std::string(instruction_source)};
  BookedLatency booked(book, form, &own);
  Descriptor d;
  d.m = 7, d.signature = 1;
  for (int i = 0; i < 2; ++i) BOOST_TEST(booked.latency(d, {}, OpaqueSource()).done == 42);
  BOOST_TEST(own.asked == 1);
  d.signature = 2;  // another kernel of the same descriptor
  booked.latency(d, {}, OpaqueSource());
  BOOST_TEST(own.asked == 2);
  d.m = 13;
  for (int i = 0; i < 2; ++i) BOOST_TEST(booked.latency(d, {}, OpaqueSource()).done == 5);
  BOOST_TEST(own.asked == 3);
  BOOST_TEST(book.entries().size() == 2U);
  BOOST_TEST(book.refused.size() == 1U);
  BOOST_TEST(book.refused.begin()->second == "no kernel for 13 rows");
}

BOOST_AUTO_TEST_CASE(other_sources_ignore_signatures) {
  FixedForm form;
  LatencyBook book("closed form");
  BookedLatency booked(book, form);
  Descriptor d;
  for (const std::uint64_t signature : {0, 1, 2}) {
    d.signature = signature;
    booked.latency(d, {});
  }
  BOOST_TEST(book.entries().size() == 1U);
  BOOST_TEST(book.hits == 2);
}

BOOST_AUTO_TEST_CASE(counts_add_up) {
  FixedForm form;
  std::int64_t told = 0, small = 0;
  LatencyStore store(form, [&](const Descriptor& d, const History&, std::int64_t times) {
    told += times;
    if (d.m == 1) small += times;
  });
  Descriptor d;
  for (int i = 0; i < 20000; ++i) {  // more computes than the table holds
    d.m = 1 + i % 10000;
    store.latency(d, {});
  }
  store.tell_counts();
  store.tell_counts();
  BOOST_TEST(told == 20000);
  BOOST_TEST(small == 2);
}

BOOST_AUTO_TEST_CASE(signatures_tell_kernels_apart) {
  Permute copy{{nullptr, DType::f32, {{4, 8}, {8, 1}}, 0}, {nullptr, DType::f32, {{4, 8}, {8, 1}}, 4096}};
  const std::uint64_t plain = signature_of(copy);
  BOOST_TEST(plain != 0U);
  const auto changed = [&](const auto& change) {
    Permute other = copy;
    change(other);
    return signature_of(other);
  };
  BOOST_TEST(changed([](Permute& p) { p.in.address = 512; }) == plain);  // elsewhere
  BOOST_TEST(changed([](Permute& p) { p.out.address = 0; }) != plain);   // in place
  BOOST_TEST(changed([](Permute& p) { p.out.address = 64; }) != plain);  // half in place
  BOOST_TEST(changed([](Permute& p) { p.in.dtype = DType::i32; }) != plain);
  BOOST_TEST(changed([](Permute& p) { p.in.dims[0].stride = 16; }) != plain);
  BOOST_TEST(changed([](Permute& p) { p.in.dims[0].stride = 0; }) != plain);
  BOOST_TEST(changed([](Permute& p) { p.in.dims[1].stride = 2; }) != plain);
  BOOST_TEST(changed([](Permute& p) { p.in.memory = TileMemory::accumulator; }) != plain);
  BOOST_TEST(changed([](Permute& p) { p.in.dims[1].extent = p.out.dims[1].extent = 7; }) != plain);
  const std::uint64_t wide = changed([](Permute& p) { p.in.dims[0].stride = 16; });
  BOOST_TEST(changed([](Permute& p) { p.in.dims[0].stride = 24; }) == wide);  // the same class

  VectorCompute sum{{8},
                    {{nullptr, DType::f32, {{8, 1}}}},
                    {{.op = VectorNode::Op::input}, {.op = VectorNode::Op::scalar, .number = 3}},
                    {VectorOutput{}},
                    -1};
  const std::uint64_t first = signature_of(sum);
  sum.nodes[1].number = 4;
  BOOST_TEST(signature_of(sum) == first);
  sum.nodes[1].op = VectorNode::Op::constant;
  const std::uint64_t constant = signature_of(sum);
  BOOST_TEST(constant != first);
  sum.nodes[1].number = 3;
  BOOST_TEST(signature_of(sum) != constant);
}

BOOST_AUTO_TEST_CASE(impossible_latencies) {
  LatencyBook book("rtl");
  BOOST_CHECK_THROW(book.put("mma", {-1, 0, 0, 0, 0, ""}, ""), UserError);
  BOOST_CHECK_THROW(book.put("mma", {5, 0, 0, 0, 4, ""}, ""), UserError);
}

BOOST_AUTO_TEST_SUITE_END()
