// Results of a vector compute: reduced over steps, lanes and rows, combined with existing values, and stored.
#include <cstdint>

#include "tilesim/isa/kernel/vector_kernel_writer.hpp"

namespace tilesim::isa {

/// Merges a value with the neutral element under a mask; `with_mask` loads the mask into v0.
template <class WithMask>
unsigned VectorKernelWriter::masked(Section section, std::size_t o, unsigned value, unsigned whole,
                                    WithMask with_mask) {
  pipeline_.begin(section);
  if (!mask_stays_) nodes_.set(8), with_mask();
  nodes_.set(bits_of(typed_.total(o)));
  code_.op("vmerge.vvm", {whole, neutrals_[o], value});
  pipeline_.end();
  return whole;
}

/// Replaces positions without elements by the neutral element, in the steps that have such positions.
unsigned VectorKernelWriter::with_neutral(std::size_t o, unsigned value) {
  const unsigned whole = pipeline_.value();
  const std::int64_t mask = form_.elements() / 8;
  const auto then = [&](std::int64_t step) {
    return [this, o, step] { code_.op("vlm.v", {0, valid_pointers_[o]}), code_.advance(valid_pointers_[o], step); };
  };
  if (together_ > 1) return masked({}, o, value, whole, then(0));
  if (mask_stays_) return masked({Section::ragged, 0, -1}, o, value, whole, then(0));
  masked({Section::ragged, Section::last_group, -1}, o, value, whole, then(0));
  masked({Section::ragged | Section::last_group, Section::last_step, -1}, o, value, whole, then(mask));
  return masked({Section::ragged | Section::last_group | Section::last_step, 0, -1}, o, value, whole,
                then((form_.ragged_from + 1 - form_.steps) * mask));
}

/// Converts a value to 0 or 1 if its results are combined logically.
unsigned VectorKernelWriter::as_combined(const VectorOutput& output, Held held, unsigned value, Section section) {
  if (!is_logical(output.combiner) || (output.reduce.empty() && !output.accumulate)) return value;
  const unsigned scratch = pipeline_.value();
  return written(section, [&](unsigned to) { nodes_.truth(held, to, value, scratch); });
}

/// Reduces the steps of an iteration pairwise.
unsigned VectorKernelWriter::all_steps(std::size_t o) {
  const VectorOutput& output = compute_.outputs[o];
  const auto node = static_cast<std::size_t>(output.node);
  std::vector<unsigned> parts;
  for (step_ = 0; step_ < together_; ++step_) {
    compute(node);
    const unsigned value = as_combined(output, nodes_.held(output.node), value_of(node), {});
    parts.push_back(form_.ragged && step_ >= form_.ragged_from ? with_neutral(o, value) : value);
  }
  step_ = 0;
  while (parts.size() > 1) {
    std::vector<unsigned> pairs;
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2)
      pairs.push_back(written(
          {}, [&](unsigned to) { nodes_.join(output.combiner, typed_.total(o), to, parts[i], parts[i + 1], 0); }));
    if (parts.size() % 2 != 0) pairs.push_back(parts.back());
    parts = pairs;
  }
  return parts[0];
}

bool VectorKernelWriter::begins_at_zero(std::size_t o) const {
  const VectorOutput& output = compute_.outputs[o];
  return is_combined(output) && output.combiner == Combiner::add && is_floating(typed_.total(o)) &&
         !form_.lane_reduced && !form_.rows_reduced;
}

void VectorKernelWriter::result(std::size_t o) {
  const VectorOutput& output = compute_.outputs[o];
  const auto node = static_cast<std::size_t>(output.node);
  const Held held = typed_.total(o);
  if (!is_combined(output)) {
    for (step_ = 0; step_ < together_; ++step_) {
      compute(node);
      finish(output, o, {as_combined(output, nodes_.held(output.node), value_of(node), {})});
    }
    step_ = 0;
    return;
  }
  unsigned value = 0, whole = 0;
  if (together_ > 1) {
    value = whole = all_steps(o);
  } else {
    compute(node);
    value = as_combined(output, nodes_.held(output.node), value_of(node), {});
    whole = form_.ragged ? with_neutral(o, value) : value;
  }
  if (steps_ == 1) {
    if (begins_at_zero(o)) whole = written({}, [&, x = whole](unsigned to) { nodes_.from_zero(held, to, x); });
    return finish(output, o, {whole});
  }
  const bool any_ragged = form_.ragged && together_ == 1;
  std::vector<unsigned> totals;
  const std::int64_t count = pipeline_.totals();
  for (std::int64_t t = 0; t < count; ++t) {
    totals.push_back(pipeline_.value(Scope::group));
    for (const bool is_ragged : {false, true}) {
      if (is_ragged ? !any_ragged : any_ragged && form_.ragged_from == 0) continue;
      const auto with = is_ragged ? std::uint8_t{Section::ragged} : std::uint8_t{0};
      const auto without = any_ragged && !is_ragged ? std::uint8_t{Section::ragged} : std::uint8_t{0};
      const unsigned more = is_ragged ? whole : value;
      pipeline_.begin({static_cast<std::uint8_t>(with | Section::fresh), without, t});
      nodes_.set(bits_of(held));
      if (t == 0 && begins_at_zero(o))
        nodes_.from_zero(held, totals.back(), more);
      else
        code_.op("vmv.v.v", {totals.back(), more});
      pipeline_.end();
      pipeline_.begin({with, static_cast<std::uint8_t>(without | Section::fresh), t});
      nodes_.combine(output.combiner, held, totals.back(), more, more);
      pipeline_.end();
    }
  }
  finish(output, o, totals);
}

