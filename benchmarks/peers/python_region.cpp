// Regions and the exact memory meter for Python, as torch.classes.gradrecomp: by LibTorch's own
// bindings, so that no header of Python is needed.
#include <c10/util/Exception.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <cstdint>
#include <string>
#include <utility>

#include "gradrecomp/memory_meter.h"
#include "gradrecomp/plan/graph_file.h"
#include "gradrecomp/region.h"

namespace {

gradrecomp::plan::CostModel cost_named(const std::string& name) {
  TORCH_CHECK_VALUE(name == "seconds" || name == "flops", "Region: cost is ", name,
                    ", but must be seconds or flops. Pass one of these.");
  return name == "flops" ? gradrecomp::plan::CostModel::flops
                         : gradrecomp::plan::CostModel::seconds;
}

class PythonRegion final : public torch::CustomClassHolder {
 public:
  PythonRegion(double max_overhead, const std::string& cost)
      : region_({.max_overhead = max_overhead, .cost = cost_named(cost)}) {}

  /// `body` is the address of a function without arguments. Bindings take no callable, so the
  /// function hands its result to output() instead of returning it.
  at::Tensor run(std::int64_t body) {
    return region_.run([&] {
      reinterpret_cast<void (*)()>(body)();
      TORCH_CHECK(output_.defined(), "Region::run: the callable failed.");
      return std::exchange(output_, at::Tensor());
    });
  }
  void output(at::Tensor tensor) { output_ = std::move(tensor); }

  [[nodiscard]] const gradrecomp::Region& region() const { return region_; }

 private:
  gradrecomp::Region region_;
  at::Tensor output_;
};

class PythonMeter final : public torch::CustomClassHolder {
 public:
  [[nodiscard]] const gradrecomp::MemoryMeter& meter() const { return meter_; }

 private:
  gradrecomp::MemoryMeter meter_{c10::Device(c10::kCPU)};
};

using RegionPtr = c10::intrusive_ptr<PythonRegion>;
using MeterPtr = c10::intrusive_ptr<PythonMeter>;

template <typename Get>
auto of_plan(Get get) {
  return [get](const RegionPtr& self) { return get(self->region().plan()); };
}

template <typename Get>
auto of_step(Get get) {
  return [get](const RegionPtr& self) { return get(self->region().last_step()); };
}

TORCH_LIBRARY(gradrecomp, library) {
  using gradrecomp::StepReport;
  using gradrecomp::plan::Plan;
  library.class_<PythonRegion>("Region")
      .def(torch::init<double, std::string>())
      .def("run", &PythonRegion::run)
      .def("output", &PythonRegion::output)
      .def("predicted_peak_bytes", of_plan([](const Plan& p) { return p.predicted_peak_bytes; }))
      .def("predicted_overhead_flops",
           of_plan([](const Plan& p) { return p.predicted_overhead_flops; }))
      .def("predicted_overhead_seconds",
           of_plan([](const Plan& p) { return p.predicted_overhead_seconds; }))
      .def("save_graph",
           [](const RegionPtr& self, const std::string& path, const std::string& description) {
             gradrecomp::plan::save_graph({self->region().graph(), {description, "float32", "cpu"}},
                                          path);
           })
      .def("profiled", of_step([](const StepReport& s) { return s.profiled; }))
      .def("followed_plan", of_step([](const StepReport& s) { return s.followed_plan; }))
      .def("num_ops", of_step([](const StepReport& s) { return s.num_ops; }))
      .def("num_replayed_ops", of_step([](const StepReport& s) { return s.num_replayed_ops; }));
  library.class_<PythonMeter>("MemoryMeter")
      .def(torch::init<>())
      .def("growth_bytes", [](const MeterPtr& self) { return self->meter().growth_bytes(); })
      .def("measured_peak_bytes",
           [](const MeterPtr& self) { return self->meter().measured_peak_bytes(); });
}

}  // namespace

/// Call it before making the tensors that are to count.
extern "C" void gradrecomp_install_cpu_counter() { gradrecomp::install_cpu_counter(); }
