// Programs in the memory of a hart: run, called, timed, recorded.
#include "tilesim/isa/run/process.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "isa/instructions.hpp"
#include "tilesim/base/no_memory.hpp"
#include "tilesim/isa/pipeline/log.hpp"
#include "tilesim/isa/pipeline/profile.hpp"
#include "tilesim/isa/text/disassemble.hpp"

namespace py = pybind11;
namespace tilesim::isa::bound {

using namespace tilesim;

Image image_from(const py::dict& from) {
  Image image;
  for (const py::handle item : from["segments"]) {
    const auto part = py::reinterpret_borrow<py::tuple>(item);
    image.segments.push_back({part[0].cast<Address>(), part[1].cast<std::string>(), part[2].cast<std::uint64_t>(),
                              part[3].cast<std::uint8_t>()});
  }
  image.entry = from["entry"].cast<Address>();
  image.headers = from["headers"].cast<Address>();
  image.header_bytes = from["header_bytes"].cast<std::uint64_t>();
  image.header_count = from["header_count"].cast<std::uint64_t>();
  image.global_pointer = from["global_pointer"].cast<Address>();
  image.thread_data = from["thread_data"].cast<std::string>();
  image.thread_bytes = from["thread_bytes"].cast<std::uint64_t>();
  return image;
}

namespace {

const char* kind_of(const Stop& stop) {
  static const char* const names[] = {"exited", "trapped", "limit", "returned"};
  return names[stop.kind];
}

std::array<Stream, 3> streams_of(const std::string& letters) {
  require(letters.size() == 3, "there are three standard streams");
  std::array<Stream, 3> streams{};
  for (std::size_t i = 0; i < 3; ++i)
    streams[i] = letters[i] == 'o' ? Stream::own : letters[i] == 'c' ? Stream::closed : Stream::kept;
  return streams;
}

/// One program at a time; a call from another thread meanwhile is an error.
class Program {
 public:
  Program(const py::dict& image, std::uint32_t vlen, const LinuxOptions& options, const HeldSet& held)
      : set_(held.set), process_(set_, vlen, image_from(image), options) {}

  template <class Call>
  py::dict runs(Call&& call) {
    const bindings::Exclusive alone(busy_, "this program");
    const Stop stop = naming("the simulated program", [&] { return bindings::cancellable(std::forward<Call>(call)); });
    py::dict told;
    told["kind"] = kind_of(stop);
    told["status"] = stop.status;
    told["pc"] = stop.pc;
    if (stop.kind == Stop::trapped) {
      told["cause"] = cause_text(stop.trap.cause);
      told["detail"] = stop.trap.text;
      told["value"] = stop.trap.value;
      told["instruction"] = stop.instruction;
      told["text"] = stop.instruction != 0 ? instruction_text(process_.hart.set(), stop.instruction) : "";
    }
    return told;
  }
  py::dict run(std::uint64_t limit) {
    return runs([&] { return process_.run(limit, pipeline_.get()); });
  }
  py::dict call(Address function, std::uint64_t limit) {
    return runs([&] { return process_.call(function, limit, pipeline_.get()); });
  }
  /// Arrays as the machine has them.
  void be(const Machine& machine) { process_.be(npu_spec(machine, core_of(machine))); }
  Process& process() { return process_; }
  void time(const std::string& core, const std::string& file) {
    pipeline_ = std::make_unique<Pipeline>(set_, read_core(Json::parse(core, file)));
    profile_ = std::make_unique<Profile>();
    pipeline_->watch(*profile_);
    process_.marks.source = profile_.get();
  }
  void keep_log(std::size_t limit) { watched(log_, limit); }
  void keep_intervals(std::size_t limit, std::vector<Address> functions) {
    watched(intervals_, limit, std::move(functions));
  }
  const Pipeline* pipeline() const { return pipeline_.get(); }
  const Profile& profile() const { return kept(profile_); }
  const Log& log() const { return kept(log_); }
  const Intervals& intervals() const { return kept(intervals_); }

 private:
  std::shared_ptr<const InstructionSet> set_;
  Process process_;
  template <class Watcher, class... Arguments>
  void watched(std::unique_ptr<Watcher>& to, Arguments&&... arguments) {
    if (!pipeline_) throw UserError("only timed runs are recorded");
    if (to) throw UserError("this is recorded already");
    to = std::make_unique<Watcher>(std::forward<Arguments>(arguments)...);
    pipeline_->watch(*to);
  }
  template <class Watcher>
  static const Watcher& kept(const std::unique_ptr<Watcher>& what) {
    if (!what) throw UserError("this was not recorded");
    return *what;
  }

