// Statements of synchronisation that the writer derives, against lists written by hand.
#include <boost/test/unit_test.hpp>

#include "shared.hpp"
#include "tilesim/compile/writer/kernel_writer.hpp"

namespace tilesim::kernel_writer_cases {

using namespace tilesim::program;
using lower::statement;

View view(const std::string& slot) { return {slot, 0, 0, {{Expr(4), Expr(1)}}}; }

Statement load(const std::string& slot) {
  Load load;
  load.transfer.slot = slot;
  return statement(std::move(load));
}

Statement store(const std::string& slot) {
  Store store;
  store.transfer.slot = slot;
  return statement(std::move(store));
}

/// out = f(in), on the vector unit.
Statement vector(const std::vector<std::string>& in, const std::string& out) {
  VectorOp op;
  for (const std::string& slot : in) op.inputs.push_back(view(slot));
  op.outputs.push_back({0, view(out), {}, Combiner::add, 0});
  return statement(std::move(op));
}

Statement repeat(const std::string& index, const Expr& trips, Block body) {
  return statement(For{index, trips, std::move(body)});
}

/// "queue what slot": one line a statement, loops with a brace.
void listed(const Block& block, std::string& text) {
  for (const Statement& s : block) {
    const auto line = [&](const std::string& what) {
      text += (s.queue.empty() ? std::string("-") : s.queue) + " " + what + "\n";
    };
    if (const auto* loop = std::get_if<For>(&s.action)) {
      text += loop->index + " {\n";
      listed(loop->body, text);
      text += "}\n";
    } else if (const auto* branch = std::get_if<If>(&s.action)) {
      text += "if {\n";
      listed(branch->then, text);
      if (!branch->otherwise.empty()) text += "} else {\n", listed(branch->otherwise, text);
      text += "}\n";
    } else if (const auto* acquire = std::get_if<Acquire>(&s.action)) {
      std::string queues;
      for (const std::string& queue : acquire->queues) queues += " " + queue;
      line("acquire " + acquire->slot + " for" + queues);
    } else if (const auto* wait = std::get_if<Wait>(&s.action)) {
      line("wait " + wait->slot + " " + wait->pieces.text());
    } else if (const auto* commit = std::get_if<Commit>(&s.action)) {
      line("commit " + commit->slot);
    } else if (const auto* release = std::get_if<Release>(&s.action)) {
      line("release " + release->slot);
    } else {
      line("works");
    }
  }
}

std::string written(const std::vector<lower::Ring>& rings, Block body) {
  std::string text;
  listed(lower::write_kernel({}, rings, std::move(body)).body, text);
  return text;
}

lower::Ring ring(const std::string& name, const std::string& carried = {}) {
  return {name, DType::f32, 4, 2, 0, carried};
}

BOOST_AUTO_TEST_SUITE(kernel_writer)

BOOST_AUTO_TEST_CASE(a_tile_that_is_permuted_in_place) {
  Block tile{load("x"), statement(PermuteOp{view("x"), view("x")}), vector({"x"}, "y"), store("y")};
  BOOST_TEST(written({ring("x"), ring("y")}, {repeat("i", 3, std::move(tile))}) ==
             "i {\n"
             "- acquire x for load0\nload0 works\nload0 commit x\n"
             "cross_lane wait x 1\ncross_lane works\ncross_lane commit x\n"
             "vector wait x 2\n- acquire y for vector\nvector works\nvector commit y\nvector release x\n"
             "store0 wait y 1\nstore0 works\nstore0 release y\n"
             "}\n");
}

BOOST_AUTO_TEST_CASE(a_carry_is_handed_over_after_its_loop) {
  Block tile{load("x"), vector({"x"}, "carry"), vector({"carry"}, "carry")};
  BOOST_TEST(written({ring("x"), ring("carry", "k")}, {repeat("k", Expr::symbol("trips"), std::move(tile))}) ==
             "- acquire carry for vector\n"
             "k {\n"
             "- acquire x for load0\nload0 works\nload0 commit x\nvector wait x 1\nvector works\nvector release "
             "x\nvector works\n"
             "}\n"
             "vector commit carry\nvector wait carry 1\nvector release carry\n");
}

BOOST_AUTO_TEST_CASE(each_step_waits_for_those_before) {
  BOOST_TEST(written({ring("x"), ring("v"), ring("w"), ring("y")},
                     {load("x"), vector({"x"}, "w"), repeat("s", 4, {vector({"w"}, "v"), vector({"v"}, "w")}),
                      vector({"w"}, "y"), store("y")}) ==
             "- acquire x for load0\nload0 works\nload0 commit x\n"
             "vector wait x 1\n- acquire w for vector\nvector works\nvector commit w\nvector release x\n"
             "s {\n"
             "vector wait w s + 1\n- acquire v for vector\nvector works\nvector commit v\n"
             "vector wait v 1\nvector works\nvector commit w\nvector release v\n"
             "}\n"
             "vector wait w 5\n- acquire y for vector\nvector works\nvector commit y\nvector release w\n"
             "store0 wait y 1\nstore0 works\nstore0 release y\n");
}

/// copy = f(the other copy of the same ring), on the vector unit.
Statement alternated(const std::string& slot, const Expr& trip) {
  Statement turn = vector({slot}, slot);
  auto& op = std::get<VectorOp>(turn.action);
  op.inputs[0].offset = modulo(trip, 2) * Expr(4);
  op.outputs[0].view.offset = modulo(trip + Expr(1), 2) * Expr(4);
  return turn;
}

BOOST_AUTO_TEST_CASE(trips_that_read_one_copy_and_write_the_other) {
  const Expr chunk = Expr::symbol("c"), count = min(Expr(4), Expr(10) - Expr(4) * chunk);
  const Expr trip = Expr(4) * chunk + Expr::symbol("t");
  BOOST_TEST(
      written({ring("s")}, {load("s"), repeat("c", 3, {repeat("t", count, {alternated("s", trip)})}), store("s")}) ==
      "- acquire s for load0\nload0 works\nload0 commit s\n"
      "c {\nt {\n"
      "vector wait s 4*c + t + 1\nvector works\nvector commit s\n"
      "}\n}\n"
      "store0 wait s 11\nstore0 works\nstore0 release s\n");
  const Expr other = min(Expr(4), Expr(10) - Expr(3) * chunk);  // trips of 4, 4, 4, 1 commits; then of 1, 4, 4, 4
  const auto in_trips = [&](const Expr& trips) {
    return written({ring("s")}, {load("s"), repeat("c", 4, {repeat("t", trips, {alternated("s", trip)})}), store("s")});
  };
  BOOST_TEST(in_trips(other).ends_with("store0 wait s 14\nstore0 works\nstore0 release s\n"));
  BOOST_CHECK_THROW(in_trips(min(Expr(4), Expr(1) + Expr(3) * chunk)), InternalError);
}

BOOST_AUTO_TEST_CASE(a_state_that_another_queue_permutes_after_its_last_read) {
  const Expr t = Expr::symbol("t");
  Statement read = vector({"s"}, "y");  // the copy that the trip has written
  std::get<VectorOp>(read.action).inputs[0].offset = modulo(t + Expr(1), 2) * Expr(4);
  const auto with = [&](Block trip, Block before) {
    trip.insert(trip.begin(), alternated("s", t));
    before.push_back(statement(PermuteOp{view("s"), view("s")}));
    Block body{load("s"), repeat("t", 3, std::move(trip))};
    std::ranges::move(before, std::back_inserter(body));
    body.push_back(store("s"));
    return written({ring("s"), ring("y"), ring("r"), ring("z")}, std::move(body));
  };
  const auto permuted = [](const std::string& commits, const std::string& all) {
    return "cross_lane wait s " + commits + "\ncross_lane works\ncross_lane commit s\nstore0 wait s " + all +
           "\nstore0 works\nstore0 release s\n";
  };
  BOOST_TEST(with({read}, {}) ==
             "- acquire s for load0\nload0 works\nload0 commit s\n"
             "t {\n"
             "vector wait s t + 1\nvector works\nvector commit s\n"
             "vector wait s t + 2\n- acquire y for vector\nvector works\nvector commit y\n"
             "vector wait y 1\nvector release y\n"
             "}\n"
             "vector commit s\nvector wait s 5\nvector release s\n" +
                 permuted("5", "6"));
  // The unit waits for what follows the read, or permutes another copy: no commit. A stored result orders nothing.
  const Block permuted_before{statement(PermuteOp{view("y"), view("y")}), store("y")};
  BOOST_TEST(with({read}, permuted_before).ends_with(permuted("4", "5")));
  std::get<VectorOp>(read.action).outputs[0].view.slot = "r";
  BOOST_TEST(with({vector({}, "y"), read, vector({"r"}, "z")}, permuted_before).ends_with(permuted("4", "5")));
  BOOST_TEST(with({vector({}, "y"), read}, permuted_before).ends_with(permuted("4", "5")));
  BOOST_TEST(with({vector({}, "y"), read, store("r")}, permuted_before).ends_with(permuted("5", "6")));
  BOOST_TEST(with({vector({"s"}, "y")}, {}).ends_with(permuted("4", "5")));
}

BOOST_AUTO_TEST_CASE(a_carried_ring_on_two_queues) {
  Block trip{load("x"), vector({"x"}, "sum"), statement(PermuteOp{view("sum"), view("sum")})};
  BOOST_CHECK_THROW(written({ring("x"), ring("sum", "k")}, {repeat("k", 3, std::move(trip)), store("sum")}),
                    InternalError);
}

BOOST_AUTO_TEST_CASE(a_loop_of_unknown_trips_that_only_writes) {
  BOOST_TEST(written({ring("x"), ring("y")},
                     {load("x"), repeat("r", Expr::symbol("rows"), {vector({"x"}, "y")}), store("y")}) ==
             "- acquire x for load0\nload0 works\nload0 commit x\n"
             "vector wait x 1\n- acquire y for vector\n"
             "r {\nvector works\n}\n"
             "vector commit y\nvector release x\n"
             "store0 wait y 1\nstore0 works\nstore0 release y\n");
}

BOOST_AUTO_TEST_CASE(a_tile_that_comes_and_goes_in_pieces) {
  lower::Ring x = ring("x"), y = ring("y");
  x.pieces = y.pieces = {"s"};
  BOOST_TEST(written({x, y}, {repeat("s", 4, {load("x")}), repeat("s", 4, {vector({"x"}, "y"), store("y")})}) ==
             "- acquire x for load0\n"
             "s {\nload0 works\nload0 commit x\n}\n"
             "- acquire y for vector\n"
             "s {\n"
             "vector wait x s + 1\nvector works\nvector commit y\nstore0 wait y s + 1\nstore0 works\n"
             "}\n"
             "vector release x\nstore0 release y\n");
}

BOOST_AUTO_TEST_CASE(two_passes_over_the_same_rows) {
  Block first{load("x"), vector({"x"}, "sum")}, second{load("x"), vector({"x", "sum"}, "y"), store("y")};
  BOOST_TEST(written({ring("x"), ring("sum"), ring("y")},
                     {repeat("i", 3, std::move(first)), repeat("i", 3, std::move(second))}) ==
             "- acquire sum for vector\n"
             "i {\n"
             "- acquire x for load0\nload0 works\nload0 commit x\nvector wait x 1\nvector works\nvector release x\n"
             "}\n"
             "vector commit sum\nvector wait sum 1\n"
             "i {\n"
             "- acquire x for load0\nload0 works\nload0 commit x\n"
             "vector wait x 1\n- acquire y for vector\nvector works\nvector commit y\nvector release x\n"
             "store0 wait y 1\nstore0 works\nstore0 release y\n"
             "}\n"
             "vector release sum\n");
}

BOOST_AUTO_TEST_CASE(an_update_waits_for_other_queues_alone) {
  BOOST_TEST(written({ring("x")}, {load("x"), vector({"x"}, "x"), vector({"x"}, "x"), store("x")}) ==
             "- acquire x for load0\nload0 works\nload0 commit x\n"
             "vector wait x 1\nvector works\nvector works\nvector commit x\n"
             "store0 wait x 2\nstore0 works\nstore0 release x\n");
  BOOST_TEST(written({ring("x")}, {load("x"), vector({}, "x"), vector({"x"}, "x"), store("x")}) ==
             "- acquire x for load0 vector\nload0 works\nload0 commit x\n"
             "vector works\nvector wait x 1\nvector works\nvector commit x\n"
             "store0 wait x 2\nstore0 works\nstore0 release x\n");
}

BOOST_AUTO_TEST_CASE(a_trip_reads_what_the_trip_before_has_written) {
  lower::Ring s = ring("s"), y = ring("y");
  s.renewed = y.renewed = true;
  const auto permute = [] { return statement(PermuteOp{view("x"), view("s")}); };
  Block trip{vector({"s"}, "y"), store("y"), load("x"), permute()};
  const std::string filled =
      "- acquire x for load0\nload0 works\nload0 commit x\n"
      "cross_lane wait x 1\n- acquire s for cross_lane\ncross_lane works\ncross_lane commit s\ncross_lane release x\n";
  const std::string stored =
      "vector wait s 1\n- acquire y for vector\nvector works\nvector commit y\nvector release s\n"
      "store0 wait y 1\nstore0 works\nstore0 release y\n";
  BOOST_TEST(written({ring("x"), s, y}, {load("x"), permute(), repeat("k", 3, std::move(trip)), vector({"s"}, "y"),
                                         store("y")}) == filled + "k {\n" + stored + filled + "}\n" + stored);
}

/// out += a * b, or out = a * b, on an array.
Statement product(const std::string& a, const std::string& b, const std::string& out, int accumulate, int array = 0) {
  MmaOp op;
  op.a = view(a), op.b = view(b), op.c = view(out);
  op.accumulate = accumulate;
  return {std::move(op), "mma" + std::to_string(array), {}};
}

Statement where(const Expr& condition, Block then, Block otherwise = {}) {
  return statement(If{condition, std::move(then), std::move(otherwise)});
}

BOOST_AUTO_TEST_CASE(a_sum_that_arrays_and_the_vector_unit_update) {
  const Expr some = less(Expr(0), Expr::symbol("n"));
  Block tile{load("x"), vector({"o"}, "o"), product("x", "x", "o", 1, 0), where(some, {product("x", "x", "o", 1, 1)})};
  BOOST_TEST(
      written({ring("x"), ring("o"), ring("y")},
              {vector({}, "o"), repeat("k", Expr::symbol("n"), std::move(tile)), vector({"o"}, "y"), store("y")}) ==
      "- acquire o for vector\nvector works\nvector commit o\n"
      "k {\n"
      "- acquire x for load0\nload0 works\nload0 commit x\n"
      "vector wait o 3*k + 1\nvector works\nvector commit o\n"
      "mma0 wait x 1\nmma0 wait o 3*k + 2\nmma1 wait x 1\nmma1 wait o 3*k + 2\n"
      "mma0 works\nif {\nmma1 works\n}\n"
      "mma0 commit o\nmma1 commit o\nmma0 release x\nmma1 release x\n"
      "}\n"
      "vector wait o 3*n + 1\n- acquire y for vector\nvector works\nvector commit y\nvector release o\n"
      "store0 wait y 1\nstore0 works\nstore0 release y\n");
}

BOOST_AUTO_TEST_CASE(a_branch_that_hands_a_sum_over_is_counted_if_taken) {
  const Expr some = less(Expr(0), Expr::symbol("n"));
  BOOST_TEST(
      written({ring("x"), ring("o")},
              {vector({}, "o"), where(some, {load("x"), product("x", "x", "o", 1), vector({"o"}, "o")}), store("o")}) ==
      "- acquire o for vector\nvector works\nvector commit o\n"
      "if {\n"
      "- acquire x for load0\nload0 works\nload0 commit x\n"
      "mma0 wait x 1\nmma0 wait o 1\nmma0 works\nmma0 commit o\nmma0 release x\n"
      "vector wait o 2\nvector works\nvector commit o\n"
      "}\n"
      "store0 wait o 2*(0 < n) + 1\nstore0 works\nstore0 release o\n");
}

BOOST_AUTO_TEST_CASE(both_sides_of_a_branch_commit_once_behind_it) {
  const Expr hidden = less(Expr(0), Expr::symbol("n"));
  BOOST_TEST(written({ring("x"), ring("y")},
                     {load("x"), where(hidden, {vector({"x"}, "x")}, {vector({"x"}, "y")}), store("y"), store("x")}) ==
             "- acquire x for load0\nload0 works\nload0 commit x\n"
             "vector wait x 1\n- acquire y for vector\n"
             "if {\nvector works\n} else {\nvector works\n}\n"
             "vector commit x\nvector commit y\nvector wait x 2\nvector release x\n"
             "store0 wait y 1\nstore0 works\nstore0 release y\n"
             "store0 wait x 2\nstore0 works\nstore0 release x\n");
}

BOOST_AUTO_TEST_CASE(a_branch_loads_for_the_next_trip) {
  lower::Ring q = ring("q");
  q.renewed = true;
  const Expr more = less(Expr::symbol("t") + Expr(1), Expr::symbol("n"));
  Block trip{vector({"q"}, "y"), store("y"), where(more, {load("q")})};
  BOOST_TEST(written({q, ring("y")}, {load("q"), repeat("t", Expr::symbol("n"), std::move(trip))}) ==
             "- acquire q for load0\nload0 works\nload0 commit q\n"
             "t {\n"
             "vector wait q 1\n- acquire y for vector\nvector works\nvector commit y\nvector release q\n"
             "store0 wait y 1\nstore0 works\nstore0 release y\n"
             "if {\n- acquire q for load0\nload0 works\nload0 commit q\n}\n"
             "}\n");
}

BOOST_AUTO_TEST_CASE(conditions_count_pieces_that_stay) {
  lower::Ring k = ring("k");
  k.counted = true;
  const Expr at = Expr::symbol("t"), fresh = equal(Expr::symbol("n"), at), ends = equal(at, Expr(2));
  Block trip{where(fresh, {load("k"), lower::complete("k")}), lower::counted("k", at + Expr(1)), vector({"k"}, "y"),
             store("y"), where(ends, {lower::released("k")})};
  BOOST_TEST(written({k, ring("y")}, {lower::begun("k"), repeat("t", 3, std::move(trip))}) ==
             "- acquire k for load0\n"
             "t {\n"
             "if {\nload0 works\nload0 commit k\n}\n"
             "vector wait k t + 1\n- acquire y for vector\nvector works\nvector commit y\n"
             "store0 wait y 1\nstore0 works\nstore0 release y\n"
             "if {\nvector release k\n}\n"
             "}\n");
}

BOOST_AUTO_TEST_CASE(queues_complete_a_sum_together) {
  lower::Ring c = ring("c");
  c.counted = true;
  const Expr none = less(Expr::symbol("n"), Expr(1));
  const auto finished = [&](const Expr& filled) {
    return Block{product("x", "x", "c", 0, 0),
                 lower::complete("c"),
                 lower::counted("c", filled),
                 where(none, {vector({}, "c")}),
                 lower::complete("c"),
                 lower::counted("c", filled + Expr(1)),
                 store("c")};
  };
  const std::string once =
      "mma0 works\nmma0 commit c\nvector wait c 2\nif {\nvector works\n}\nvector commit c\n"
      "store0 wait c 3\nstore0 works\n";
  BOOST_TEST(written({ring("x"), c},
                     {load("x"), lower::begun("c"), where(none, finished(2), finished(2)), lower::released("c")}) ==
             "- acquire x for load0\nload0 works\nload0 commit x\n- acquire c for mma0\nmma0 wait x 1\n"
             "if {\n" +
                 once + "} else {\n" + once + "}\nmma0 release x\nstore0 release c\n");
}

BOOST_AUTO_TEST_CASE(a_tile_that_another_core_sends) {
  Send send;
  send.from = view("stage"), send.slot = "a";
  BOOST_TEST(written({ring("a"), ring("stage"), ring("y")},
                     {statement(Receive{"a"}),
                      where(equal(Expr::symbol("core"), Expr(1)), {load("stage"), statement(std::move(send))}),
                      vector({"a"}, "y"), store("y")}) ==
             "- works\n"
             "if {\n- acquire stage for load0\nload0 works\nload0 commit stage\n"
             "send wait stage 1\nsend works\nsend release stage\n}\n"
             "vector wait a 1\n- acquire y for vector\nvector works\nvector commit y\nvector release a\n"
             "store0 wait y 1\nstore0 works\nstore0 release y\n");
}

BOOST_AUTO_TEST_CASE(a_loop_around_those_that_read_pieces) {
  lower::Ring x = ring("x");
  x.pieces = {"s", "t"};
  Block read{vector({"x"}, "y"), store("y")};
  Block passes{repeat("s", 2, {repeat("t", 3, std::move(read))})};
  BOOST_TEST(written({x, ring("y")}, {repeat("s", 2, {repeat("t", 3, {load("x"), load("x")})}),
                                      repeat("i", 4, {where(Expr::symbol("i"), std::move(passes))})}) ==
             "- acquire x for load0\n"
             "s {\nt {\nload0 works\nload0 works\nload0 commit x\n}\n}\n"
             "i {\nif {\ns {\nt {\n"
             "vector wait x 3*s + t + 1\n- acquire y for vector\nvector works\nvector commit y\n"
             "store0 wait y 1\nstore0 works\nstore0 release y\n"
             "}\n}\n}\n}\n"
             "vector wait x 6\nvector release x\n");
}

BOOST_AUTO_TEST_CASE(a_ring_that_is_not_declared) {
  BOOST_CHECK_THROW(written({ring("x")}, {load("x"), vector({"x"}, "y")}), InternalError);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tilesim::kernel_writer_cases
