"""Settings: strict in both directions, and refused in one line that names the setting."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_lm.artifacts.errors import UserError
from prism_lm.training.config import Recipe, TrainingConfig, number_of_steps
from prism_lm.training.recipes import RECIPES, micro, scaled
from prism_lm.training.serialise import differences, from_dict, to_dict

from .conftest import tiny_recipe


def configuration(recipe):
    return TrainingConfig(recipe=recipe, corpus=Path("c"), out=Path("o"))


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_survives_the_way_to_json_and_back(name):
    config = configuration(RECIPES[name]())
    assert config.recipe.name == name
    assert from_dict(TrainingConfig, to_dict(config)) == config


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"recipes": {}}, "unknown setting recipes; known here: corpus, dense"),
        ({"corpus": 3}, "corpus is 3; expected Path"),
        ({"dense": 1}, "dense is 1; expected bool"),
        ({"recipe": {"name": "x"}}, "the setting recipe.model is missing"),
    ],
)
def test_a_wrong_key_or_type_is_named(change, line):
    raw = to_dict(configuration(micro())) | change
    with pytest.raises(UserError, match=f"^{line}"):
        from_dict(TrainingConfig, raw)


def test_an_unknown_key_deep_inside_is_named_with_its_path():
    raw = to_dict(micro())
    raw["bank"]["num_prototype"] = 3
    with pytest.raises(UserError, match=r"unknown setting bank.num_prototype; known here: .*num_prototypes"):
        from_dict(Recipe, raw)


def test_a_choice_outside_the_list_is_refused_with_the_list():
    raw = to_dict(micro())
    raw["optimiser"]["decay"] = "wavy"
    with pytest.raises(UserError, match="decay is 'wavy'; expected one of cosine, linear, constant"):
        from_dict(Recipe, raw)


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"model": {"heads": 3}}, "model.hidden_size is 16; expected a multiple of model.heads, 3"),
        ({"model": {"key_value_heads": 1}}, "model.key_value_heads is 1; expected none"),
        ({"model": {"layers": 0}}, "model.layers is 0; expected more than 0"),
        ({"bank": {"active_prototypes": 97}}, "bank.active_prototypes is 97; expected at most"),
        ({"bank": {"seed_at": 1.5}}, "bank.seed_at is 1.5; expected a fraction"),
        ({"bank": {"token_coverage_weight": -1.0}}, "bank.token_coverage_weight is -1.0; expected 0 or more"),
        ({"optimiser": {"learning_rate": 0.0}}, "optimiser.learning_rate is 0.0; expected more than 0"),
        (
            {"data": {"steps": None}},
            "data.tokens is None; expected a number, or a number of steps as data.steps",
        ),
        ({"data": {"sequence_length": 1}}, "data.sequence_length is 1; expected 2 or more"),
        ({"data": {"batch": 5}}, "data.batch is 5; expected a multiple of data.micro_batch, 2"),
    ],
)
def test_a_recipe_that_makes_no_run_is_refused(parts, line):
    with pytest.raises(UserError, match=f"^{line}"):
        configuration(tiny_recipe(**parts))


@given(tokens=st.integers(1, 10**12), batch=st.integers(1, 512), length=st.integers(2, 4096))
def test_tokens_are_rounded_up_to_whole_steps(tokens, batch, length):
    data = dataclasses.replace(
        micro().data, tokens=tokens, batch=batch, micro_batch=batch, sequence_length=length
    )
    steps = number_of_steps(data)
    assert (steps - 1) * batch * length < tokens <= steps * batch * length


def test_scaled_changes_the_tokens_alone():
    changed = differences(to_dict(micro()), to_dict(scaled(micro(), tokens=7)))
    assert changed == ["data.tokens: 5000000, not 7"]


def test_recipes_and_configuration_do_not_import_torch():
    code = "import sys; import prism_lm.training, prism_lm.training.recipes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
