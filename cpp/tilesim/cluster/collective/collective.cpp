#include "tilesim/cluster/collective/collective.hpp"

#include <algorithm>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/cluster/collective/choosing.hpp"

namespace tilesim::cluster {

namespace {

constexpr std::int64_t most_messages = std::int64_t{1} << 27;
std::vector<std::string> names_of_algorithms() {
  std::vector<std::string> names{"auto"};
  for (const Algorithm& row : algorithms())
    if (std::ranges::count(names, row.name) == 0) names.emplace_back(row.name);
  return names;
}

void check(const Network& network, Request& request) {
  const auto text = [](std::int64_t value) { return std::to_string(value); };
  if (request.bytes < 0 || request.bytes > most_bytes)
    throw UserError({"a collective has so many bytes", "bytes", text(request.bytes), "0 ... " + text(most_bytes), {}});
  for (const int place : request.places)
    if (place < 0 || place >= network.devices())
      throw UserError({"the cluster does not have this device",
                       "devices",
                       text(place),
                       "0 ... " + text(network.devices() - 1),
                       {}});
  std::vector<int> sorted = request.places;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    throw UserError({"a device is twice in a group", "devices", text(*twice), "each once", {}});
  if (request.places.empty()) throw UserError({"a group has a device", "devices", "[]", "one device or more", {}});
  if (request.choice.root < 0 || request.choice.root >= static_cast<int>(request.places.size()))
    throw UserError({"the root is a position of the group",
                     "root",
                     text(request.choice.root),
                     "0 ... " + text(static_cast<std::int64_t>(request.places.size()) - 1),
                     {}});
  const std::string& name = request.choice.algorithm;
  static const std::vector<std::string> names = names_of_algorithms();
  if (!request.custom && std::ranges::count(names, name) == 0)
    throw UserError({"unknown algorithm", "algorithm", name, join(names), nearest(name, names)});
  // Only pairs, a root and custom algorithms depend on the order of devices.
  if (!request.custom && request.operation <= Operation::all_to_all) request.places = sorted;
  if (request.custom && request.custom->devices != static_cast<int>(request.places.size()))
    throw UserError({"the algorithm is for another number of devices",
                     "algorithm",
                     text(request.custom->devices),
                     text(static_cast<std::int64_t>(request.places.size())),
                     {}});
}

Prepared prepared_of(const Network& network, Request& request, const std::optional<std::vector<Axis>>& axes,
                     bool shared) {
  if (!request.custom) return prepare(make(network, request, axes), network, request.places, shared);
  check_on_sets(*request.custom);
  return prepare(*request.custom, network, request.places, shared);
}

/// The result for a request, reused for equivalent groups of devices.
struct Seen {
  Request asked;
  Choice choice;
  std::optional<CollectiveTime> time;
  std::optional<Prepared> prepared;  ///< empty: it needs no messages
};
constexpr std::size_t most_seen = 16;  ///< limit on results searched for each request

Seen look(const Network& network, Request request, Model model) {
  Seen seen{request, {}, {}, {}};
  std::vector<int> sorted = request.places;
  std::sort(sorted.begin(), sorted.end());
  const std::optional<std::vector<Axis>> axes = axes_of(network, sorted);
  const bool automatic = request.choice.algorithm == "auto";
  if (!request.custom && (automatic || model == Model::closed)) seen.time = form(network.healthy(), request, axes);
  if (request.custom) request.choice.algorithm = request.custom->algorithm;
  const bool formed = model == Model::closed && seen.time && network.faults().empty();
  if (request.places.size() > 1 && !formed) seen.prepared = prepared_of(network, request, axes, model == Model::flows);
  seen.choice = request.choice;
  return seen;
}

/// Whether both requests are equal, on equivalent groups of devices.
bool again(const Network& network, const Request& one, const Request& other) {
  return !one.custom && !other.custom && one.operation == other.operation && one.bytes == other.bytes &&
         one.choice == other.choice && one.pairs == other.pairs && one.start == other.start &&
         network.alike(one.places, other.places);
}

}  // namespace

Model model_of(const std::string& name) {
  static const std::vector<std::string> names{"closed", "chunks", "flows"};
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw UserError({"unknown network model", "model", name, join(names), nearest(name, names)});
  return static_cast<Model>(found - names.begin());
}

namespace {

/// Requests that are simulated together.
struct Together {
  std::vector<std::size_t> numbers;  ///< indices of the requests
  std::vector<Prepared> prepared;
};

bool time_together(const Network& network, std::vector<Request>& requests, const Together& together, Model model,
                   bool symmetry, std::int64_t most, Answers& answers) {
  const auto& numbers = together.numbers;
  if (numbers.empty()) return true;
  const auto& prepared = together.prepared;
  const bool alike = std::ranges::all_of(prepared, [&](const auto& one) { return one.turns == prepared[0].turns; });
  const Turns common = symmetry ? prepared[0].turns : prepared[0].turns.unfolded();
  const Turns* turns = alike && prepared[0].turns.folds() ? &common : nullptr;
  const bool ordered = model != Model::flows && !network.faults().empty();
  std::int64_t messages = 0;
  for (const Prepared& one : together.prepared) {
    const int copies = turns == nullptr ? one.program->copies : turns->copies();
    messages += static_cast<std::int64_t>(one.program->size()) * copies;
  }
  if (most > 0 && messages > most) return false;
  if (messages > most_messages)
    throw Unsupported({"these are too many messages to simulate", "model", std::to_string(messages),
                       std::to_string(most_messages) + " messages", "Use model=\"closed\" or fewer devices"});
  Named named;
  std::vector<Job> jobs, healthy;
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    const Request& request = requests[numbers[k]];
    const auto& program = together.prepared[k].program;
    answers.each[numbers[k]].classes = turns == nullptr ? program->devices : turns->copies();
    if (ordered) healthy.emplace_back(program, network.healthy(), request.places, request.bytes, request.start);
    jobs.emplace_back(program, network, request.places, request.bytes, request.start, turns, &named);
  }
  const Times times = model == Model::flows ? time_by_flows(network, jobs)
                      : ordered             ? time_by_chunks(network, jobs, healthy)
                                            : time_by_chunks(network, jobs);
  for (std::size_t k = 0; k < numbers.size(); ++k) answers.each[numbers[k]].picoseconds = times.end[k];
  answers.messages += times.messages;
  return true;
}

}  // namespace

