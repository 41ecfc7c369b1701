#include "tilesim/cluster/collective/choosing.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/cluster/collective/levels.hpp"

namespace tilesim::cluster {

namespace {

using std::int64_t;

/// Limits below which dependences are found by simulating all messages.
constexpr int most_in_part = 512;
constexpr int64_t few_messages = int64_t{1} << 16;  ///< 30 ms
constexpr int64_t most_of_levels = int64_t{1} << 18;
constexpr std::size_t few_devices = 1024;
constexpr int64_t most_listed = 1 << 14;  ///< limit on devices
/// Limit on transfers of an algorithm that is only tried: this takes some milliseconds.
constexpr int64_t most_tried = int64_t{1} << 14;
constexpr int64_t most_first = int64_t{1} << 17;  ///< limit for the network's own algorithm, which is the default
constexpr int64_t most_round = int64_t{1} << 16;  ///< limit for rings, which take less time: 1,024 devices in 64 pieces
constexpr int most_pieces = 64;

bool doubles(const Request& request) { return request.operation == Operation::all_reduce; }

/// The formula of the request's algorithm on these axes (null: other devices).
std::optional<Closed> closed_form(const Request& request, const std::vector<Axis>* axes) {
  if (axes == nullptr) return std::nullopt;
  if (axes->empty()) return Closed{};
  const Algorithm* row = find_algorithm(request.operation, request.choice.algorithm);
  if (row == nullptr || row->time == nullptr) return std::nullopt;
  return row->time({request.operation, request.choice, *axes, request.bytes});
}

/// The candidates of "auto"; the network's own algorithm comes first.
std::vector<Choice> candidates(const Network& network, Request request, const std::vector<Axis>* axes) {
  const Asked one = asked(network, request, axes);
  std::vector<Choice> found;
  for (const Algorithm& row : algorithms()) {
    if (std::ranges::count(row.operations, request.operation) == 0 || !row.tried(one)) continue;
    found.push_back(request.choice);
    found.back().algorithm = row.name;
  }
  // Parts of a torus use all axes at once: further pieces gain nothing.
  const bool cut = one.box && one.axes.size() > 1 && request.operation <= Operation::reduce_scatter &&
                   request.choice.pieces == 0 && std::ranges::count_if(one.axes, &Axis::grid) < 2;
  if (!cut) return found;
  Choice best = request.choice = found[0];
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int pieces = 1; pieces <= most_pieces; pieces *= 2) {
    request.choice.pieces = pieces;
    const auto closed = closed_form(request, axes);
    if (closed && closed->picoseconds < least) least = closed->picoseconds, best = request.choice;
  }
  if (best.pieces > 1) found.push_back(best);
  return found;
}

/// Approximate number of transfers of an algorithm's list, before the list is made.
int64_t listed(const Network& network, const Request& request, const std::vector<Axis>* axes) {
  return find_algorithm(request.operation, request.choice.algorithm)->transfers(asked(network, request, axes));
}

int64_t sent_of(const Made& made, const Turns& turns) {
  if (const auto* list = std::get_if<Schedule>(&made)) {
    std::vector<std::tuple<int, int, int>> messages;
    for (const Transfer& one : list->transfers) messages.emplace_back(one.step, one.source, one.target);
    std::sort(messages.begin(), messages.end());
    return std::unique(messages.begin(), messages.end()) - messages.begin();
  }
  const auto& program = std::get<Template>(made);
  return static_cast<int64_t>(program.messages.size()) * turns.copies();
}

/// Lower bound on the time of an algorithm's messages, by chains of dependent messages.
class Bound {
 public:
  Bound(const Network& network, const Request& request, const std::vector<Axis>* axes)
      : request_(request), n_(static_cast<int64_t>(request.places.size())) {
    int64_t stride = 1;
    if (axes != nullptr)
      for (const Axis& axis : *axes) {
        add(network.dimensions()[at(axis.dimension)], stride);
        stride *= axis.size;
      }
    else
      for (const Dimension& one : network.dimensions()) add(one, n_);
    if (!network.dimensions().empty() && !network.dimensions()[0].grid() && network.dimensions().size() > 1)
      rings_ = network.stride(1);
  }

  int64_t operator()() const {
    const Choice& choice = request_.choice;
    const std::string& name = choice.algorithm;
    const int64_t turns = doubles(request_) ? 2 : 1;
    if (request_.operation == Operation::broadcast_devices) return quickest(1, 1, std::max(most_pieces, choice.pieces));
    if (name == "ring")
      return request_.operation == Operation::all_to_all
                 ? 0
                 : turns * (n_ - 1) * quickest(1, 1, n_ * std::max<int64_t>(rings_, choice.rings));
    if (name == "bruck") return turns * steps(false);
    if (name == "halving-doubling") return turns * steps(true);
    if (name == "tree") return 2 * (std::bit_width(static_cast<std::uint64_t>(n_)) - 1) * quickest(1, 0, 1);
    return quickest(1, 1, n_ * most_pieces);
  }

