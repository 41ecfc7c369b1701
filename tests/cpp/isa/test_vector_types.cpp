// Kernels of vector computes on all element types: bit for bit what the compute means.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <map>

#include "kernels.hpp"
#include "shared.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/isa/kernel/vector_apart.hpp"
#include "tilesim/isa/latency/executor.hpp"

using namespace tilesim;
using namespace tilesim::isa;

namespace {

using F = Function;

constexpr std::array all_types{DType::i8,  DType::i16, DType::i32,     DType::i64, DType::u8,   DType::u16, DType::u32,
                               DType::u64, DType::i32, DType::boolean, DType::f32, DType::bf16, DType::f16, DType::f64};
constexpr std::array integer_functions{
    F::add,           F::subtract,    F::multiply,   F::divide,      F::remainder,   F::floor_divide, F::maximum,
    F::minimum,       F::logical_and, F::logical_or, F::logical_xor, F::bitwise_and, F::bitwise_or,   F::bitwise_xor,
    F::shift_left,    F::shift_right, F::equal,      F::not_equal,   F::less,        F::less_equal,   F::greater,
    F::greater_equal, F::select,      F::clamp,      F::fma,         F::negate,      F::abs,          F::sign,
    F::bitwise_not,   F::popcount,    F::relu,       F::logical_not, F::is_finite,   F::is_nan,       F::identity};
constexpr std::array float_functions{F::add,    F::subtract, F::multiply,   F::divide,      F::maximum,   F::minimum,
                                     F::select, F::clamp,    F::floor,      F::ceil,        F::trunc,     F::round_even,
                                     F::sign,   F::negate,   F::abs,        F::relu,        F::is_finite, F::is_nan,
                                     F::less,   F::equal,    F::logical_or, F::logical_not, F::sqrt,      F::fma,
                                     F::power,  F::atan2,    F::remainder,  F::floor_divide};

struct TypesTrial : KernelTrial {
  using KernelTrial::KernelTrial;

  /// Ends of the type's range, zeros, small numbers, random bits; NaN, −0 and what no integer type holds.
  void fill(std::vector<std::byte>& memory, DType dtype) {
    const auto bytes = static_cast<std::size_t>(host_bytes(dtype));
    for (std::size_t at = 0; at < memory.size(); at += bytes) {
      std::int64_t bits = static_cast<std::int64_t>(random()) << 32 | random();
      switch (below(6)) {
        case 0:
          bits = std::int64_t{1} << (8 * bytes - 1);
          break;
        case 1:
          bits = below(2) == 0 ? -1 : (std::int64_t{1} << (8 * bytes - 2)) - 1;
          break;
        case 2:
        case 3:
          bits = below(9) - 4;
          break;
        default:
          break;
      }
      if (dtype == DType::boolean) bits &= 1;
      if (is_float(dtype)) {
        static constexpr double odd[]{
            NAN,           -0.0,  INFINITY, -INFINITY, 2.5, -3.5, 3e9,          -1e10,
            1.5e20,        65000, -0.5,     2.1e9,     255, -129, 4294967296.0, 9223372036854775808.0,
            -2147483648.0, 0.3};
        double value = below(3) == 0 ? one_of(odd) : static_cast<double>(below(2001) - 1000) / 4;
        convert(&value, DType::f64, memory.data() + at, dtype, 1);
        continue;
      }
      std::memcpy(memory.data() + at, &bits, bytes);
    }
  }

  TileView view(DType dtype, const std::vector<bool>& repeats) {
    TileView made;
    made.dtype = dtype;
    std::int64_t stride = 1;
    std::vector<std::size_t> order(compute.extents.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    made.dims.resize(order.size());
    for (const std::size_t i : order) {
      made.dims[i] = {compute.extents[i], repeats[i] ? 0 : stride};
      if (!repeats[i]) stride *= compute.extents[i] + below(2);
    }
    memories.emplace_back(static_cast<std::size_t>(stride * host_bytes(dtype)));
    fill(memories.back(), dtype);
    return made;
  }

  int add(const VectorNode& node, DType type) {
    compute.nodes.push_back(node), types.push_back(type);
    return static_cast<int>(types.size()) - 1;
  }
  int some() { return static_cast<int>(below(static_cast<std::int64_t>(types.size()))); }

  void inputs() {
    compute.extents.resize(static_cast<std::size_t>(below(3) + 1));
    for (std::int64_t& extent : compute.extents) extent = below(5) == 0 ? 1 : below(20) + 1;
    if (below(10) == 0) compute.extents.back() = 70;
    if (below(4) == 0) compute.lane = static_cast<int>(below(static_cast<std::int64_t>(compute.extents.size())));
    const std::int64_t count = below(3) + 1;
    const bool one_type = below(2) == 0;
    const DType common = one_of(all_types);
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<bool> repeats(compute.extents.size());
      for (std::size_t d = 0; d < repeats.size(); ++d) repeats[d] = below(3) == 0;
      const DType dtype = one_type ? common : one_of(all_types);
      compute.inputs.push_back(view(dtype, repeats));
      add({.op = VectorNode::Op::input, .index = static_cast<int>(i), .dtype = dtype}, dtype);
    }
    const DType of_number = one_type ? common : one_of(all_types);
    add({.op = VectorNode::Op::constant,
         .number = static_cast<double>(below(9) + (below(3) == 0 ? 1 : -4)),
         .dtype = of_number == DType::boolean ? DType::i32 : of_number},
        of_number == DType::boolean ? DType::i32 : of_number);
    if (below(3) == 0)
      add({.op = VectorNode::Op::iota,
           .index = static_cast<int>(below(std::ssize(compute.extents))),
           .dtype = DType::i64},
          DType::i64);
    if (below(4) == 0)
      add({.op = VectorNode::Op::scalar, .number = static_cast<double>(below(2000) - 1000), .dtype = DType::i64},
          DType::i64);
  }

