// Launches and indices for tensors that are too large to compute here.
#include <sys/mman.h>

#include <array>

#include "cuda_twins.h"
#include "emulated_device.h"
#include "kernels/cuda/launch.h"

namespace gradrecomp::kernels {
namespace {

constexpr std::int64_t kGiga = std::int64_t{1} << 30;

// An address that is never read, aligned like a tensor's.
void* nowhere() { return reinterpret_cast<void*>(std::uintptr_t{1} << 20); }

// Its kernels are launched, but run only where a test has some of their threads run.
class HugeTensors : public CudaTwinTest {
 protected:
  void SetUp() override { emulated_cuda::device().runs_kernels = false; }
  void TearDown() override { emulated_cuda::device() = emulated_cuda::Device(); }

  template <class Call>
  static void expect_launch(const Call& call) {
    EXPECT_NO_THROW(call());
    // For no more are the kernels compiled, which the emulated device does not know.
    const dim3 threads = emulated_cuda::device().last_launch.threads;
    EXPECT_LE(threads.x * threads.y * threads.z, static_cast<unsigned>(cuda::kThreads));
  }
};

const std::array kAllDtypes{Dtype::float32, Dtype::float16, Dtype::bfloat16};
const std::array kLayouts{Layout::channels_first, Layout::channels_last};
// Around the limits of 16, 31 and 32 bits, in elements, packs and warps of packs.
const std::vector<std::int64_t> kManySizes{
    1,         65535 * 32 * 4, 65536 * 32 * 4, 65536 * 32 * 8 + 1, 2 * kGiga - 1,
    2 * kGiga, 4 * kGiga - 1,  4 * kGiga,      64 * kGiga};

// Calls call(rows, columns) for all of these that a card may hold.
template <class Call>
void for_each_shape(const Call& call) {
  for (const std::int64_t rows : kManySizes) {
    for (const std::int64_t columns : kManySizes) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns);
      if (rows <= 64 * kGiga / columns) call(rows, columns);
    }
  }
}

TEST_F(HugeTensors, LayerNormsOfAnyShapeCanBeLaunched) {
  for (const Dtype dtype : kAllDtypes) {
    for_each_shape([&](std::int64_t rows, std::int64_t columns) {
      const LayerNorm args{.num_rows = rows,
                           .num_columns = columns,
                           .dtype = dtype,
                           .x = nowhere(),
                           .mean = nowhere(),
                           .rstd = nowhere(),
                           .y = nowhere()};
      expect_launch([&] { cuda_.layer_norm_apply(args, nullptr); });
    });
  }
}

TEST_F(HugeTensors, BatchNormsOfAnyShapeCanBeLaunched) {
  for (const Dtype dtype : kAllDtypes) {
    for (const Layout layout : kLayouts) {
      for_each_shape([&](std::int64_t images, std::int64_t channels) {
        const BatchNorm args{.num_images = images,
                             .num_channels = channels,
                             .layout = layout,
                             .dtype = dtype,
                             .x = nowhere(),
                             .mean = nowhere(),
                             .invstd = nowhere(),
                             .y = nowhere()};
        expect_launch([&] { cuda_.batch_norm_apply(args, nullptr); });
      });
    }
  }
}

TEST_F(HugeTensors, ChainsOfAnySizeCanBeLaunched) {
  for (const Dtype dtype : kAllDtypes) {
    for (const std::int64_t size : kManySizes) {
      SCOPED_TRACE(size);
      expect_launch([&] { cuda_.apply_chain({size, dtype, nowhere(), nowhere(), {}}, nullptr); });
    }
  }
}

