#include "tilesim/engine/jobs/rows.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"

namespace tilesim::engine {

namespace {

/// Index of a value in a table of distinct values; adds a value that is new.
template <class Value>
std::int32_t number_of(std::map<Value, std::int32_t>& numbers, std::vector<const Value*>& table, const Value& value) {
  const auto [found, fresh] = numbers.try_emplace(value, static_cast<std::int32_t>(table.size()));
  if (fresh) table.push_back(&found->first);
  return found->second;
}

}  // namespace

void ProgramRow::add(const LoadedProgram& loaded, const std::vector<KernelCounters>& counters) {
  auto row = kernels.begin();
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (counters[i].count == 0) continue;
    while (row != kernels.end() && row->scope < i) ++row;
    if (row == kernels.end() || row->scope != i) {
      const program::Scope& scope = *loaded.program->scopes[i].scope;
      row = kernels.insert(row, {i, scope.kernel, scope.operation, {}});
    }
    row->counters.add(counters[i]);
  }
}

int Rows::add(LoadedProgram& loaded, const Job& job, const CoreKind& kind) {
  const auto known =
      std::find_if(loaded.rows.begin(), loaded.rows.end(), [&](const auto& row) { return row.first == &kind; });
  std::int32_t number = known == loaded.rows.end() ? static_cast<std::int32_t>(programs_.size()) : known->second;
  if (known == loaded.rows.end()) {
    loaded.rows.emplace_back(&kind, number);
    const program::Program& program = loaded.program->program();
    std::vector<std::string> notes = program.notes;
    notes.insert(notes.end(), loaded.notes.begin(), loaded.notes.end());
    programs_.push_back({program.name, std::move(notes), &kind, program.cores, 0, {}});
  }
  ++programs_[at(number)].jobs;
  jobs_.push_back({number, number_of(number_of_cores_, cores_, job.cores), -1, job.arrival_cycles, 0, -1});
  return static_cast<int>(jobs_.size()) - 1;
}

void Rows::end(const JobState& job, std::int64_t finish) {
  JobRow& row = jobs_[at(job.id)];
  row.finish = finish;
  programs_[at(row.program)].add(*job.loaded, job.kernels.counters());
  if (!job.reader->asked()) return;
  row.sources = number_of(number_of_sources_, sources_, job.reader->sources());
  if (std::string text = job.reader->assumed();
      !text.empty() && std::find(assumed_.begin(), assumed_.end(), text) == assumed_.end())
    assumed_.push_back(std::move(text));
}

const Rows::Sources* Rows::sources(const JobRow& row) const {
  return row.sources < 0 ? nullptr : sources_[at(row.sources)];
}

}  // namespace tilesim::engine