/// Reduces over the lanes of each row, or over all rows; every position gets the total.
unsigned VectorKernelWriter::across(const VectorOutput& output, std::size_t o, unsigned value) {
  const Held held = typed_.total(o);
  const Section section = last_of(output);
  const bool largest = output.combiner == Combiner::maximum || output.combiner == Combiner::logical_or;
  const bool extreme = largest || output.combiner == Combiner::minimum || output.combiner == Combiner::logical_and;
  const int id = (extreme ? (largest ? 2 : 3) : static_cast<int>(output.combiner)) + (is_floating(held) ? 0 : 4);
  const bool turned = extreme && !has_sign(held) && (form_.lane_reduced || form_.rows_reduced);
  // flipping the highest bit maps unsigned order to signed order
  const auto turn = [&] {
    value = written(section, [&](unsigned to) {
      nodes_.set(), code_.load_constant(t1, INT32_MIN);
      code_.op("vxor.vx", {to, value, t1});
    });
  };
  if (turned) turn();
  for (const bool rows : {false, true}) {
    if (!(rows ? form_.rows_reduced : form_.lane_reduced)) continue;
    value = written(section, [&](unsigned to) {
      nodes_.set(bits_of(held)), code_.op("xl.reduce", {to, value, id + (rows ? 8 : 0)});
    });
  }
  if (turned) turn();
  return value;
}

/// Combines a value with the existing result.
unsigned VectorKernelWriter::with_before(const VectorOutput& output, std::size_t o, unsigned value, Held& held) {
  const Section section = last_of(output);
  const DType dtype = output.view.dtype;
  const Held stored = is_float(dtype) ? held : held_as(dtype);
  const unsigned narrow = pipeline_.value();
  unsigned before =
      written(section, [&](unsigned to) { nodes_.load(dtype, to, before_pointers_[o], narrow, bytes(dtype)); });
  if (is_logical(output.combiner)) {
    before = as_combined(output, stored, before, section);
  } else if (bits_of(stored) < bits_of(held)) {
    before = written(section, [&, from = before](unsigned to) { nodes_.widen(stored, to, from); });
  } else if (bits_of(stored) > bits_of(held)) {
    value = written(section, [&, from = value](unsigned to) { nodes_.widen(held, to, from); });
    held = stored;
  }
  return written(section, [&](unsigned to) { nodes_.join(output.combiner, held, to, value, before, 0); });
}

/// Reduces totals over lanes and rows, combines them with existing results, and stores them.
void VectorKernelWriter::finish(const VectorOutput& output, std::size_t o, std::vector<unsigned> totals) {
  Held held = output.reduce.empty() && !output.accumulate ? nodes_.held(output.node) : typed_.total(o);
  const Section section = last_of(output);
  while (totals.size() > 1) {
    pipeline_.begin(section);
    nodes_.combine(output.combiner, held, totals[totals.size() - 2], totals.back(), 0);
    pipeline_.end();
    totals.pop_back();
  }
  unsigned value = totals[0];
  if (is_combined(output) && form_.lanes_at_end)
    value = masked(section, o, value, pipeline_.value(), [&] { code_.op("vlm.v", {0, lanes_pointer_}); });
  if (is_combined(output)) value = across(output, o, value);
  if (typed_.bounded(o)) {
    const unsigned neutral =
        written(section, [&](unsigned to) { nodes_.bound(output.combiner, output.view.dtype, held, to); });
    value =
        written(section, [&, from = value](unsigned to) { nodes_.join(output.combiner, held, to, from, neutral, 0); });
  }
  if (output.accumulate) value = with_before(output, o, value, held);
  const bool plain = output.reduce.empty() && !output.accumulate;
  const bool is_flag = !is_floating(held) && bits_of(held) == 32 &&
                       (plain ? typed_.value_at(output.node).numbers.within({0, 1}) : is_logical(output.combiner));
  const unsigned scratch = pipeline_.value();
  pipeline_.begin(section);
  const unsigned pointer = output_pointers_[static_cast<std::size_t>(step_)][o];
  nodes_.store(output.view.dtype, held, value, pointer, scratch, is_flag);
  code_.advance(pointer, (is_combined(output) ? 1 : together_) * bytes(output.view.dtype));
  pipeline_.end();
}

}  // namespace tilesim::isa
