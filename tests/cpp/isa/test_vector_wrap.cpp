// Integers that leave the range of their type and wrap, several functions before someone asks for the number: kernels
// against the meaning, bit for bit.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <map>
#include <set>

#include "kernels.hpp"
#include "shared.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/isa/kernel/vector_apart.hpp"
#include "tilesim/isa/latency/executor.hpp"

using namespace tilesim;
using namespace tilesim::isa;

namespace {

using F = Function;
using Op = VectorNode::Op;

constexpr std::array integer_types{DType::i8,  DType::i16, DType::i32, DType::i64,    DType::u8,
                                   DType::u16, DType::u32, DType::u64, DType::boolean};

/// All of the table that have a meaning on integers.
std::vector<F> wrapping_functions() {
  std::vector<F> found;
  for (const std::string& name : function_names()) {
    const std::int64_t ones[] = {1, 1, 1};
    try {
      evaluate(parse_function(name), ones);
      found.push_back(parse_function(name));
    } catch (const UserError&) {
      continue;
    }
  }
  return found;
}

/// What leaves operands as they are, or turns their bits.
constexpr std::array handing_on{F::select,   F::floor,       F::ceil,       F::round_even,  F::trunc,
                                F::identity, F::bitwise_not, F::bitwise_or, F::bitwise_xor, F::bitwise_and};

bool divides(F f) { return f == F::divide || f == F::remainder || f == F::floor_divide; }

/// A chain of functions, each of which takes the one before it; all that compilers convert to their types is.
struct WrapTrial : KernelTrial {
  WrapTrial(std::uint32_t seed, const std::vector<F>& functions) : KernelTrial(seed), functions_(functions) {
    compute.extents = {below(3) + 1, below(20) + 8};
    const DType common = one_of(integer_types);
    const bool one_type = below(3) != 0;
    for (int i = 0; i < 3; ++i) input(one_type ? common : one_of(integer_types));
    int last = 0;
    const std::int64_t depth = below(4) + 3;
    for (std::int64_t d = 0; d < depth; ++d)
      last = function(below(2) == 0 ? one_of(handing_on) : functions_[(seed + 7 * d) % functions_.size()], last);
    output(asked(last));
    if (below(4) == 0) output(some());
    std::vector<std::size_t> all(compute.outputs.size());
    for (std::size_t o = 0; o < all.size(); ++o) all[o] = o;
    compute = with_outputs(compute, all);
    std::size_t next = 0;
    for (TileView& one : compute.inputs) one.data = memories[next++].data();
    for (VectorOutput& one : compute.outputs) one.view.data = memories[next++].data();
  }

  int add(const VectorNode& node) {
    compute.nodes.push_back(node);
    text += "; " + std::to_string(compute.nodes.size() - 1) + " " + std::string(name(node.dtype)) + " " +
            std::string(node.op == Op::function  ? info(node.function).name
                        : node.op == Op::convert ? "convert"
                                                 : "");
    for (const int a : node.arguments)
      if (a >= 0) text += " " + std::to_string(a);
    return static_cast<int>(std::ssize(compute.nodes)) - 1;
  }
  int some() { return static_cast<int>(below(std::ssize(compute.nodes))); }
  DType type(int node) const { return compute.nodes[static_cast<std::size_t>(node)].dtype; }
  int converted(int node, DType dtype) { return add({.op = Op::convert, .arguments = {node, -1, -1}, .dtype = dtype}); }

  TileView view(DType dtype, bool by_row) {
    const std::int64_t rows = compute.extents[0], columns = compute.extents[1], width = by_row ? 1 : columns;
    memories.emplace_back(static_cast<std::size_t>(rows * width * host_bytes(dtype)));
    return {nullptr, dtype, {{rows, width}, {columns, by_row ? 0 : 1}}, -1, {}};
  }

  /// The ends of the type, what is next to them, small numbers and random bits.
  void input(DType dtype) {
    compute.inputs.push_back(view(dtype, false));
    std::vector<std::byte>& memory = memories.back();
    const auto bytes = static_cast<std::size_t>(host_bytes(dtype));
    for (std::size_t at = 0; at < memory.size(); at += bytes) {
      const std::int64_t highest = std::int64_t{1} << (8 * bytes - 2);
      const std::int64_t ends[] = {2 * (highest - 1) + 1, -2 * highest, -1, 0, 1, highest, 2 * (highest - 1)};
      std::int64_t bits = below(3) == 0 ? static_cast<std::int64_t>(random()) << 32 | random() : one_of(ends);
      if (dtype == DType::boolean) bits &= 1;
      std::memcpy(memory.data() + at, &bits, bytes);
    }
    add({.op = Op::input, .index = static_cast<int>(compute.inputs.size()) - 1, .dtype = dtype});
  }

