#include "tape/calls/sequence_hash.h"

#include "tape/dispatch/lists.h"
#include "tape/dispatch/op_traits.h"
#include "tape/dispatch/shortage.h"

namespace gradrecomp::tape {
namespace {

constexpr std::uint64_t kPackedSomething = 1;
constexpr std::uint64_t kFickle = 2;
constexpr std::uint64_t kPart = 3;
constexpr std::uint64_t kLent = 4;
constexpr std::uint64_t kUndefined = 5;
constexpr std::uint64_t kNone = 6;
constexpr std::uint64_t kExternal = 7;

}  // namespace

void SequenceHash::add(std::uint64_t item) {
  hash_ ^= item + 0x9e3779b97f4a7c15u + (hash_ << 6) + (hash_ >> 2);
  hash_ *= 0xff51afd7ed558ccdu;
}

void SequenceHash::add_call(const OpTraits& traits, const Op& op, const Tape& tape,
                            bool is_fickle) {
  add(traits.name_hash);
  add(tape.values().size());  // autograd may have saved what no op has read
  if (is_fickle) add(kFickle);
  if (traits.fickle == Fickle::by_algorithm && num_algorithm_changes() > 0) {
    add(num_algorithm_changes());
  }
  add_choices(op);
  if (traits.foreign) add_absences(op);
  if (op.reads.empty()) add_sizes(op);
  for (const Read& read : op.reads) add_read(read, tape);
}

void SequenceHash::add_part(bool is_packed) { add(is_packed ? kPackedSomething : kPart); }

// Flags and words choose what an operator does, and so whether a replay may do the same. Numbers
// may change from step to step.
void SequenceHash::add_choices(const Op& op) {
  std::uint64_t flags = 1;
  const auto add_choice = [&](const c10::IValue& choice, std::size_t place) {
    if (choice.isBool()) flags = flags << 1 | static_cast<std::uint64_t>(choice.toBool());
    if (choice.isString()) add(hash_of(choice.toStringRef()) + place);
  };
  for (std::size_t i = 0; i < op.arguments.size(); ++i) {
    const c10::IValue& argument = op.arguments[i];
    const std::size_t place = op.first_argument() + i;
    add_choice(argument, place);
    const bool may_hold_choices =
        argument.isList() && (argument.isBoolList() || !is_flat_list(argument));
    if (!may_hold_choices) continue;
    for (const c10::IValue& item : argument.toListRef()) add_choice(item, place);
  }
  if (flags != 1) add(flags);
}

// Operators that are not LibTorch's own may do something else where an argument is left out, and
// tell a tensor that is not defined from none at all.
void SequenceHash::add_absences(const Op& op) {
  const auto add_absence = [&](const c10::IValue& argument, std::size_t place) {
    if (argument.isTensor()) add(place << 8 | kUndefined);
    if (argument.isNone()) add(place << 8 | kNone);
  };
  for (std::size_t i = 0; i < op.arguments.size(); ++i) {
    const c10::IValue& argument = op.arguments[i];
    const std::size_t place = op.first_argument() + i;
    add_absence(argument, place);
    if (!argument.isOptionalTensorList()) continue;
    for (const c10::IValue& item : argument.toListRef()) add_absence(item, place);
  }
}

// The sizes that a factory is asked for, before it runs.
void SequenceHash::add_sizes(const Op& factory) {
  for (const c10::IValue& argument : factory.arguments) {
    if (!argument.isIntList()) continue;
    for (const std::int64_t size : argument.toIntVector()) add(size);
  }
}

void SequenceHash::add_read(const Read& read, const Tape& tape) {
  add(static_cast<std::uint64_t>(static_cast<std::uint16_t>(read.argument)) << 48 |
      static_cast<std::uint64_t>(read.value) << 17 |
      static_cast<std::uint64_t>(read.has_gradient) << 16 |
      static_cast<std::uint64_t>(!read.geometry->shows_its_bytes()) << 15 |
      static_cast<std::uint64_t>(read.geometry->backend()) << 9 |
      static_cast<std::uint64_t>(read.requires_grad) << 8 |
      static_cast<std::uint64_t>(read.geometry->scalar_type()));
  if (read.element > 0) add(read.element);
  for (const auto size : read.geometry->sizes()) add(size);
  for (const auto stride : read.geometry->strides()) add(stride);
  const Value& value = tape.values()[read.value];
  if (value.lent) add(kLent);          // nothing is made again from it
  if (value.external) add(kExternal);  // who follows a plan knows which of these it guards
}

}  // namespace gradrecomp::tape
