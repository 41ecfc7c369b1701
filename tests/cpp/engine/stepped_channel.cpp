#include "engine/stepped_channel.hpp"

#include <algorithm>

namespace stepped {

Outcome Channel::run(const std::vector<Demand>& demands) {
  std::size_t next = 0;
  std::int64_t reads = 0, returned = 0;
  for (const Demand& demand : demands) reads += demand.write ? 0 : 1;
  for (Time c = 0;; ++c) {
    if (next == demands.size() && returned == reads) {
      out_.cycles = c;
      return out_;
    }
    if (next < demands.size() && c >= demands[next].not_before && offer(demands[next], c)) ++next;
    const Time t = c + 1;
    while (!returning_.empty() && returning_.front().first <= t) {
      const Time latency = t - 1 - returning_.front().second;
      out_.latency_sum += latency;
      out_.latency_max = std::max(out_.latency_max, latency);
      out_.returns.push_back(t);
      returning_.pop_front();
      ++returned;
    }
    tick(t);
  }
}

bool Channel::offer(const Demand& demand, Time c) {
  const bool waiting =
      std::any_of(writes_.begin(), writes_.end(), [&](const Waiting& w) { return w.demand.address == demand.address; });
  if (waiting) {
    if (demand.write)
      ++out_.merged;
    else
      returning_.push_back({c + 1, c});
    out_.forwarded += demand.write ? 0 : 1;
    return true;
  }
  List& queue = demand.write ? writes_ : reads_;
  const auto limit = demand.write ? part_.controller.write_queue : part_.controller.read_queue;
  if (queue.size() == static_cast<std::size_t>(limit)) return false;
  queue.push_back({demand, c, 0, false});
  return true;
}

void Channel::tick(Time t) {
  const Controller& controller = part_.controller;
  const bool per_bank = controller.refresh == RefreshMode::per_bank;
  const Time interval = per_bank ? part_.refresh_bank_interval : part_.refresh_interval;
  if (controller.refresh != RefreshMode::none && t % interval == 0) {
    const int scopes = part_.node(part_.features.all_bank_scope, part_.banks() - 1) + 1;
    const int banks = part_.banks() / scopes;
    for (int scope = 0; scope < scopes; ++scope) jobs_.push_back(per_bank ? scope * banks + next_bank_ : scope);
    next_bank_ = (next_bank_ + 1) % banks;
  }
  if (part_.features.two_step_activate || part_.features.clock_sync)
    tick_two_step(t);
  else if (part_.features.row_and_column_bus)
    tick_two_bus(t);
  else
    tick_shared(t);
}

Channel::Next Channel::next_of(const Waiting& w) {
  const Bank& b = bank(w.demand.bank);
  if (b.state == State::closed) return Next::activate;
  if (b.state == State::activating) return Next::nothing;
  return b.row == w.demand.row ? Next::column : Next::precharge;
}

bool Channel::ready(const Waiting& w, Next next, Time t) const {
  const Command which = next == Next::activate    ? Command::activate
                        : next == Next::precharge ? Command::precharge
                        : w.demand.write          ? Command::write
                                                  : Command::read;
  return rules_.allows(which, w.demand.bank, depth_, t);
}

bool Channel::opened_holds(int first, int last) const {
  const auto inside = [&](const Waiting& w) { return w.demand.bank >= first && w.demand.bank <= last; };
  return std::any_of(opened_.begin(), opened_.end(), inside) || std::any_of(pending_.begin(), pending_.end(), inside);
}

/// Smallest arrival among those whose next command may take part and is ready.
Channel::Choice Channel::pick(List& list, Time t, bool columns, bool activates, bool precharges) {
  Choice best;
  const bool queue = &list != &opened_;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Waiting& w = list[i];
    const Next next = next_of(w);
    if (next == Next::nothing || (next == Next::column && !columns)) continue;
    if (next == Next::activate && (!activates || !pending_.empty() || !jobs_.empty())) continue;
    if (next == Next::precharge && (!precharges || opened_holds(w.demand.bank, w.demand.bank))) continue;
    if (queue && w.demand.bank == refreshed_bank()) continue;
    if (next == Next::precharge && paired_refuses(w.demand.bank, false, t)) continue;
    if (!ready(w, next, t)) continue;
    if (!best.list || w.arrival < best.list->at(best.index).arrival) best = {&list, i, next};
  }
  return best;
}

Channel::List& Channel::selected() {
  const auto entries = static_cast<double>(part_.controller.write_queue);
  const auto count = static_cast<double>(writes_.size());
  if (!drain_)
    drain_ = count > part_.controller.write_high_watermark * entries || reads_.empty();
  else if (count < part_.controller.write_low_watermark * entries && !reads_.empty())
    drain_ = false;
  return drain_ ? writes_ : reads_;
}

bool Channel::paired_refuses(int bank, bool all, Time t) const {
  if (!part_.features.both_edges || t % 2 == 1 || t != paired_at_) return false;
  const int scope = part_.features.all_bank_scope;
  if (part_.node(scope, bank) != part_.node(scope, paired_bank_)) return false;
  return paired_all_ || all || bank == paired_bank_;
}

void Channel::remember(Time t, int bank, bool all, bool activate) {
  if (t % 2 == 0) return;
  paired_at_ = t + (activate ? 3 : 1);
  paired_bank_ = bank;
  paired_all_ = all;
}

