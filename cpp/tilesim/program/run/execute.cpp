#include "tilesim/program/run/execute.hpp"

#include "tilesim/program/run/schedule.hpp"
#include "tilesim/program/run/text_run.hpp"

namespace tilesim::program {

TileExecutor& executor_of(const ExecuteOptions* options) {
  static DirectExecutor direct;
  return options && options->executor ? *options->executor : direct;
}

std::map<std::string, Array> execute(const Program& program, const std::map<std::string, Array>& inputs,
                                     const ExecuteOptions& options) {
  const CompiledProgram compiled(program);
  const auto streams = static_cast<std::size_t>(program.cores * program.contexts);
  if (options.find_races || options.order == Order::text) {
    Tensors tensors(compiled, inputs, options.poison, options.planned);
    std::unique_ptr<Races> races;
    if (options.find_races) races = std::make_unique<Races>(compiled, streams);
    TextOptions text;
    text.tensors = &tensors;
    text.races = races.get();
    text.execute = &options;
    text.must_release = options.find_races;
    TextRun(compiled, text).run();
    if (options.order == Order::text) return tensors.results();
  }
  Tensors tensors(compiled, inputs, options.poison, options.planned);
  Schedule(compiled, tensors, options).run();
  return tensors.results();
}

}  // namespace tilesim::program
