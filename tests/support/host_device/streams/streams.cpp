#include "streams/streams.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "memory/allocator.h"
#include "streams/queue.h"

namespace gradrecomp::test::host_device {
namespace {

using Clock = std::chrono::steady_clock;
using Lock = std::lock_guard<std::recursive_mutex>;

/// A place in a stream, and the time when it was reached.
struct Event {
  c10::Device device;
  bool keeps_time;
  Place place = {};
  // The queue outlives the event.
  std::shared_ptr<Clock::time_point> time = std::make_shared<Clock::time_point>();
};

Event& event_at(void* event) { return *static_cast<Event*>(event); }

void check_timed(const Event& event, c10::DeviceIndex device) {
  TORCH_CHECK(event.keeps_time,
              "hostdevice: an event was made without time, but its time is asked");
  TORCH_CHECK(event.device.index() == device,
              "hostdevice: times of events on two devices have no difference");
  TORCH_CHECK(event.place.is_done(), "hostdevice: the time of an event is asked before it is over");
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {c10::kPrivateUse1, device_}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < kNumDevices, "hostdevice: there is no ", device);
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) device_ = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kNumDevices; }

  c10::Stream getStream(c10::Device device) const override {
    return stream(device, current_[with_index(device).index()]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream(device, 0); }
  // As many as CUDA has, handed out one after the other.
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*important*/) const override {
    constexpr std::uint32_t kNumStreams = 32;
    static std::atomic<std::uint32_t> next{0};
    return stream(device, 1 + next++ % kNumStreams);
  }
  void* getStreamNativeHandle(c10::Stream stream) const override {
    const Lock lock(mutex());
    return &Scheduler::get().queue(stream);
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    return stream(next.device(), std::exchange(current_[next.device_index()], next.id()));
  }
  bool queryStream(const c10::Stream& stream) const override {
    const Lock lock(mutex());
    return Scheduler::get().query(Scheduler::get().queue(stream).end());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    const Lock lock(mutex());
    Scheduler::get().synchronize(Scheduler::get().queue(stream).end());
  }
  void synchronizeDevice(c10::DeviceIndex device) const override {
    const Lock lock(mutex());
    Scheduler::get().synchronize_all(device < 0 ? device_ : device);
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*device*/,
              c10::EventFlag flag) const override {
    const Lock lock(mutex());
    const bool keeps_time = flag == c10::EventFlag::BACKEND_DEFAULT;
    if (*event == nullptr) *event = new Event{stream.device(), keeps_time};
    Event& recorded = event_at(*event);
    TORCH_CHECK(recorded.device == stream.device(), "hostdevice: an event of ", recorded.device,
                " is recorded on a stream of ", stream.device());
    auto& queue = Scheduler::get().queue(stream);
    recorded.time = std::make_shared<Clock::time_point>();
    // Not by the end of the queue afterwards, as it may have gone on by then.
    recorded.place = queue.end();
    ++recorded.place.count;
    if (!is_asynchronous()) recorded.place = {};
    Scheduler::get().enqueue(queue, [time = recorded.time] { *time = Clock::now(); });
  }
  void destroyEvent(void* event, c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const Lock lock(mutex());
    Scheduler::get().enqueue_wait(Scheduler::get().queue(stream), event_at(event).place);
  }
  bool queryEvent(void* event) const override {
    const Lock lock(mutex());
    return event == nullptr || Scheduler::get().query(event_at(event).place);
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    const Lock lock(mutex());
    Scheduler::get().synchronize(event_at(event).place);
  }
  double elapsedTime(void* from, void* to, c10::DeviceIndex device) const override {
    const Lock lock(mutex());
    for (void* event : {from, to}) check_timed(event_at(event), device);
    return std::chrono::duration<double, std::milli>(*event_at(to).time - *event_at(from).time)
        .count();
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    allocator().recordStream(data, stream);
  }

 private:
  static c10::Stream stream(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, with_index(device), id);
  }
  static thread_local c10::DeviceIndex device_;
  static thread_local std::array<c10::StreamId, kNumDevices> current_;
};

thread_local c10::DeviceIndex Guard::device_ = 0;
thread_local std::array<c10::StreamId, kNumDevices> Guard::current_ = {};

const Guard& guard() {
  static const auto* guard = new Guard;
  return *guard;
}

}  // namespace

c10::Device current_device() { return guard().getDevice(); }

c10::Device with_index(c10::Device device) {
  return device.has_index() ? device : current_device();
}

c10::Stream current_stream(c10::Device device) { return guard().getStream(device); }

void register_guard() {
  static const c10::impl::DeviceGuardImplRegistrar registered(c10::kPrivateUse1, &guard());
}

}  // namespace gradrecomp::test::host_device
