"""PrismForCausalLM: a bank of prototypes over any causal backbone, as an ordinary Hugging Face model."""

from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from shutil import copyfile
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, initialization
from transformers.dynamic_module_utils import get_relative_import_files
from transformers.generation.utils import GenerationMixin
from transformers.modeling_utils import PreTrainedModel

from .backbones import base_prefix, check_plain_head, dense_from_parts, load_dense
from .configuration_prism import PrismConfig
from .control import ControlLike, ControlRows, edit_states
from .head import reconstruct, select_prototypes
from .losses import clustering_terms
from .outputs import Decomposition, PrismOutput, Slices
from .slices import signature_ranges, signatures, take_apart


class PrototypeBank(nn.Module):
    """P of (1)-(4): K learned prototypes of size D, in `weight` [K, D]."""

    def __init__(self, num_prototypes: int, hidden_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_prototypes, hidden_size))


class PrismPreTrainedModel(PreTrainedModel):
    """What transformers needs to know of every model of this type."""

    config_class = PrismConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, PrototypeBank):
            initialization.normal_(module.weight, mean=0.0, std=self.config.initializer_range)
        else:
            super()._init_weights(module)


class PrismForCausalLM(PrismPreTrainedModel, GenerationMixin):
    """A causal language model whose final hidden state is a mixture of prototypes plus a residual.

    `.model` is the backbone, `.lm_head` the output embedding W, `.bank` the prototypes P.  With no control
    the logits are those of the dense model bit for bit: the decomposition is an identity, computed only when
    asked for.
    """

    def __init__(self, config: PrismConfig) -> None:
        super().__init__(config)
        self.model = AutoModel.from_config(config.text_config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.bank = PrototypeBank(config.num_prototypes, config.hidden_size)
        self._no_split_modules = getattr(self.model, "_no_split_modules", None)
        self._tied_weights_keys = {"lm_head.weight": _embedding_name(self.model)}
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The backbone's token embedding."""
        return self.model.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the backbone's token embedding."""
        self.model.set_input_embeddings(value)

    @classmethod
    def from_dense(
        cls, dense: PreTrainedModel | str, *, num_prototypes: int, active_prototypes: int, **config: Any
    ) -> "PrismForCausalLM":
        """A fresh bank over a dense causal language model, whose weights are shared, not copied.

        dense: a model, a folder or a name.  Raises ValueError when its logits are not plainly W z (an output
        bias, scaled or soft-capped logits), naming the reason.
        """
        if isinstance(dense, str):
            dense = load_dense(dense)
        check_plain_head(dense)
        prism_config = PrismConfig(
            text_config=deepcopy(dense.config),
            num_prototypes=num_prototypes,
            active_prototypes=active_prototypes,
            **config,
        )
        with torch.device("meta"):
            model = cls(prism_config)
        head: Any = dense.get_output_embeddings()
        model.model, model.lm_head = dense.base_model, head
        model.bank.weight = nn.Parameter(
            torch.empty(model.bank.weight.shape, dtype=head.weight.dtype, device=head.weight.device)
        )
        model._init_weights(model.bank)
        model.generation_config = dense.generation_config
        return model.train(dense.training)

    def dense(self) -> PreTrainedModel:
        """The plain Hugging Face model of the backbone's own class, sharing these weights: no bank, same
        logits."""
        return dense_from_parts(self.config.text_config, self.model, self.lm_head, self.generation_config)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *arguments: Any, **options: Any) -> Any:
        """Load a prototype model; or, given a dense checkpoint and `config=PrismConfig(...)`, that with a
        fresh bank.

        Raises ValueError when any weight but the bank of a dense checkpoint is missing.
        """
        config = options.get("config")
        if (
            isinstance(config, PrismConfig)
            and base_prefix(pretrained_model_name_or_path, options) is not None
        ):
            return cls._from_dense_checkpoint(str(pretrained_model_name_or_path), options)
        asked = options.pop("output_loading_info", False)
        loaded: Any = super().from_pretrained(
            pretrained_model_name_or_path, *arguments, output_loading_info=True, **options
        )
        model, info = loaded
        if info["missing_keys"]:
            raise ValueError(
                f"{pretrained_model_name_or_path} lacks the weights {sorted(info['missing_keys'])}"
            )
        return (model, info) if asked else model

    @classmethod
    def _from_dense_checkpoint(cls, path: str, options: dict[str, Any]) -> Any:
        asked, config = options.pop("output_loading_info", False), options.pop("config")
        dense = load_dense(path, **options)
        own = {name: getattr(config, name) for name in PROTOTYPE_SETTINGS}
        model = cls.from_dense(dense, **own)
        info: dict[str, Any] = {
            "missing_keys": {"bank.weight"},
            "unexpected_keys": set(),
            "mismatched_keys": set(),
            "error_msgs": [],
        }
        return (model, info) if asked else model

    def export_with_code(self, folder: str) -> None:
        """Save with a copy of this package's modelling files, for `from_pretrained(folder,
        trust_remote_code=True)` where prism-lm is not installed."""
        self.save_pretrained(folder)
        config = deepcopy(self.config)
        config.auto_map = AUTO_MAP
        config.save_pretrained(folder)
        for source in (__file__, *get_relative_import_files(__file__)):
            copyfile(source, Path(folder) / Path(source).name)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Any = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        control: ControlLike | ControlRows | None = None,
        output_prototypes: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Logits [B, T, V] of input_ids [B, T], and what `PrismOutput` lists.

        control: a Control for every row, or a sequence of Control and None, one a row (9).  labels [B, T]
        are shifted inside, -100 is ignored.  logits_to_keep: only the last so many positions (0: all), or
        these positions.
        """
        given = {
            "position_ids": position_ids,
            "cache": cache,
            "use_cache": use_cache,
            "inputs_embeds": inputs_embeds,
        }
        as_tuple = kwargs.pop("return_dict", True) is False
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            **{name: value for name, value in given.items() if value is not None},
            **kwargs,
        )
        states = _kept(outputs.last_hidden_state, logits_to_keep)
        result = PrismOutput(
            cache=outputs.get("cache"),
            hidden_states=outputs.get("hidden_states"),
            attentions=outputs.get("attentions"),
        )
        edited = self._decompose_into(result, states, control, output_prototypes)
        logits = self.lm_head(edited)
        result.logits = logits
        if labels is not None:
            self._lose_into(result, logits, states, attention_mask, labels)
        return result.to_tuple() if as_tuple else result

    def _decompose_into(
        self,
        result: PrismOutput,
        states: Tensor,
        control: ControlLike | ControlRows | None,
        output_prototypes: bool,
    ) -> Tensor:
        """Fill in what was asked for, and return the states that the logits are taken from."""
        if control is None and not output_prototypes:
            return states
        found = self.decompose(states)
        if output_prototypes:
            wide = states.to(found.activations.dtype)
            mixture = reconstruct(
                self.bank.weight.to(wide.dtype),
                found.active_ids.flatten(0, 1),
                found.activations.flatten(0, 1),
            )
            result.active_ids, result.cosines, result.activations = found
            result.residual_norm = (wide - mixture.view(wide.shape)).norm(dim=-1)
            result.final_states = states
        if control is None:
            return states
        edit = edit_states(
            states, self.bank.weight, found.active_ids, found.activations, ControlRows.of(control)
        )
        result.control_effect = edit.effect
        return edit.states

    def _lose_into(
        self,
        result: PrismOutput,
        logits: Tensor,
        states: Tensor,
        attention_mask: Tensor | None,
        labels: Tensor,
    ) -> None:
        if logits.shape[1] != labels.shape[1]:
            raise ValueError("labels need the logits of every position: leave logits_to_keep at 0")
        shifted = F.pad(labels, (0, 1), value=-100)[:, 1:].to(logits.device)
        result.cross_entropy = F.cross_entropy(logits.float().flatten(0, 1), shifted.flatten())
        result.loss = result.cross_entropy
        if self.training:
            real = states.flatten(0, 1) if attention_mask is None else states[attention_mask.bool()]
            terms = clustering_terms(real, self.bank.weight, self.config.active_prototypes)
            weights = self.config
            result.loss = result.loss + terms.loss(
                weights.reconstruction_weight,
                weights.prototype_coverage_weight,
                weights.token_coverage_weight,
            )

    def decompose(self, states: Tensor) -> Decomposition:
        """Active ids, cosines (1) and activations (2) of final states [B, T, D], in float32 at least, no
        gradient."""
        wide = torch.promote_types(states.dtype, torch.float32)
        chosen = select_prototypes(
            states.detach().to(wide).flatten(0, -2),
            self.bank.weight.detach().to(wide),
            self.config.active_prototypes,
        )
        shape = (*states.shape[:-1], -1)
        cosines = chosen.cosines.view(shape)
        return Decomposition(chosen.active_ids.view(shape), cosines, cosines.clamp(min=0))

    def signatures(self, prototypes: Tensor | Iterable[int], *, centred: bool = False) -> Tensor:
        """s_i = W p_i for these ids: [n, V] (float32 up).  centred: less the mean over the vocabulary."""
        return signatures(self.lm_head.weight, self.bank.weight, prototypes, centred=centred)

    def signature_ranges(self) -> Tensor:
        """range_i = max_v s_iv - min_v s_iv of (11): [K]."""
        return signature_ranges(self.lm_head.weight, self.bank.weight)

    def slices(
        self,
        final_states: Tensor,
        active_ids: Tensor,
        activations: Tensor,
        token_ids: Tensor,
        *,
        centred: bool = True,
    ) -> Slices:
        """The logits of chosen tokens taken apart by (4); see `slices.take_apart` for shapes."""
        head, bank = self.lm_head.weight, self.bank.weight
        return take_apart(head, bank, final_states, active_ids, activations, token_ids, centred=centred)

    def _expand_inputs_for_generation(  # pyrefly: ignore[bad-override]
        self, expand_size: int = 1, **options: Any
    ) -> Any:
        """Several returned sequences or beams of a row carry the control of that row."""
        if options.get("control") is not None:
            options["control"] = ControlRows.of(options["control"]).repeated(expand_size)
        return super()._expand_inputs_for_generation(  # pyrefly: ignore[bad-argument-type]
            expand_size=expand_size, **options
        )


AUTO_MAP = {
    "AutoConfig": "configuration_prism.PrismConfig",
    "AutoModelForCausalLM": "modeling_prism.PrismForCausalLM",
}

PROTOTYPE_SETTINGS = (
    "num_prototypes",
    "active_prototypes",
    "reconstruction_weight",
    "prototype_coverage_weight",
    "token_coverage_weight",
)


def _kept(states: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    if isinstance(logits_to_keep, int):
        return states[:, -logits_to_keep:] if logits_to_keep else states
    return states[:, logits_to_keep]


def _embedding_name(backbone: Any) -> str:
    """The full name of the backbone's token embedding, to which a tied head points."""
    embedding = backbone.get_input_embeddings()
    name = next(name for name, module in backbone.named_modules() if module is embedding)
    return f"model.{name}.weight"


if __name__.startswith("prism_lm."):  # an exported copy of this file is found by its folder's own map instead
    AutoConfig.register("prism_lm", PrismConfig, exist_ok=True)
    AutoModelForCausalLM.register(PrismConfig, PrismForCausalLM, exist_ok=True)
