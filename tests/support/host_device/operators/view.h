#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <unordered_map>
#include <vector>

namespace gradrecomp::test::host_device {

/// Where a tensor lies, without owning anything: what work in a queue knows of its arguments.
struct View {
  void* memory = nullptr;
  std::size_t num_bytes = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
  caffe2::TypeMeta dtype;
  bool is_conjugated = false;
  bool is_negated = false;
};

/// Of a defined tensor with memory, of a device or the host.
View view_of(const at::Tensor& tensor);

/// Tensors of the host for views. Those over the same memory share a storage.
class HostTensors {
 public:
  /// The storage that stands for `memory`.
  using Storages = std::function<c10::Storage(void* memory, std::size_t num_bytes)>;
  explicit HostTensors(Storages storages) : make_(std::move(storages)) {}

  at::Tensor of(const View& view);

 private:
  Storages make_;
  std::unordered_map<void*, c10::Storage> storages_;
};

/// Over the memory itself, which their user must keep alive.
HostTensors tensors_in_place();
/// Over zeros in the place of all contents, to see what an operator would return.
HostTensors tensors_of_zeros();

/// The tensor of the host that lies where `tensor` does.
at::Tensor on_host(const at::Tensor& tensor);

}  // namespace gradrecomp::test::host_device
