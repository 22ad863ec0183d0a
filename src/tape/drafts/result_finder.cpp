#include "tape/drafts/result_finder.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "tape/aten/bytes.h"
#include "tape/aten/lent_memory.h"
#include "tape/calls/arguments.h"
#include "tape/dispatch/plain_memory.h"

namespace gradrecomp::tape {
namespace {

/// Whether autograd never follows what has such elements, so that the program may edit it by hand.
bool is_never_differentiated(c10::ScalarType type) {
  return !c10::isFloatingType(type) && !c10::isComplexType(type);
}

/// Whether autograd may not follow what the call returned there, though it follows what it read:
/// one of several results, as mean and deviation of a normalisation, or what has no derivative.
bool may_be_unfollowed(const Draft& draft, std::int16_t output, const c10::IValue& returned) {
  if (output > 0 || returned.isTensorList() || draft.traits.foreign) return true;
  const std::string& name = draft.op.name();
  constexpr std::array kOpsWithout = {"aten::special_", "aten::hist", "aten::lu_unpack",
                                      "aten::linalg_lu"};
  return std::ranges::any_of(kOpsWithout, [&](const char* op) { return name.starts_with(op); });
}

/// The same of what it wrote, as it does not yet: one of several, running statistics, or what it
/// does not return.
bool is_written_besides(const Draft& draft, const Draft::Written& written) {
  const auto impl = written.tensor.lock();
  if (!impl || impl->requires_grad()) return false;
  const bool is_declared = draft.traits.writes[draft.op.reads[written.read].argument] != 0;
  if (!is_declared || draft.written.size() > 1) return true;
  const auto& returns = draft.op.handle().schema().returns();
  const auto is_alias = [](const c10::Argument& result) { return result.alias_info() != nullptr; };
  return draft.traits.foreign || std::ranges::none_of(returns, is_alias) ||
         draft.op.name().starts_with("aten::logical_");
}

/// Whether the operator that returned `tensor` may write to its memory once more, as one that is
/// not LibTorch's own may have kept hold of it, or others may.
bool is_left_to_others(const OpTraits& traits, const at::Tensor& tensor,
                       c10::ArrayRef<c10::IValue> returned) {
  const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  return is_lent_or_mapped(storage) || (traits.foreign && is_held_elsewhere(tensor, returned, 0));
}

/// What the call has left of its output: operators with `out=` give it another size. None where
/// that is gone.
std::optional<Geometry> geometry_after(const Draft::Written& written) {
  auto impl = written.tensor.lock();
  if (!impl) return std::nullopt;
  return Geometry(at::Tensor(std::move(impl)));
}

}  // namespace

bool is_factory(const Op& op) { return op.reads.empty() || op.traits->shapes_only; }

bool fills_alone(const Op& op) { return op.traits->fills && op.reads.size() == 1; }

bool is_rubbish(const Value& value) { return value.uninitialized || value.bytes == 0; }

void ResultFinder::find_returned(Draft& draft, const torch::jit::Stack& stack) {
  const std::size_t count = draft.op.handle().schema().returns().size();
  const auto returned = torch::jit::last(stack, count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto output = static_cast<std::int16_t>(i);
    const bool is_direct = returned[i].isTensor() || returned[i].isTensorList();
    for_each_tensor(returned[i], [&](const at::Tensor& tensor, std::int32_t element) {
      if (!is_direct) draft.op.replayable = false;
      find_result(draft, tensor, output, element, returned);
    });
  }
  if (!draft.returns_more) return;
  // A result that is more than memory may hold on to the call's arguments.
  draft.op.replayable = false;
  for (const Read& read : draft.op.reads) tape_.make_source(read.value);
}

void ResultFinder::find_result(Draft& draft, const at::Tensor& tensor, std::int16_t output,
                               std::int32_t element, c10::ArrayRef<c10::IValue> returned) {
  if (!is_plain(tensor)) {
    draft.returns_more = true;
    return;
  }
  if (const ValueId known = tape_.find(tensor); known >= 0) {
    const bool is_declared = draft.op.handle().schema().returns()[output].alias_info() != nullptr;
    if (!is_declared) writer_.follow_counter(known, tensor);
    return;
  }
  const auto producer = static_cast<OpId>(tape_.ops().size());
  const ValueId id = draft.traits.factory ? writer_.add_factory_value(tensor, producer)
                                          : writer_.add_value(tensor, producer);
  if (is_left_to_others(draft.traits, tensor, returned)) {
    writer_.set_lent(id);
    draft.op.replayable = false;
  }
  if (draft.traits.uninitialized) {
    writer_.set_uninitialized(id);
  } else if (draft.is_constant || is_factory(draft.op) ||
             is_never_differentiated(tensor.scalar_type()) ||
             may_be_unfollowed(draft, output, returned[static_cast<std::size_t>(output)])) {
    print_result(draft, id, Geometry(tensor), is_factory(draft.op));
  }
  draft.op.results.push_back({.value = id, .element = element, .output = output});
}

/// Notes what a result contains that the program may write by hand; see
/// Note [ Unseen writes ].
void ResultFinder::print_result(const Draft& draft, ValueId value, const Geometry& geometry,
                                bool by_factory) {
  if (!draft.op.replayable) {
    tape_.make_source(value);
    return writer_.print_source(value, geometry, true);
  }
  if (by_factory && !geometry.is_on_cpu()) {
    tape_.make_source(value);
  } else {
    tape_.print(value, geometry, by_factory ? Guard::whole : Guard::sampled);
  }
}

void ResultFinder::find_written(Draft& draft) {
  for (const Draft::Written& written : draft.written) {
    auto storage = written.memory.lock();
    const Value& before = tape_.values()[draft.op.reads[written.read].value];
    if (before.overwritten_by < 0 && storage) find_version(draft, written, std::move(storage));
  }
}

void ResultFinder::find_version(Draft& draft, const Draft::Written& written, c10::Storage storage) {
  const Read& read = draft.op.reads[written.read];
  const Value& before = tape_.values()[read.value];
  const bool is_declared = draft.traits.writes[read.argument] != 0;
  const bool bumps = is_declared && draft.traits.bumps && !draft.has_failed;
  const Before earlier{.was_printed = before.has_print,
                       .was_rubbish = is_rubbish(before),
                       .is_replaced = read.geometry->fills(before.bytes),
                       .is_constant = draft.is_constant || is_written_besides(draft, written)};
  const auto after = earlier.was_rubbish ? geometry_after(written) : std::nullopt;
  const Geometry& shown = after ? *after : *read.geometry;
  // What it has not written contains what the program left there by hand.
  if (earlier.was_rubbish && !shown.fills(bytes_in(storage))) draft.op.replayable = false;
  const auto producer = static_cast<OpId>(tape_.ops().size());
  const ValueId id = writer_.add_version(read.value, std::move(storage), producer, bumps);
  print_version(draft, id, read.value, shown, earlier);
  draft.op.results.push_back({.value = id, .read = static_cast<std::int32_t>(written.read)});
}

/// Notes what memory contains now that the program may write to by hand as well.
void ResultFinder::print_version(const Draft& draft, ValueId value, ValueId old,
                                 const Geometry& shown, const Before& before) {
  const bool is_filled = before.is_replaced && fills_alone(draft.op);
  const bool is_constant = before.is_constant || is_never_differentiated(shown.scalar_type());
  if (draft.traits.resizes) {
    writer_.set_uninitialized(value);  // what it has grown by, at least
  } else if (before.was_printed && is_constant) {
    // A constant goes on as one.
    if (draft.traits.writes_shown) {
      tape_.print_after_write(value, old, shown);
    } else {
      tape_.print(value, shown, Guard::whole);
    }
  } else if (is_filled && (shown.is_on_cpu() || !draft.traits.seeded)) {
    print_result(draft, value, shown, true);
  } else if (before.was_rubbish && is_constant) {
    print_result(draft, value, shown, false);
  } else if (!c10::GradMode::is_enabled() && draft.op.replayable && before.is_replaced) {
    // A function of the program may run below what raises versions. One that it raises itself,
    // by mark_dirty(), is then of whatever it wrote, maybe of more than this.
    tape_.print(value, shown, Guard::whole);
  }
}

}  // namespace gradrecomp::tape
