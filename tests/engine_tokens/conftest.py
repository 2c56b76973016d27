import pytest

from inferplane_engine.tokens import PromptEncoder
from real_tokenizers import FAMILIES, Models


@pytest.fixture(scope="package")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("models"))


@pytest.fixture(params=FAMILIES, name="family_encoder")
def real_encoder(request: pytest.FixtureRequest, models: Models) -> PromptEncoder:
    return models.encoder(request.param)
