// Times of kernels (outermost named scopes), per stream and over all streams of a job. Kernels may overlap.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace tilesim::engine {

struct KernelCounters {
  std::int64_t count = 0, start = -1, finish = 0, cycles = 0, exclusive = 0;
  std::int64_t load_bytes = 0, store_bytes = 0, below_bytes = 0, array_busy = 0, vector_busy = 0, launch = 0;
  std::int64_t dma_busy = 0;  ///< thousandths of a cycle in which DMA engines moved bytes, summed over cores
  std::int64_t padding_bytes = 0, send_bytes = 0;  ///< padding_bytes: bytes of loads and stores beyond their elements
  std::int64_t on_chip_bytes = 0;                  ///< bytes of transfers within the core, separate from loads, stores
  double multiply_adds = 0, vector_operations = 0;
  double array_multiply_adds = 0;  ///< including idle rows and columns at an array's edges

  void add(const KernelCounters& other);  ///< adds the counters of another job
};

/// A kernel in progress in a stream.
struct KernelRun {
  std::int32_t scope = -1;
  std::int64_t start = -1, finish = 0;
  std::int64_t pending = 0;   ///< number of its statements in queues
  bool ended = false;         ///< all its statements are dispatched
  bool worked = false;        ///< one of its statements used a unit
  std::int64_t instance = 0;  ///< number of earlier runs of its scope in this stream
};

/// Kernels of a stream, in text order.
class KernelRuns {
 public:
  void begin(std::int32_t scope, std::int64_t start, std::int64_t finish);  ///< start -1: still unknown
  void end() { running_.back().ended = true; }
  std::int64_t enter();             ///< counts a statement of the latest kernel; returns the kernel's number
  bool leave(std::int64_t kernel);  ///< returns whether this was the last statement of an ended kernel
  void used(std::int64_t kernel, std::int64_t start, std::int64_t finish);  ///< start -1: used no unit
  bool over() const { return !running_.empty() && running_.front().ended && running_.front().pending == 0; }
  const KernelRun& front() const { return running_.front(); }
  void pop();

 private:
  std::map<std::int32_t, std::int64_t> instances_;  ///< per scope: number of started kernels
  std::deque<KernelRun> running_;
  std::int64_t first_ = 0;  ///< number of the front kernel
};

/// Kernels of a job.
class JobKernels {
 public:
  void start(std::size_t scopes, std::int64_t now);
  KernelCounters* counters_of(std::int32_t scope) {
    return scope < 0 ? nullptr : &counters_[static_cast<std::size_t>(scope)];
  }
  const std::vector<KernelCounters>& counters() const { return counters_; }  ///< per scope
  void launch(std::int32_t scope, std::int64_t cycles);
  /// Assigns exclusive time to kernels that all `streams` have completed. A stream without work in a kernel does not
  /// extend it, unless it `leads`.
  void settle(KernelRuns& runs, bool leads, std::int64_t now, std::size_t streams);
  void finish(std::int64_t now);  ///< ends the job

 private:
  /// Time span over streams; `streams` of them have finished.
  struct Span {
    std::int64_t start = -1, finish = 0;
    std::size_t streams = 0;
  };
  void account(std::int32_t scope, const Span& span);

  std::vector<KernelCounters> counters_;
  std::map<std::pair<std::int32_t, std::int64_t>, Span> spans_;  ///< by scope and instance
  std::int32_t last_ = -1;
  std::int64_t accounted_ = 0;  ///< end of the time that is assigned to kernels
};

}  // namespace tilesim::engine
