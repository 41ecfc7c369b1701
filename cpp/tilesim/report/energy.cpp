#include "tilesim/report/energy.hpp"

#include <algorithm>
#include <cmath>

namespace tilesim {

std::vector<EnergyPart> energy_of(std::span<const Count> counts, std::span<const EnergyRate> table) {
  std::vector<EnergyPart> parts;
  for (const EnergyRate& rate : table) {
    double number = 0;
    for (const Count& count : counts)
      if (count.item == rate.item) number += count.number;
    const auto whole = static_cast<std::int64_t>(number);
    const auto femtojoules =
        rate.events ? whole * std::llround(rate.femtojoules) : static_cast<std::int64_t>(number * rate.femtojoules);
    const std::string& part = rate.part.empty() ? rate.item : rate.part;
    const auto known = std::ranges::find(parts, part, &EnergyPart::part);
    if (known == parts.end()) {
      parts.push_back({part, whole, femtojoules, rate.known});
    } else {
      known->count += whole;
      known->femtojoules += femtojoules;
      known->known = known->known && rate.known;
    }
  }
  return parts;
}

void add_counts(std::vector<Count>& counts, const Count& total, std::span<const Caused> operations) {
  Count rest = total;
  for (const Caused& one : operations) {
    if (one.number == 0) continue;
    Count& count = counts.emplace_back(total);
    count.operation = one.operation;
    count.number = one.number;
    rest.number -= one.number;
  }
  if (rest.number != 0) counts.push_back(std::move(rest));
}

void CountSums::add(const Count& count) {
  const auto [known, fresh] =
      place_.try_emplace(Key{count.part, count.item, count.level, count.operation}, counts_.size());
  if (fresh)
    counts_.push_back(count);
  else
    counts_[known->second].number += count.number;
}

Json counts_json(std::span<const Count> counts) {
  struct Row {
    Count of;
    Json operations = Json::array();
    double rest = 0;
  };
  CountSums sums;  // several programs may have a kernel of one name
  for (const Count& count : counts) sums.add(count);
  std::vector<Row> rows;
  for (const Count& count : sums.take()) {
    const auto same = [&](const Row& row) {
      return row.of.item == count.item && row.of.part == count.part && row.of.level == count.level;
    };
    auto row = std::ranges::find_if(rows, same);
    if (row == rows.end()) row = rows.insert(rows.end(), {count, Json::array(), 0});
    if (count.operation.empty()) {
      row->rest = count.number;
      continue;
    }
    Json pair = Json::array();
    pair.push(count.operation);
    pair.push(count.number);
    row->operations.push(std::move(pair));
  }
  Json list = Json::array();
  for (Row& row : rows) {
    Json json = Json::object();
    json.set("part", row.of.part);
    json.set("item", row.of.item);
    json.set("level", row.of.level);
    json.set("operations", std::move(row.operations));
    json.set("rest", row.rest);
    list.push(std::move(json));
  }
  return list;
}

std::vector<Count> read_counts(const Json& json) {
  std::vector<Count> counts;
  for (const Json& item : json.items()) {
    ObjectReader reader(item);
    Count count{reader.string("part"), reader.string("item"), reader.string("level"), {}, 0};
    const double rest = reader.required("rest").as_double();
    for (const Json& pair : reader.required("operations").items()) {
      if (pair.items().size() != 2) pair.fail("an operation's count needs two parts", "[operation, number]");
      count.operation = pair.items()[0].as_string();
      count.number = pair.items()[1].as_double();
      counts.push_back(count);
    }
    reader.finish();
    if (rest == 0) continue;
    count.operation.clear();
    count.number = rest;
    counts.push_back(count);
  }
  return counts;
}

}  // namespace tilesim