 private:
  struct Way { int64_t stride, rate, latency; };
  void add(const Dimension& dimension, int64_t stride) {
    ways_.push_back({stride, dimension.bytes_per_second, dimension.latency});
  }
  /// Least time of a message to a device at this distance, across one of the axes that such a message must cross.
  int64_t quickest(int64_t distance, int64_t blocks, int64_t pieces) const {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (std::size_t a = 0; a < ways_.size(); ++a) {
      if (a + 1 < ways_.size() && ways_[a + 1].stride <= distance) continue;
      least = std::min(least, picoseconds(request_.bytes, blocks, pieces, ways_[a].rate) + ways_[a].latency);
    }
    return ways_.empty() ? 0 : least;
  }
  /// Sum over steps of doubling distances; omits the last step if the number of devices is not a power of two.
  int64_t steps(bool halving) const {
    int64_t time = 0, most = static_cast<int64_t>(std::bit_floor(static_cast<std::uint64_t>(n_)));
    if (halving && most < n_) time = quickest(most, 1, 1);  // first all data to a partner
    const int64_t all = halving ? most : n_;
    for (int64_t distance = 1; distance < all && 2 * distance <= most; distance *= 2) {
      int64_t blocks = distance;
      if (request_.operation == Operation::all_to_all) blocks = all / (2 * distance) * distance;
      time += quickest(distance, blocks, all);
    }
    return time;
  }

  const Request& request_;
  int64_t n_, rings_ = 1;
  std::vector<Way> ways_;
};

/// Simulated time on the network without faults; empty if there are more than `limit` messages (`sent` is their
/// number), or if they cannot be complete before `least` (0: no such limit).
std::optional<CollectiveTime> counted(const Network& network, const Request& request,
                                      const std::optional<std::vector<Axis>>& axes, int64_t limit, int64_t least,
                                      int64_t& sent) {
  const Made made = make(network, request, axes);
  Turns turns;
  if (const auto* one = std::get_if<Template>(&made)) {
    turns = Turns(*one, network, request.places, true);
    // checking the symmetry of a large group takes long, and would be repeated for each candidate
    if (turns.classes() <= most_in_part)
      turns = Turns(*one, network, request.places, false);
    else
      turns = Turns(one->group.size());
  }
  sent = sent_of(made, turns);
  if (sent > limit) return std::nullopt;
  if (least > 0) {
    const double busy = busiest(network, made, request.places) * static_cast<double>(request.bytes) * 1e12;
    if (static_cast<int64_t>(busy * (1 - 1e-9)) >= least) return std::nullopt;
  }
  auto program = std::make_shared<const Program>(std::visit([](const auto& one) { return compile(one); }, made));
  Named named;
  std::vector<Job> jobs;
  jobs.emplace_back(std::move(program), network, request.places, request.bytes, 0, &turns, &named);
  const int classes = std::holds_alternative<Template>(made) ? turns.copies() : jobs[0].program.devices;
  const Times times = time_by_chunks(network, jobs);
  return CollectiveTime{{times.end[0], false}, classes, times.messages};
}

/// Limit on the messages that replace a formula's estimate: that of an undivided sum over levels is up to 80 % too low.
int64_t limit_of(const Choice& choice) {
  return choice.algorithm == "hierarchical" && choice.pieces <= 1 ? most_of_levels : few_messages;
}

/// Whether a simulation may have at most `limit` messages, judged without listing them.
bool countable(const Network& network, const Request& request, const std::vector<Axis>* axes, int64_t limit) {
  const Asked one = asked(network, request, axes);
  const Algorithm& row = *find_algorithm(request.operation, request.choice.algorithm);
  const int64_t sent = row.sent != nullptr ? row.sent(one) : row.transfers(one) / one.devices();
  int64_t classes = 1;  // members of a leaf switch have different timelines
  for (const Axis& axis : one.axes)
    if (const auto& leaf = axis.trunks.leaf; !leaf.empty()) classes = std::ranges::count(leaf, leaf[0]);
  return one.devices() <= most_listed && classes * sent <= limit;
}

class Choosing {
 public:
  /// `axes`: those of the devices in order; other devices are only simulated.
  Choosing(const Network& network, Request& request, const std::optional<std::vector<Axis>>& axes, bool all)
      : network_(network), request_(request), axes_(axes), all_(all), several_(axes && axes->size() > 1) {
    if (axes_ && std::is_sorted(request.places.begin(), request.places.end())) own_ = &*axes_;
  }

  std::vector<Tried> run() {
    std::vector<std::pair<Choice, Closed>> estimates;
    std::vector<Choice> rest;
    const std::vector<Choice> every = candidates(network_, request_, own_);
    for (const Choice& choice : every) {
      request_.choice = choice;
      if (!all_ && least_ > 0 && Bound(network_, request_, own_)() >= least_) continue;
      const auto closed = closed_form(request_, own_);
      if (!closed)
        rest.push_back(choice);
      else if (closed->exact)
        take(choice, CollectiveTime{*closed});
      else
        estimates.emplace_back(choice, *closed);
    }
    for (const auto& [choice, closed] : estimates) estimate(choice, closed);
    for (const Choice& choice : rest) {
      const bool tried = by_messages(choice, most_tried);
      if (!tried && choice.algorithm == every[0].algorithm) first_ = choice;
    }
    if (first_ && by_messages(*first_, most_first)) first_.reset();
    return std::move(tried_);
  }