void Channel::command(Command which, int b, int depth, Time t) {
  rules_.issue(which, b, depth, t);
  ++out_.commands[static_cast<std::size_t>(which)];
  if (which != Command::read && which != Command::write)
    remember(t, b, which == Command::precharge_all || which == Command::refresh_all, which == Command::activate);
}

bool Channel::maintain(Time t, bool falling) {
  if (jobs_.empty()) return false;
  const bool per_bank = part_.controller.refresh == RefreshMode::per_bank;
  const int scope = part_.features.all_bank_scope;
  const int size = per_bank ? 1 : part_.banks() / (part_.node(scope, part_.banks() - 1) + 1);
  const int first = jobs_.front() * size, last = first + size - 1, depth = per_bank ? depth_ : scope;
  bool closed = true;
  for (int b = first; b <= last; ++b) closed &= bank(b).state == State::closed;
  if (opened_holds(first, last) || (falling && closed) || paired_refuses(first, !per_bank, t)) return false;
  const Command which = per_bank ? closed ? Command::refresh_bank : Command::precharge
                        : closed ? Command::refresh_all
                                 : Command::precharge_all;
  if (!rules_.allows(which, first, depth, t)) return false;
  command(which, first, depth, t);
  if (closed)
    jobs_.pop_front();
  else
    for (int b = first; b <= last; ++b) bank(b).state = State::closed;
  return true;
}

void Channel::perform(const Choice& choice, Time t) {
  Waiting& w = choice.list->at(choice.index);
  Bank& b = bank(w.demand.bank);
  if (!w.counted) {
    ++(choice.next == Next::column ? out_.hits : choice.next == Next::activate ? out_.misses : out_.conflicts);
    w.counted = true;
  }
  if (choice.next == Next::precharge) {
    command(Command::precharge, w.demand.bank, depth_, t);
    b.state = State::closed;
    return;
  }
  if (choice.next == Next::activate) {
    command(Command::activate, w.demand.bank, depth_, t);
    b.row = w.demand.row;
    b.state = part_.features.two_step_activate ? State::activating : State::open;
    w.deadline = t + part_.features.activate_window;
    (part_.features.two_step_activate ? pending_ : opened_).push_back(w);
  } else {
    command(w.demand.write ? Command::write : Command::read, w.demand.bank, depth_, t);
    b.last_column = t;
    const Time busy = w.demand.write ? part_.features.sync_write : part_.features.sync_read;
    clock_until_ = std::max(clock_until_, t + busy);
    if (!w.demand.write) returning_.push_back({t + part_.read_latency, w.arrival});
  }
  choice.list->erase(choice.list->begin() + static_cast<std::ptrdiff_t>(choice.index));
}

/// A page policy's own precharge: when nothing else goes, the first bank that nobody waits for.
bool Channel::close_idle(Time t, bool) {
  if (part_.controller.page == PagePolicy::open || !jobs_.empty()) return false;
  for (int i = 0; i < part_.banks(); ++i) {
    Bank& b = bank(i);
    if (b.state != State::open || opened_holds(i, i) || t < b.last_column + part_.controller.page_timeout) continue;
    const auto waits = [&](const Waiting& w) { return w.demand.bank == i && w.demand.row == b.row; };
    if (std::any_of(reads_.begin(), reads_.end(), waits) || std::any_of(writes_.begin(), writes_.end(), waits))
      continue;
    if (paired_refuses(i, false, t) || !rules_.allows(Command::precharge, i, depth_, t)) continue;
    command(Command::precharge, i, depth_, t);
    b.state = State::closed;
    return true;
  }
  return false;
}

void Channel::tick_shared(Time t) {
  Choice choice = pick(opened_, t, true, false, false);
  if (!choice.list && maintain(t, false)) return;
  if (!choice.list && !queues_stopped()) choice = pick(selected(), t, true, true, true);
  if (choice.list)
    perform(choice, t);
  else
    close_idle(t, false);
}

void Channel::tick_two_bus(Time t) {
  const bool falling = part_.features.both_edges && t % 2 == 0;
  if (!falling) {
    Choice choice = pick(opened_, t, true, false, false);
    if (!choice.list && !queues_stopped()) choice = pick(selected(), t, true, false, false);
    if (choice.list) perform(choice, t);
  }
  if (maintain(t, falling) || queues_stopped()) return;
  const Choice choice = pick(selected(), t, false, !falling, true);
  if (choice.list)
    perform(choice, t);
  else
    close_idle(t, falling);
}

void Channel::second_step() {
  bank(pending_.front().demand.bank).state = State::open;
  opened_.push_back(pending_.front());
  pending_.erase(pending_.begin());
}

void Channel::tick_two_step(Time t) {
  if (holding_) {
    holding_ = false;
    perform(held_, t);
    return;
  }
  if (!pending_.empty() && pending_.front().deadline <= t) return second_step();
  Choice choice = pick(opened_, t, true, false, false);
  if (!choice.list && maintain(t, false)) return;
  if (!choice.list && !queues_stopped()) choice = pick(selected(), t, true, true, true);
  if (!choice.list) {
    if (!pending_.empty()) return second_step();
    close_idle(t, false);
    return;
  }
  if (choice.next == Next::column && part_.features.clock_sync && t >= clock_until_) {
    if (!pending_.empty() && pending_.front().deadline <= t + 1) return second_step();
    holding_ = true;
    held_ = choice;
    return;
  }
  perform(choice, t);
}

}  // namespace stepped
