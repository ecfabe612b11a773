"""Configuration of a prototype language model: a backbone's own configuration, and a bank of prototypes over
it."""

from typing import Any, ClassVar

from transformers import AutoConfig
from transformers.configuration_utils import PreTrainedConfig, SubConfigSpec


class PrismConfig(PreTrainedConfig):
    """Bank of K prototypes, A of them active per token, over any causal backbone of transformers.

    text_config: the backbone's configuration, or a dict of it with its `model_type`.
    num_prototypes: K.  active_prototypes: A, at most K.
    reconstruction_weight, prototype_coverage_weight, token_coverage_weight: w_rec, w_R1, w_R2 of the
    objective (5), used where the model itself computes the loss (`labels` given).
    Raises ValueError for sizes or weights that make no model.
    """

    model_type = "prism_lm"
    sub_configs_defaults: ClassVar[dict[str, SubConfigSpec]] = {
        "text_config": SubConfigSpec(config_class=AutoConfig, model_type="gpt2")
    }

    text_config: Any = None
    num_prototypes: int = 1024
    active_prototypes: int = 4
    reconstruction_weight: float = 0.1
    prototype_coverage_weight: float = 0.2
    token_coverage_weight: float = 0.35
    initializer_range: float = 0.02
    tie_word_embeddings: bool | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.tie_word_embeddings is None:
            self.tie_word_embeddings = bool(getattr(self.text_config, "tie_word_embeddings", False))
        self.text_config.tie_word_embeddings = self.tie_word_embeddings
        for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
            if getattr(self, name, None) is None:
                setattr(self, name, getattr(self.text_config, name, None))
        self._check()

    def _check(self) -> None:
        for name in ("num_prototypes", "active_prototypes"):
            size = getattr(self, name)
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {size!r}")
        if self.active_prototypes > self.num_prototypes:
            raise ValueError(
                f"active_prototypes={self.active_prototypes} is more than "
                f"num_prototypes={self.num_prototypes}: at most the whole bank can be active"
            )
        for name in ("reconstruction_weight", "prototype_coverage_weight", "token_coverage_weight"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)!r}")

    @property
    def vocab_size(self) -> int:
        """V, which the backbone's configuration holds."""
        return int(self.text_config.vocab_size)

    @vocab_size.setter
    def vocab_size(self, value: int) -> None:
        self.text_config.vocab_size = value

    @property
    def hidden_size(self) -> int:
        """D, which the backbone's configuration holds."""
        return int(self.text_config.hidden_size)
