// The base room: errors as Python exceptions; dtypes, arrays, expressions, units and JSON for the package and its
// tests.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/arrays.hpp"
#include "base/cancel.hpp"
#include "base/messages.hpp"
#include "tilesim/base/dtype.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/base/expr/expr.hpp"
#include "tilesim/base/file.hpp"
#include "tilesim/base/functions/functions.hpp"
#include "tilesim/base/json/json.hpp"
#include "tilesim/base/json/tree.hpp"
#include "tilesim/base/units.hpp"

namespace py = pybind11;

namespace tilesim::bindings {

namespace {

/// The exception classes; they live as long as the module's process.
struct Classes { py::handle error, user_error, unsupported, internal_error; };
Classes classes;

py::object instance_of(py::handle type, const UserError& error) {
  py::object instance = type(readable(error.what()));
  const UserError::Parts& parts = error.parts();
  instance.attr("what") = readable(parts.what);
  instance.attr("place") = readable(parts.place);
  instance.attr("value") = readable(parts.value);
  instance.attr("allowed") = readable(parts.allowed);
  instance.attr("suggestion") = readable(parts.suggestion);
  return instance;
}

void raise_user_error(py::handle type, const UserError& error) {
  PyErr_SetObject(type.ptr(), instance_of(type, error).ptr());
}

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const Cancelled&) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
  } catch (const Unsupported& error) {
    raise_user_error(classes.unsupported, error);
  } catch (const UserError& error) {
    raise_user_error(classes.user_error, error);
  } catch (const InternalError& error) {
    PyErr_SetObject(classes.internal_error.ptr(), readable(error.what()).ptr());
  } catch (const Error& error) {
    PyErr_SetObject(classes.error.ptr(), readable(error.what()).ptr());
  }
}

py::handle new_class(py::module_& m, const char* name, const char* doc, const py::object& bases) {
  const std::string full = "tilesim._core." + std::string(name);
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.ptr(), nullptr);
  if (type == nullptr) throw py::error_already_set();
  m.add_object(name, type);
  return type;
}

void register_errors(py::module_& m) {
  classes.error = new_class(m, "Error", "Base class of all errors that Tilesim raises.",
                            py::reinterpret_borrow<py::object>(PyExc_Exception));
  const py::object user_bases = py::make_tuple(classes.error, py::handle(PyExc_ValueError));
  classes.user_error = new_class(m, "UserError",
                                 "A mistake in the input. Attributes (str, empty if absent): what, place (file "
                                 "and line, or name), value, allowed, suggestion.",
                                 user_bases);
  for (const char* part : {"what", "place", "value", "allowed", "suggestion"})
    py::setattr(classes.user_error, part, py::str());
  classes.unsupported = new_class(m, "Unsupported",
                                  "Legal input that Tilesim or the chosen machine cannot handle. Attributes beside "
                                  "those of UserError (str, empty if absent): operation of the graph as it was "
                                  "given, its function, and what is missing in the machine (dtype, scratchpad, ...).",
                                  py::reinterpret_borrow<py::object>(classes.user_error));
  for (const char* part : {"operation", "function", "lack"}) py::setattr(classes.unsupported, part, py::str());
  classes.internal_error = new_class(m, "InternalError", "A broken invariant: a bug of Tilesim, with its state.",
                                     py::reinterpret_borrow<py::object>(classes.error));
  py::register_local_exception_translator(translate);
}

py::array convert_array(py::handle array, const std::string& dtype, const std::string& rounding, bool saturate) {
  static const std::vector<std::string> roundings{"nearest_even", "toward_zero"};
  if (rounding != roundings[0] && rounding != roundings[1])
    throw UserError({"unknown rounding", {}, "'" + rounding + "'", join(roundings), nearest(rounding, roundings)});
  const Array from = array_from_python(array);
  Array to(parse_dtype(dtype), from.shape());
  cancellable([&] {
    constexpr std::int64_t piece = 1 << 20;
    for (std::int64_t done = 0; done < from.size(); done += piece) {
      const std::int64_t count = std::min(piece, from.size() - done);
      convert(from.bytes() + done * host_bytes(from.dtype()), from.dtype(), to.bytes() + done * host_bytes(to.dtype()),
              to.dtype(), count, rounding == roundings[0] ? Rounding::nearest_even : Rounding::toward_zero,
              saturate ? Overflow::saturate : Overflow::ieee);
      worked(count);
    }
  });
  return array_to_python(to);
}

