#include <array>
#include <boost/test/unit_test.hpp>
#include <random>

#include "tilesim/base/error.hpp"
#include "tilesim/base/expr/expr.hpp"

using namespace tilesim;

namespace {

const std::array<std::string, 3> names{"i", "j", "n"};
using Values = std::array<std::int64_t, 3>;

int slot(const std::string& name) {
  return static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin());
}

/// Random expressions together with their value, computed beside them.
struct Sample {
  Expr expr;
  std::int64_t value;
};

class Generator {
 public:
  explicit Generator(const Values& values, unsigned seed) : values_(values), random_(seed) {}

  Sample make(int depth) {
    if (depth == 0 || pick(5) == 0) return leaf();
    const Sample a = make(depth - 1);
    const std::int64_t c = 1 + pick(9);
    switch (pick(13)) {
      case 0:
        return {a.expr * Expr(c - 5), a.value * (c - 5)};
      case 1:
        return {floor_div(a.expr, c), floor(a.value, c)};
      case 2:
        return {modulo(a.expr, c), a.value - floor(a.value, c) * c};
      case 3:
        return {ceil_div(a.expr, c), -floor(-a.value, c)};
      case 4:
        return {logical_not(a.expr), a.value == 0};
      default:
        break;
    }
    const Sample b = make(depth - 1);
    switch (pick(9)) {
      case 0:
        return {a.expr + b.expr, a.value + b.value};
      case 1:
        return {a.expr - b.expr, a.value - b.value};
      case 2:
        return {min(a.expr, b.expr), std::min(a.value, b.value)};
      case 3:
        return {max(a.expr, b.expr), std::max(a.value, b.value)};
      case 4:
        return {equal(a.expr, b.expr), a.value == b.value};
      case 5:
        return {less(a.expr, b.expr), a.value < b.value};
      case 6:
        return {less_equal(a.expr, b.expr), a.value <= b.value};
      case 7:
        return {logical_and(a.expr, b.expr), a.value != 0 && b.value != 0};
      default:
        return {logical_or(a.expr, b.expr), a.value != 0 || b.value != 0};
    }
  }

 private:
  static std::int64_t floor(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
  std::int64_t pick(int bound) { return static_cast<std::int64_t>(random_() % static_cast<unsigned>(bound)); }

  Sample leaf() {
    const std::int64_t c = pick(41) - 20;
    if (pick(3) == 0) return {Expr(c), c};
    const auto which = static_cast<std::size_t>(pick(3));
    return {Expr::symbol(names[which]), values_[which]};
  }

  Values values_;
  std::mt19937 random_;
};

struct Table final : CompiledExpr::TensorReader {
  std::int64_t read(int tensor, const std::int64_t* index, int rank) const override {
    BOOST_TEST(tensor == 7);
    ++reads;
    return rank == 0 ? 5 : 100 * index[0] + (rank > 1 ? index[1] : 0);
  }
  mutable int reads = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(expr)

BOOST_AUTO_TEST_CASE(all_forms_have_the_same_value) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const Values values{static_cast<std::int64_t>(seed % 23) - 11, static_cast<std::int64_t>(seed % 17) - 8,
                        static_cast<std::int64_t>(seed % 130)};
    const Sample sample = Generator(values, seed).make(5);
    const auto lookup = [&](const std::string& name) { return values[static_cast<std::size_t>(slot(name))]; };
    BOOST_REQUIRE_EQUAL(sample.expr.evaluate(lookup), sample.value);
    BOOST_REQUIRE_EQUAL(CompiledExpr(sample.expr, slot)(values.data()), sample.value);
    const Expr again = Expr::parse(sample.expr.text());
    BOOST_REQUIRE_MESSAGE(again == sample.expr, sample.expr.text() + " reads back as " + again.text());
    std::map<std::string, Expr> constants;
    std::map<std::string, Expr::Range> points, around;
    for (std::size_t i = 0; i < names.size(); ++i) {
      constants.emplace(names[i], Expr(values[i]));
      points[names[i]] = {values[i], values[i]};
      around[names[i]] = {values[i] - 4, values[i] + 2};
    }
    const Expr folded = sample.expr.substitute(constants);
    BOOST_REQUIRE(folded.is_constant());
    BOOST_REQUIRE_EQUAL(folded.value(), sample.value);
    for (const auto& ranges : {points, around, {}}) {
      const Expr::Range range = sample.expr.range(ranges);
      BOOST_REQUIRE(range.low <= sample.value && sample.value <= range.high);
    }
  }
}

BOOST_AUTO_TEST_CASE(sums_have_a_normal_form) {
  const Expr i = Expr::symbol("i"), j = Expr::symbol("j");
  BOOST_TEST((i + j == j + i));
  BOOST_TEST((i * 2 + j - i == i + j));
  BOOST_TEST((Expr(4) * (i + 3) - Expr(12) == i * 4));
  BOOST_TEST((i - i == Expr(0)));
  BOOST_TEST((floor_div(i * 128 + 127, 128) == i));
  BOOST_TEST((modulo(i * 128 + j, 128) == modulo(j, 128)));
  BOOST_TEST(!(i == j));
  BOOST_CHECK_THROW(i * j, UserError);
  BOOST_CHECK_THROW(floor_div(i, 0), UserError);
  BOOST_CHECK_THROW(modulo(i, -1), UserError);
  BOOST_CHECK_THROW(Expr::symbol("a b"), UserError);
  BOOST_CHECK_THROW(Expr::symbol("not"), UserError);
}