  std::unique_ptr<Profile> profile_;
  std::unique_ptr<Log> log_;
  std::unique_ptr<Intervals> intervals_;
  std::unique_ptr<Pipeline> pipeline_;  ///< of a timed run
  bool busy_ = false;
};

py::bytes bytes_at(Program& program, Address address, std::uint64_t count) {
  std::string bytes(count, '\0');
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t part = std::min(count - done, page_bytes - (address + done) % page_bytes);
    try {
      program.process().memory.read(address + done, bytes.data() + done, part);
    } catch (const Trap& trap) {
      if (trap.cause == Cause::no_memory) throw UserError({"results do not fit into memory", {}, trap.text, {}, {}});
      throw UserError({"nothing can be read there", {}, std::to_string(address + done), "addresses in use", {}});
    }
    done += part;
  }
  return bytes;
}

void place(Program& program, Address address, const py::bytes& given) {
  const std::string bytes = given;
  try {
    program.process().memory.place(address, bytes.data(), bytes.size());
  } catch (const Trap&) {
    throw UserError({"nothing can be written there", {}, std::to_string(address), "addresses in use", {}});
  }
}

double in_cycles(Ticks t) { return static_cast<double>(t) / static_cast<double>(cycle); }

/// "arithmetic", or "arithmetic0" where there are several; `Log::none`: the front end.
std::string unit_of(const Pipeline& pipeline, std::uint8_t kind, std::uint8_t pipe) {
  return kind == Log::none ? "front" : pipeline.unit_called(kind, pipe);
}

py::list profile_rows(const Program& program) {
  py::list rows;
  for (const Profile::Row& row : program.profile().rows())
    rows.append(py::make_tuple(row.address, row.instructions, row.cycles));
  return rows;
}

/// Operations by bytes of an element, bytes, and the most of both in a cycle.
py::dict work_of(const Program& program) {
  const Profile::Work& work = program.profile().work();
  const Peaks most = peaks(program.pipeline()->set(), program.pipeline()->core());
  py::dict told;
  told["operations"] = work.operations;
  told["bytes_loaded"] = work.loaded;
  told["bytes_stored"] = work.stored;
  told["peak_operations"] = most.operations;
  told["peak_bytes"] = most.bytes;
  return told;
}

py::list marked(Program& program) {
  py::list rows;
  const bool timed = program.pipeline() != nullptr;
  const auto of_timed = [&](auto value) { return timed ? py::object(py::cast(value)) : py::object(py::none()); };
  for (const Marks::Region& region : program.process().marks.regions(program.process().hart)) {
    const Counters& in = region.in;
    py::dict row;
    row["region"] = region.number, row["within"] = region.within, row["times"] = region.times;
    row["open"] = region.open;
    row["instructions"] = in.instructions, row["vector_instructions"] = in.vector_instructions;
    row["element_operations"] = in.element_operations, row["cycles"] = of_timed(in.cycles);
    row["operations"] = of_timed(in.operations), row["bytes_loaded"] = of_timed(in.bytes_loaded);
    row["bytes_stored"] = of_timed(in.bytes_stored), row["bytes_moved"] = in.bytes_moved;
    rows.append(row);
  }
  return rows;
}

/// An instruction as `log` gives it, row behind row: a view of numpy's has these fields.
struct LogRow {
  std::uint64_t address;
  std::uint32_t bits;
  std::uint16_t unit, waited_for;  ///< of `words`
  double issue, dispatch, start, end, result, waited;
};
static_assert(sizeof(LogRow) == 64);

py::dict logged(const Program& program) {
  std::vector<std::string> words;  // of units and causes
  const auto number_of = [&](const std::string& word) {
    const auto number = static_cast<std::uint16_t>(std::find(words.begin(), words.end(), word) - words.begin());
    if (number == words.size()) words.push_back(word);
    return number;
  };
  std::array<std::uint16_t, states> causes{};
  for (std::size_t i = 0; i < states; ++i) causes[i] = number_of(state_name(static_cast<State>(i)));
  const std::uint16_t none = number_of("");
  std::vector<LogRow> rows;
  rows.reserve(program.log().entries().size());
  std::map<std::pair<std::uint8_t, std::uint8_t>, std::uint16_t> units;
  for (const Log::LoggedInstruction& e : program.log().entries()) {
    const bool at_pipe = e.pipe_wait > e.front_wait;
    const State why = at_pipe ? e.at_pipe : e.front;
    const Ticks wait = at_pipe ? e.pipe_wait : e.front_wait;
    auto unit = units.find({e.kind, e.pipe});
    if (unit == units.end())
      unit = units.emplace(std::pair{e.kind, e.pipe}, number_of(unit_of(*program.pipeline(), e.kind, e.pipe))).first;
    rows.push_back({e.address, e.bits, unit->second, wait > 0 ? causes[static_cast<std::size_t>(why)] : none,
                    in_cycles(e.issue), in_cycles(e.dispatch), in_cycles(e.start), in_cycles(e.end), in_cycles(e.done),
                    in_cycles(wait)});
  }
  py::dict told;
  told["rows"] = py::bytes(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(LogRow));
  told["words"] = words;
  told["left_out"] = program.log().seen() - program.log().entries().size();
  return told;
}

py::dict traced(const Program& program) {
  const Pipeline& pipeline = *program.pipeline();
  py::list intervals, visits;
  for (const Intervals::Interval& i : program.intervals().intervals())
    intervals.append(py::make_tuple(unit_of(pipeline, i.kind, i.pipe),
                                    i.kind == Log::none ? "issue" : pipeline.set().info(i.id).name, in_cycles(i.start),
                                    in_cycles(i.end)));
  for (const Intervals::Visit& v : program.intervals().visits())
    visits.append(py::make_tuple(v.function, in_cycles(v.start), in_cycles(v.end)));
  py::dict told;
  told["intervals"] = intervals;
  told["visits"] = visits;
  told["left_out"] = program.intervals().left_out();
  return told;
}

}  // namespace

