// Every kind: result types by hand, what it refuses, and that costs and domains are consistent with the types.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/builder.hpp"

using namespace tilesim;
using Integers = std::vector<std::int64_t>;

namespace {

using NamedAttributes = std::vector<std::pair<std::string, Attribute>>;

Attribute text(const char* value) { return std::string(value); }
Attribute number(std::int64_t value) { return value; }

struct Case {
  Kind kind;
  std::vector<TensorType> operands;  ///< dtype c64 and no axes: absent
  NamedAttributes attributes;
  std::vector<std::string> results;
};

TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }
TensorType i32(Shape shape) { return {DType::i32, std::move(shape)}; }
const TensorType absent{DType::c64, {}};

/// The graph of one operation, kept alive by the caller.
std::vector<ValueId> add(Builder& builder, const Case& entry) {
  Attributes attributes;
  for (const auto& [name, value] : entry.attributes) attributes.set(name, value);
  std::vector<ValueId> operands;
  for (const TensorType& type : entry.operands)
    operands.push_back(type == absent ? no_value : builder.input("x" + std::to_string(operands.size()), type));
  const int results = std::max<int>(1, static_cast<int>(entry.results.size()));
  return builder.op(entry.kind, operands, attributes, "op", results);
}

NamedAttributes labels(const char* x, const char* w, const char* y, NamedAttributes more = {}) {
  more.insert(more.end(), {{"x_labels", text(x)}, {"w_labels", text(w)}, {"y_labels", text(y)}});
  return more;
}
NamedAttributes nchw(NamedAttributes more = {}) { return labels("NCHW", "OIHW", "NCHW", std::move(more)); }

const NamedAttributes matrix{{"a_contract", Integers{1}}, {"b_contract", Integers{0}}};

/// For one group of four devices.
NamedAttributes four(NamedAttributes more) {
  more.insert(more.end(), {{"groups", Integers{0, 1, 2, 3}}, {"group_size", number(4)}});
  return more;
}