  void function() {
    const int first = some();
    const DType type = types[static_cast<std::size_t>(first)];
    VectorNode node{.op = VectorNode::Op::function, .arguments = {first, -1, -1}, .dtype = type};
    node.function = is_float(type) ? one_of(float_functions) : one_of(integer_functions);
    for (int a = 1; a < info(node.function).arity; ++a) node.arguments[static_cast<std::size_t>(a)] = some();
    const auto floating = [&](int a) {
      return is_float(types[static_cast<std::size_t>(node.arguments[static_cast<std::size_t>(a)])]);
    };
    for (int a = 1; a < info(node.function).arity; ++a)
      if (!is_float(type) && floating(a)) node.arguments[static_cast<std::size_t>(a)] = first;
    if (node.function == F::divide || node.function == F::remainder || node.function == F::floor_divide)
      if (!is_float(type) && !zeros) {
        const int odd = add({.op = VectorNode::Op::constant, .number = 1, .dtype = type}, type);
        node.arguments[1] = add({.op = VectorNode::Op::function,
                                 .function = F::bitwise_or,
                                 .arguments = {node.arguments[1], odd, -1},
                                 .dtype = type},
                                type);
      }
    const DType result = info(node.function).returns_boolean ? DType::boolean : type;
    int made = add(node, result);
    if (below(2) == 0)
      made = add({.op = VectorNode::Op::convert, .arguments = {made, -1, -1}, .dtype = result}, result);
    if (below(4) == 0) {
      const DType other = one_of(all_types);
      add({.op = VectorNode::Op::convert, .arguments = {made, -1, -1}, .dtype = other}, other);
    }
  }

  void outputs() {
    const std::int64_t count = below(4) == 0 ? 2 : 1;
    for (std::int64_t o = 0; o < count; ++o) {
      VectorOutput output;
      output.node = o == 0 ? static_cast<int>(types.size()) - 1 : some();
      std::vector<bool> reduced(compute.extents.size());
      DType stored = below(2) == 0 ? types[static_cast<std::size_t>(output.node)] : one_of(all_types);
      if (below(2) == 0)
        for (std::size_t d = 0; d < reduced.size(); ++d)
          if (below(2) == 0) reduced[d] = true, output.reduce.push_back(static_cast<int>(d));
      output.accumulate = below(4) == 0;
      static constexpr std::array combiners{Combiner::add,     Combiner::multiply,    Combiner::maximum,
                                            Combiner::minimum, Combiner::logical_and, Combiner::logical_or};
      output.combiner = one_of(combiners);
      // sums and products of floats depend on their order; u64 has no order of its own in what is combined
      const bool ordered = output.combiner != Combiner::add && output.combiner != Combiner::multiply;
      if (is_float(stored) && !ordered && !(output.reduce.empty() && !output.accumulate))
        output.combiner = Combiner::maximum;
      output.view = view(stored, reduced);
      compute.outputs.push_back(output);
    }
  }

  void make() {
    zeros = below(12) == 0;
    inputs();
    for (std::int64_t i = below(4); i >= 0; --i) function();
    outputs();
    // what no result needs, no kernel computes
    std::vector<std::size_t> all(compute.outputs.size());
    for (std::size_t o = 0; o < all.size(); ++o) all[o] = o;
    text_ = described();
    compute = with_outputs(compute, all);
  }

  void point() {
    std::size_t next = 0;
    for (TileView& input : compute.inputs) input.data = memories[next++].data();
    for (VectorOutput& output : compute.outputs) output.view.data = memories[next++].data();
  }