/// State names and cycles, by unit.
py::dict unit_times(const std::vector<UnitTimes>& units) {
  py::dict all;
  for (const UnitTimes& unit : units) {
    py::dict row;
    for (std::size_t i = 0; i < states; ++i)
      row[state_name(static_cast<State>(i))] = static_cast<double>(unit.in[i]) / static_cast<double>(cycle);
    all[unit.name.c_str()] = row;
  }
  return all;
}

void init_program(py::module_& module) {
  py::class_<Program>(module, "IsaProgram", "A program in the memory of a hart.")
      .def(py::init([](const py::dict& image, std::uint32_t vlen, const std::string& root, std::uint64_t seed,
                       const std::string& streams, const py::bytes& input, const std::optional<HeldSet>& set,
                       std::uint64_t max_memory) {
             return naming("the simulated program", [&] {
               return std::make_unique<Program>(
                   image, vlen, LinuxOptions{root, seed, streams_of(streams), std::string(input), max_memory},
                   set.value_or(HeldSet()));
             });
           }),
           py::arg("image"), py::arg("vlen"), py::arg("root") = "", py::arg("seed") = 0, py::arg("streams") = "kkk",
           py::arg("input") = py::bytes(), py::arg("set") = py::none(), py::arg("max_memory") = std::uint64_t{4} << 30,
           "`streams`: where standard input, output and errors go: k(ept), o(wn), c(losed).")
      .def("start", [](Program& p, const std::vector<std::string>& arguments) { p.process().start(arguments); })
      .def("time", &Program::time, py::arg("core"), py::arg("file") = "core")
      .def("keep_log", &Program::keep_log, py::arg("limit"))
      .def("keep_intervals", &Program::keep_intervals, py::arg("limit"), py::arg("functions"))
      .def_property_readonly("profile", profile_rows)
      .def_property_readonly("work", work_of)
      .def_property_readonly("marks", marked)
      .def_property_readonly("log", logged)
      .def_property_readonly("intervals", traced)
      .def("be", &Program::be, py::arg("machine"))
      .def_property_readonly("cycles",
                             [](Program& p) -> std::optional<std::int64_t> {
                               if (p.pipeline() == nullptr) return std::nullopt;
                               return p.pipeline()->drain();
                             })
      .def_property_readonly(
          "units", [](Program& p) { return p.pipeline() == nullptr ? py::dict() : unit_times(p.pipeline()->units()); })
      .def("make_bare", [](Program& p, Address tohost) { p.process().make_bare(tohost); })
      .def("run", &Program::run, py::arg("limit"))
      .def("call", &Program::call, py::arg("function"), py::arg("limit"))
      .def("allocate", [](Program& p, std::uint64_t bytes) { return p.process().allocate(bytes); })
      .def("read", bytes_at, py::arg("address"), py::arg("count"))
      .def("place", place, py::arg("address"), py::arg("bytes"))
      .def("x", [](Program& p, unsigned number) { return p.process().hart.x.at(number); })
      .def("f", [](Program& p, unsigned number) { return p.process().hart.f.at(number); })
      .def("set_x", [](Program& p, unsigned number, std::uint64_t value) { p.process().hart.x.at(number) = value; })
      .def("set_f", [](Program& p, unsigned number, std::uint64_t value) { p.process().hart.f.at(number) = value; })
      .def("set_stack",
           [](Program& p, std::uint64_t bytes) { p.process().hart.x[2] = (stack_top - 64 - bytes) & ~Address{15}; })
      .def("set_ones", [](Program& p, bool ones) { set_ones(p.process().hart.v, ones); })
      .def_property_readonly("output", [](Program& p) { return py::bytes(p.process().system().output); })
      .def_property_readonly("errors", [](Program& p) { return py::bytes(p.process().system().errors); })
      .def_property_readonly("instructions", [](Program& p) { return p.process().hart.instret; })
      .def_property_readonly("vector_instructions", [](Program& p) { return p.process().hart.vector_instructions; })
      .def_property_readonly("element_operations", [](Program& p) { return p.process().hart.element_operations; });
}

}  // namespace tilesim::isa::bound
