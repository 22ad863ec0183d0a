#include "layer_types.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "gradrecomp/plan/selection.h"

namespace gradrecomp::plan {
namespace {

constexpr std::array kLayerTypes{
    LayerType{"Attention",
              {"aten::*scaled_dot_product*", "aten::*attention*", "aten::*softmax", "aten::bmm*",
               "aten::baddbmm*"}},
    LayerType{"AvgPool", {"aten::*avg_pool*"}},
    LayerType{"BatchNorm", {"aten::*batch_norm*"}},
    LayerType{"Conv", {"aten::*conv*"}},
    LayerType{"Dropout", {"aten::*dropout*", "aten::bernoulli*"}},
    LayerType{"ELU", {"aten::elu*"}},
    LayerType{"Embedding", {"aten::embedding*"}},
    LayerType{"GELU", {"aten::gelu*"}},
    LayerType{"GroupNorm", {"aten::*group_norm*"}},
    LayerType{"LayerNorm", {"aten::*layer_norm*"}},
    LayerType{"Linear", {"aten::mm", "aten::*addmm*", "aten::*linear", "aten::matmul"}},
    LayerType{"LSTM", {"aten::*lstm*"}},
    LayerType{"MaxPool", {"aten::*max_pool*"}},
    LayerType{"ReLU", {"aten::relu", "aten::relu_", "aten::relu6*", "aten::threshold*"}},
    LayerType{"Sigmoid", {"aten::sigmoid*"}},
    LayerType{"SiLU", {"aten::silu*"}},
    LayerType{"Softmax", {"aten::*softmax*"}},
    LayerType{"Tanh", {"aten::tanh*"}},
    LayerType{"Upsample", {"aten::*upsample*"}},
};

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view without_dimension(std::string_view text) {
  for (const std::string_view dimension : {"1d", "2d", "3d"}) {
    if (text.ends_with(dimension)) return text.substr(0, text.size() - dimension.size());
  }
  return text;
}

}  // namespace

bool LayerType::fits(std::string_view op_name) const {
  return std::ranges::any_of(op_patterns, [&](std::string_view pattern) {
    return !pattern.empty() && matches(pattern, op_name);
  });
}

std::optional<LayerType> find_layer_type(std::string_view text) {
  const std::string_view name = without_dimension(text);
  const auto* found = std::ranges::find_if(
      kLayerTypes, [&](const LayerType& type) { return same_word(type.name, name); });
  if (found == kLayerTypes.end()) return std::nullopt;
  return *found;
}

std::vector<std::string> layer_types() {
  std::vector<std::string> names;
  for (const LayerType& type : kLayerTypes) names.emplace_back(type.name);
  return names;
}

bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace gradrecomp::plan
