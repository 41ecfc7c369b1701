// Removes finished versions and operations from time to time, so that memory does not grow with the length of the run.
#include <algorithm>

#include "tilesim/program/run/schedule.hpp"

namespace tilesim::program {

/// Largest `back` of any operand: versions further back are not used again.
std::int64_t Schedule::furthest_back(const CompiledProgram& program) {
  std::int64_t furthest = 0;
  for (const Instruction& instruction : program.instructions()) {
    furthest = std::max<std::int64_t>({furthest, instruction.back, instruction.transfer.back});
    for (const CompiledView& view : instruction.views) furthest = std::max<std::int64_t>(furthest, view.back);
  }
  return furthest;
}

bool Schedule::done(const Node& node) {
  if (node.op.is_operation()) return node.complete;
  return node.effect ? node.effect->done : node.places == 0;
}

void Schedule::forget() {
  const auto gone = [](const Node* node) { return done(*node); };
  for (const auto& effect : effects_) std::erase_if(effect->after, gone);
  for (const auto& stream : streams_) {
    for (Queue& queue : stream->queues) std::erase_if(queue.operations, gone);
    std::erase_if(stream->latest, [](const Version* version) { return version->freed; });
    for (auto& [slot, versions] : stream->received) {
      std::size_t& sent = stream->sent[slot];
      versions.erase(versions.begin(), versions.begin() + static_cast<std::ptrdiff_t>(sent));
      sent = 0;
    }
    for (auto& [key, version] : stream->versions) {
      if (std::erase_if(version->users, gone) > 0) version->used = true;
      std::erase_if(version->commits, [](const Effect* effect) { return effect->done; });
      std::erase_if(version->before, [](const Version* earlier) { return earlier->freed; });
      version->named = false;
    }
  }
  std::erase_if(nodes_, [](const auto& node) { return done(*node); });
  std::erase_if(effects_, [](const auto& effect) { return effect->done; });
  for (const auto& node : nodes_) {
    for (Version* version : node->versions) version->named = true;
    for (const auto& [stream, version] : node->targets) version->named = true;
  }
  for (const auto& stream : streams_)
    std::erase_if(stream->versions, [&](const auto& entry) {
      const auto& [key, version] = entry;
      const auto [slot, number] = key;
      return version->freed && !version->named && number < stream->cursor.version(slot, furthest_back_);
    });
  forget_at_ = 2 * nodes_.size() + 1024;
}

}  // namespace tilesim::program
