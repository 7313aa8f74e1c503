import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny models on one thread: a second one waits longer than it works, above all on a machine with other work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
