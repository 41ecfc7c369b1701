// Times of messages that share links max-min fairly once they are ready; one at a time per source and target.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/units.hpp"
#include "tilesim/cluster/collective/program.hpp"

namespace tilesim::cluster {

namespace {

constexpr double picoseconds_per_second = 1e12;

struct Flow {
  std::size_t job;
  int message, copy;
  double left;           ///< bytes
  double rate = 0;       ///< bytes per second
  double before = 0;     ///< the previous rate; if unchanged, so is the end
  std::int64_t end = 0;  ///< at this rate
};

class Flows {
 public:
  Flows(const Network& network, const std::vector<Job>& jobs) : network_(network), jobs_(jobs) {
    share_.assign(network.links().size(), 0);
    count_.assign(network.links().size(), 0);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const Job& job = jobs[j];
      times_.end.push_back(job.start);
      waiting_.emplace_back();
      for (std::size_t m = 0; m < job.program.size(); ++m)
        for (int copy = 0; copy < job.copies; ++copy) {
          waiting_.back().push_back(job.program.waits[m]);
          if (job.program.waits[m] == 0)
            ready_[job.start].push_back({.job = j, .message = static_cast<int>(m), .copy = copy, .left = 0});
        }
    }
    busy_.resize(jobs.size());
    for (std::size_t j = 0; j < jobs.size(); ++j) busy_[j].assign(jobs[j].ways.size(), 0);
    latest_.resize(jobs.size());
    for (std::size_t j = 0; j < jobs.size(); ++j) latest_[j].assign(waiting_[j].size(), 0);
  }

  Times run() {
    std::int64_t now = 0;
    while (!ready_.empty() || !active_.empty()) {
      worked(static_cast<std::int64_t>(active_.size()) * 8 + 8);
      std::int64_t next = std::numeric_limits<std::int64_t>::max();
      if (!ready_.empty()) next = ready_.begin()->first;
      for (const Flow& flow : active_) next = std::min(next, flow.end);
      advance(now, next);
      now = next;
      begin(now);
      set_rates(now);
    }
    return times_;
  }

 private:
  void advance(std::int64_t from, std::int64_t to) {
    const double seconds = static_cast<double>(to - from) / picoseconds_per_second;
    std::vector<Flow> ended;
    std::erase_if(active_, [&](Flow& flow) {
      flow.left -= flow.rate * seconds;
      if (flow.end > to) return false;
      ended.push_back(flow);
      return true;
    });
    for (const Flow& flow : ended) leave(flow);
    for (const Flow& flow : ended) arrive(flow, to + jobs_[flow.job].way(flow.message, flow.copy).latency);
  }

  std::size_t channel(const Flow& flow) const {
    const Job& job = jobs_[flow.job];
    return at(static_cast<std::int64_t>(job.kind_of_message[at(flow.message)]) * job.copies + flow.copy);
  }

  /// Starts the next message from the same source to the same target.
  void leave(const Flow& flow) {
    const std::pair key{flow.job, channel(flow)};
    const auto found = behind_.find(key);
    if (found == behind_.end()) {
      busy_[key.first][key.second] = 0;
      return;
    }
    active_.push_back(found->second.begin()->second);
    found->second.erase(found->second.begin());
    if (found->second.empty()) behind_.erase(found);
  }

  /// Starts the ready messages; those without links arrive at once, and may make others ready at the same time.
  void begin(std::int64_t now) {
    while (!ready_.empty() && ready_.begin()->first == now) {
      auto flows = std::move(ready_.begin()->second);
      ready_.erase(ready_.begin());
      for (Flow& flow : flows) {
        const Job& job = jobs_[flow.job];
        const Job::Way& way = job.way(flow.message, flow.copy);
        const int chunks = job.program.chunks[at(flow.message)];
        if (way.begin == way.end || chunks == 0) {
          arrive(flow, now);
          continue;
        }
        ++times_.messages;
        flow.left = static_cast<double>(job.bytes) * chunks / static_cast<double>(job.program.pieces);
        if (flow.left <= 0)
          arrive(flow, now + way.latency);
        else if (std::exchange(busy_[flow.job][channel(flow)], 1) == 0)
          active_.push_back(flow);
        else
          behind_[{flow.job, channel(flow)}].emplace(std::pair{now, flow.message}, flow);
      }
    }
  }