  std::string described() const {
    std::string all = " extents";
    for (const std::int64_t extent : compute.extents) all += " " + std::to_string(extent);
    all += " lane " + std::to_string(compute.lane);
    for (std::size_t i = 0; i < types.size(); ++i) {
      const VectorNode& node = compute.nodes[i];
      all += ", " + std::to_string(i) + ": ";
      if (node.op == VectorNode::Op::function) all += info(node.function).name;
      if (node.op == VectorNode::Op::convert) all += "convert";
      if (node.op == VectorNode::Op::input) all += "input";
      if (node.op == VectorNode::Op::constant) all += "constant " + std::to_string(node.number);
      for (const int a : node.arguments)
        if (a >= 0) all += " " + std::to_string(a);
      all += " " + std::string(name(types[i]));
    }
    for (const VectorOutput& output : compute.outputs) {
      all += "; node " + std::to_string(output.node) + " " + std::string(name(output.combiner)) + " over";
      for (const int dim : output.reduce) all += " " + std::to_string(dim);
      all += " to " + std::string(name(output.view.dtype)) + (output.accumulate ? " accumulate" : "");
    }
    return all;
  }

  const std::string& text() const { return text_; }

  VectorCompute compute;
  std::string text_;
  std::vector<DType> types;
  bool zeros = false;  ///< divisors may be 0
};

}  // namespace

BOOST_AUTO_TEST_SUITE(vector_types)

BOOST_AUTO_TEST_CASE(random_computes_on_all_types_equal_their_meaning) {
  const std::uint32_t many = trials(70);
  const Machine machines[] = {kernel_machine(8, 4), kernel_machine(16, 1), kernel_machine(4, 8)};
  std::int64_t kernels = 0, refused = 0;
  std::map<std::string, std::int64_t> others;
  for (std::uint32_t trial = 0; trial < many; ++trial) {
    TypesTrial made(trial);
    made.make();
    const auto before = made.memories;
    made.point();
    bool has_meaning = true;
    try {
      execute(made.compute);
    } catch (const UserError&) {
      has_meaning = false, ++refused;
    }
    const auto wanted = made.memories;
    KernelExecutor executor(machines[trial % 3]);
    BOOST_TEST_CONTEXT("trial " << trial << made.text()) {
      // every shape of the kernel in its turn; what was there before is given back
      for (int turn = 0; turn < 4; ++turn) {
        for (std::size_t i = 0; i < before.size(); ++i)
          std::copy(before[i].begin(), before[i].end(), made.memories[i].begin());
        if (!has_meaning) {
          BOOST_CHECK_THROW(executor.run(made.compute), UserError);
          continue;
        }
        executor.run(made.compute);
        for (std::size_t o = 0; o < made.compute.outputs.size(); ++o) {
          const std::size_t at = made.compute.inputs.size() + o;
          BOOST_TEST_CONTEXT("turn " << turn << " result " << o)
          BOOST_TEST(same_values(wanted[at], made.memories[at], made.compute.outputs[o].view.dtype));
        }
      }
    }
    kernels += executor.by_kernel() > 0 ? 1 : 0;
    for (const auto& [why, count] : executor.others()) others[why] += count;
  }
  for (const auto& [why, count] : others) BOOST_TEST_MESSAGE(count << " " << why);
  BOOST_TEST_MESSAGE(kernels << " by kernels, " << refused << " refused");
  BOOST_TEST(kernels >= many * 6 / 7);
}

/// f(x, y) of rows of 32 elements, y a number or an operand; with memories where it shall run.
struct Pair {
  Pair(Function function, DType dtype, std::int64_t rows, double number, bool combined = false) {
    compute.extents = {rows, 32};
    const std::vector<ViewDim> each{{rows, 32}, {32, 1}};
    compute.inputs.push_back({nullptr, dtype, each, -1, {}});
    compute.nodes.push_back({.op = VectorNode::Op::input, .dtype = dtype});
    if (std::isnan(number)) {
      compute.inputs.push_back({nullptr, dtype, each, -1, {}});
      compute.nodes.push_back({.op = VectorNode::Op::input, .index = 1, .dtype = dtype});
    } else {
      compute.nodes.push_back({.op = VectorNode::Op::constant, .number = number, .dtype = dtype});
    }
    compute.nodes.push_back(
        {.op = VectorNode::Op::function, .function = function, .arguments = {0, 1, -1}, .dtype = dtype});
    VectorOutput output;
    output.node = 2, output.view = {nullptr, dtype, {{rows, combined ? 1 : 32}, {32, combined ? 0 : 1}}, -1, {}};
    if (combined) output.reduce = {1};
    compute.outputs.push_back(output);
  }
  std::int64_t busy(const Machine& machine) const {
    Descriptor d;
    d.kind = ComputeKind::vector, d.elements = compute.extents[0] * 32, d.lane_extent = 32;
    return InstructionLatency(machine).latency(d, {}, KernelSource(compute)).busy;
  }
  VectorCompute compute;
};

