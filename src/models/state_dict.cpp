#include "gradrecomp/models/state_dict.h"

#include <c10/util/StringUtil.h>
#include <torch/serialize.h>
#include <torch/utils.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

namespace gradrecomp::models {
namespace {

/// One phrase for every entry that keeps `state` from fitting `targets`.
std::vector<std::string> mismatches(const StateDict& targets, const StateDict& state) {
  std::vector<std::string> found;
  for (const auto& target : targets) {
    const auto* tensor = state.find(target.key());
    if (tensor == nullptr) {
      found.push_back(c10::str("missing ", target.key()));
    } else if (tensor->sizes() != target->sizes()) {
      found.push_back(c10::str(target.key(), " has shape ", tensor->sizes(),
                               " where the module has ", target->sizes()));
    }
  }
  for (const auto& item : state) {
    if (!targets.contains(item.key())) found.push_back(c10::str("unexpected ", item.key()));
  }
  return found;
}

std::string first_few(std::vector<std::string> phrases) {
  constexpr std::size_t kMaxListed = 5;
  const auto num_more = phrases.size() - std::min(phrases.size(), kMaxListed);
  phrases.resize(phrases.size() - num_more);
  auto list = c10::Join("; ", phrases);
  return num_more == 0 ? list : c10::str(list, "; and ", num_more, " more");
}

std::vector<char> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK_VALUE(std::filesystem::is_regular_file(path) && file.good(),
                    "read_state_dict: path is ", path,
                    ", but must be a readable file. Check its name and permissions.");
  std::vector<char> bytes(std::filesystem::file_size(path));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  TORCH_CHECK_VALUE(file.good(), "read_state_dict: path is ", path,
                    ", but must be readable to its end. Copy the file again.");
  return bytes;
}

void check_contents(bool fits, const std::filesystem::path& path) {
  TORCH_CHECK_VALUE(fits, "read_state_dict: path is ", path,
                    ", but must be a dict from names to tensors. Save it from Python with "
                    "torch.save(dict(model.state_dict()), path).");
}

/// None where the file is not an archive or holds something else than LibTorch can unpickle, which
/// LibTorch reports as its own fault.
torch::IValue unpickle(const std::filesystem::path& path) {
  const auto bytes = read_bytes(path);
  try {
    return torch::pickle_load(bytes);
  } catch (const c10::Error&) {
    return {};
  }
}

}  // namespace

StateDict state_dict(const torch::nn::Module& module) {
  StateDict state("Tensor name");
  state.update(module.named_parameters());
  state.update(module.named_buffers());
  return state;
}

void load_state_dict(torch::nn::Module& module, const StateDict& state) {
  auto targets = state_dict(module);
  const auto found = mismatches(targets, state);
  TORCH_CHECK_VALUE(found.empty(), "load_state_dict: state is different from the module in ",
                    found.size(), " places (", first_few(found),
                    "), but must be a tensor of the same shape for every parameter and buffer. "
                    "Save the state of a model with the same options.");
  torch::NoGradGuard no_grad;
  for (auto& target : targets) target->copy_(state[target.key()]);
}

void load_state_dict(torch::nn::Module& module, const std::filesystem::path& path) {
  load_state_dict(module, read_state_dict(path));
}

StateDict read_state_dict(const std::filesystem::path& path) {
  const auto contents = unpickle(path);
  check_contents(contents.isGenericDict(), path);
  StateDict state("Tensor name");
  for (const auto& entry : contents.toGenericDict()) {
    check_contents(entry.key().isString() && entry.value().isTensor(), path);
    state.insert(entry.key().toStringRef(), entry.value().toTensor());
  }
  return state;
}

}  // namespace gradrecomp::models