std::vector<Case> legal() {
  using enum Kind;
  const TensorType x = f32({2, 3, 4}), image = f32({2, 6, 9, 8});
  const TensorType boolean{DType::boolean, {2, 3, 4}}, bytes{DType::i8, {3, 4}};
  return {
      {contract, {f32({2, 3}), f32({3, 5})}, matrix, {"f32[2, 5]"}},
      {contract, {f32({2, 3}), f32({3, 5}), f32({5})}, matrix, {"f32[2, 5]"}},
      {contract, {bytes, {DType::i8, {4, 2}}}, matrix, {"i32[3, 2]"}},
      {contract,
       {f32({7, 2, 3}), f32({3, 7})},
       {{"a_batch", Integers{0}}, {"b_batch", Integers{1}}},
       {"f32[7, 2, 3, 3]"}},
      {convolution, {image, f32({4, 6, 3, 2})}, nchw(), {"f32[2, 4, 7, 7]"}},
      {convolution,
       {image, f32({4, 3, 3, 2}), f32({4})},
       nchw({{"groups", number(2)}, {"strides", Integers{2, 3}}}),
       {"f32[2, 4, 4, 3]"}},
      {convolution, {image, f32({4, 6, 1, 1})}, nchw({{"input_dilation", Integers{2, 3}}}), {"f32[2, 4, 17, 22]"}},
      {convolution,
       {image, f32({4, 6, 3, 3})},
       nchw({{"pads", Integers{1, 0, -1, 2}}, {"window_dilation", Integers{2, 1}}}),
       {"f32[2, 4, 6, 7]"}},
      {convolution,
       {image, f32({4, 6, 2, 2})},
       nchw({{"batch_groups", number(2)}, {"dtype", DType::f64}}),
       {"f64[1, 4, 8, 7]"}},
      {convolution, {f32({5, 3}), f32({3, 4})}, labels("NC", "IO", "CN"), {"f32[4, 5]"}},
      {elementwise, {x, f32({4})}, {{"function", text("add")}}, {"f32[2, 3, 4]"}},
      {elementwise, {boolean, x, f32({})}, {{"function", text("select")}}, {"f32[2, 3, 4]"}},
      {elementwise, {x, x}, {{"function", text("less")}}, {"bool[2, 3, 4]"}},
      {convert, {x}, {{"dtype", DType::i8}, {"overflow", text("saturate")}}, {"i8[2, 3, 4]"}},
      {bitcast, {x}, {{"dtype", DType::u32}}, {"u32[2, 3, 4]"}},
      {reduce, {x}, {{"dims", Integers{1}}, {"combiner", text("mean")}}, {"f32[2, 4]"}},
      {reduce, {x}, {{"dims", Integers{0, 2}}, {"combiner", text("argmax")}, {"keep_dims", true}}, {"i64[1, 3, 1]"}},
      {reduce, {boolean}, {{"dims", Integers{}}, {"combiner", text("logical_or")}}, {"bool[2, 3, 4]"}},
      {cumulative, {x}, {{"dim", number(2)}, {"combiner", text("add")}, {"reverse", true}}, {"f32[2, 3, 4]"}},
      {window_reduce,
       {x},
       {{"window", Integers{1, 2, 2}}, {"strides", Integers{1, 1, 2}}, {"combiner", text("maximum")}},
       {"f32[2, 2, 2]"}},
      {gather,
       {f32({9, 5}), i32({4, 1})},
       {{"offset_dims", Integers{1}},
        {"collapsed_slice_dims", Integers{0}},
        {"start_index_map", Integers{0}},
        {"index_vector_dim", number(1)},
        {"slice_sizes", Integers{1, 3}}},
       {"f32[4, 3]"}},
      {embedding, {f32({9, 5}), i32({4, 2})}, {{"padding_index", number(0)}}, {"f32[4, 2, 5]"}},
      {dynamic_slice, {x, i32({}), i32({}), i32({})}, {{"sizes", Integers{1, 2, 4}}}, {"f32[1, 2, 4]"}},
      {dynamic_update, {x, f32({1, 3, 2}), i32({}), i32({}), i32({})}, {}, {"f32[2, 3, 4]"}},
      {reshape, {x}, {{"shape", Integers{4, 6}}}, {"f32[4, 6]"}},
      {transpose, {x}, {{"permutation", Integers{2, 0, 1}}}, {"f32[4, 2, 3]"}},
      {broadcast, {f32({3, 1})}, {{"shape", Integers{3, 2, 5}}, {"dims", Integers{0, 2}}}, {"f32[3, 2, 5]"}},
      {slice,
       {x},
       {{"start", Integers{0, 1, 0}}, {"limit", Integers{2, 1, 4}}, {"stride", Integers{1, 1, 3}}},
       {"f32[2, 0, 2]"}},
      {reverse, {x}, {{"dims", Integers{1}}}, {"f32[2, 3, 4]"}},
      {pad,
       {x, f32({})},
       {{"low", Integers{1, 0, -1}}, {"high", Integers{0, 2, -1}}, {"interior", Integers{0, 1, 0}}},
       {"f32[3, 7, 2]"}},
      {pad,
       {x},
       {{"low", Integers{1, 0, 5}}, {"high", Integers{0, 2, 0}}, {"mode", text("reflect")}},
       {"f32[3, 5, 9]"}},
      {concat, {x, f32({2, 1, 4}), f32({2, 0, 4})}, {{"dim", number(1)}}, {"f32[2, 4, 4]"}},
      {copy, {x}, {}, {"f32[2, 3, 4]"}},
      {iota, {}, {{"shape", Integers{3, 5}}, {"dtype", DType::i64}, {"dim", number(1)}}, {"i64[3, 5]"}},
      {softmax, {x}, {{"dim", number(0)}}, {"f32[2, 3, 4]"}},
      {log_softmax, {x}, {{"dim", number(2)}}, {"f32[2, 3, 4]"}},
      {normalize,
       {x, f32({3, 4}), f32({3, 4})},
       {{"mode", text("layer")}, {"dims", Integers{1, 2}}, {"epsilon", 1e-5}},
       {"f32[2, 3, 4]", "f32[2, 1, 1]", "f32[2, 1, 1]"}},
      {normalize,
       {x, absent, f32({4})},
       {{"mode", text("rms")}, {"dims", Integers{2}}, {"epsilon", number(0)}},
       {"f32[2, 3, 4]"}},
      {normalize,
       {image, f32({6})},
       {{"mode", text("group")}, {"groups", number(3)}, {"epsilon", 1e-5}},
       {"f32[2, 6, 9, 8]", "f32[2, 3]"}},
      {normalize, {image}, {{"mode", text("instance")}, {"epsilon", 1e-5}}, {"f32[2, 6, 9, 8]"}},
      {batch_norm,
       {image, f32({6}), f32({6}), f32({6}), f32({6})},
       {{"feature_dim", number(1)}, {"epsilon", 1e-5}},
       {"f32[2, 6, 9, 8]"}},
      {attention,
       {f32({2, 4, 5, 8}), f32({2, 2, 7, 8}), f32({2, 2, 7, 3})},
       {{"causal", true}, {"window", number(2)}},
       {"f32[2, 4, 5, 3]"}},
      {attention,
       {f32({2, 4, 5, 8}), f32({2, 4, 7, 8}), f32({2, 4, 7, 3}), {DType::boolean, {5, 7}}},
       {{"soft_cap", 3.0}},
       {"f32[2, 4, 5, 3]"}},
      {rotary, {f32({2, 4, 5, 8}), f32({5, 8}), f32({5, 8})}, {{"style", text("pairs")}}, {"f32[2, 4, 5, 8]"}},
      {ragged_contract, {f32({6, 4}), f32({3, 4, 5}), i32({3})}, {}, {"f32[6, 5]"}},
      {scatter,
       {f32({6, 4, 5}), i32({7, 2}), f32({7, 2, 3})},
       {{"update_window_dims", Integers{1, 2}},
        {"inserted_window_dims", Integers{1}},
        {"scatter_dims_to_operand_dims", Integers{0, 2}},
        {"index_vector_dim", number(1)},
        {"combiner", text("add")}},
       {"f32[6, 4, 5]"}},
      {window_scatter,
       {f32({7, 6}), f32({4, 3})},
       {{"window", Integers{3, 2}},
        {"strides", Integers{2, 2}},
        {"pads", Integers{1, 1, 0, 0}},
        {"select", text("maximum")}},
       {"f32[7, 6]"}},
      {sort, {x, i32({2, 3, 4})}, {{"dim", number(1)}}, {"f32[2, 3, 4]", "i32[2, 3, 4]"}},
      {top_k, {x}, {{"dim", number(2)}, {"k", number(3)}, {"dtype", DType::i32}}, {"f32[2, 3, 3]", "i32[2, 3, 3]"}},
      {linear_solve, {f32({2, 4, 4})}, {{"mode", text("cholesky")}}, {"f32[2, 4, 4]"}},
      {linear_solve, {f32({4, 4}), f32({4, 2})}, {{"mode", text("triangular")}}, {"f32[4, 2]"}},
      {fft, {x}, {{"dim", number(1)}}, {"f32[2, 3, 4]", "f32[2, 3, 4]"}},
      {all_reduce, {x}, four({{"combiner", text("add")}}), {"f32[2, 3, 4]"}},
      {all_gather, {x}, four({{"dim", number(1)}}), {"f32[2, 12, 4]"}},
      {reduce_scatter, {x}, four({{"dim", number(2)}, {"combiner", text("maximum")}}), {"f32[2, 3, 1]"}},
      {all_to_all, {x}, four({{"split_dim", number(2)}, {"concat_dim", number(0)}}), {"f32[8, 3, 1]"}},
      {permute_devices, {x}, {{"pairs", Integers{0, 1, 1, 0}}}, {"f32[2, 3, 4]"}},
      {broadcast_devices, {x}, four({}), {"f32[2, 3, 4]"}},
      {device_index, {}, {{"axis", text("replica")}}, {"u32[]"}},
  };
}