constexpr double operand = NAN;

BOOST_AUTO_TEST_CASE(no_faster_than_ports_and_units) {
  Machine machine = kernel_machine(8, 4);  // 32 elements of 32 bits to a register
  machine.core.vector.divide = 8;
  constexpr std::int64_t rows = 64, most = 40;  // what is left of filling and emptying
  const auto near = [](std::int64_t took, std::int64_t wanted) {
    BOOST_TEST(took >= wanted);
    BOOST_TEST(took <= wanted + most);
  };
  // two loads of each register at one port
  near(Pair(F::add, DType::i32, rows, operand).busy(machine), 2 * rows);
  near(Pair(F::add, DType::u32, rows, operand).busy(machine), 2 * rows);
  near(Pair(F::add, DType::i64, rows, operand).busy(machine), 2 * 2 * rows);
  near(Pair(F::add, DType::f64, rows, operand).busy(machine), 2 * 2 * rows);
  // a division of each; the smallest divisor so far beside it
  near(Pair(F::divide, DType::i32, rows, 3).busy(machine), 8 * rows);
  near(Pair(F::divide, DType::u32, rows, 3).busy(machine), 8 * rows);
  near(Pair(F::remainder, DType::i32, rows, operand).busy(machine), (8 + 1) * rows);
  near(Pair(F::remainder, DType::i64, rows, operand).busy(machine), 2 * (8 + 1) * rows);
  // what is left of a division, and whether it is below 0: copied, multiplied and taken off, shifted, added
  near(Pair(F::floor_divide, DType::i32, rows, 7).busy(machine), (8 + 4) * rows);
}

BOOST_AUTO_TEST_CASE(a_divisor_of_0_is_refused_and_writes_nothing) {
  for (const DType dtype : {DType::i32, DType::u8, DType::i64, DType::u64})
    for (const Function function : {F::divide, F::remainder, F::floor_divide}) {
      Pair made(function, dtype, 5, operand);
      const auto bytes = static_cast<std::size_t>(5 * 32 * host_bytes(dtype));
      std::vector<std::byte> x(bytes, std::byte{7}), y(bytes, std::byte{3}), z(bytes, std::byte{77});
      made.compute.inputs[0].data = x.data(), made.compute.inputs[1].data = y.data();
      made.compute.outputs[0].view.data = z.data();
      KernelExecutor executor(kernel_machine(8, 4));
      executor.run(made.compute);
      BOOST_TEST(executor.by_kernel() == 1);
      const std::vector<std::byte> before = z;
      for (int i = 0; i < host_bytes(dtype); ++i) y[bytes - 1 - static_cast<std::size_t>(i)] = std::byte{0};
      BOOST_CHECK_THROW(executor.run(made.compute), UserError);
      BOOST_TEST((z == before));
      BOOST_TEST(executor.others().empty());
    }
}

/// Of full registers and of one row that ends early: lanes without elements divide by nothing.
BOOST_AUTO_TEST_CASE(lanes_without_elements_do_not_divide) {
  for (const std::int64_t columns : {1, 5, 8, 13}) {
    VectorCompute compute;
    compute.extents = {3, columns};
    std::vector<std::int32_t> x(static_cast<std::size_t>(3 * columns), -9), y(x.size(), 2), z(x.size());
    const std::vector<ViewDim> each{{3, columns}, {columns, 1}};
    const auto view = [&](std::vector<std::int32_t>& of) {
      return TileView{reinterpret_cast<std::byte*>(of.data()), DType::i32, each, -1, {}};
    };
    compute.inputs = {view(x), view(y)};
    for (const int i : {0, 1}) compute.nodes.push_back({.op = VectorNode::Op::input, .index = i, .dtype = DType::i32});
    compute.nodes.push_back(
        {.op = VectorNode::Op::function, .function = F::floor_divide, .arguments = {0, 1, -1}, .dtype = DType::i32});
    VectorOutput output;
    output.node = 2, output.view = view(z);
    compute.outputs.push_back(output);
    KernelExecutor executor(kernel_machine(8, 4));
    executor.run(compute);
    BOOST_TEST(executor.by_kernel() == 1);
    for (const std::int32_t one : z) BOOST_TEST(one == -5);
  }
}

BOOST_AUTO_TEST_SUITE_END()
