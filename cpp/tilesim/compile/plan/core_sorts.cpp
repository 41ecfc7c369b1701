#include "tilesim/compile/plan/core_sorts.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::lower {

namespace {

double vector_rate(const CoreSpec& core) {
  const VectorSpec& vector = core.vector;
  return static_cast<double>(vector.lanes * vector.sublanes * vector.issue) / vector.simple *
         static_cast<double>(core.clock.hertz);
}

double array_rate(const CoreSpec& core) {
  const ArraySpec& array = core.array;
  const std::int64_t cells = array.sparse.present() ? array.sparse.multipliers : array.rows * array.columns;
  return static_cast<double>(array.count * cells) * static_cast<double>(core.clock.hertz);
}

std::string keys(const std::map<DType, double>& rates) {
  std::string text;
  for (const auto& [dtype, rate] : rates) text += std::string(name(dtype)) + " ";
  return text;
}

std::string keys(const std::map<DType, bool>& dtypes) {
  std::string text;
  for (const auto& [dtype, direct] : dtypes) text += std::string(name(dtype)) + " ";
  return text;
}

/// Throws if core types differ in a property that decides statements or results: all cores run the same kernels.
void check_alike(const std::vector<CoreSort>& sorts) {
  const CoreSort& first = sorts.front();
  for (const CoreSort& sort : sorts) {
    const ArraySpec &a = first.core.array, &b = sort.core.array;
    std::string differs;
    if ((a.count == 0) != (b.count == 0)) differs = "core.array.count: one has no arrays";
    if (a.numerics.multiply != b.numerics.multiply) differs = "core.array.multiply";
    if (a.numerics.accumulate != b.numerics.accumulate) differs = "core.array.accumulate";
    if (keys(a.rates) != keys(b.rates)) differs = "the types of core.array.rates";
    if (keys(first.core.vector.dtypes) != keys(sort.core.vector.dtypes)) differs = "core.vector.dtypes";
    if ((first.core.scratchpad.accumulator_bytes == 0) != (sort.core.scratchpad.accumulator_bytes == 0))
      differs = "core.scratchpad.accumulator_bytes: one has no accumulator";
    if (!differs.empty())
      throw Unsupported({"cores that compute differently cannot share a kernel",
                         "sorts " + first.name + " and " + sort.name,
                         differs,
                         {},
                         "compile for one of them: sort=\"" + first.name + "\" or sort=\"" + sort.name + "\""});
  }
}

CoreSpec common_core(const std::vector<CoreSort>& sorts) {
  const CoreSpec* fastest = &sorts.front().core;
  for (const CoreSort& sort : sorts) {
    const double more = array_rate(sort.core) - array_rate(*fastest);
    if (more > 0 || (more == 0 && vector_rate(sort.core) > vector_rate(*fastest))) fastest = &sort.core;
  }
  CoreSpec core = *fastest;
  const auto least = [](std::int64_t& own, std::int64_t other) { own = std::min(own, other); };
  for (const CoreSort& sort : sorts) {
    least(core.scratchpad.bytes, sort.core.scratchpad.bytes);
    least(core.scratchpad.accumulator_bytes, sort.core.scratchpad.accumulator_bytes);
    least(core.dma.load_queues, sort.core.dma.load_queues);
    least(core.dma.store_queues, sort.core.dma.store_queues);
    least(core.dma.queue_entries, sort.core.dma.queue_entries);
    least(core.array.count, sort.core.array.count);
    least(core.contexts, sort.core.contexts);
    core.kernel_barrier |= sort.core.kernel_barrier;
  }
  return core;
}

/// max(0, min(core - first, count)): number of the stretch's cores before "core".
Expr before_in(const Stretch& stretch) {
  return max(Expr(0), min(Expr::symbol("core") - Expr(stretch.first), Expr(stretch.count)));
}

}  // namespace

namespace {

Share first_of_sorts(const Machine& machine, std::int64_t cores) {
  const auto kept = std::make_shared<Share::Cores>();
  for (const CoreSort& sort : machine.sorts) {
    if (cores == 0) break;
    std::int64_t& count = kept->sorts.emplace_back(sort).core.count;
    count = std::min(count, cores);
    cores -= count;
  }
  if (kept->sorts.size() == 1) {
    kept->core = kept->sorts.front().core;
    kept->sorts.clear();
  } else {
    check_alike(kept->sorts);
    kept->core = common_core(kept->sorts);
  }
  return {machine, kept};
}

}  // namespace

Share with_cores(const Machine& machine, std::int64_t cores) {
  Share share = machine.sorts.empty() ? Share(machine) : first_of_sorts(machine, cores);
  share.core.count = cores;
  return share;
}

Expr shares_before(const std::vector<Stretch>& stretches) {
  Expr sum = 0;
  for (const Stretch& stretch : stretches) sum = sum + before_in(stretch) * Expr(stretch.each);
  return sum;
}

Expr share_of(const std::vector<Stretch>& stretches) {
  Expr share = stretches.front().each;
  for (std::size_t i = 1; i < stretches.size(); ++i)
    share = share +
            less(Expr(stretches[i].first - 1), Expr::symbol("core")) * Expr(stretches[i].each - stretches[i - 1].each);
  return share;
}

std::vector<Stretch> vector_speeds(const Share& machine) {
  constexpr double element_bytes = 4, steps = 4;
  std::vector<Stretch> result;
  std::vector<double> rates;
  std::int64_t first = 0;
  for (const CoreSort& sort : machine.sorts) {
    const double port = static_cast<double>(machine.network.port_bytes_per_cycle * machine.network.clock.hertz);
    const double dma = static_cast<double>(sort.core.dma.bytes_per_cycle * sort.core.clock.hertz);
    rates.push_back(std::min({port, dma, element_bytes * vector_rate(sort.core)}));
    result.push_back({first, sort.core.count, 0});
    first += sort.core.count;
  }
  std::int64_t common = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double least = *std::min_element(rates.begin(), rates.end());
    result[i].each = std::max<std::int64_t>(1, std::llround(std::min(1e6, steps * rates[i] / least)));
    common = std::gcd(common, result[i].each);
  }
  for (Stretch& stretch : result) stretch.each /= common;
  return result;
}

std::vector<double> product_speeds(const Share& machine, DType dtype, bool on_vector) {
  std::vector<double> speeds;
  for (const CoreSort& sort : machine.sorts) {
    const auto rate = sort.core.array.rates.find(dtype);
    const double per_cell = rate == sort.core.array.rates.end() ? 1 : rate->second;
    speeds.push_back(on_vector ? vector_rate(sort.core) : array_rate(sort.core) * per_cell);
  }
  return speeds;
}

}  // namespace tilesim::lower