std::vector<Case> illegal() {
  using enum Kind;
  const TensorType x = f32({2, 3, 4}), image = f32({2, 6, 9, 8}), ints = i32({2, 3});
  const NamedAttributes layer{{"mode", text("layer")}, {"dims", Integers{2}}, {"epsilon", 1e-5}};
  return {
      {contract, {f32({2, 3}), f32({4, 5})}, matrix, {}},
      {contract, {f32({2, 3}), i32({3, 5})}, matrix, {}},
      {contract, {f32({2, 3}), {DType::bf16, {3, 5}}}, matrix, {}},
      {contract, {f32({2, 3}), f32({3, 5}), f32({4})}, matrix, {}},
      {contract, {f32({2, 3}), f32({3, 5})}, {{"a_contract", Integers{1}}}, {}},
      {contract, {f32({2, 3}), f32({3, 5})}, {{"a_contract", Integers{2}}, {"b_contract", Integers{0}}}, {}},
      {contract,
       {f32({2, 2}), f32({2, 2})},
       {{"a_batch", Integers{0}}, {"b_batch", Integers{0}}, {"a_contract", Integers{0}}, {"b_contract", Integers{1}}},
       {}},
      {contract,
       {f32({2, 3}), f32({3, 5})},
       {{"a_contract", Integers{1}}, {"b_contract", Integers{0}}, {"dtype", DType::i32}},
       {}},
      {convolution, {image, f32({4, 5, 3, 2})}, nchw(), {}},
      {convolution, {image, f32({5, 3, 3, 2})}, nchw({{"groups", number(2)}}), {}},
      {convolution, {image, f32({4, 6, 10, 2})}, nchw(), {}},
      {convolution, {image, f32({4, 6, 3, 2})}, nchw({{"groups", number(0)}}), {}},
      {convolution, {image, f32({4, 3, 3, 2})}, nchw({{"groups", number(2)}, {"batch_groups", number(2)}}), {}},
      {convolution, {image, f32({4, 6, 3, 2})}, nchw({{"batch_groups", number(3)}}), {}},
      {convolution, {image, f32({4, 6, 3, 2})}, nchw({{"strides", Integers{0, 1}}}), {}},
      {convolution, {image, f32({4, 6, 3, 2})}, nchw({{"pads", Integers{1, 1}}}), {}},
      {convolution, {image, f32({4, 6, 3, 2})}, labels("NCHW", "OIHD", "NCHW"), {}},
      {convolution, {image, f32({4, 6, 3, 2})}, labels("NCHH", "OIHW", "NCHW"), {}},
      {convolution, {image, f32({4, 6, 3, 2}), f32({5})}, nchw(), {}},
      {elementwise, {x}, {{"function", text("add")}}, {}},
      {elementwise, {ints, x, x}, {{"function", text("select")}}, {}},
      {elementwise, {x, f32({5})}, {{"function", text("add")}}, {}},
      {bitcast, {x}, {{"dtype", DType::f16}}, {}},
      {window_reduce,
       {f32({1L << 61})},
       {{"window", Integers{1L << 40}}, {"window_dilation", Integers{1L << 40}}, {"combiner", text("add")}},
       {}},
      {pad, {f32({1L << 61})}, {{"low", Integers{0}}, {"high", Integers{0}}, {"interior", Integers{1L << 40}}}, {}},
      {slice,
       {x},
       {{"start", Integers{0, 0, 0}}, {"limit", Integers{2, 1, 4}}, {"stride", Integers{1, INT64_MAX, 1}}},
       {}},
      {reduce, {x}, {{"dims", Integers{1}}, {"combiner", text("logical_and")}}, {}},
      {reduce, {{DType::boolean, {2}}}, {{"dims", Integers{0}}, {"combiner", text("add")}}, {}},
      {reduce, {f32({2, 0})}, {{"dims", Integers{1}}, {"combiner", text("argmin")}}, {}},
      {reduce, {x}, {{"dims", Integers{1}}, {"combiner", text("argmin")}, {"dtype", DType::f32}}, {}},
      {cumulative, {x}, {{"dim", number(3)}, {"combiner", text("add")}}, {}},
      {window_reduce, {x}, {{"window", Integers{1, 4, 1}}, {"combiner", text("add")}}, {}},
      {window_reduce, {x}, {{"window", Integers{1, 0, 1}}, {"combiner", text("add")}}, {}},
      {window_reduce, {x}, {{"window", Integers{1, 1}}, {"combiner", text("add")}}, {}},
      {gather,
       {f32({9, 5}), i32({4, 2})},
       {{"offset_dims", Integers{1}},
        {"collapsed_slice_dims", Integers{0}},
        {"start_index_map", Integers{0}},
        {"index_vector_dim", number(1)},
        {"slice_sizes", Integers{1, 3}}},
       {}},
      {gather,
       {f32({9, 5}), i32({4, 1})},
       {{"offset_dims", Integers{1}},
        {"collapsed_slice_dims", Integers{0}},
        {"start_index_map", Integers{0}},
        {"index_vector_dim", number(1)},
        {"slice_sizes", Integers{2, 3}}},
       {}},
      {gather,
       {f32({9, 5}), i32({4, 1})},
       {{"offset_dims", Integers{}},
        {"collapsed_slice_dims", Integers{0}},
        {"start_index_map", Integers{0}},
        {"index_vector_dim", number(1)},
        {"slice_sizes", Integers{1, 3}}},
       {}},
      {embedding, {f32({9, 5}), f32({4})}, {}, {}},
      {embedding, {f32({9, 5}), i32({4})}, {{"padding_index", number(9)}}, {}},
      {dynamic_slice, {x, i32({}), i32({})}, {{"sizes", Integers{1, 2, 4}}}, {}},
      {dynamic_slice, {x, i32({}), i32({}), f32({})}, {{"sizes", Integers{1, 2, 4}}}, {}},
      {dynamic_slice, {x, i32({}), i32({}), i32({})}, {{"sizes", Integers{1, 2, 5}}}, {}},
      {dynamic_update, {x, f32({1, 3, 5}), i32({}), i32({}), i32({})}, {}, {}},
      {dynamic_update, {x, i32({1, 3, 2}), i32({}), i32({}), i32({})}, {}, {}},
      {reshape, {x}, {{"shape", Integers{5, 5}}}, {}},
      {reshape, {x}, {{"shape", Integers{-4, -6}}}, {}},
      {transpose, {x}, {{"permutation", Integers{0, 1}}}, {}},
      {broadcast, {f32({3, 2})}, {{"shape", Integers{3, 2, 5}}, {"dims", Integers{0, 2}}}, {}},
      {slice, {x}, {{"start", Integers{0, 2, 0}}, {"limit", Integers{2, 1, 4}}}, {}},
      {slice, {x}, {{"start", Integers{0, 0, 0}}, {"limit", Integers{2, 1, 4}}, {"stride", Integers{1, 0, 1}}}, {}},
      {pad, {x, f32({1})}, {{"low", Integers{1, 0, 0}}, {"high", Integers{0, 2, 0}}}, {}},
      {pad, {x}, {{"low", Integers{-3, 0, 0}}, {"high", Integers{0, 2, 0}}}, {}},
      {pad,
       {x},
       {{"low", Integers{1, 0, 0}},
        {"high", Integers{0, 2, 0}},
        {"mode", text("edge")},
        {"interior", Integers{1, 0, 0}}},
       {}},
      {pad, {f32({0})}, {{"low", Integers{1}}, {"high", Integers{0}}, {"mode", text("edge")}}, {}},
      {concat, {x, i32({2, 1, 4})}, {{"dim", number(1)}}, {}},
      {concat, {x, f32({2, 1, 5})}, {{"dim", number(1)}}, {}},
      {concat, {x, f32({2, 4})}, {{"dim", number(1)}}, {}},
      {iota, {}, {{"shape", Integers{}}, {"dtype", DType::i64}, {"dim", number(0)}}, {}},
      {constant, {}, {{"reference", text("nothing")}}, {}},
      {softmax, {ints}, {{"dim", number(0)}}, {}},
      {normalize, {x, f32({3})}, layer, {}},
      {normalize, {x}, {{"mode", text("layer")}, {"epsilon", 1e-5}}, {}},
      {normalize, {x}, {{"mode", text("layer")}, {"dims", Integers{2, 1}}, {"epsilon", 1e-5}}, {}},
      {normalize, {x}, {{"mode", text("layer")}, {"dims", Integers{2}}, {"epsilon", -1.0}}, {}},
      {normalize, {image}, {{"mode", text("group")}, {"groups", number(4)}, {"epsilon", 1e-5}}, {}},
      {normalize, {f32({3})}, {{"mode", text("instance")}, {"epsilon", 1e-5}}, {}},
      {batch_norm,
       {image, f32({6}), f32({6}), f32({8}), f32({6})},
       {{"feature_dim", number(1)}, {"epsilon", 1e-5}},
       {}},
      {rotary, {f32({2, 5, 7}), f32({5, 7}), f32({5, 7})}, {}, {}},
      {rotary, {f32({2, 5, 8}), f32({4, 8}), f32({5, 8})}, {}, {}},
      {attention, {f32({2, 4, 5, 8}), f32({2, 3, 7, 8}), f32({2, 3, 7, 3})}, {}, {}},
      {attention, {f32({2, 4, 5, 8}), f32({2, 2, 7, 9}), f32({2, 2, 7, 3})}, {}, {}},
      {attention, {f32({2, 4, 5, 8}), f32({2, 2, 7, 8}), f32({2, 2, 6, 3})}, {}, {}},
      {attention, {f32({2, 4, 5, 8}), f32({2, 2, 7, 8}), f32({2, 2, 7, 3}), i32({5, 7})}, {}, {}},
      {attention, {f32({2, 4, 5, 8}), f32({2, 2, 7, 8}), f32({2, 2, 7, 3}), f32({5, 6})}, {}, {}},
      {attention, {f32({2, 4, 5, 8}), f32({2, 2, 7, 8}), f32({2, 2, 7, 3})}, {{"window", number(-1)}}, {}},
      {sort, {x, f32({2, 3})}, {{"dim", number(0)}}, {}},
      {sort, {x}, {{"dim", number(0)}, {"keys", number(2)}}, {}},
      {top_k, {x}, {{"dim", number(0)}, {"k", number(3)}}, {}},
      {linear_solve, {f32({4, 3})}, {{"mode", text("cholesky")}}, {}},
      {linear_solve, {f32({4, 4})}, {{"mode", text("triangular")}}, {}},
      {fft, {ints}, {{"dim", number(0)}}, {}},
      {all_gather, {x}, {{"dim", number(0)}, {"groups", Integers{0, 0}}, {"group_size", number(2)}}, {}},
      {reduce_scatter, {x}, four({{"dim", number(1)}, {"combiner", text("add")}}), {}},
      {permute_devices, {x}, {{"pairs", Integers{0}}}, {}},
  };
}

