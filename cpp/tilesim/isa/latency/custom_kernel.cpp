#include "tilesim/isa/latency/custom_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/pipeline/pipeline.hpp"
#include "tilesim/isa/state/npu.hpp"
#include "tilesim/tile/custom_operation.hpp"

namespace tilesim::isa {

namespace {

/// Sets registers and stack as a C caller does (RISC-V calling convention 1.0, integers only).
void pass(Process& process, const std::vector<std::uint64_t>& arguments) {
  constexpr std::size_t in_registers = 8;
  for (std::size_t i = 0; i < std::min(in_registers, arguments.size()); ++i) process.hart.x[10 + i] = arguments[i];
  const std::size_t rest = arguments.size() > in_registers ? arguments.size() - in_registers : 0;
  process.hart.x[2] = (stack_top - 64 - 8 * rest) & ~Address{15};
  if (rest > 0) process.memory.place(process.hart.x[2], arguments.data() + in_registers, 8 * rest);
}

/// Fills an array with reproducible numbers: splitmix64, as for random inputs.
void fill(Array& array) {
  std::uint64_t state = 0;
  for (std::int64_t i = 0; i < array.size(); ++i) {
    state += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    const double unit = static_cast<double>(z >> 11) / static_cast<double>(std::uint64_t{1} << 53);
    const double value = is_float(array.dtype()) ? 2 * unit - 1 : unit < 0.5 ? 0 : 1;
    convert(&value, DType::f64, array.bytes() + i * host_bytes(array.dtype()), array.dtype(), 1);
  }
}

/// Number and value of guard bytes after a result, which a kernel must not change.
constexpr std::size_t guard_bytes = 256;
constexpr std::byte guard{0xA5};

/// Throws UserError if a kernel wrote beyond its result.
void check_guard(Process& process, Address end, const std::string& operation, std::size_t result, std::int64_t bytes) {
  std::array<std::byte, guard_bytes> found{};
  process.memory.read(end, found.data(), found.size());
  const auto first = std::find_if(found.begin(), found.end(), [](std::byte one) { return one != guard; });
  if (first != found.end())
    throw UserError({"the kernel of a custom operation writes beyond its result",
                     "'" + operation + "', result " + std::to_string(result),
                     "byte " + std::to_string(bytes + (first - found.begin())) + " was written",
                     std::to_string(bytes) + " bytes",
                     {}});
}

std::string types_text(const std::vector<Array>& arrays) {
  std::string text;
  for (const Array& array : arrays) {
    text += std::string(name(array.dtype())) + "[";
    for (const std::int64_t extent : array.shape()) text += std::to_string(extent) + ",";
    text += "]";
  }
  return text;
}

/// All settings that determine the pipeline of a machine's core.
std::string core_text(const Machine& machine) {
  const Json json = machine.to_json();
  return json.at("core").dump();
}

}  // namespace

CoreTiming CustomKernel::core(const Machine& machine) const {
  CoreTiming core = core_of(machine);
  for (const CustomUnit& unit : program_.units) {
    const auto known = std::find_if(core.units.begin(), core.units.end(),
                                    [&](const CustomUnit& other) { return other.name == unit.name; });
    if (known == core.units.end()) core.units.push_back(unit);
  }
  return core;
}

std::int64_t CustomKernel::run(const Machine& machine, const std::vector<Array>& operands, std::vector<Array>& results,
                               bool timed) const {
  const CoreTiming timing = core(machine);
  Process process(program_.set, timing.vlen, program_.image, LinuxOptions{});
  Npu npu(npu_spec(machine, timing));
  process.hart.npu = &npu;
  std::vector<std::uint64_t> arguments;
  const auto place = [&](const Array& array) {
    const auto bytes = static_cast<std::uint64_t>(array.nbytes());
    arguments.push_back(process.allocate(bytes + guard_bytes));
    if (bytes > 0) process.memory.place(arguments.back(), array.bytes(), bytes);
  };
  for (const Array& operand : operands) place(operand);
  std::array<std::byte, guard_bytes> behind{};
  behind.fill(guard);
  for (const Array& result : results) {
    place(result);
    process.memory.place(arguments.back() + static_cast<Address>(result.nbytes()), behind.data(), behind.size());
  }
  for (const Array& operand : operands)
    for (const std::int64_t extent : operand.shape()) arguments.push_back(static_cast<std::uint64_t>(extent));
  pass(process, arguments);
  std::unique_ptr<Pipeline> pipeline;
  if (timed) pipeline = std::make_unique<Pipeline>(program_.set, timing);
  const Stop stop = process.call(program_.function, ~std::uint64_t{0} >> 1, pipeline.get());
  if (stop.kind != Stop::returned) {
    const std::string at = where(stop.pc);
    std::string why = stop.kind == Stop::exited ? "it ended the program" : std::string(cause_text(stop.trap.cause));
    if (!stop.trap.text.empty()) why += ": " + stop.trap.text;
    throw UserError({"the kernel of a custom operation did not return",
                     "'" + program_.name + "'" + (at.empty() ? "" : ", " + at),
                     why,
                     "a function that returns by the C ABI",
                     {}});
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::int64_t bytes = results[i].nbytes();
    const Address at = arguments[operands.size() + i];
    check_guard(process, at + static_cast<Address>(bytes), program_.name, i, bytes);
    if (bytes > 0) process.memory.read(at, results[i].bytes(), static_cast<std::uint64_t>(bytes));
  }
  return pipeline ? pipeline->drain() : 0;
}

bool run_own(const Machine& machine, const Opaque& opaque) {
  const auto operation = find_operation(opaque.target);
  const auto* kernel = dynamic_cast<const CustomKernel*>(operation.get());
  if (kernel == nullptr) return false;
  on_arrays(opaque, [&](const std::vector<Array>& operands, std::vector<Array>& results) {
    kernel->run(machine, operands, results, false);
  });
  return true;
}

bool has_kernel(const Opaque& opaque) {
  return dynamic_cast<const CustomKernel*>(find_operation(opaque.target).get()) != nullptr;
}

std::int64_t CustomKernel::cycles(const Machine& machine, const std::vector<Array>& operands,
                                  const std::vector<Array>& results) const {
  const std::string key = core_text(machine) + types_text(operands) + types_text(results);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = cached_.find(key); found != cached_.end()) return found->second;
  }
  std::vector<Array> given, made;
  for (const Array& operand : operands) given.push_back(operand.clone()), fill(given.back());
  for (const Array& result : results) made.push_back(result.clone());
  const std::int64_t measured = run(machine, given, made, true);
  const std::lock_guard lock(mutex_);
  return cached_.emplace(key, measured).first->second;
}

}  // namespace tilesim::isa
