// What a program consists of, without its statements: small, for those who count and name.
#include "tilesim/program/json/outline.hpp"

#include "tilesim/base/interrupt.hpp"
#include "tilesim/program/flat/cursor.hpp"

namespace tilesim::program {

namespace {

class Outline {
 public:
  Json block(const Block& statements) {
    Json json = Json::array();
    std::int64_t leaves = 0;
    const auto end_run = [&] {
      if (leaves > 0) json.push(repeated(leaves));
      leaves = 0;
    };
    for (const Statement& statement : statements) {
      worked(16);
      Json outer = Json::object();
      std::visit([&](const auto& action) { describe(action, outer); }, statement.action);
      if (outer.size() == 0) {
        ++leaves;
        continue;
      }
      end_run();
      json.push(std::move(outer));
    }
    end_run();
    return json;
  }
  bool sends = false;

 private:
  /// So many statements in a row are one in a loop.
  static Json repeated(std::int64_t count) {
    Json json = Json::object();
    if (count == 1) return json;
    json.set("for", "");
    json.set("extent", count);
    Json one = Json::array();
    one.push(Json::object());
    json.set("do", std::move(one));
    return json;
  }

  void describe(const For& loop, Json& json) {
    json.set("for", loop.index);
    json.set("extent", loop.extent.is_constant() ? Json(loop.extent.value()) : Json(loop.extent.text()));
    json.set("do", block(loop.body));
  }
  void describe(const If& branch, Json& json) {
    json.set("if", branch.condition.is_constant() ? Json(branch.condition.value()) : Json(branch.condition.text()));
    json.set("then", block(branch.then));
    if (!branch.otherwise.empty()) json.set("else", block(branch.otherwise));
  }
  void describe(const Call& call, Json& json) { json.set("call", call.function); }
  void describe(const Scope& scope, Json& json) {
    json.set("scope", scope.kernel);
    if (!scope.operation.empty()) json.set("operation", scope.operation);
    json.set("do", block(scope.body));
  }
  void describe(const Send&, Json&) { sends = true; }
  template <class Leaf>
  void describe(const Leaf&, Json&) {}
};

}  // namespace

Json outline(const Program& program) {
  Outline made;
  Json json = Json::object(), tensors = Json::array(), functions = Json::array();
  for (const Tensor& tensor : program.tensors) {
    if (tensor.typical.values.empty()) continue;
    Json values = Json::array(), typical = Json::object(), row = Json::object();
    for (const std::int64_t value : tensor.typical.values) values.push(value);
    typical.set("values", std::move(values));
    row.set("name", tensor.name);
    row.set("typical", std::move(typical));
    tensors.push(std::move(row));
  }
  json.set("tensors", std::move(tensors));
  for (const Function& function : program.functions) {
    Json row = Json::object();
    row.set("name", function.name);
    row.set("do", made.block(function.body));
    functions.push(std::move(row));
  }
  json.set("functions", std::move(functions));
  json.set("do", made.block(program.body));
  json.set("reads", CompiledProgram(&program).reads_tensors);
  json.set("sends", made.sends);
  return json;
}

}  // namespace tilesim::program
