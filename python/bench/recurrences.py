"""The gated delta rule and experts, and transformers' functions, interleaved: python python/bench/recurrences.py [experts]"""

import statistics
import sys
import time

import torch
from transformers.models.qwen3_moe import modeling_qwen3_moe
from transformers.models.qwen3_next import modeling_qwen3_next

import fovea
import fovea.transformers
from fovea.transformers import recurrences

ROUNDS = 15
REST = 0.02  # seconds, in which threads of PyTorch stop to spin for work


def milliseconds(functions):
    """The median time of each function, in turns."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(ROUNDS):
        for name, function in functions.items():
            time.sleep(REST)
            start, count = time.perf_counter(), 0
            while count < 1 or time.perf_counter() - start < 0.01:
                function()
                count += 1
            times[name].append((time.perf_counter() - start) / count * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def delta_rule(tokens):
    q, k, v = (torch.randn(1, tokens, 32, 128) for _ in range(3))
    g, beta, state = -torch.rand(1, tokens, 32), torch.rand(1, tokens, 32), torch.randn(1, 32, 128, 128)
    options = dict(g=g, beta=beta, initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=True)
    name = "recurrent" if tokens == 1 else "chunk"
    theirs = getattr(modeling_qwen3_next, f"torch_{name}_gated_delta_rule").__wrapped__
    return {
        "transformers": lambda: theirs(q, k, v, **options),
        "layer": lambda: recurrences._delta_rule(q, k, v, **options),
        "in place": lambda: fovea.gated_delta_rule(q, k, v, g, beta, norm="rsqrt", state=state, state_out=state, layout="bthd"),
    }


@torch.inference_mode(False)
@torch.no_grad()
def experts(tokens):
    config = modeling_qwen3_moe.Qwen3MoeConfig(hidden_size=2048, moe_intermediate_size=768, num_experts=64, num_experts_per_tok=8)
    module = modeling_qwen3_moe.Qwen3MoeExperts(config)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    x, weights = torch.randn(tokens, 2048), torch.rand(tokens, 8)
    chosen = torch.stack([torch.randperm(64)[:8] for _ in range(tokens)])

    def run(implementation):
        config._experts_implementation_internal = implementation
        return module(x, chosen, weights)

    # batched_mm copies the weights of each token's experts.
    return {name: lambda name=name: run(name) for name in ("eager", "grouped_mm", "fovea", "batched_mm")[: 4 if tokens == 1 else 3]}


CASES = {
    "delta rule, 1 token": lambda: delta_rule(1),
    "delta rule, 512 tokens": lambda: delta_rule(512),
    "experts, 1 token": lambda: experts(1),
    "experts, 16 tokens": lambda: experts(16),
    "experts, 512 tokens": lambda: experts(512),
}


with torch.inference_mode():
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for case, make in CASES.items():
            if not case.startswith("".join(sys.argv[1:])):
                continue
            functions = make()
            found = milliseconds(functions)
            print(f"{threads} threads, {case}: " + ", ".join(f"{name} {ms:.3f} ms" for name, ms in found.items()), flush=True)
