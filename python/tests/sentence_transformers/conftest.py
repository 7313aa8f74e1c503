import embedding_models
import pytest

from fovea.sentence_transformers import SentenceTransformer


@pytest.fixture(scope="session")
def folder():
    return str(embedding_models.backbone("bert"))


@pytest.fixture(scope="session")
def model(folder):
    return SentenceTransformer(folder)
