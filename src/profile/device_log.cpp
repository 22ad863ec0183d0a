#include "profile/device_log.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <utility>

#include "gradrecomp/device/allocations.h"
#include "profile/cuda/cuda_in_use.h"
#include "tape/own_work.h"

namespace gradrecomp::profile {
namespace {

// Never destroyed, as devices may report until the program has ended.
struct Logs {
  std::mutex mutex;
  std::vector<std::weak_ptr<DeviceLog>> all;
};

Logs& logs() {
  static auto* logs = new Logs;
  return *logs;
}

// Between two reads there are tens. A log that is never read, as its backward never comes, ends
// here.
constexpr std::size_t kMostReports = std::size_t{1} << 20;

constinit std::atomic<int> num_logs{0};
constinit std::atomic<int> num_logs_of_host{0};
constinit std::atomic<void (*)()> begin_reports{nullptr};

std::vector<std::shared_ptr<DeviceLog>> present_logs() {
  std::vector<std::shared_ptr<DeviceLog>> present;
  const std::lock_guard lock(logs().mutex);
  for (const auto& log : logs().all) {
    if (auto alive = log.lock()) present.push_back(std::move(alive));
  }
  return present;
}

// The receiver of an announcement may free memory, which is reported too: no lock is held here.
void report(const void* pointer, std::size_t bytes, bool freed, c10::Device device) {
  for (const auto& log : present_logs()) log->add(pointer, bytes, freed, device);
}

void have_devices_report() {
  if (!cuda_in_use()) return;
  if (const auto begin = begin_reports.load()) return begin();
  TORCH_WARN_ONCE(
      "GradRecomp does not see what CUDA allocates, so peaks there are predicted too low. Link "
      "gradrecomp::cuda.");
}

}  // namespace

void report_host(const void* pointer, std::size_t bytes, bool freed) noexcept {
  if (num_logs_of_host > 0) report(pointer, bytes, freed, c10::kCPU);
}

std::shared_ptr<DeviceLog> DeviceLog::begin(const tape::Tape* tape, Announce announce) {
  have_devices_report();
  auto log = std::make_shared<DeviceLog>(tape, std::move(announce));
  const std::lock_guard lock(logs().mutex);
  std::erase_if(logs().all, [](const auto& other) { return other.expired(); });
  logs().all.push_back(log);
  return log;
}

DeviceLog::DeviceLog(const tape::Tape* tape, Announce announce)
    : tape_(tape), announce_(std::move(announce)) {
  ++num_logs;
}

DeviceLog::~DeviceLog() {
  --num_logs;
  if (follows_host_) --num_logs_of_host;
}

void DeviceLog::follow_host() {
  if (!follows_host_.exchange(true)) ++num_logs_of_host;
}

void DeviceLog::add(const void* pointer, std::size_t bytes, bool freed, c10::Device device) {
  const bool by_recorder = std::this_thread::get_id() == recorder_;
  if (device.is_cpu() && (by_recorder || !follows_host_)) return;
  // Whoever frees it, it was ours if it was ever noted. A thread that ends has no pass to ask for.
  if (!freed && !is_ours(by_recorder)) return;
  const std::lock_guard lock(mutex_);
  if (!freed && !tape::in_own_work()) {
    // A copy, as its receiver may be the last to hold the step, whose log then falls silent.
    if (const Announce announce = announce_) announce(by_recorder);
  }
  if (reports_.size() == kMostReports) return;
  reports_.push_back(
      {pointer, device, static_cast<std::int64_t>(bytes), freed, tape::in_own_work(), by_recorder});
}

/// Whether what this thread allocates is the step's.
bool DeviceLog::is_ours(bool by_recorder) const {
  const tape::Tape* last = tape::touched_last();
  const bool on_our_threads = by_recorder || torch::autograd::get_current_graph_task_id() >= 0;
  return on_our_threads && (last == nullptr || last == tape_);
}

std::vector<DeviceReport> DeviceLog::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(reports_, {});
}

void DeviceLog::fall_silent() {
  const std::lock_guard lock(mutex_);
  announce_ = nullptr;
}

}  // namespace gradrecomp::profile

namespace gradrecomp::device {

void report_allocated(const void* pointer, std::size_t bytes, c10::Device device) noexcept {
  if (profile::num_logs > 0) profile::report(pointer, bytes, false, device);
}

void report_freed(const void* pointer, c10::Device device) noexcept {
  if (profile::num_logs > 0) profile::report(pointer, 0, true, device);
}

void register_device_reports(void (*begin)()) { profile::begin_reports = begin; }

}  // namespace gradrecomp::device
