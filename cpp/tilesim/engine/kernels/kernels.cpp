#include "tilesim/engine/kernels/kernels.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"

namespace tilesim::engine {

void KernelCounters::add(const KernelCounters& other) {
  if (other.start >= 0) start = start < 0 ? other.start : std::min(start, other.start);
  finish = std::max(finish, other.finish);
  for (const auto field :
       {&KernelCounters::count, &KernelCounters::cycles, &KernelCounters::exclusive, &KernelCounters::load_bytes,
        &KernelCounters::store_bytes, &KernelCounters::below_bytes, &KernelCounters::array_busy,
        &KernelCounters::vector_busy, &KernelCounters::launch, &KernelCounters::dma_busy,
        &KernelCounters::padding_bytes, &KernelCounters::send_bytes, &KernelCounters::on_chip_bytes})
    this->*field += other.*field;
  for (const auto field :
       {&KernelCounters::multiply_adds, &KernelCounters::vector_operations, &KernelCounters::array_multiply_adds})
    this->*field += other.*field;
}

void KernelRuns::begin(std::int32_t scope, std::int64_t start, std::int64_t finish) {
  KernelRun& run = running_.emplace_back();
  run.scope = scope;
  run.instance = instances_[scope]++;
  run.start = start;
  run.finish = finish;
}

std::int64_t KernelRuns::enter() {
  ++running_.back().pending;
  return first_ + static_cast<std::int64_t>(running_.size()) - 1;
}

bool KernelRuns::leave(std::int64_t kernel) {
  if (kernel < 0) return false;
  KernelRun& run = running_[at(kernel - first_)];
  return --run.pending == 0 && run.ended;
}

void KernelRuns::used(std::int64_t kernel, std::int64_t start, std::int64_t finish) {
  if (kernel < 0) return;
  KernelRun& run = running_[at(kernel - first_)];
  run.start = run.start < 0 ? start : std::min(run.start, start);
  run.finish = std::max(run.finish, finish);
  run.worked = true;
}

void KernelRuns::pop() {
  running_.pop_front();
  ++first_;
}

void JobKernels::start(std::size_t scopes, std::int64_t now) {
  counters_.resize(scopes);
  accounted_ = now;
}

void JobKernels::launch(std::int32_t scope, std::int64_t cycles) {
  KernelCounters& kernel = counters_[at(scope)];
  ++kernel.count;
  kernel.launch += cycles;
}

void JobKernels::settle(KernelRuns& runs, bool leads, std::int64_t now, std::size_t streams) {
  for (; runs.over(); runs.pop()) {
    const KernelRun& run = runs.front();
    const std::pair<std::int32_t, std::int64_t> key{run.scope, run.instance};
    Span& span = spans_[key];
    if (leads || run.worked) {
      const std::int64_t start = run.start < 0 ? now : run.start;
      span.start = span.start < 0 ? start : std::min(span.start, start);
      span.finish = std::max({span.finish, run.finish, start});
    }
    if (++span.streams == streams) {
      account(run.scope, span);
      spans_.erase(key);
    }
  }
}

/// Adds a kernel's time. Its exclusive time is the part after the end of all earlier kernels.
void JobKernels::account(std::int32_t scope, const Span& span) {
  KernelCounters& kernel = counters_[at(scope)];
  const std::int64_t start = std::max<std::int64_t>(span.start, 0), finish = std::max(span.finish, start);
  kernel.cycles += finish - start;
  kernel.exclusive += std::max<std::int64_t>(0, finish - accounted_);
  kernel.start = kernel.start < 0 ? start : kernel.start;
  kernel.finish = std::max(kernel.finish, finish);
  accounted_ = std::max(accounted_, finish);
  last_ = scope;
}

void JobKernels::finish(std::int64_t now) {
  for (const auto& [key, span] : spans_)  // kernels that not all cores run
    if (span.start >= 0) account(key.first, span);
  spans_.clear();
  if (last_ >= 0) counters_[at(last_)].exclusive += now - accounted_;
  accounted_ = now;
}

}  // namespace tilesim::engine
