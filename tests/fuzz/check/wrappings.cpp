#include "fuzz/check/wrappings.h"

#include <memory>
#include <utility>

#include "fuzz/world/dice.h"
#include "tape/record/recorder.h"

namespace gradrecomp::fuzzing {

using torch::Tensor;

std::vector<Tensor> dropped(const Body& body) { return detail::run_dropped(body); }

Wrapping in_region(Region& region) {
  return [&region](const Body& body) { return region.run(body); };
}

Wrapping captured_in(Region& region) {
  return [&region](const Body& body) {
    std::vector<Tensor> outputs;
    region.run([&] { outputs = body(); });
    return outputs;
  };
}

Wrapping between_open_and_close(Region& region) {
  return [&region](const Body& body) {
    auto step = region.open();
    auto outputs = body();
    step.close();
    return outputs;
  };
}

Wrapping on_tape(std::uint64_t seed) {
  return [seed](const Body& body) {
    Dice dice(seed);
    const double share = dice.real();
    tape::Retentions retentions(4096);
    for (auto& one : retentions) {
      one = dice.chance(share) ? tape::Retention::keep : tape::Retention::drop;
    }
    const auto tape = std::make_shared<tape::Tape>();
    auto recorder = std::make_unique<tape::Recorder>(
        tape, tape::RecordingPlan{nullptr,
                                  std::make_shared<const tape::Retentions>(std::move(retentions))});
    auto outputs = body();
    recorder.reset();
    tape->share_what_is_held();  // as a step does whose code has returned
    tape->seal();
    return outputs;
  };
}

}  // namespace gradrecomp::fuzzing
