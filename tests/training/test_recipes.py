"""Parameter counts of every recipe, built on the meta device, against arithmetic by hand."""

import pytest

from prism_lm.artifacts.errors import UserError
from prism_lm.training.arithmetic import count_operations, count_parameters
from prism_lm.training.plan import make_plan
from prism_lm.training.recipes import RECIPES

GPT2_VOCABULARY = 50257


def gpt2_layers(width, layers):
    """Two norms, attention and feed-forward with biases in each layer, and the final norm."""
    return layers * (12 * width**2 + 13 * width) + 2 * width


def llama_layers(width, layers, inner):
    """Four attention matrices, three of the feed-forward, two norms in each layer, and the final norm."""
    return layers * (4 * width**2 + 3 * width * inner + 2 * width) + width


EXPECTED = {
    "quickstart": (gpt2_layers(128, 3), 128 * (GPT2_VOCABULARY + 128)),
    "micro": (gpt2_layers(128, 5), 128 * (GPT2_VOCABULARY + 128)),
    "mini": (gpt2_layers(256, 4), 256 * (GPT2_VOCABULARY + 128)),
    "gpt2_124m": (gpt2_layers(768, 12), 768 * (GPT2_VOCABULARY + 1024)),
    "gpt2_355m": (gpt2_layers(1024, 24), 1024 * (GPT2_VOCABULARY + 1024)),
    "gpt2_774m": (gpt2_layers(1280, 36), 1280 * (GPT2_VOCABULARY + 1024)),
    "gpt2_1558m": (gpt2_layers(1600, 48), 1600 * (GPT2_VOCABULARY + 1024)),
    "llama_160m": (llama_layers(768, 12, 2048), 2 * 768 * GPT2_VOCABULARY),
    "llama_410m": (llama_layers(1024, 24, 2752), 2 * 1024 * GPT2_VOCABULARY),
    "llama_1b": (llama_layers(2048, 22, 5504), 2 * 2048 * GPT2_VOCABULARY),
}
PUBLISHED = {"gpt2_124m": 124.4e6, "gpt2_355m": 354.8e6, "gpt2_774m": 774.0e6, "gpt2_1558m": 1557.6e6}


@pytest.mark.parametrize("name", RECIPES)
def test_counts(name):
    recipe = RECIPES[name]()
    counted = count_parameters(recipe, vocab_size=GPT2_VOCABULARY, dense=False)
    assert (counted.layers, counted.embeddings) == EXPECTED[name]
    assert counted.bank == recipe.bank.num_prototypes * recipe.model.hidden_size
    twin = count_parameters(recipe, vocab_size=GPT2_VOCABULARY, dense=True)
    assert (twin.layers, twin.embeddings, twin.bank) == (counted.layers, counted.embeddings, 0)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_paper_shapes_have_their_published_size(name):
    twin = count_parameters(RECIPES[name](), vocab_size=GPT2_VOCABULARY, dense=True)
    assert twin.total == pytest.approx(PUBLISHED[name], rel=1e-3)


def test_the_bank_adds_1_7_percent_at_the_largest_size():
    counted = count_parameters(RECIPES["gpt2_1558m"](), vocab_size=GPT2_VOCABULARY, dense=False)
    assert counted.bank == 26_214_400
    assert round(100 * counted.bank_share, 1) == 1.7


def test_small_recipes_have_about_one_and_three_million_in_their_layers():
    sizes = {
        name: count_parameters(RECIPES[name](), vocab_size=4096, dense=True).layers
        for name in ("micro", "mini")
    }
    assert sizes["micro"] == pytest.approx(1e6, rel=0.1)
    assert sizes["mini"] == pytest.approx(3e6, rel=0.1)


def test_operations_follow_six_times_the_weights_that_multiply():
    recipe = RECIPES["gpt2_124m"]()
    counted = count_parameters(recipe, vocab_size=GPT2_VOCABULARY, dense=False)
    operations = count_operations(recipe, counted, vocab_size=GPT2_VOCABULARY)
    attention = 6 * recipe.model.layers * recipe.data.sequence_length * recipe.model.hidden_size
    assert operations.backbone == 6 * counted.layers + attention
    assert operations.output == 6 * GPT2_VOCABULARY * 768
    similarities, entries = 2 * 8192 * 768, 12 * recipe.bank.active_prototypes * 768
    assert operations.bank == similarities + entries
    assert operations.bank / operations.dense == pytest.approx(0.0158, abs=0.0001)


def test_a_plan_says_everything_for_a_given_device_and_count():
    plan = make_plan(
        RECIPES["gpt2_1558m"](),
        vocab_size=GPT2_VOCABULARY,
        corpus_tokens=31 * 10**9,
        device="h100",
        devices=8,
    )
    shown = dict(plan.rows())
    assert set(shown) >= {"model", "parameters", "tokens", "operations", "memory", "time"}
    assert "bank 26.2M (adds 1.7%)" in shown["parameters"]
    assert "8 x h100, an estimate: 35% of a peak of 989 TFLOP/s in bfloat16" in shown["time"]
    twice = make_plan(RECIPES["gpt2_1558m"](), vocab_size=GPT2_VOCABULARY, device="h100", devices=16)
    assert twice.seconds == pytest.approx(plan.seconds / 2)
    assert plan.to_dict()["parameters_total"] == plan.parameters.total


def test_full_sharding_and_checkpointing_need_less_memory():
    from dataclasses import replace

    recipe = RECIPES["gpt2_774m"]()
    lean = replace(recipe, runtime=replace(recipe.runtime, sharding="full", activation_checkpointing=True))
    plain, leaner = (
        make_plan(r, vocab_size=GPT2_VOCABULARY, device="h100", devices=8).memory for r in (recipe, lean)
    )
    assert leaner.optimiser == plain.optimiser / 8
    assert leaner.activations < plain.activations / 4


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"device": "abacus"}, "device 'abacus' is not known; expected cpu or one of a100"),
        ({"device": "h100", "devices": 3}, "3 devices were given; expected a divisor of 16"),
    ],
)
def test_a_plan_for_what_does_not_exist_is_refused(options, line):
    with pytest.raises(UserError, match=line):
        make_plan(RECIPES["gpt2_124m"](), vocab_size=GPT2_VOCABULARY, **options)
