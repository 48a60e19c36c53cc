#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: engine and update of a random model in the shape of Qwen3-0.6B -> docs/performance.md.
# Needs this repository and the packages that `make install` and `rft engine install gpu` get, and no model.
# Elsewhere, to see that it works: tests/gpu/run.sh --device cpu --tiny --out /tmp/performance.md
set -euo pipefail
cd "$(dirname "$0")/../.."
export OMP_WAIT_POLICY=PASSIVE HF_HUB_OFFLINE=1

make --quiet install
if [ -z "${RFT_VLLM_PYTHON:-}" ]; then
    kind=gpu
    if [[ " $* " == *" --device cpu "* ]]; then kind=cpu; fi
    .venv/bin/rft engine install "$kind" --home "$PWD/.vllm-$kind"
    RFT_VLLM_PYTHON=$(echo "$PWD/.vllm-$kind"/engines/*/bin/python)
fi
export RFT_VLLM_PYTHON
exec .venv/bin/python -m tests.gpu.measure "$@"
