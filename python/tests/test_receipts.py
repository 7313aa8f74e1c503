"""The second verifier of fovea-generate's receipts (tools/generate/verify.py): it verifies those that are kept, and agrees with
fovea-generate, where that is built, on all receipts of tools/generate/test_receipts*.py."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests/data/receipts"
sys.path.insert(0, str(ROOT / "tools/generate"))
import verify  # noqa: E402


@pytest.mark.parametrize("path", sorted(KEPT.glob("generate_*.receipt")), ids=lambda path: path.stem)
def test_kept(path, tmp_path):
    status, said = verify.verify(path, KEPT / "tiny.gguf")
    assert status == 0 and said.startswith("verified "), said
    text = path.read_text()
    at = re.search(r'"rows": \[\s*"', text).end()
    other = text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :]
    (tmp_path / "other").write_text(other)
    assert verify.verify(tmp_path / "other", KEPT / "tiny.gguf") == (1, "answer 1, row 0: logits are others")


@pytest.mark.parametrize("test", ["test_receipts", "test_receipts_matrix"])
def test_agrees(tmp_path, test):
    programs = [p for p in sorted(ROOT.glob("build/*/tools/fovea-generate")) if p.parent.parent.name in ("test", "release")]
    if not programs:
        pytest.skip("fovea-generate is not built")
    settings = [programs[-1].parent / "generate/test-generate-settings"] if test == "test_receipts" else []
    command = [sys.executable, ROOT / f"tools/generate/{test}.py", programs[-1], *settings]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "SCRATCH": str(tmp_path / "own")})
    assert done.returncode == 0 and " 0 by both verifiers" not in done.stdout, done.stdout + done.stderr