TEST_F(HugeTensors, PackingsOfAnySizeCanBeLaunched) {
  auto* indices = static_cast<std::int64_t*>(nowhere());
  auto* offsets = static_cast<std::uint8_t*>(nowhere());
  auto* floats = static_cast<float*>(nowhere());
  auto* words = static_cast<std::uint16_t*>(nowhere());
  for (const std::int64_t size : kManySizes) {
    SCOPED_TRACE(size);
    const Pooling pooling{.num_images = size,
                          .num_channels = 1,
                          .input_height = 1,
                          .input_width = 1,
                          .output_height = 1,
                          .output_width = 1};
    expect_launch([&] { cuda_.pack_mask({size, nowhere(), nowhere()}, nullptr); });
    expect_launch([&] { cuda_.unpack_mask({size, nowhere(), nowhere()}, nullptr); });
    expect_launch([&] { cuda_.round_floats({size, floats, words}, nullptr); });
    expect_launch([&] { cuda_.widen_floats({size, words, floats}, nullptr); });
    expect_launch([&] { cuda_.pack_indices({pooling, indices, offsets}, nullptr); });
    expect_launch([&] { cuda_.unpack_indices({pooling, offsets, indices}, nullptr); });
  }
}

TEST_F(HugeTensors, MemoryOfAnySizeCanBeHashed) {
  for (const std::int64_t size : kManySizes) {
    SCOPED_TRACE(size);
    const std::vector<HashedMemory> parts(
        3, {nowhere(), size, static_cast<std::uint64_t*>(nowhere())});
    expect_launch([&] { cuda_.hash_memory({parts}, nullptr); });
  }
}

TEST_F(HugeTensors, KernelsRunOnTheStreamThatWasAskedFor) {
  int there = 0;
  cuda_.unpack_mask({8, nowhere(), nowhere()}, &there);
  EXPECT_EQ(emulated_cuda::device().last_launch.stream, reinterpret_cast<cudaStream_t>(&there));
}

// One row of more columns than 65535 blocks hold. Only the last blocks run.
TEST_F(HugeTensors, AVeryLongRowIsNormalised) {
  constexpr std::int64_t kColumnsPerBlock = 32 * 4, kFirst = 65534 * kColumnsPerBlock;
  constexpr std::int64_t kColumns = kFirst + 5 * kColumnsPerBlock + 3;
  const auto x = torch::randn({kColumns}), gamma = torch::randn({kColumns});
  const auto mean = torch::randn({1}), rstd = torch::rand({1});
  LayerNorm args{.num_rows = 1,
                 .num_columns = kColumns,
                 .x = data_of(x),
                 .mean = data_of(mean),
                 .rstd = data_of(rstd),
                 .gamma = data_of(gamma)};
  const auto expected = torch::empty_like(x), y = torch::empty_like(x);
  args.y = expected.data_ptr();
  cpu_.layer_norm_apply(args, nullptr);
  args.y = y.data_ptr();
  cuda_.layer_norm_apply(args, nullptr);
  const auto& launch = emulated_cuda::device().last_launch;
  for (auto i = launch.num_threads() / 65540 * 65534; i < launch.num_threads(); ++i) {
    launch.run_thread(i);
  }
  EXPECT_TRUE(same_bytes(y.slice(0, kFirst), expected.slice(0, kFirst)));
}