  int function(F f, int operand) {
    VectorNode node{.op = Op::function, .function = f, .arguments = {operand, -1, -1}, .dtype = type(operand)};
    const int arity = info(f).arity;
    for (int a = 1; a < arity; ++a) node.arguments[static_cast<std::size_t>(a)] = some();
    if (arity > 1) std::swap(node.arguments[0], node.arguments[static_cast<std::size_t>(below(arity))]);
    if (arity > 1 && below(2) == 0) node.dtype = type(node.arguments[static_cast<std::size_t>(below(arity))]);
    if (divides(f)) {  // by an odd number
      const int one = add({.op = Op::constant, .number = 1, .dtype = node.dtype});
      node.arguments[1] = add({.op = Op::function,
                               .function = F::bitwise_or,
                               .arguments = {node.arguments[1], one, -1},
                               .dtype = node.dtype == DType::boolean ? DType::i8 : node.dtype});
    }
    if (info(f).returns_boolean) node.dtype = DType::boolean;
    used.insert(f);
    int made = add(node);
    if (below(8) != 0) made = converted(made, node.dtype);
    if (below(3) == 0) made = converted(made, one_of(integer_types));
    return made;
  }

  /// Read as a number.
  int asked(int node) {
    static constexpr std::array asking{F::maximum, F::minimum, F::clamp, F::less, F::greater_equal,
                                       F::equal,   F::relu,    F::abs,   F::sign, F::shift_right};
    if (below(3) == 0) return converted(node, one_of(std::array{DType::f32, DType::i32, DType::i64}));
    return function(one_of(asking), node);
  }

  void output(int node) {
    VectorOutput made;
    made.node = node;
    const bool reduced = below(3) == 0;
    if (reduced) made.reduce = {1};
    made.combiner = one_of(std::array{Combiner::maximum, Combiner::minimum, Combiner::logical_or});
    made.view = view(below(3) == 0 ? DType::i64 : type(node), reduced);
    text += "; result " + std::to_string(node) + (reduced ? " by " + std::string(name(made.combiner)) : "");
    compute.outputs.push_back(made);
  }

  VectorCompute compute;
  std::set<F> used;
  std::string text;

 private:
  const std::vector<F>& functions_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(vector_wrap)

BOOST_AUTO_TEST_CASE(integers_wrap_wherever_their_numbers_are_asked_for) {
  const std::uint32_t many = trials(160);
  const Machine machines[] = {kernel_machine(8, 4), kernel_machine(16, 1)};
  const std::vector<F> functions = wrapping_functions();
  std::set<F> used;
  std::map<std::string, std::int64_t> others;
  std::int64_t kernels = 0;
  for (std::uint32_t trial = 0; trial < many; ++trial) {
    WrapTrial made(trial, functions);
    used.insert(made.used.begin(), made.used.end());
    execute(made.compute);
    const auto wanted = made.memories;
    for (std::size_t o = 0; o < made.compute.outputs.size(); ++o)
      std::ranges::fill(made.memories[made.compute.inputs.size() + o], std::byte{0x5A});
    KernelExecutor executor(machines[trial % 2]);
    executor.run(made.compute);
    kernels += executor.by_kernel();
    for (const auto& [why, count] : executor.others()) others[why] += count;
    for (std::size_t o = 0; o < made.compute.outputs.size(); ++o) {
      const std::size_t at = made.compute.inputs.size() + o;
      BOOST_TEST((wanted[at] == made.memories[at]), "trial " << trial << made.text << ": result " << o);
    }
  }
  for (const auto& [why, count] : others) BOOST_TEST_MESSAGE(count << " " << why);
  BOOST_TEST_MESSAGE(kernels << " by kernels");
  BOOST_TEST(used.size() == functions.size());
  BOOST_TEST(kernels >= many * 17 / 20);
}

BOOST_AUTO_TEST_SUITE_END()
