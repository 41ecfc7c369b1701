// Meaning of tile computes on strided buffers, against loops written here.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/tile/tile.hpp"

using namespace tilesim;

namespace {

template <class T>
TileView view(std::vector<T>& data, DType dtype, std::vector<ViewDim> dims, std::int64_t offset = 0) {
  return {reinterpret_cast<std::byte*>(data.data() + offset), dtype, std::move(dims)};
}

std::vector<float> integers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return values;
}

VectorNode input(int index) {
  VectorNode node;
  node.op = VectorNode::Op::input;
  node.index = index;
  return node;
}

VectorNode function(tilesim::Function f, int a, int b = -1, int c = -1) {
  VectorNode node;
  node.op = VectorNode::Op::function;
  node.function = f;
  node.arguments = {a, b, c};
  return node;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(execute_tile)

BOOST_AUTO_TEST_CASE(mma_of_strided_operands) {
  // a is 3 x 4 within rows of 6, transposed b is 5 x 4 read as 4 x 5, c lies in rows of 7.
  std::vector<float> a = integers(18, 1), b = integers(20, 2), c(21, 100.0F), before = c;
  Mma op;
  op.a = view(a, DType::f32, {{3, 6}, {4, 1}});
  op.b = view(b, DType::f32, {{4, 1}, {5, 4}});
  op.c = view(c, DType::f32, {{3, 7}, {5, 1}});
  for (const bool accumulate : {false, true}) {
    op.accumulate = accumulate;
    execute(op);
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 7; ++j) {
        float wanted = 0;
        for (std::size_t k = 0; k < 4; ++k)
          if (j < 5) wanted += a[i * 6 + k] * b[j * 4 + k];
        wanted *= accumulate ? 2 : 1;
        BOOST_TEST(c[i * 7 + j] == (j < 5 ? wanted : before[i * 7 + j]));  // the gaps stay as they were
      }
  }
}

BOOST_AUTO_TEST_CASE(mma_with_batches_and_several_dims_of_a_group) {
  // c[g, m, n] = sum over (r, k) of a[g, m, r, k] b[g, r, k, n]: g is a batch, (r, k) the contraction.
  constexpr std::size_t g = 2, m = 3, r = 2, k = 4, n = 2;
  std::vector<float> a = integers(g * m * r * k, 3), b = integers(g * r * k * n, 4), c(g * m * n);
  Mma op;
  op.batch_dims = 1;
  op.k_dims = 2;
  op.a = view(a, DType::f32, {{g, m * r * k}, {m, r * k}, {r, k}, {k, 1}});
  op.b = view(b, DType::f32, {{g, r * k * n}, {r, k * n}, {k, n}, {n, 1}});
  op.c = view(c, DType::f32, {{g, m * n}, {m, n}, {n, 1}});
  execute(op);
  for (std::size_t x = 0; x < g; ++x)
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        float wanted = 0;
        for (std::size_t t = 0; t < r * k; ++t) wanted += a[(x * m + i) * r * k + t] * b[(x * r * k + t) * n + j];
        BOOST_TEST(c[(x * m + i) * n + j] == wanted);
      }
}

BOOST_AUTO_TEST_CASE(mma_rounds_operands_as_the_array_does) {
  std::vector<float> a{1.00390625F}, b{1.0F}, c{0};  // 1 + 2^-8: halfway between bf16 values 1 and 1 + 2^-7, even is 1
  Mma op;
  op.a = view(a, DType::f32, {{1, 1}, {1, 1}});
  op.b = view(b, DType::f32, {{1, 1}, {1, 1}});
  op.c = view(c, DType::f32, {{1, 1}, {1, 1}});
  execute(op);
  BOOST_TEST(c[0] == 1.00390625F);
  op.numerics.multiply = DType::bf16;
  execute(op);
  BOOST_TEST(c[0] == 1.0F);
}