std::optional<Answers> price(const Network& network, std::vector<Request> requests, Model model, bool symmetry,
                             std::int64_t most) {
  Answers answers;
  Together together;
  std::vector<Seen> seen;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    check(network, request);
    const auto like =
        std::find_if(seen.begin(), seen.end(), [&](const Seen& one) { return again(network, one.asked, request); });
    const bool known = like != seen.end();
    const Seen one = known ? *like : look(network, request, model);
    if (!known && seen.size() < most_seen) seen.push_back(one);
    request.choice = one.choice;
    Answer answer;
    answer.algorithm = request.places.size() > 1 ? request.choice.algorithm : "none";
    answer.pieces = request.choice.pieces;
    answer.model = model == Model::flows ? "flows" : "chunks";
    answer.picoseconds = request.start;
    if (request.places.size() < 2) {
      if (model == Model::closed) answer.model = "closed";
    } else if (one.prepared) {
      together.numbers.push_back(i);
      together.prepared.push_back({one.prepared->program, one.prepared->turns.moved(request.places)});
    } else {
      answer.model = one.time->formula ? "closed" : "chunks";
      answer.picoseconds += one.time->time.picoseconds;
      answer.exact = one.time->time.exact;
      answer.classes = one.time->classes;
      if (!known) answers.messages += one.time->messages;
    }
    answers.each.push_back(std::move(answer));
  }
  if (!time_together(network, requests, together, model, symmetry, most, answers)) return std::nullopt;
  return answers;
}

std::vector<Answer> tried_of(const Network& network, Request request) {
  check(network, request);
  std::vector<int> sorted = request.places;
  std::sort(sorted.begin(), sorted.end());
  std::vector<Answer> answers;
  if (request.places.size() < 2 || request.operation == Operation::permute_devices) return answers;
  for (const Tried& one : every_form(network.healthy(), request, axes_of(network, sorted)))
    answers.push_back({one.time.time.picoseconds, one.choice.algorithm, one.time.formula ? "closed" : "chunks",
                       one.time.time.exact, one.time.classes, one.choice.pieces});
  return answers;
}

Made made_of(const Network& network, Request& request) {
  check(network, request);
  if (request.custom) return *request.custom;
  std::vector<int> sorted = request.places;
  std::sort(sorted.begin(), sorted.end());
  const auto axes = axes_of(network, sorted);
  if (request.choice.algorithm == "auto") form(network.healthy(), request, axes);
  return make(network, request, axes);
}

Schedule schedule_of(const Network& network, const Request& given) {
  Request request = given;
  Made made = made_of(network, request);
  Schedule schedule =
      std::holds_alternative<Schedule>(made) ? std::move(std::get<Schedule>(made)) : expand(std::get<Template>(made));
  schedule.algorithm = request.choice.algorithm;
  return schedule;
}

}  // namespace tilesim::cluster
