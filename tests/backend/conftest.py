import pytest

from tests.backend.watched import Watched


@pytest.fixture
def watched():
    return Watched()