/// Terms name dims that exist; an access that may not leave stays inside.
void check_access(const Access& access, const Domain& domain, const TensorType& type) {
  if (!access.affine) {
    BOOST_TEST(access.axes.empty());
    return;
  }
  BOOST_TEST(access.axes.size() == type.shape.size());
  for (std::size_t i = 0; i < access.axes.size(); ++i) {
    std::int64_t low = access.axes[i].constant, high = low;
    bool empty = type.shape[i] == 0;
    for (const AxisAccess::Term& term : access.axes[i].terms) {
      BOOST_TEST_REQUIRE((term.dim >= 0 && static_cast<std::size_t>(term.dim) < domain.extents.size()));
      const std::int64_t reach = term.coefficient * (domain.extents[static_cast<std::size_t>(term.dim)] - 1);
      empty |= domain.extents[static_cast<std::size_t>(term.dim)] == 0;
      (reach < 0 ? low : high) += reach;
    }
    if (empty || access.axes[i].may_leave) continue;
    BOOST_TEST((low >= 0 && high <= (type.shape[i] - 1) * access.axes[i].divisor));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kinds)

BOOST_AUTO_TEST_CASE(the_table_is_in_order_and_names_read_back) {
  for (int i = 0; i < kind_count; ++i) {
    const Kind kind = static_cast<Kind>(i);
    BOOST_TEST((info(kind).kind == kind));
    BOOST_TEST((parse_kind(info(kind).name) == kind));
    BOOST_TEST((info(kind).infer && info(kind).flops && info(kind).domain));
  }
  BOOST_TEST(kind_names().size() == static_cast<std::size_t>(kind_count));
  BOOST_CHECK_EXCEPTION(parse_kind("atention"), UserError,
                        [](const UserError& e) { return e.parts().suggestion == "attention"; });
}

BOOST_AUTO_TEST_CASE(result_types_costs_and_domains) {
  std::set<Kind> seen{Kind::constant, Kind::call, Kind::fused};  // in test_json.cpp and test_passes.cpp
  seen.insert({Kind::while_loop, Kind::branch});                 // with their functions, in the tests of kernels
  for (const Case& entry : legal()) {
    BOOST_TEST_CONTEXT(info(entry.kind).name << " -> " << entry.results[0]) {
      seen.insert(entry.kind);
      Graph graph;
      Builder builder(graph, "main");
      const std::vector<ValueId> results = add(builder, entry);
      BOOST_TEST_REQUIRE(results.size() == entry.results.size());
      for (std::size_t i = 0; i < results.size(); ++i) {
        BOOST_TEST(to_string(builder.type(results[i])) == entry.results[i]);
        builder.output(results[i]);
      }
      builder.finish();
      const GraphFunction& function = graph.entry();
      const Op& op = function.ops.back();
      BOOST_TEST(flops(graph, function, op).total() >= 0);
      BOOST_TEST(compulsory_bytes(graph, function, op) >= 0);
      const Domain nest = domain(function, op);
      BOOST_TEST((nest.names.size() == nest.extents.size() && nest.reduction.size() == nest.extents.size()));
      BOOST_TEST_REQUIRE((nest.operands.size() == op.operands.size() && nest.results.size() == op.results.size()));
      for (std::size_t i = 0; i < op.operands.size(); ++i)
        if (op.operands[i] != no_value) check_access(nest.operands[i], nest, function.value(op.operands[i]).type);
      for (std::size_t i = 0; i < op.results.size(); ++i)
        check_access(nest.results[i], nest, function.value(op.results[i]).type);
      BOOST_TEST((Graph::from_json(graph.to_json()).to_json() == graph.to_json()));
    }
  }
  BOOST_TEST(seen.size() == static_cast<std::size_t>(kind_count));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_with_the_name_of_the_operation) {
  for (const Case& entry : illegal()) {
    std::string described(info(entry.kind).name);
    for (const TensorType& type : entry.operands) described += " " + to_string(type);
    BOOST_TEST_CONTEXT(described) {
      Graph graph;
      Builder builder(graph, "main");
      BOOST_CHECK_EXCEPTION(add(builder, entry), UserError, [](const UserError& e) {
        return e.parts().place.find("operation \"op\"") != std::string::npos;
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(flops_by_class) {
  const auto count = [](Kind kind, std::vector<TensorType> operands, NamedAttributes attributes) {
    Graph graph;
    Builder builder(graph, "main");
    add(builder, {kind, std::move(operands), std::move(attributes), {}});
    return flops(graph, graph.functions[0], graph.functions[0].ops.back());
  };
  const TensorType x = f32({2, 3, 4});
  BOOST_TEST(count(Kind::contract, {f32({2, 3}), f32({3, 5}), f32({5})}, matrix).matrix == 60);
  BOOST_TEST(count(Kind::contract, {f32({2, 3}), f32({3, 5}), f32({5})}, matrix).simple == 10);
  BOOST_TEST(count(Kind::elementwise, {x}, {{"function", text("exp")}}).transcendental == 24);
  BOOST_TEST(count(Kind::elementwise, {x, x}, {{"function", text("divide")}}).divide == 24);
  BOOST_TEST(count(Kind::elementwise, {x}, {{"function", text("identity")}}).total() == 0);
  BOOST_TEST(count(Kind::convert, {x}, {{"dtype", DType::bf16}}).simple == 24);
  BOOST_TEST(count(Kind::reduce, {x}, {{"dims", Integers{2}}, {"combiner", text("mean")}}).simple == 24);
  BOOST_TEST(count(Kind::reduce, {x}, {{"dims", Integers{2}}, {"combiner", text("mean")}}).multiply == 6);
  BOOST_TEST(count(Kind::window_reduce, {x}, {{"window", Integers{1, 2, 2}}, {"combiner", text("add")}}).simple ==
             2 * 2 * 3 * 4);
  BOOST_TEST(count(Kind::transpose, {x}, {{"permutation", Integers{2, 1, 0}}}).total() == 0);
  // batch_norm: subtract, multiply, add per element; add and two multiplies beside rsqrt per channel
  const Flops norm = count(Kind::batch_norm, {x, f32({3}), f32({3}), f32({3}), f32({3})},
                           {{"feature_dim", number(1)}, {"epsilon", 1e-5}});
  BOOST_TEST((norm.simple == 51 && norm.multiply == 27 && norm.divide == 3));
}

BOOST_AUTO_TEST_SUITE_END()