// Zeros that take no memory but where they are touched.
template <class T>
class HugeZeros {
 public:
  explicit HugeZeros(std::int64_t size) : num_bytes_(static_cast<std::size_t>(size) * sizeof(T)) {
    memory_ = mmap(nullptr, num_bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~HugeZeros() {
    if (exist()) munmap(memory_, num_bytes_);
  }
  HugeZeros(const HugeZeros&) = delete;
  HugeZeros& operator=(const HugeZeros&) = delete;

  [[nodiscard]] bool exist() const { return memory_ != MAP_FAILED; }
  [[nodiscard]] T* data() const { return static_cast<T*>(memory_); }

 private:
  std::size_t num_bytes_;
  void* memory_;
};

// The first and the last ones and some between.
std::vector<std::uint64_t> some_threads(const emulated_cuda::Launch& launch) {
  const std::uint64_t last = launch.num_threads() - 1;
  std::vector<std::uint64_t> threads{0, last};
  for (std::uint64_t i = 1; i < 20; ++i) threads.push_back(last / 20 * i + i);
  return threads;
}

// Has some threads of the last launch run and calls check(i) for the elements that are theirs, if
// the threads walk over a flat tensor in packs of `pack` elements.
template <class Check>
void run_some_threads(std::int64_t num_elements, std::int64_t pack, const Check& check) {
  const auto& launch = emulated_cuda::device().last_launch;
  const auto num_threads = static_cast<std::int64_t>(launch.num_threads());
  for (const std::uint64_t thread : some_threads(launch)) {
    launch.run_thread(thread);
    for (auto i = static_cast<std::int64_t>(thread) * pack; i < num_elements;
         i += num_threads * pack) {
      for (std::int64_t j = i; j < std::min(i + pack, num_elements); ++j)
        ASSERT_TRUE(check(j)) << j;
    }
  }
}

TEST_F(HugeTensors, PlanesAroundThirtyTwoBitsOfIndices) {
  constexpr std::int64_t kChannels = 7, kInner = 9;
  const auto beta = torch::arange(1, kChannels + 1).to(torch::kFloat);
  const auto zeros = torch::zeros({kChannels}), ones = torch::ones({kChannels});
  for (const std::int64_t near : {2 * kGiga, 4 * kGiga}) {
    for (const std::int64_t images :
         {near / (kChannels * kInner), near / (kChannels * kInner) + 1}) {
      const std::int64_t size = images * kChannels * kInner;
      const HugeZeros<std::uint16_t> x(size), y(size);
      if (!x.exist() || !y.exist()) GTEST_SKIP() << "so many addresses cannot be had";
      cuda_.batch_norm_apply({.num_images = images,
                              .num_channels = kChannels,
                              .inner = kInner,
                              .dtype = Dtype::bfloat16,
                              .x = x.data(),
                              .mean = data_of(zeros),
                              .invstd = data_of(ones),
                              .beta = data_of(beta),
                              .y = y.data()},
                             nullptr);
      run_some_threads(size, 8, [&](std::int64_t i) {
        const c10::BFloat16 found(y.data()[i], c10::BFloat16::from_bits());
        return found == static_cast<float>(1 + i / kInner % kChannels);
      });
    }
  }
}

TEST_F(HugeTensors, ChainsBeyondThirtyTwoBitsOfIndices) {
  const std::int64_t size = 4 * kGiga + 3;
  const HugeZeros<std::uint16_t> x(size), y(size);
  if (!x.exist() || !y.exist()) GTEST_SKIP() << "so many addresses cannot be had";
  const Step steps[] = {{StepKind::add_scalar, nullptr, 2.0F}};
  cuda_.apply_chain({size, Dtype::bfloat16, x.data(), y.data(), steps}, nullptr);
  run_some_threads(size, 8, [&](std::int64_t i) {
    return c10::BFloat16(y.data()[i], c10::BFloat16::from_bits()) == 2.0F;
  });
}

TEST_F(HugeTensors, MasksBeyondThirtyTwoBitsOfIndices) {
  const std::int64_t size = 4 * kGiga + 3;
  const HugeZeros<std::uint8_t> bits(packed_mask_bytes(size)), mask(size);
  if (!bits.exist() || !mask.exist()) GTEST_SKIP() << "so many addresses cannot be had";
  bits.data()[size / 8] = 0b101;
  cuda_.unpack_mask({size, bits.data(), mask.data()}, nullptr);
  const auto& launch = emulated_cuda::device().last_launch;
  for (std::int64_t i = size - 3; i < size; ++i) {
    launch.run_thread(static_cast<std::uint64_t>(i) % launch.num_threads());
    EXPECT_EQ(mask.data()[i], i == size - 2 ? 0 : 1);
  }
}

}  // namespace
}  // namespace gradrecomp::kernels