BOOST_AUTO_TEST_CASE(ragged_extents_compile_to_a_bounded_sum) {
  const Expr n = Expr::symbol("n"), i = Expr::symbol("i");
  for (const Expr& extent : {min(Expr(128), n - i * 128), min(n - i * 128, Expr(128)),
                             max(Expr(0), min(Expr(128), n - i * 128)), min(max(n - i * 128, 0), Expr(128))}) {
    const CompiledExpr compiled(extent, slot);
    for (const std::int64_t trip : {0, 1, 2}) {
      const Values values{trip, 0, 300};
      BOOST_TEST(compiled(values.data()) == (trip < 2 ? 128 : 44));
    }
  }
  const Values none{3, 0, 300};
  BOOST_TEST(CompiledExpr(max(Expr(0), n - i * 128), slot)(none.data()) == 0);
  BOOST_TEST(CompiledExpr(max(Expr(7), min(n, Expr(5))), slot)(none.data()) == 7);
  BOOST_TEST(CompiledExpr(Expr(9), slot).is_constant());
  BOOST_TEST(!CompiledExpr(modulo(n, 3), slot).is_constant());
  BOOST_TEST(CompiledExpr()(none.data()) == 0);
}

BOOST_AUTO_TEST_CASE(tensors_are_read_only_where_the_guard_holds) {
  const auto tensor = [](const std::string& name) { return name == "counts" ? 7 : -1; };
  const Table table;
  const Values values{2, 3, 0};
  const CompiledExpr direct(Expr::parse("read(counts, i, j + 1) * 2 + read(counts)"), slot, tensor);
  BOOST_TEST(direct(values.data(), &table) == 2 * 204 + 5);
  BOOST_CHECK_THROW(direct(values.data()), UserError);
  BOOST_CHECK_THROW(CompiledExpr(Expr::parse("read(counts)"), slot), UserError);

  table.reads = 0;
  const CompiledExpr guarded(Expr::parse("i < 2 and read(counts, i) > 0"), slot, tensor);
  BOOST_TEST(guarded(values.data(), &table) == 0);
  BOOST_TEST(table.reads == 0);
  const Values inside{1, 0, 0};
  BOOST_TEST(guarded(inside.data(), &table) == 1);
  BOOST_TEST(table.reads == 1);

  const Expr slow = Expr::parse("i >= 2 or read(counts, i)");
  BOOST_TEST(slow.reads_tensors());
  BOOST_TEST(slow.evaluate([](const std::string&) { return 2; }) == 1);
  BOOST_CHECK_THROW(slow.evaluate([](const std::string&) { return 1; }), UserError);
  BOOST_TEST(slow.evaluate([](const std::string&) { return 1; },
                           [](const std::string& name, const std::vector<std::int64_t>& index) {
                             return name == "counts" && index == std::vector<std::int64_t>{1} ? 4 : 0;
                           }) == 1);
}

BOOST_AUTO_TEST_CASE(overflow_is_an_error_not_a_wrap) {
  const Expr i = Expr::symbol("i");
  const std::int64_t huge = std::int64_t{1} << 62;
  BOOST_CHECK_THROW(Expr(huge) + Expr(huge), UserError);
  BOOST_CHECK_THROW((i * huge) * 4, UserError);
  const auto at = [&](const std::string&) { return huge; };
  BOOST_CHECK_THROW((i * 2).evaluate(at), UserError);
  BOOST_TEST(i.evaluate(at) == huge);
  const Expr::Range range = (i * 4 - 1).range({{"i", {0, huge}}});
  BOOST_TEST(range.low == -1);
  BOOST_TEST(range.high == std::numeric_limits<std::int64_t>::max());
}

BOOST_AUTO_TEST_CASE(stack_of_the_compiled_form_is_bounded) {
  Expr e = Expr::symbol("i");
  for (int depth = 0; depth < 100; ++depth) e = min(Expr::symbol("j") * (depth + 2), e * 2 - 1);
  BOOST_CHECK_THROW(CompiledExpr(e, slot), UserError);
  Expr left = Expr::symbol("i");
  for (int depth = 0; depth < 100; ++depth) left = min(left, Expr::symbol("j") + modulo(Expr::symbol("n"), depth + 2));
  const Values values{50, 1, 3};
  BOOST_TEST(CompiledExpr(left, slot)(values.data()) == 1 + 0);
  BOOST_CHECK_THROW(
      [] {
        Expr deep = Expr::symbol("i");
        for (int depth = 0; depth < 100000; ++depth) deep = floor_div(modulo(deep, 7 + depth % 2), 2);
      }(),
      UserError);
}

BOOST_AUTO_TEST_SUITE_END()