py::array round_array(py::handle array, const std::string& through) {
  Array values = array_from_python(array).to(DType::f32).clone();
  if (through == "tf32") {
    tf32_round(values.as<float>(), values.size());
  } else {
    round_through(values.as<float>(), values.size(), parse_dtype(through));
  }
  return array_to_python(values);
}

void register_dtypes(py::module_& m) {
  m.def("dtype_names", &dtype_names, "Canonical names of all dtypes.");
  m.def(
      "parse_dtype", [](const std::string& text) { return std::string(name(parse_dtype(text))); }, py::arg("text"),
      "Canonical name of a dtype or alias. UserError with a suggestion if it is neither.");
  m.def(
      "dtype_bits", [](const std::string& text) { return bits(parse_dtype(text)); }, py::arg("dtype"),
      "Bits of one element as stored in a memory.");
  m.def(
      "unit_roundoff", [](const std::string& text) { return unit_roundoff(parse_dtype(text)); }, py::arg("dtype"),
      "Half the spacing just above 1 of a float dtype; 0 for integers and bool.");
  m.def(
      "convert_array", &convert_array, py::arg("array"), py::arg("dtype"), py::arg("rounding") = "nearest_even",
      py::arg("saturate") = false,
      "Converts an array of any shape, rounding once ('nearest_even' or 'toward_zero'). Beyond the target's range: as "
      "the format defines (infinity, NaN, integers wrap), or clamped with `saturate`.");
  m.def("round_array", &round_array, py::arg("array"), py::arg("through"),
        "The values as f32, each rounded to a narrower float dtype or to 'tf32'.");
  m.def(
      "share_array", [](py::handle array) { return array_to_python(array_from_python(array)); }, py::arg("array"),
      "The same array through the core and back: the same memory where it is row-major, aligned and native.");
}

using Symbols = std::map<std::string, std::int64_t>;

std::int64_t look_up(const Symbols& symbols, const std::string& name) {
  if (const auto found = symbols.find(name); found != symbols.end()) return found->second;
  throw UserError({"unknown symbol", {}, "'" + name + "'", {}, {}});
}

std::int64_t evaluate_compiled(const Expr& expr, const Symbols& symbols) {
  std::vector<std::int64_t> environment;
  const CompiledExpr compiled(expr, [&](const std::string& symbol) {
    environment.push_back(look_up(symbols, symbol));
    return static_cast<int>(environment.size()) - 1;
  });
  return compiled(environment.data());
}

void register_expressions(py::module_& m) {
  m.def(
      "evaluate_expr",
      [](const std::string& text, const Symbols& symbols, bool compiled) {
        const Expr expr = Expr::parse(text);
        if (compiled) return evaluate_compiled(expr, symbols);
        return expr.evaluate([&](const std::string& symbol) { return look_up(symbols, symbol); });
      },
      py::arg("text"), py::arg("symbols") = Symbols{}, py::arg("compiled") = false,
      "Value of a quasi-affine expression (int64) under values of its symbols; `compiled`: by the form that simulation "
      "uses. UserError for bad text, an unknown symbol, or a value beyond 64 bits.");
  m.def(
      "normalize_expr", [](const std::string& text) { return Expr::parse(text).text(); }, py::arg("text"),
      "The simplified expression as text; parses back to an equal expression.");
  m.def(
      "range_of_expr",
      [](const std::string& text, const std::map<std::string, std::pair<std::int64_t, std::int64_t>>& ranges) {
        std::map<std::string, Expr::Range> symbols;
        for (const auto& [symbol, range] : ranges) symbols[symbol] = {range.first, range.second};
        const Expr::Range range = Expr::parse(text).range(symbols);
        return std::pair(range.low, range.high);
      },
      py::arg("text"), py::arg("ranges"),
      "An interval (low, high), both ends included, around every value, from such intervals of the symbols.");
}

