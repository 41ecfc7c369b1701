// Operations of the user's: their meaning a Python function, their kernel a program.
#include <pybind11/stl.h>

#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/arrays.hpp"
#include "base/cancel.hpp"
#include "isa/instructions.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/isa/latency/custom_kernel.hpp"

namespace py = pybind11;
namespace tilesim::isa::bound {

using namespace tilesim;

namespace {

/// Called without the GIL.
class PythonOperation final : public CustomKernel {
 public:
  PythonOperation(Program program, const py::object& reference, const py::object& place)
      : CustomKernel(std::move(program)), reference_(held(reference)), place_(held(place)) {}

  void evaluate(const std::vector<Array>& operands, std::vector<Array>& results) const override {
    bindings::pause_where_python_ends();
    const py::gil_scoped_acquire gil;
    const CancelScope none(nullptr);
    py::list given, types;
    for (const Array& one : operands) given.append(bindings::array_to_python(one.clone()));
    for (const Array& one : results) types.append(bindings::array_to_python(one));
    const py::list made = (*reference_)(given, types);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Array one = bindings::array_from_python(made[i], "result " + std::to_string(i));
      require(one.dtype() == results[i].dtype() && one.shape() == results[i].shape(), "a meaning gives what is stated");
      std::memcpy(results[i].bytes(), one.bytes(), static_cast<std::size_t>(one.nbytes()));
    }
  }

 protected:
  std::string where(Address pc) const override {
    const py::gil_scoped_acquire gil;
    return (*place_)(pc).cast<std::string>();
  }

 private:
  static std::shared_ptr<py::object> held(const py::object& object) {
    return {new py::object(object), [](py::object* last) {
              const py::gil_scoped_acquire gil;
              delete last;
            }};
  }

  std::shared_ptr<py::object> reference_, place_;
};

void declare(const std::string& name, const py::dict& image, Address function, const HeldSet& set,
             const std::vector<std::tuple<std::string, unsigned, unsigned>>& units, const std::string& queue,
             const py::object& reference, const py::object& place) {
  CustomKernel::Program program{name, image_from(image), function, set.set, {}, queue};
  for (const auto& [unit, entries, pipes] : units) program.units.push_back({unit, entries, pipes});
  auto operation = std::make_shared<const PythonOperation>(std::move(program), reference, place);
  const py::gil_scoped_release released;  // another thread may hold the names and wait for it
  declare_operation(name, std::move(operation));
}

/// Cycles and results of the kernel alone.
py::tuple run_operation(const std::string& name, const Machine& machine, const py::list& operands,
                        const py::list& results) {
  const auto operation = declared_operation(name, {});
  std::vector<Array> given, made;
  for (const py::handle one : operands)
    given.push_back(bindings::array_from_python(one, "operand " + std::to_string(given.size())));
  for (const py::handle one : results)
    made.push_back(bindings::array_from_python(one, "result " + std::to_string(made.size())).clone());
  std::int64_t cycles = 0;
  bindings::cancellable(
      [&] { cycles = dynamic_cast<const CustomKernel&>(*operation).run(machine, given, made, true); });
  py::list told;
  for (const Array& one : made) told.append(bindings::array_to_python(one));
  return py::make_tuple(told, cycles);
}

}  // namespace

void init_operations(py::module_& module) {
  module.def("isa_declare_operation", declare, py::arg("name"), py::arg("image"), py::arg("function"), py::arg("set"),
             py::arg("units"), py::arg("queue"), py::arg("reference"), py::arg("place"),
             "Makes an operation known by its name.");
  module.def("isa_run_operation", run_operation, py::arg("name"), py::arg("machine"), py::arg("operands"),
             py::arg("results"), "Results and cycles of an operation's kernel on a machine's core.");
}

}  // namespace tilesim::isa::bound
