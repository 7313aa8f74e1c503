"""Continuous batching: generate_batch() of models with attn_implementation="fovea".

transformers hands attention the tokens of all requests side by side, with the places where each begins. Implementations that
take these need no mask; transformers lets only flash attention through, by its name. "fovea" is let through here.
"""

import functools

from transformers.generation.continuous_batching.continuous_api import ContinuousBatchingManager

_METHOD = "switch_to_cb_friendly_attn"


def register():
    """Lets models with "fovea" be batched continuously. Other models are as before."""
    theirs = getattr(ContinuousBatchingManager, _METHOD)
    if hasattr(theirs, "lets_fovea_through"):
        return

    @functools.wraps(theirs)
    def ours(self, model, *args, **kwargs):
        if model.config._attn_implementation != "fovea":
            theirs(self, model, *args, **kwargs)

    ours.lets_fovea_through = True
    setattr(ContinuousBatchingManager, _METHOD, ours)
