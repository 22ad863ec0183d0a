// Conformance R8: another library has the dispatch key of the recorder. Each test has a process of
// its own, as nothing gives a dispatch key back.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "support/own_process.h"
#include "tape/record/recorder.h"

#if __has_include(<c10/core/impl/FakeTensorModeTLS.h>)
#include <c10/core/impl/FakeTensorModeTLS.h>
#define GRADRECOMP_HAS_FAKE_TENSOR_MODE
#endif

namespace gradrecomp::tape {
namespace {

using test::exit_after;

constexpr auto kKey = c10::DispatchKey::Fake;

int num_calls_of_theirs = 0;

void their_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
  ++num_calls_of_theirs;
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

void take_key(torch::CppFunction fallback) {
  static auto* library = new torch::Library(torch::Library::IMPL, "_", kKey, "other", 1);
  library->fallback(std::move(fallback));
}

auto counting() { return torch::CppFunction::makeFromBoxedFunction<&their_kernel>(); }

// What a library of fake tensors would make.
at::Tensor make_tensor_of_theirs() {
  const auto memory = torch::ones({4});
  return at::detail::make_tensor<c10::TensorImpl>(c10::Storage(memory.storage()),
                                                  memory.key_set().add(kKey), memory.dtype());
}

template <typename Body>
std::shared_ptr<Tape> record(Body body) {
  auto tape = std::make_shared<Tape>();
  const Recorder recorder(tape, {nullptr, std::make_shared<const Retentions>()});
  body();
  return tape;
}

std::int64_t num_replayed_ops() {
  const auto x = torch::randn({4}).requires_grad_();
  at::Tensor y;
  const auto tape = record([&] { y = x.exp().sin().sum(); });
  tape->seal();
  y.backward();
  return tape->counts().replayed_ops;
}

void expect_call_of_theirs(const std::function<void()>& call) {
  const int before = num_calls_of_theirs;
  call();
  TORCH_CHECK(num_calls_of_theirs == before + 1, "their kernel was passed by");
}

class Interceptor : public test::OwnProcess {};

TEST_F(Interceptor, R8RecordsThoughAnotherLibraryHasTheDispatchKey) {
  const auto body = [] {
    take_key(counting());
    TORCH_CHECK(num_replayed_ops() > 0, "nothing was dropped");
    TORCH_CHECK(num_calls_of_theirs == 0, "their kernel saw tensors that are none of theirs");
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(0), "");
}

TEST_F(Interceptor, R8RecordsFactoriesAndRandomNumbersAllTheSame) {
  const auto body = [] {
    take_key(counting());
    const auto tape = record([] { torch::randn({4}).add_(torch::zeros({4})); });
    TORCH_CHECK(tape->ops().size() >= 3, "an op was not recorded");
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(0), "");
}

TEST_F(Interceptor, R8TensorsOfTheOtherLibraryReachItInRegionsAndOutside) {
  const auto body = [] {
    take_key(counting());
    const c10::InferenceMode below_autograd;
    const auto x = make_tensor_of_theirs();
    expect_call_of_theirs([&] { x.neg(); });
    const auto tape = record([&] { expect_call_of_theirs([&] { x.neg(); }); });
    expect_call_of_theirs([&] { x.neg(); });
    expect_call_of_theirs([&] { at::cat({x, x}); });
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(0), "");
}

#ifdef GRADRECOMP_HAS_FAKE_TENSOR_MODE
TEST_F(Interceptor, R8WhileLibTorchsFakeTensorsAreOnAllCallsAreTheirs) {
  const auto body = [] {
    using c10::impl::FakeTensorModeTLS;
    take_key(counting());
    const auto x = torch::ones({4});
    const auto call_in_mode = [&] {
      FakeTensorModeTLS::set_state(std::make_shared<c10::FakeTensorMode>(nullptr, nullptr));
      expect_call_of_theirs([&] { x.neg(); });
      FakeTensorModeTLS::set_state(nullptr);
    };
    TORCH_CHECK(record(call_in_mode)->ops().empty());
    call_in_mode();
    TORCH_CHECK(num_replayed_ops() > 0, "nothing was dropped");
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(0), "");
}
#endif

TEST_F(Interceptor, R8FallbackThatFallsThroughStillDoes) {
  const auto body = [] {
    take_key(torch::CppFunction::makeFallthrough());
    TORCH_CHECK(num_replayed_ops() > 0, "nothing was dropped");
    TORCH_CHECK(make_tensor_of_theirs().neg().numel() == 0, "the op did not run");
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(0), "");
}

TEST_F(Interceptor, R8KernelsOfTheOtherLibraryForSingleOperatorsAreFound) {
  const auto body = [] {
    static auto* library = new torch::Library(torch::Library::IMPL, "aten", kKey, "other", 1);
    library->impl("neg", counting());
    TORCH_CHECK(record([] { torch::ones({4}).neg(); })->ops().size() == 2, "neg was not recorded");
    expect_call_of_theirs([] { make_tensor_of_theirs().neg(); });
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(0), "");
}

c10::OperatorHandle register_operator(const std::string& name) {
  static auto* library =
      new torch::Library(torch::Library::FRAGMENT, "gradrecomp_test", std::nullopt, "test", 1);
  library->def((name + "(Tensor x) -> Tensor").c_str());
  library->impl(name.c_str(), c10::DispatchKey::CPU, [](const at::Tensor& x) { return x + 1; });
  return c10::Dispatcher::singleton().findSchemaOrThrow(("gradrecomp_test::" + name).c_str(), "");
}

void call(const c10::OperatorHandle& op, const at::Tensor& x) {
  op.typed<at::Tensor(const at::Tensor&)>().call(x);
}

TEST_F(Interceptor, R8RecordsOperatorsThatAreRegisteredLater) {
  const auto body = [] {
    take_key(counting());
    num_replayed_ops();
    const auto between = register_operator("between_regions");
    TORCH_CHECK(record([&, x = torch::ones({4})] { call(between, x); })->ops().size() == 1);
    const auto tape = record([] {
      const auto inside = register_operator("inside_a_region");
      call(inside, torch::ones({4}));
    });
    TORCH_CHECK(tape->ops().size() == 2);
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(0), "");
}

#ifdef GRADRECOMP_SECOND_COPY
TEST_F(Interceptor, R8SecondCopyOfGradRecompNamesItself) {
  const auto body = [] {
    TORCH_CHECK(num_replayed_ops() > 0, "nothing was dropped");
    void* module = dlopen(GRADRECOMP_SECOND_COPY, RTLD_NOW);
    TORCH_CHECK(module != nullptr, dlerror());
    reinterpret_cast<void (*)()>(dlsym(module, "record_by_second_copy"))();
  };
  EXPECT_EXIT(exit_after(body), ::testing::ExitedWithCode(1), "another copy of GradRecomp");
}
#endif

}  // namespace
}  // namespace gradrecomp::tape
