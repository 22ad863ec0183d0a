#include "workload/model_catalog.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>

#include "gradrecomp/models/bert.h"
#include "gradrecomp/models/densenet.h"
#include "gradrecomp/models/fno.h"
#include "gradrecomp/models/gpt2.h"
#include "gradrecomp/models/lstm.h"
#include "gradrecomp/models/resnet.h"
#include "gradrecomp/models/unet.h"
#include "gradrecomp/models/vit.h"

namespace gradrecomp::program {
namespace {

template <typename Holder>
Model model_of(Holder holder, std::int64_t width = 0) {
  return {holder.ptr(), holder->stages(), width};
}

template <auto make>
Model image_model(const WorkloadOptions& /*options*/) {
  return model_of(make(/*num_classes=*/1000));
}

template <bool is_large>
Model bert(const WorkloadOptions& options) {
  models::BertOptions bert{.num_layers = *options.layers, .add_pooling_layer = false};
  if (is_large) {
    bert.hidden_size = 1024;
    bert.num_heads = 16;
    bert.intermediate_size = 4096;
  }
  return model_of(models::BertModel(bert), bert.hidden_size);
}

template <bool is_medium>
Model gpt2(const WorkloadOptions& options) {
  models::Gpt2Options gpt2{.num_layers = *options.layers};
  if (is_medium) {
    gpt2.hidden_size = 1024;
    gpt2.num_heads = 16;
  }
  return model_of(models::Gpt2Model(gpt2), gpt2.hidden_size);
}

Model unet(const WorkloadOptions& /*options*/) { return model_of(models::unet_carvana()); }

Model fno(const WorkloadOptions& options) {
  const models::FnoOptions fno{.in_channels = 3, .out_channels = 2, .num_layers = *options.layers};
  return model_of(models::Fno(fno));
}

template <bool is_large>
Model lstm(const WorkloadOptions& options) {
  models::LstmOptions lstm{.num_layers = *options.layers};
  if (!is_large) {
    lstm.hidden_size = 650;
    lstm.dropout = 0.5;
    lstm.initial_range = 0.05;
  }
  return model_of(models::LstmModel(lstm), lstm.hidden_size);
}

template <bool is_large>
Model vit(const WorkloadOptions& options) {
  models::ViTOptions vit{
      .image_size = *options.image_size, .num_layers = *options.layers, .zero_head = false};
  if (is_large) {
    vit.hidden_size = 1024;
    vit.num_heads = 16;
    vit.mlp_size = 4096;
  }
  return model_of(models::ViT(vit));
}

constexpr std::array<ModelEntry, 19> kModels{{
    {"resnet18", ModelFamily::resnet, 0, image_model<models::resnet18>},
    {"resnet34", ModelFamily::resnet, 0, image_model<models::resnet34>},
    {"resnet50", ModelFamily::resnet, 0, image_model<models::resnet50>},
    {"resnet101", ModelFamily::resnet, 0, image_model<models::resnet101>},
    {"resnet152", ModelFamily::resnet, 0, image_model<models::resnet152>},
    {"densenet121", ModelFamily::densenet, 0, image_model<models::densenet121>},
    {"densenet201", ModelFamily::densenet, 0, image_model<models::densenet201>},
    {"unet", ModelFamily::unet, 0, unet},
    {"fno", ModelFamily::fno, 4, fno},
    {"bert-base", ModelFamily::bert, 12, bert<false>},
    {"bert-large", ModelFamily::bert, 24, bert<true>},
    {"bert-base-encoder", ModelFamily::bert, 12, bert<false>, true},
    {"bert-large-encoder", ModelFamily::bert, 24, bert<true>, true},
    {"gpt2", ModelFamily::gpt, 12, gpt2<false>},
    {"gpt2-medium", ModelFamily::gpt, 24, gpt2<true>},
    {"lstm-medium", ModelFamily::lstm, 2, lstm<false>},
    {"lstm-large", ModelFamily::lstm, 2, lstm<true>},
    {"vit-b16", ModelFamily::vit, 12, vit<false>},
    {"vit-l16", ModelFamily::vit, 24, vit<true>},
}};

}  // namespace

const ModelEntry& find_model(std::string_view name) {
  return *std::ranges::find(kModels, name, &ModelEntry::name);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelEntry& entry : kModels) names.emplace_back(entry.name);
  return names;
}

}  // namespace gradrecomp::program
