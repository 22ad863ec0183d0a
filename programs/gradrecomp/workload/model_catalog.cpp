#include "workload/model_catalog.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>

#include "bad_input.h"
#include "gradrecomp/models/bert.h"
#include "gradrecomp/models/resnet.h"
#include "gradrecomp/models/vit.h"

namespace gradrecomp::program {
namespace {

constexpr std::array<ModelEntry, 11> kModels{{
    {"resnet18"},
    {"resnet34"},
    {"resnet50"},
    {"resnet101"},
    {"resnet152"},
    {"bert-base", ModelFamily::bert, 12},
    {"bert-large", ModelFamily::bert, 24},
    {"bert-base-encoder", ModelFamily::bert, 12, true},
    {"bert-large-encoder", ModelFamily::bert, 24, true},
    {"vit-b16", ModelFamily::vit, 12},
    {"vit-l16", ModelFamily::vit, 24},
}};

template <typename Holder>
Model model_of(Holder holder) {
  return {holder.ptr(), holder->stages()};
}

Model make_resnet(std::string_view name) {
  if (name == "resnet18") return model_of(models::resnet18());
  if (name == "resnet34") return model_of(models::resnet34());
  if (name == "resnet50") return model_of(models::resnet50());
  if (name == "resnet101") return model_of(models::resnet101());
  return model_of(models::resnet152());
}

Model make_bert(const ModelEntry& entry, const ModelSize& size) {
  models::BertOptions options{.num_layers = size.num_layers, .add_pooling_layer = false};
  if (entry.name.starts_with("bert-large")) {
    options.hidden_size = 1024;
    options.num_heads = 16;
    options.intermediate_size = 4096;
  }
  return model_of(models::BertModel(options));
}

Model make_vit(const ModelEntry& entry, const ModelSize& size) {
  models::ViTOptions options{
      .image_size = size.image_size, .num_layers = size.num_layers, .zero_head = false};
  if (entry.name == "vit-l16") {
    options.hidden_size = 1024;
    options.num_heads = 16;
    options.mlp_size = 4096;
  }
  return model_of(models::ViT(options));
}

}  // namespace

const ModelEntry& find_model(std::string_view name) {
  const auto* found = std::find_if(kModels.begin(), kModels.end(),
                                   [&](const ModelEntry& entry) { return entry.name == name; });
  if (found == kModels.end()) {
    reject("--model", "name", name, fmt::format("one of {}. Pass one of these.", model_names()));
  }
  return *found;
}

std::string model_names() {
  std::string names;
  for (const ModelEntry& entry : kModels) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  }
  return names;
}

Model make_model(const ModelEntry& entry, const ModelSize& size) {
  switch (entry.family) {
    case ModelFamily::resnet:
      return make_resnet(entry.name);
    case ModelFamily::bert:
      return make_bert(entry, size);
    case ModelFamily::vit:
      return make_vit(entry, size);
  }
  return {};
}

}  // namespace gradrecomp::program
