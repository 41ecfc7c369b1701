// Simulates single messages: a message takes every link of its route as soon as all are free; messages go in the order
// in which they are ready. With faults the order is that of the network without faults: every time is then made of sums
// and maxima of message times, so that a slower link makes no message earlier, and delays none by more than it adds.
#include <algorithm>
#include <cstdint>
#include <map>

#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/cluster/collective/program.hpp"

namespace tilesim::cluster {

namespace {

/// Messages by the time at which they are ready. Many have equal times and are pushed consecutively.
class Ready {
 public:
  void push(std::int64_t time, std::int64_t message) {
    if (last_ == nullptr || time != last_time_) {
      last_ = &buckets_[time];
      last_time_ = time;
      if (last_->capacity() == 0 && !spare_.empty()) {
        *last_ = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    last_->push_back(message);
  }
  bool empty() const { return buckets_.empty(); }
  std::int64_t pop(std::vector<std::int64_t>& messages) {
    const auto first = buckets_.begin();
    const std::int64_t time = first->first;
    messages.swap(first->second);
    first->second.clear();
    if (first->second.capacity() > 0 && spare_.size() < 64) spare_.push_back(std::move(first->second));
    buckets_.erase(first);
    last_ = nullptr;
    return time;
  }

 private:
  std::map<std::int64_t, std::vector<std::int64_t>> buckets_;
  std::vector<std::vector<std::int64_t>> spare_;
  std::vector<std::int64_t>* last_ = nullptr;
  std::int64_t last_time_ = 0;
};

/// State of a running job. Copy c of message m has number first + m x copies + c.
struct Running {
  const Job* job;
  std::int64_t first;
  std::vector<int> wait_row;            ///< per message: row of `waiting`; -1: it waits for at most one message
  std::vector<int> waiting;             ///< row x copies + copy: messages still to arrive
  std::vector<std::int64_t> ready;      ///< likewise: latest arrival so far
  std::vector<int> size_of;             ///< per message: row of `durations`
  std::vector<std::int64_t> durations;  ///< sizes x rates
};

class Chunks {
 public:
  Chunks(const Network& network, const std::vector<Job>& jobs, bool given)
      : network_(network), lanes_first_(network.links().size()), given_(given) {
    std::map<std::int64_t, int> rates;
    std::size_t lanes = 0;
    for (std::size_t i = 0; i < network.links().size(); ++i) {
      const Link& link = network.links()[i];
      rate_.push_back(rates.try_emplace(link.bytes_per_second, static_cast<int>(rates.size())).first->second);
      lanes_first_[i] = lanes;
      lanes += at(link.lanes);
    }
    free_.assign(lanes, 0);
    rates_.resize(rates.size());
    for (const auto& [rate, number] : rates) rates_[at(number)] = rate;
    std::int64_t first = 0;
    for (const Job& job : jobs) {
      begin(job, first);
      first += static_cast<std::int64_t>(job.program.size()) * job.copies;
    }
    times_.end.resize(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) times_.end[i] = jobs[i].start;
  }

  /// Sends messages in the order in which they are ready; appends them to `order` unless null.
  Times run(std::vector<std::int64_t>* order) {
    order_ = order;
    std::vector<std::int64_t> bucket;
    while (!ready_.empty()) {
      const std::int64_t time = ready_.pop(bucket);
      worked(static_cast<std::int64_t>(bucket.size()) * 8);
      if (!std::is_sorted(bucket.begin(), bucket.end())) std::sort(bucket.begin(), bucket.end());
      for (const std::int64_t number : bucket) {
        if (order != nullptr) order->push_back(number);
        send(number, time);
      }
      bucket.clear();
    }
    return times_;
  }

  /// Sends messages in a given order, in which dependences precede their dependents.
  Times follow(const std::vector<std::int64_t>& order) {
    for (const std::int64_t number : order) {
      worked(8);
      send(number, arrived_[at(number)]);
    }
    return times_;
  }

 private:
  void begin(const Job& job, std::int64_t first) {
    Running running{&job, first, {}, {}, {}, {}, {}};
    const Program& program = job.program;
    std::map<int, int> sizes;
    int rows = 0;
    for (std::size_t m = 0; m < program.size(); ++m) {
      const auto [found, fresh] = sizes.try_emplace(program.chunks[m], static_cast<int>(sizes.size()));
      if (fresh)
        for (const std::int64_t rate : rates_)
          running.durations.push_back(
              rate == 0 || found->first == 0 ? 0 : picoseconds(job.bytes, found->first, program.pieces, rate));
      running.size_of.push_back(found->second);
      running.wait_row.push_back(program.waits[m] > 1 ? rows++ : -1);
      for (int copy = 0; copy < job.copies; ++copy) {
        if (given_)
          arrived_.push_back(job.start);
        else if (program.waits[m] == 0)
          ready_.push(job.start, first + static_cast<std::int64_t>(m) * job.copies + copy);
        else if (program.waits[m] > 1)
          running.waiting.push_back(program.waits[m]);
      }
    }
    running.ready.assign(running.waiting.size(), 0);
    running_.push_back(std::move(running));
  }

  /// The lane of a link that is free first, or the hashed lane.
  std::int64_t& lane(int link, int message, int copy) {
    const Link& one = network_.links()[at(link)];
    std::int64_t* lanes = &free_[lanes_first_[at(link)]];
    if (one.lanes == 1) return *lanes;
    if (one.hashed) {
      std::uint64_t x = static_cast<std::uint64_t>(message) * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(copy);
      x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ULL;
      return lanes[(x ^ (x >> 29)) % static_cast<std::uint64_t>(one.lanes)];
    }
    return *std::min_element(lanes, lanes + one.lanes);
  }

  void send(std::int64_t name, std::int64_t time) {
    std::size_t number = running_.size() - 1;
    while (running_[number].first > name) --number;
    Running& running = running_[number];
    const Job& job = *running.job;
    const std::int64_t own = name - running.first;
    const int copies = job.copies;
    const auto message = static_cast<int>(copies == 1 ? own : own / copies);
    const auto copy = static_cast<int>(copies == 1 ? 0 : own - static_cast<std::int64_t>(message) * copies);
    const Job::Way& way = job.way(message, copy);
    std::int64_t arrival = time;
    if (way.begin != way.end && job.program.chunks[at(message)] > 0) {
      ++times_.messages;
      const std::int64_t* durations = &running.durations[at(running.size_of[at(message)]) * rates_.size()];
      std::int64_t start = time, longest = 0;
      for (int i = way.begin; i < way.end; ++i) start = std::max(start, lane(job.links[at(i)], message, copy));
      for (int i = way.begin; i < way.end; ++i) {
        const std::int64_t taken = durations[rate_[at(job.links[at(i)])]];
        lane(job.links[at(i)], message, copy) = start + taken;
        longest = std::max(longest, taken);
      }
      arrival = start + longest + way.latency;
    }
    times_.end[number] = std::max(times_.end[number], arrival);
    release(running, message, way.next, arrival);
  }

  /// Makes the messages ready that waited for an arrived message.
  void release(Running& running, int message, int copy, std::int64_t arrival) {
    const Job& job = *running.job;
    for (const int follower : job.program.after(message)) {
      const std::int64_t id = running.first + static_cast<std::int64_t>(follower) * job.copies + copy;
      if (given_) {
        arrived_[at(id)] = std::max(arrived_[at(id)], arrival);
        continue;
      }
      std::int64_t ready = arrival;
      if (const int row = running.wait_row[at(follower)]; row >= 0) {
        const std::size_t place = at(row) * at(job.copies) + at(copy);
        ready = running.ready[place] = std::max(running.ready[place], arrival);
        if (--running.waiting[place] > 0) continue;
      }
      if (follower < job.program.first_gate) {
        ready_.push(ready, id);
        continue;
      }
      if (order_ != nullptr) order_->push_back(id);
      send(id, ready);  // a gate takes no time
    }
  }

  const Network& network_;
  std::vector<int> rate_;
  std::vector<std::int64_t> rates_;
  std::vector<std::size_t> lanes_first_;
  std::vector<std::int64_t> free_;
  std::vector<Running> running_;
  Ready ready_;
  std::vector<std::int64_t>* order_ = nullptr;  ///< collects the messages as they are sent; null: nowhere
  bool given_;                                  ///< the order is given; uses `arrived_` instead of `ready_`
  std::vector<std::int64_t> arrived_;           ///< per message: latest arrival of its dependences
  Times times_;
};

}  // namespace

Times time_by_chunks(const Network& network, const std::vector<Job>& jobs) {
  return Chunks(network, jobs, false).run(nullptr);
}

Times time_by_chunks(const Network& network, const std::vector<Job>& jobs, const std::vector<Job>& healthy) {
  std::vector<std::int64_t> order;
  Chunks(network.healthy(), healthy, false).run(&order);
  return Chunks(network, jobs, true).follow(order);
}

}  // namespace tilesim::cluster
