// Programs that are the same on every device.
#include <algorithm>
#include <map>
#include <tuple>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/collective/schedule.hpp"

namespace tilesim::cluster {

namespace {

struct Step {
  int step, offset;
  std::vector<int> labels;  ///< relative to the sender
};

/// Messages of a gather along one leg, sent by device 0.
std::vector<Step> gather(const Leg& leg, int stride) {
  const int n = leg.size;
  std::vector<Step> steps;
  if (leg.walk == Walk::ring) {
    for (int t = 0; t + 1 < n; ++t)
      steps.push_back({t, stride % n, {static_cast<int>((n - static_cast<std::int64_t>(t) * stride % n) % n)}});
  } else if (leg.walk == Walk::direct) {
    for (int k = 1; k < n; ++k) steps.push_back({k - 1, k, {0}});  // no device receives from two at a time
  } else {
    int t = 0;
    for (int distance = 1; distance < n; distance *= 2, ++t) {
      Step step{t, leg.walk == Walk::halving ? distance : n - distance, {}};
      for (int l = 0; l < std::min(distance, n - distance); ++l) step.labels.push_back(l);
      steps.push_back(std::move(step));
    }
  }
  return steps;
}

int steps_of(const Leg& leg) {
  if (leg.walk == Walk::ring || leg.walk == Walk::direct) return leg.size - 1;
  int count = 0;
  for (int distance = 1; distance < leg.size; distance *= 2) ++count;
  return count;
}

/// Adds a part's gather over all axes, the last axis of its order first.
void gather_part(const std::vector<Leg>& legs, const PartRoute& part, int base, std::vector<Template::Sent>& out) {
  std::vector<int> strides(legs.size(), 1);
  for (std::size_t a = 1; a < legs.size(); ++a) strides[a] = strides[a - 1] * legs[a - 1].size;
  std::vector<int> held{0};  // labels that device 0 holds, with its own coordinate on later axes
  int start = 0;
  for (auto axis = part.order.rbegin(); axis != part.order.rend(); ++axis) {
    const Leg& leg = legs[at(*axis)];
    const int stride = strides[at(*axis)];
    for (const Step& step : gather(leg, part.strides[at(*axis)])) {
      Template::Sent sent{start + step.step, step.offset * stride, false, {}};
      sent.labels.reserve(held.size() * step.labels.size());
      for (const int label : step.labels)
        for (const int other : held) sent.labels.push_back(base + other + label * stride);
      out.push_back(std::move(sent));
    }
    start += steps_of(leg);
    std::vector<int> more;
    more.reserve(held.size() * at(leg.size));
    for (int l = 0; l < leg.size; ++l)
      for (const int other : held) more.push_back(other + l * stride);
    held = std::move(more);
  }
}

/// Joins the messages of one step to one target.
void join_messages(std::vector<Template::Sent>& messages) {
  std::stable_sort(messages.begin(), messages.end(), [](const auto& a, const auto& b) {
    return std::tie(a.step, a.offset, a.combine) < std::tie(b.step, b.offset, b.combine);
  });
  std::vector<Template::Sent> joined;
  for (auto& message : messages) {
    if (!joined.empty() && joined.back().step == message.step && joined.back().offset == message.offset &&
        joined.back().combine == message.combine)
      joined.back().labels.insert(joined.back().labels.end(), message.labels.begin(), message.labels.end());
    else
      joined.push_back(std::move(message));
  }
  messages = std::move(joined);
}

std::vector<Template::Sent> reversed(const Template& program, const std::vector<Template::Sent>& gathered, int last) {
  std::vector<Template::Sent> result;
  result.reserve(gathered.size());
  for (const auto& message : gathered) {
    Template::Sent back{last - message.step, program.group.negate(message.offset), true, {}};
    back.labels.reserve(message.labels.size());
    for (const int label : message.labels) back.labels.push_back(program.move(label, back.offset));
    result.push_back(std::move(back));
  }
  return result;
}

}  // namespace

int Template::move(int label, int by) const {
  if (by == 0) return label;
  const int n = group.size();
  const int last = label % n, rest = label / n;
  if (coordinates == 1) return rest * n + group.add(last, by);
  return (rest / n * n + group.add(rest % n, by)) * n + group.add(last, by);
}

Template spread(Operation operation, const std::vector<Leg>& legs, const std::vector<PartRoute>& parts, int pieces) {
  Template program;
  program.operation = operation;
  for (const Leg& leg : legs) program.group.axes.push_back({leg.size, leg.walk == Walk::halving});
  const int n = program.group.size();
  program.parts = static_cast<int>(parts.size()) * pieces;
  program.pieces = static_cast<std::int64_t>(n) * program.parts;
  std::vector<Template::Sent> gathered, scattered;
  int length = 0;
  for (const Leg& leg : legs) length += steps_of(leg);
  for (int p = 0; p < program.parts; ++p) {
    const PartRoute& part = parts[at(p) % parts.size()];
    gather_part(legs, part, p * n, gathered);
    // A scatter is a gather backwards in time; on a ring in the other direction, so that it ends in the same direction.
    PartRoute back = part;
    for (std::size_t a = 0; a < legs.size(); ++a) back.strides[a] = (legs[a].size - part.strides[a]) % legs[a].size;
    if (operation != Operation::all_gather) gather_part(legs, back, p * n, scattered);
  }
  if (operation != Operation::all_gather) program.messages = reversed(program, scattered, length - 1);
  if (operation == Operation::all_reduce)
    for (auto& message : gathered) message.step += length;
  if (operation != Operation::reduce_scatter)
    program.messages.insert(program.messages.end(), gathered.begin(), gathered.end());
  for (auto& message : program.messages)  // steps of pieces follow each other; pieces that are ready earlier go first
    message.step += message.labels[0] / n / static_cast<int>(parts.size()) * 2 * length;
  join_messages(program.messages);
  return program;
}

Template spread_direct(Operation operation, const Group& group) {
  Template program;
  program.operation = operation;
  program.group = group;
  const int n = group.size();
  program.pieces = n;
  std::vector<Template::Sent> gathered;
  for (int k = 1; k < n; ++k) gathered.push_back({k - 1, k, false, {0}});
  if (operation != Operation::all_gather) program.messages = reversed(program, gathered, n - 2);
  if (operation == Operation::all_reduce)
    for (auto& message : gathered) message.step += n - 1;
  if (operation != Operation::reduce_scatter)
    program.messages.insert(program.messages.end(), gathered.begin(), gathered.end());
  join_messages(program.messages);
  return program;
}

Template flat_rings(Operation operation, int inside, int nodes) {
  Template program;
  program.operation = operation;
  program.group.axes = {{inside, false}, {nodes, false}};
  program.parts = inside;
  const int n = inside * nodes;
  program.pieces = static_cast<std::int64_t>(n) * inside;
  // Part p of a block takes the ring in which the block's owner is member p of its node. Messages of different rings
  // have different steps, since none waits for the other.
  std::vector<Template::Sent> gathered;
  for (int t = 0; t + 1 < n; ++t)
    for (int p = 0; p < inside; ++p) {
      const int here = (p + t) % inside, behind = (p + t) / inside % nodes;
      const int owner = (inside - t % inside) % inside + (nodes - behind) % nodes * inside;
      const int next = here + 1 < inside ? 1 : 1 + inside;
      gathered.push_back({t * inside + here, next, false, {p * n + owner}});
    }
  const int length = (n - 1) * inside;
  if (operation != Operation::all_gather) program.messages = reversed(program, gathered, length - 1);
  if (operation == Operation::all_reduce)
    for (auto& message : gathered) message.step += length;
  if (operation != Operation::reduce_scatter)
    program.messages.insert(program.messages.end(), gathered.begin(), gathered.end());
  join_messages(program.messages);
  return program;
}

Template exchange_direct(const Group& group) {
  Template program;
  program.operation = Operation::all_to_all;
  program.group = group;
  program.coordinates = 2;
  const int n = group.size();
  program.pieces = n;
  for (int g = 1; g < n; ++g) program.messages.push_back({g - 1, g, false, {g}});
  return program;
}

Template exchange_ring(int n, bool both_ways) {
  Template program;
  program.operation = Operation::all_to_all;
  program.group.axes = {{n, false}};
  program.coordinates = 2;
  program.pieces = n;
  const int far = both_ways ? n / 2 : n - 1;  // the largest distance in forward direction
  for (int s = 0; s < n - 1; ++s) {
    Template::Sent up{s, 1, false, {}}, down{s, n - 1, false, {}};
    for (int r = s + 1; r <= far; ++r) up.labels.push_back((n - s) % n * n + (r - s));
    for (int r = s + 1; r < n - far; ++r) down.labels.push_back(s * n + (n + s - r) % n);
    if (!up.labels.empty()) program.messages.push_back(std::move(up));
    if (!down.labels.empty()) program.messages.push_back(std::move(down));
  }
  join_messages(program.messages);
  return program;
}

Template exchange_bruck(int n) {
  Template program;
  program.operation = Operation::all_to_all;
  program.group.axes = {{n, false}};
  program.coordinates = 2;
  program.pieces = n;
  int step = 0;
  for (int distance = 1; distance < n; distance *= 2, ++step) {
    Template::Sent sent{step, distance, false, {}};
    for (int r = 1; r < n; ++r) {
      if ((r & distance) == 0) continue;
      const int source = (n - r % distance) % n;
      sent.labels.push_back(source * n + (source + r) % n);
    }
    program.messages.push_back(std::move(sent));
  }
  return program;
}

Template exchange_by_axes(const Group& group) {
  Template program;
  program.operation = Operation::all_to_all;
  program.group = group;
  program.coordinates = 2;
  const int n = group.size();
  program.pieces = n;
  int stride = 1, step = 0;
  for (const Group::Axis& axis : group.axes) {
    for (int c = 1; c < axis.size; ++c, ++step) {
      Template::Sent sent{step, c * stride, false, {}};
      // Earlier axes are done: labels have all their sources and this device's target; later axes: the reverse.
      for (int source = 0; source < stride; ++source)
        for (int target = 0; target < n / (stride * axis.size); ++target)
          sent.labels.push_back(source * n + target * stride * axis.size + c * stride);
      program.messages.push_back(std::move(sent));
    }
    stride *= axis.size;
  }
  return program;
}

Template exchange_torus(const std::vector<int>& sizes, const std::vector<bool>& both_ways) {
  Template program;
  program.operation = Operation::all_to_all;
  program.coordinates = 2;
  const auto count = static_cast<int>(sizes.size());
  int halves = 1;
  std::vector<int> strides;
  for (int a = 0; a < count; ++a) {
    strides.push_back(program.group.size());
    program.group.axes.push_back({sizes[at(a)], false});
    if (both_ways[at(a)] && sizes[at(a)] % 2 == 0) halves = 2;
  }
  const int n = program.group.size();
  program.parts = count * halves;
  program.pieces = static_cast<std::int64_t>(n) * program.parts;
  const auto along = [&](const std::vector<int>& places, int axis) {
    std::vector<int> more;
    for (int c = 0; c < sizes[at(axis)]; ++c)
      for (const int place : places) more.push_back(place + c * strides[at(axis)]);
    return more;
  };
  for (int part = 0; part < program.parts; ++part) {
    const int begin = part % count, turned = part / count;
    std::vector<int> sources{0};  // finished axes: all sources, own target; later axes: own source, all targets
    for (int turn = 0, step = 0; turn < count; ++turn) {
      const int axis = (begin + turn) % count, size = sizes[at(axis)], stride = strides[at(axis)];
      const int far = both_ways[at(axis)] ? size / 2 : size - 1, less = size - far - 1;
      std::vector<int> targets{0};
      for (int later = turn + 1; later < count; ++later) targets = along(targets, (begin + later) % count);
      const auto send = [&](int s, int last, int way) {  // sends data from the source s steps back that must go further
        Template::Sent sent{(step + s) * count + begin, (way + size) % size * stride, false, {}};
        for (int r = s + 1; r <= last; ++r)
          for (const int source : sources)
            for (const int target : targets) {
              const int from = source + (size - way * s) % size * stride;
              const int to = target + (size + way * (r - s)) % size * stride;
              sent.labels.push_back((part * n + from) * n + to);
            }
        if (!sent.labels.empty()) program.messages.push_back(std::move(sent));
      };
      const int way = turned == 1 && both_ways[at(axis)] ? -1 : 1;
      for (int s = 0; s < far; ++s) {
        send(s, far, way);
        send(s, less, -way);
      }
      step += far;
      sources = along(sources, axis);
    }
  }
  join_messages(program.messages);
  return program;
}

Schedule expand(const Template& program) {
  Schedule schedule;
  schedule.algorithm = program.algorithm;
  schedule.operation = program.operation;
  schedule.devices = program.group.size();
  const int n = schedule.devices;
  schedule.slots = program.parts * (program.coordinates == 1 ? n : n * n);
  schedule.pieces = program.pieces;
  for (const auto& message : program.messages)
    for (int d = 0; d < n; ++d)
      for (const int label : message.labels) {
        const int slot = program.move(label, d);
        schedule.transfers.push_back(
            {message.step, d, program.group.add(d, message.offset), slot, slot, message.combine});
      }
  state_meaning(schedule, false);
  return schedule;
}

}  // namespace tilesim::cluster
