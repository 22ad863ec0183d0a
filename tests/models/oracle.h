#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gradrecomp/models/stage.h"
#include "gradrecomp/models/state_dict.h"

/// What torchvision and Hugging Face say of the same models; data/generate.py asked them.
namespace gradrecomp::models {

inline std::filesystem::path data_file(const std::string& name) {
  return std::filesystem::path(GRADRECOMP_MODELS_DATA) / name;
}

inline std::int64_t num_parameters(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

inline std::vector<std::string> stage_names(const std::vector<Stage>& stages) {
  std::vector<std::string> names;
  for (const auto& stage : stages) names.push_back(stage.name);
  return names;
}

/// Sorted lines "name dtype shape...", as in data/*.txt.
inline std::vector<std::string> state_lines(const torch::nn::Module& module) {
  std::vector<std::string> lines;
  for (const auto& item : state_dict(module)) {
    auto line = item.key() + " " + std::string(c10::getDtypeNames(item->scalar_type()).first);
    for (const auto size : item->sizes()) line.append(" ").append(std::to_string(size));
    lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

/// The names, types and shapes of the state are those of the published model `name`.
inline void expect_published_state(const torch::nn::Module& module, const std::string& name) {
  std::ifstream file(data_file("names/" + name + ".txt"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  EXPECT_FALSE(lines.empty()) << "no oracle for " << name;
  EXPECT_EQ(state_lines(module), lines);
}

inline void expect_close(const torch::Tensor& actual, const torch::Tensor& expected) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  EXPECT_LT((actual - expected).abs().max().item<double>(), 1e-5);
}

/// A loss that weighs every output differently reaches every parameter.
inline void expect_gradients_everywhere(torch::nn::Module& module, const torch::Tensor& output) {
  (output * torch::randn_like(output)).sum().backward();
  for (const auto& parameter : module.named_parameters()) {
    ASSERT_TRUE(parameter->grad().defined()) << parameter.key();
    // Softmax ignores what adds the same to all scores of a query, as the bias of the keys does.
    if (parameter.key().ends_with("key.bias")) continue;
    EXPECT_GT(parameter->grad().abs().max().item<double>(), 0) << parameter.key();
  }
}

template <typename Function>
void expect_value_error(Function function, const std::string& part) {
  try {
    function();
    FAIL() << "expected an error with: " << part;
  } catch (const c10::ValueError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace gradrecomp::models