void register_text(py::module_& m) {
  m.def(
      "parse_json",
      [](const std::string& text, const std::string& source, int indent) {
        return cancellable([&] { return json_tree(Json::parse(text, source))->dump(indent); });
      },
      py::arg("text"), py::arg("source") = "text", py::arg("indent") = -1,
      "JSON text in normal form. UserError with source:line:column and path for bad syntax, a duplicate key, an "
      "integer "
      "beyond 64 bits, a number that is not finite, more than 200 levels.");
  m.def(
      "hash_text", [](const std::string& text) { return hash_text(text); }, py::arg("text"),
      "64-bit FNV-1a as 16 hex digits.");
  m.def(
      "read_file", [](const std::string& path) { return py::bytes(cancellable([&] { return read_file(path); })); },
      py::arg("path"),
      "Bytes of a regular file. UserError with the system's reason, and for a directory, pipe or device.");
  py::class_<ReplacedFile, std::shared_ptr<ReplacedFile>>(
      m, "ReplacedFile", "The new content of a file, written beside it and renamed over it by commit().")
      .def(py::init<std::string>(), py::arg("path"), "UserError where the directory takes no file.")
      .def_property_readonly("temporary", &ReplacedFile::temporary, "Path that the content is written to.")
      .def(
          "commit",
          [](const std::shared_ptr<ReplacedFile>& file) {  // held: a thread may drop the object meanwhile
            const py::gil_scoped_release released;
            file->commit();
          },
          "Brings the content to disk and puts it in the old file's place.")
      .def("discard", &ReplacedFile::discard, "Leaves the old file and removes the new one.");
  py::class_<Stop>(m, "Stop", "Ends the calls of the threads that entered it, at their next poll.")
      .def(py::init<>())
      .def("request", &Stop::request, "Ends them with KeyboardInterrupt, and those that begin later.")
      .def_property_readonly("requested", &Stop::requested, "Whether it was asked for.")
      .def(
          "__enter__", [](Stop& stop) { stop.enter(); }, "From here on this thread's calls obey it.")
      .def(
          "__exit__", [](Stop& stop, const py::object&, const py::object&, const py::object&) { stop.leave(); },
          py::arg("kind"), py::arg("error"), py::arg("trace"), "Until here.");
  m.def("parse_frequency", &parse_frequency, py::arg("text"), "'940 MHz' in hertz. UserError for a wrong unit.");
  m.def("parse_bytes", &parse_bytes, py::arg("text"), "'16 MiB' in bytes. UserError for a wrong unit.");
  m.def("parse_bandwidth", &parse_bandwidth, py::arg("text"), "'450 GB/s' in bytes/s. UserError for a wrong unit.");
  m.def("parse_duration", &parse_duration, py::arg("text"), "'1.5 us' in picoseconds. UserError for a wrong unit.");
  m.def("parse_energy", &parse_energy, py::arg("text"), "'909 pJ' in femtojoules. UserError for a wrong unit.");
  m.def("function_names", &function_names, "Names of the elementwise functions.");
  m.def(
      "evaluate_function",
      [](const std::string& function, const std::vector<double>& operands) {
        const FunctionInfo& entry = info(parse_function(function));
        if (static_cast<int>(operands.size()) != entry.arity)
          throw UserError(
              {"wrong number of operands", function, std::to_string(operands.size()), std::to_string(entry.arity), {}});
        return evaluate(entry.function, operands.data());
      },
      py::arg("function"), py::arg("operands"), "Scalar value (f64) of an elementwise function.");
  m.def(
      "poll_for",
      [](double seconds, const py::object& progress) {
        return cancellable(
            [&](CancelToken& token) {
              const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
              std::int64_t polls = 0;
              for (; std::chrono::steady_clock::now() < end; ++polls) token.poll();
              return polls;
            },
            progress);
      },
      py::arg("seconds"), py::arg("progress") = py::none(),
      "Polls for cancellation for so many seconds and returns how often; for tests of Ctrl-C.");
}

}  // namespace

py::object unsupported(const UserError& error) { return instance_of(classes.unsupported, error); }

}  // namespace tilesim::bindings

void init_base(py::module_& m) {
  tilesim::bindings::register_errors(m);
  tilesim::bindings::register_dtypes(m);
  tilesim::bindings::register_expressions(m);
  tilesim::bindings::register_text(m);
}
