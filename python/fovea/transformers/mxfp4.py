"""Blocks of gpt-oss whose experts are in MXFP4, in copies by optimize(): their routers' choices go to experts on Fovea."""

import functools

from transformers.integrations import mxfp4
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS


class Mxfp4GptOssExperts(mxfp4.Mxfp4GptOssExperts):
    @functools.wraps(mxfp4.Mxfp4GptOssExperts.forward)
    def forward(self, hidden_states, top_k_index, top_k_weights):
        return ALL_EXPERTS_FUNCTIONS["fovea"](self, hidden_states, top_k_index, top_k_weights)


class Mxfp4GptOssMLP(mxfp4.Mxfp4GptOssMLP):
    def forward(self, hidden_states):
        rows = hidden_states.reshape(-1, self.router.hidden_dim)
        logits, scores, chosen = self.router(rows)
        return self.experts(rows, chosen, scores).reshape(len(hidden_states), -1, self.router.hidden_dim), logits


def serve(mlp):
    """Turns a Mxfp4GptOssMLP and its experts into those above."""
    vars(mlp).pop("forward", None)  # a kernel's
    mlp.__class__, mlp.experts.__class__ = Mxfp4GptOssMLP, Mxfp4GptOssExperts