  /// The network's own algorithm if it has too many messages to be tried but may be the fastest.
  const std::optional<Choice>& untried() {
    if (!first_ || (!tried_.empty() && request_.operation == Operation::broadcast_devices)) return first_ = {};
    request_.choice = *first_;
    if (least_ > 0 && Bound(network_, request_, own_)() >= least_) first_.reset();
    return first_;
  }

 private:
  void take(const Choice& choice, const CollectiveTime& found) {
    if (least_ == 0 || found.time.picoseconds < least_) least_ = std::max<int64_t>(1, found.time.picoseconds);
    tried_.push_back({choice, found});
  }

  /// Simulates a candidate whose formula is an estimate, unless that is much too slow, in as many pieces as the limit
  /// allows. Takes the estimate if even the undivided messages are too many: pieces meet where no formula knows it.
  void estimate(Choice choice, const Closed& closed) {
    if (!all_ && least_ > 0 && closed.picoseconds > least_ + least_ / 2) return;
    const bool levels = choice.algorithm == "hierarchical" || choice.algorithm == "torus";
    const bool undivided = choice.pieces <= 1;
    const int64_t limit = several_ && !levels ? most_tried : limit_of(choice), least = all_ ? 0 : least_;
    for (;; choice.pieces /= 2) {
      request_.choice = choice;
      int64_t sent = limit + 1;
      if (countable(network_, request_, own_, limit))
        if (auto found = counted(network_, request_, axes_, limit, least, sent)) return take(choice, *found);
      if (undivided && sent > limit) take(choice, CollectiveTime{closed});
      if (choice.pieces <= 1 || sent <= limit) return;
    }
  }

  /// Whether the candidate was timed, or cannot be the fastest; false if it has more than `most` messages.
  bool by_messages(const Choice& choice, int64_t most) {
    request_.choice = choice;
    const auto n = static_cast<int64_t>(request_.places.size());
    const bool sent_on = request_.operation == Operation::broadcast_devices;  // its list has an entry per message
    const bool straight = sent_on && choice.algorithm != "ring";
    const bool round = sent_on || (choice.algorithm == "ring" && own_ != nullptr);
    const int64_t limit = straight ? std::max(most, n) : round ? std::max(most, most_round) : most;
    const int64_t least = all_ ? 0 : least_;
    if (least > 0 && Bound(network_, request_, own_)() >= least) return true;
    const bool few_steps = choice.algorithm == "halving-doubling" || choice.algorithm == "bruck";
    if (listed(network_, request_, own_) > limit || (!straight && !few_steps && at(n) > few_devices)) return false;
    int64_t sent = 0;
    auto found = counted(network_, request_, axes_, limit, least, sent);
    if (!found) return sent <= limit;
    found->formula = false;
    found->time.exact = true;
    take(choice, *found);
    return true;
  }

  const Network& network_;
  Request& request_;
  const std::optional<std::vector<Axis>>& axes_;
  const std::vector<Axis>* own_ = nullptr;
  bool all_, several_;
  int64_t least_ = 0;  ///< least time so far; 0: none
  std::optional<Choice> first_;
  std::vector<Tried> tried_;
};

}  // namespace

std::optional<CollectiveTime> form(const Network& network, Request& request,
                                   const std::optional<std::vector<Axis>>& axes) {
  if (request.choice.algorithm != "auto") {
    if (!axes || !std::is_sorted(request.places.begin(), request.places.end())) return std::nullopt;
    const auto closed = closed_form(request, &*axes);
    if (!closed) return std::nullopt;
    int64_t sent = 0;
    const int64_t limit = limit_of(request.choice);
    if (!closed->exact && countable(network, request, &*axes, limit))
      if (auto found = counted(network, request, axes, limit, 0, sent)) return found;
    return CollectiveTime{*closed};
  }
  if (request.places.size() < 2 || request.operation == Operation::permute_devices) {
    request.choice.algorithm = "direct";
    return request.places.size() < 2 ? std::optional(CollectiveTime{}) : std::nullopt;
  }
  Choosing choosing(network, request, axes, false);
  const std::vector<Tried> tried = choosing.run();
  if (const auto& choice = choosing.untried()) {
    request.choice = *choice;
    return std::nullopt;
  }
  std::optional<CollectiveTime> least;
  for (const Tried& one : tried)
    if (!least || one.time.time.picoseconds < least->time.picoseconds) least = one.time, request.choice = one.choice;
  return least;
}

std::vector<Tried> every_form(const Network& network, Request& request, const std::optional<std::vector<Axis>>& axes) {
  return Choosing(network, request, axes, true).run();
}

}  // namespace tilesim::cluster
