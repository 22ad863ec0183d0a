#include "gradrecomp/options.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <cstdint>

namespace gradrecomp::inline GRADRECOMP_NAMESPACE {

namespace {

/// Of an enum without gaps. A program that casts numbers, or reads them from a file, may have
/// others.
template <typename Choice>
void check_choice(const char* name, Choice choice, Choice last) {
  const auto number = static_cast<std::int64_t>(choice);
  TORCH_CHECK_VALUE(number >= 0 && choice <= last, "Options::", name, " is ", number,
                    ", but must be one of its ", static_cast<std::int64_t>(last) + 1,
                    " named values.");
}

}  // namespace

void validate(const Options& options) {
  check_choice("verify", options.verify, Verify::never);
  check_choice("guard", options.guard, Guard::whole);
  check_choice("cost", options.cost, plan::CostModel::flops);
  check_choice("forms", options.forms, Forms::lossy_bf16);
  const int questions = options.max_overhead.has_value() + options.max_peak_bytes.has_value() +
                        options.policy.has_value();
  TORCH_CHECK_VALUE(
      questions <= 1, "Options: ", questions,
      " of max_overhead, max_peak_bytes and policy are set, but at most one may be. Leave ",
      "the others out.");
  if (options.max_overhead) {
    TORCH_CHECK_VALUE(std::isfinite(*options.max_overhead) && *options.max_overhead >= 0,
                      "Options::max_overhead is ", *options.max_overhead,
                      ", but must be a finite ratio of at least 0. Pass 0.05 for 5% of a step.");
  }
  if (options.max_peak_bytes) {
    TORCH_CHECK_VALUE(*options.max_peak_bytes > 0, "Options::max_peak_bytes is ",
                      *options.max_peak_bytes, ", but must be positive. Pass a number of bytes.");
  }
  if (options.window_bytes) {
    TORCH_CHECK_VALUE(*options.window_bytes > 0, "Options::window_bytes is ", *options.window_bytes,
                      ", but must be positive. Pass a number of bytes, or leave it out.");
  }
  TORCH_CHECK_VALUE(
      options.unrecorded_bytes >= 0, "Options::unrecorded_bytes is ", options.unrecorded_bytes,
      ", but must not be negative. Pass a number of bytes, or 0 to record all steps.");
  TORCH_CHECK_VALUE(options.verify_interval_steps > 0, "Options::verify_interval_steps is ",
                    options.verify_interval_steps,
                    ", but must be positive. Pass a number of steps, ",
                    "or set verify to Verify::never.");
  TORCH_CHECK_VALUE(
      options.max_plans > 0, "Options::max_plans is ", options.max_plans,
      ", but must be positive. Pass the number of shapes that steps alternate between.");
  TORCH_CHECK_VALUE(options.forms == Forms::exact || !options.offload,
                    "Options::forms is Forms::lossy_bf16 and Options::offload is set, but only one "
                    "may be. Offload to keep plain training's bits.");
  TORCH_CHECK_VALUE(
      options.forms != Forms::exact || !options.plan || options.plan->roundings.empty(),
      "Options::plan rounds values, but Options::forms is Forms::exact. Set it to "
      "Forms::lossy_bf16 if gradients may differ from plain training's.");
  TORCH_CHECK_VALUE(
      !options.plan || !options.policy,
      "Options::plan and Options::policy are both set, but only one may be. For op sequences that "
      "the plan was not made for, give a budget or nothing.");
}

plan::Request request_of(const Options& options) {
  plan::Request request{.max_overhead = options.max_overhead,
                        .max_peak_bytes = options.max_peak_bytes,
                        .cost = options.cost,
                        .policy = options.policy,
                        .selection = options.selection};
  const bool asks_nothing = !options.max_overhead && !options.max_peak_bytes && !options.policy;
  if (asks_nothing) request.max_overhead = Options::kDefaultOverhead;
  return request;
}

}  // namespace gradrecomp::inline GRADRECOMP_NAMESPACE
