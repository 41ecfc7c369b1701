// Executes an event. From the time an operation reads its operands until it completes, a copy of the buffer contains
// its results, so that others see them neither earlier nor later than the order permits.
#include <algorithm>
#include <cstring>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/program/run/schedule.hpp"
#include "tilesim/program/run/visit_view.hpp"

namespace tilesim::program {

namespace {

void copy_elements(const SlotView& view, int size, const std::byte* from, std::byte* to) {
  for_each_element(view,
                   [&](std::int64_t element) { std::memcpy(to + element * size, from + element * size, at(size)); });
}

template <class T>
void erase_one(std::vector<T*>& list, const T* item) {
  list.erase(std::find(list.begin(), list.end(), item));
}

}  // namespace

void Schedule::happen(const Event& event) {
  switch (event.kind) {
    case Kind::dispatch:
      return dispatch(event.stream);
    case Kind::head: {
      Stream& stream = *streams_[event.stream];
      stream.queues[at(event.queue)].entries.pop_front();
      --stream.waiting;
      return pass(*event.node);
    }
    case Kind::consume:
      return consume(*event.node);
    case Kind::complete:
      return complete(*event.node);
    case Kind::effect:
      return show(*event.effect);
  }
}

void Schedule::make_live(std::size_t stream, Version& version) {
  if (version.acquired) return;
  const CompiledSlot& slot = program_.slots[at(version.slot)];
  const std::int64_t low = slot.address + version.number % slot.depth * slot.bytes;
  if (!slot.accumulator) residents_.take(stream, low, low + slot.bytes, options_.poison ? &tensors_ : nullptr);
  version.acquired = true;
  version.bytes.resize(at(slot.elements * host_bytes(slot.dtype)));
  if (options_.poison) poison(version.bytes.data(), slot.dtype, slot.elements);
}

void Schedule::check_live(const Node& node, const Version& version) const {
  if (version.acquired && !version.freed) return;
  throw RaceError({"Version " + version_name(program_, version.slot, version.number) +
                       (version.freed ? " is used after it was released." : " is used before it was acquired."),
                   node.text,
                   {},
                   {},
                   {}});
}

void Schedule::pass(Node& node) {
  --node.places;
  switch (node.op.opcode) {
    case Opcode::acquire:
      return make_live(node.stream, *node.versions[0]);
    case Opcode::wait:
      return;
    case Opcode::commit:
    case Opcode::release:
    case Opcode::signal: {
      node.effect->reached = true;
      pending_.push_back(node.effect);
      return;
    }
    case Opcode::send:
      for (const auto& [stream, version] : node.targets) {
        make_live(stream, *version);
        ++streams_[stream]->sent[node.op.slot];
      }
      break;
    default:
      break;
  }
  node.started = true;
  in_flight_.push_back(&node);
}

/// A value in the scratchpad must not be stored on bytes of a slot that is acquired and still in use. The slot's
/// release may show later.
void Schedule::use_resident(const Node& node) {
  const Residents::ResidentTensor* place = residents_.find(node.op.tensor);
  if (!place) return;
  for (const Version* version : streams_[node.stream]->latest) {
    const CompiledSlot& slot = program_.slots[at(version->slot)];
    const std::int64_t low = slot.address + version->number % slot.depth * slot.bytes;
    if (slot.accumulator || !version->acquired || version->freed || low >= place->high ||
        low + slot.bytes <= place->low)
      continue;
    const auto over = [](const Node* user) { return user->complete; };
    if ((version->used || !version->users.empty()) && std::all_of(version->users.begin(), version->users.end(), over))
      continue;
    throw RaceError({"A tensor lies on bytes of slot " + version_name(program_, version->slot, version->number) +
                         " of kernel " + program_.scopes[at(slot.scope)].scope->kernel + " while it is in use.",
                     node.text,
                     {},
                     {},
                     {}});
  }
  residents_.access(node.stream, node.op, options_.poison ? &tensors_ : nullptr);
}

void Schedule::consume(Node& node) {
  Operation& op = node.op;
  node.consumed = true;
  for (const Version* version : node.versions) check_live(node, *version);
  node.staged.resize(op.views.size());
  if (op.opcode == Opcode::store || op.opcode == Opcode::send) {
    node.staged[0] = node.versions[0]->bytes;
    if (op.opcode == Opcode::store) read_rows(program_, tensors_, op);
    return;
  }
  if (op.opcode == Opcode::load) use_resident(node);
  // All views of a version share one copy.
  std::map<const Version*, std::size_t> copies;
  for (std::size_t i = 0; i < op.views.size(); ++i) {
    if (!op.views[i].written) continue;
    if (copies.try_emplace(node.versions[i], i).second) node.staged[i] = node.versions[i]->bytes;
  }
  const auto buffer = [&](const SlotView& view) {
    const auto i = static_cast<std::size_t>(&view - op.views.data());
    const auto copy = copies.find(node.versions[i]);
    return copy == copies.end() ? node.versions[i]->bytes.data() : node.staged[copy->second].data();
  };
  perform(program_, op, tensors_, buffer, executor_);
  for (std::size_t i = 0; i < op.views.size(); ++i) {
    if (op.views[i].written) node.staged[i] = node.staged[copies[node.versions[i]]];
  }
}

void Schedule::complete(Node& node) {
  Operation& op = node.op;
  node.complete = true;
  erase_one(in_flight_, &node);
  for (const Version* version : node.versions) {
    const bool written = op.opcode == Opcode::load || op.is_compute();
    if (written && op.views[static_cast<std::size_t>(std::find(node.versions.begin(), node.versions.end(), version) -
                                                     node.versions.begin())]
                       .written)
      check_live(node, *version);
  }
  if (op.opcode == Opcode::store) {
    use_resident(node);
    op.transfer.tensor = tensors_.writable(op.tensor);
    store_block(op.transfer, node.staged[0].data());
    if (op.counter >= 0) ++counters_[at(op.counter)][at(op.cell)];
  } else if (op.opcode == Opcode::send) {
    for (const auto& [stream, version] : node.targets) {
      execute(Permute{tile_view(program_, op.views[0], node.staged[0].data()),
                      tile_view(program_, op.views[1], version->bytes.data())});
      version->pieces += op.pieces;
    }
  } else if (op.opcode == Opcode::load) {
    const int size = host_bytes(op.transfer.dtype);
    for_each_run(op.transfer, [&](const Run& run) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        const std::int64_t element = run.slot_offset + i * run.slot_stride;
        std::memcpy(node.versions[0]->bytes.data() + element * size, node.staged[0].data() + element * size, at(size));
      }
    });
  } else {
    for (std::size_t i = 0; i < op.views.size(); ++i) {
      if (!op.views[i].written) continue;
      const int size = host_bytes(program_.slots[at(op.views[i].slot)].dtype);
      copy_elements(op.views[i], size, node.staged[i].data(), node.versions[i]->bytes.data());
    }
  }
  node.staged.clear();
}

void Schedule::show(Effect& effect) {
  effect.done = true;
  erase_one(pending_, &effect);
  const Operation& op = effect.node->op;
  if (op.opcode == Opcode::signal) {
    counters_[at(op.counter)][at(op.cell)] += op.pieces;
    return;
  }
  Version& version = *effect.node->versions[0];
  check_live(*effect.node, version);
  if (op.opcode == Opcode::commit) {
    version.pieces += op.pieces;
    return;
  }
  const CompiledSlot& slot = program_.slots[at(version.slot)];
  version.released |= 1U << op.queue;
  if (version.released != slot.consumers) return;
  version.freed = true;
  if (options_.poison) poison(version.bytes.data(), slot.dtype, slot.elements);
}

}  // namespace tilesim::program