BOOST_AUTO_TEST_CASE(integer_products_are_exact) {
  std::vector<std::int8_t> a(300, -128), b(300, -128);
  std::vector<std::int32_t> c{7};
  Mma op;
  op.a = view(a, DType::i8, {{1, 0}, {300, 1}});
  op.b = view(b, DType::i8, {{300, 1}, {1, 0}});
  op.c = view(c, DType::i32, {{1, 0}, {1, 0}});
  execute(op);
  BOOST_TEST(c[0] == 300 * 128 * 128);
  op.accumulate = true;
  execute(op);
  BOOST_TEST(c[0] == 2 * 300 * 128 * 128);
}

BOOST_AUTO_TEST_CASE(an_empty_contraction_gives_zero) {
  std::vector<float> a(1), b(1), c{5};
  Mma op;
  op.a = view(a, DType::f32, {{1, 1}, {0, 1}});
  op.b = view(b, DType::f32, {{0, 1}, {1, 1}});
  op.c = view(c, DType::f32, {{1, 1}, {1, 1}});
  execute(op);
  BOOST_TEST(c[0] == 0);
}

BOOST_AUTO_TEST_CASE(vector_broadcast_and_two_outputs) {
  // y = (x + bias) * 2 with bias over the columns; s = sum of y over the columns.
  std::vector<float> x{1, 2, 3, 4, 5, 6}, bias{10, 20, 30}, y(6), s{0, 0};
  VectorCompute op;
  op.extents = {2, 3};
  op.inputs = {view(x, DType::f32, {{2, 3}, {3, 1}}), view(bias, DType::f32, {{2, 0}, {3, 1}})};
  VectorNode two;
  two.op = VectorNode::Op::constant;
  two.number = 2;
  op.nodes = {input(0), input(1), function(tilesim::Function::add, 0, 1), two,
              function(tilesim::Function::multiply, 2, 3)};
  op.outputs.resize(2);
  op.outputs[0].node = 4;
  op.outputs[0].view = view(y, DType::f32, {{2, 3}, {3, 1}});
  op.outputs[1].node = 4;
  op.outputs[1].view = view(s, DType::f32, {{2, 1}, {3, 0}});
  op.outputs[1].reduce = {1};
  execute(op);
  BOOST_TEST(y == (std::vector<float>{22, 44, 66, 28, 50, 72}), boost::test_tools::per_element());
  BOOST_TEST(s == (std::vector<float>{132, 150}), boost::test_tools::per_element());
  op.outputs[1].accumulate = true;
  execute(op);
  BOOST_TEST(s == (std::vector<float>{264, 300}), boost::test_tools::per_element());
  op.outputs[1].combiner = Combiner::maximum;
  execute(op);
  BOOST_TEST(s == (std::vector<float>{264, 300}), boost::test_tools::per_element());
  op.outputs[1].accumulate = false;
  execute(op);
  BOOST_TEST(s == (std::vector<float>{66, 72}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(vector_inputs_are_read_before_outputs_are_written) {
  std::vector<float> x{1, 2, 3, 4};
  VectorCompute op;  // x[i] = x[3 - i], in place
  op.extents = {4};
  op.inputs = {view(x, DType::f32, {{4, -1}}, 3)};
  op.nodes = {input(0)};
  op.outputs.resize(1);
  op.outputs[0].view = view(x, DType::f32, {{4, 1}});
  execute(op);
  BOOST_TEST(x == (std::vector<float>{4, 3, 2, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(vector_iota_scan_convert_and_integers) {
  std::vector<std::int32_t> y(5), z(5);
  VectorCompute op;
  op.extents = {5};
  VectorNode iota;
  iota.op = VectorNode::Op::iota;
  iota.dtype = DType::i32;
  VectorNode scan;
  scan.op = VectorNode::Op::scan;
  scan.arguments = {0, -1, -1};
  VectorNode exclusive = scan;
  exclusive.exclusive = exclusive.reverse = true;
  op.nodes = {iota, scan, exclusive};
  op.outputs.resize(2);
  op.outputs[0].node = 1;
  op.outputs[0].view = view(y, DType::i32, {{5, 1}});
  op.outputs[1].node = 2;
  op.outputs[1].view = view(z, DType::i32, {{5, 1}});
  execute(op);
  BOOST_TEST(y == (std::vector<std::int32_t>{0, 1, 3, 6, 10}), boost::test_tools::per_element());
  BOOST_TEST(z == (std::vector<std::int32_t>{10, 9, 7, 4, 0}), boost::test_tools::per_element());

  std::vector<float> x{1.00390625F, 3.0F}, rounded(2);
  VectorCompute through;
  through.extents = {2};
  through.inputs = {view(x, DType::f32, {{2, 1}})};
  VectorNode convert;
  convert.op = VectorNode::Op::convert;
  convert.dtype = DType::bf16;
  convert.arguments = {0, -1, -1};
  through.nodes = {input(0), convert};
  through.outputs.resize(1);
  through.outputs[0].node = 1;
  through.outputs[0].view = view(rounded, DType::f32, {{2, 1}});
  execute(through);
  BOOST_TEST(rounded == (std::vector<float>{1, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(permute_transposes) {
  std::vector<float> x{1, 2, 3, 4, 5, 6}, y(6);
  Permute op;
  op.in = view(x, DType::f32, {{2, 3}, {3, 1}});
  op.out = view(y, DType::f32, {{2, 1}, {3, 2}});
  execute(op);
  BOOST_TEST(y == (std::vector<float>{1, 4, 2, 5, 3, 6}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(indexed_gathers_and_scatters) {
  std::vector<float> table{1, 2, 3, 4, 5, 6}, rows(4);
  std::vector<std::int32_t> index{2, 0};
  Indexed gather;
  gather.in = view(table, DType::f32, {{3, 2}, {2, 1}});
  gather.index = view(index, DType::i32, {{2, 1}});
  gather.out = view(rows, DType::f32, {{2, 2}, {2, 1}});
  execute(gather);
  BOOST_TEST(rows == (std::vector<float>{5, 6, 1, 2}), boost::test_tools::per_element());
  std::vector<float> sums{10, 10, 10, 10, 10, 10};
  index = {1, 1};
  Indexed scatter;
  scatter.in = gather.out;
  scatter.index = gather.index;
  scatter.out = view(sums, DType::f32, {{3, 2}, {2, 1}});
  scatter.scatter = true;
  scatter.combiner = Combiner::add;
  execute(scatter);
  BOOST_TEST(sums == (std::vector<float>{10, 10, 16, 18, 10, 10}), boost::test_tools::per_element());
  scatter.combiner.reset();  // the last one stays
  execute(scatter);
  BOOST_TEST(sums == (std::vector<float>{10, 10, 1, 2, 10, 10}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(sort_is_stable_and_cuts_at_k) {
  std::vector<float> x{3, 1, 3, 2, 0, 0, 5, 0}, keys(4);
  std::vector<std::int32_t> positions(4);
  Sort op;
  op.in = view(x, DType::f32, {{2, 4}, {4, 1}});
  op.keys = view(keys, DType::f32, {{2, 2}, {2, 1}});
  op.positions = view(positions, DType::i32, {{2, 2}, {2, 1}});
  op.descending = true;
  execute(op);
  BOOST_TEST(keys == (std::vector<float>{3, 3, 5, 0}), boost::test_tools::per_element());
  BOOST_TEST(positions == (std::vector<std::int32_t>{0, 2, 2, 0}), boost::test_tools::per_element());
  op.descending = false;
  execute(op);
  BOOST_TEST(keys == (std::vector<float>{1, 2, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(positions == (std::vector<std::int32_t>{1, 3, 0, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_compute_has_a_name) {
  for (const ComputeKind kind : {ComputeKind::mma, ComputeKind::vector, ComputeKind::permute, ComputeKind::indexed,
                                 ComputeKind::sort, ComputeKind::opaque})
    BOOST_TEST(!name(kind).empty());
}

BOOST_AUTO_TEST_SUITE_END()