  void arrive(const Flow& flow, std::int64_t time) {
    const Job& job = jobs_[flow.job];
    times_.end[flow.job] = std::max(times_.end[flow.job], time);
    const int next = job.way(flow.message, flow.copy).next;
    for (const int follower : job.program.after(flow.message)) {
      const std::size_t place = at(static_cast<std::int64_t>(follower) * job.copies + next);
      latest_[flow.job][place] = std::max(latest_[flow.job][place], time);
      if (--waiting_[flow.job][place] == 0)
        ready_[latest_[flow.job][place]].push_back({.job = flow.job, .message = follower, .copy = next, .left = 0});
    }
  }

  template <class Action>
  void each_link(const Flow& flow, Action&& action) const {
    const Job::Way& way = jobs_[flow.job].way(flow.message, flow.copy);
    for (int i = way.begin; i < way.end; ++i) action(jobs_[flow.job].links[at(i)]);
  }

  /// Water filling: flows of the narrowest link get an equal share of it, which is taken from their other links. A link
  /// of several lanes has the rate of all of them, but a flow at most the rate of one.
  void set_rates(std::int64_t now) {
    used_.clear();
    for (Flow& flow : active_) {
      flow.before = flow.rate;
      each_link(flow, [&](int link) {
        const Link& one = network_.links()[at(link)];
        if (count_[at(link)]++ == 0) {
          share_[at(link)] = static_cast<double>(one.bytes_per_second) * one.lanes;
          used_.push_back(link);
        }
      });
    }
    std::vector<Flow*> open;
    for (Flow& flow : active_) open.push_back(&flow);
    while (!open.empty()) {
      double least = std::numeric_limits<double>::infinity();
      for (const int link : used_)
        if (count_[at(link)] > 0) least = std::min(least, rate_on(link));
      std::vector<Flow*> rest, closed;
      for (Flow* flow : open) {
        bool narrow = false;
        each_link(*flow, [&](int link) { narrow = narrow || rate_on(link) <= least * (1 + 1e-9); });
        (narrow ? closed : rest).push_back(flow);
      }
      for (Flow* flow : closed) {
        flow->rate = least;
        each_link(*flow, [&](int link) {
          share_[at(link)] -= least;
          --count_[at(link)];
        });
      }
      open = std::move(rest);
    }
    for (Flow& flow : active_) {
      if (flow.rate == flow.before) continue;
      const double time = std::ceil(std::max(0.0, flow.left) / flow.rate * picoseconds_per_second - 1e-3);
      flow.end = now + static_cast<std::int64_t>(time);
    }
  }

  double rate_on(int link) const {
    const Link& one = network_.links()[at(link)];
    const double fair = std::max(share_[at(link)], 1e-6) / std::max(count_[at(link)], 1);
    return one.lanes == 1 ? fair : std::min(fair, static_cast<double>(one.bytes_per_second));
  }

  const Network& network_;
  const std::vector<Job>& jobs_;
  std::vector<double> share_;
  std::vector<int> count_, used_;
  std::vector<std::vector<int>> waiting_;
  std::vector<std::vector<std::int64_t>> latest_;
  std::map<std::int64_t, std::vector<Flow>> ready_;
  std::vector<Flow> active_;
  /// A collective sends one message at a time per source and target; others wait in order of ready time and step.
  std::vector<std::vector<char>> busy_;
  std::map<std::pair<std::size_t, std::size_t>, std::map<std::pair<std::int64_t, int>, Flow>> behind_;
  Times times_;
};

}  // namespace

Times time_by_flows(const Network& network, const std::vector<Job>& jobs) { return Flows(network, jobs).run(); }

}  // namespace tilesim::cluster
