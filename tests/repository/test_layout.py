"""What the linters cannot see: a whitelist of imports, and the exports of the package."""

import ast
import sys
from pathlib import Path

import pytest

import prism_lm

SOURCE = Path(prism_lm.__file__).parent
ALLOWED_IN_MODEL = {"torch", "transformers", "safetensors", *sys.stdlib_module_names}


def imported_modules(path: Path) -> set[str]:
    """Absolute names imported anywhere in the file, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("prism_lm.model" if node.level else str(node.module))
    return names


@pytest.mark.parametrize("path", sorted((SOURCE / "model").glob("**/*.py")), ids=lambda path: path.name)
def test_model_imports_torch_transformers_safetensors_and_siblings_only(path):
    for name in imported_modules(path):
        assert name.startswith("prism_lm.model") or name.split(".")[0] in ALLOWED_IN_MODEL, name


def test_nobody_unpickles():
    for path in SOURCE.glob("**/*.py"):
        assert not {"pickle", "dill", "joblib", "shelve", "marshal"} & imported_modules(path), path


@pytest.mark.parametrize("name", prism_lm.__all__)
def test_every_public_name_loads(name):
    assert getattr(prism_lm, name) is not None


def test_all_lists_what_can_be_loaded():
    assert sorted({*prism_lm._HOME, "__version__"}) == sorted(prism_lm.__all__)
    assert set(prism_lm.__all__) <= set(dir(prism_lm))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = prism_lm.nonsense
