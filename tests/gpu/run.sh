#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: engine and update of a random model in the shape of Qwen3-0.6B -> docs/performance.md.
# Needs this repository and the packages that `make install` and `rft engine install gpu` get, and no model. Where no
# package can be fetched: RFT_PYTHON=python3 takes the packages that this interpreter has, RFT_VLLM_PYTHON=... the vLLM
# of another, and --without-engine measures the update alone.
# Elsewhere, to see that it works: tests/gpu/run.sh --device cpu --tiny --out /tmp/performance.md
set -euo pipefail
cd "$(dirname "$0")/../.."
export OMP_WAIT_POLICY=PASSIVE HF_HUB_OFFLINE=1
# The first of those that may be used: figures of one GPU, on whatever machine.
devices=${CUDA_VISIBLE_DEVICES:-0}
export CUDA_VISIBLE_DEVICES=${devices%%,*}

if [ -z "${RFT_PYTHON:-}" ]; then
    make --quiet install
    RFT_PYTHON=.venv/bin/python
fi
if [[ " $* " != *" --without-engine "* ]] && [ -z "${RFT_VLLM_PYTHON:-}" ]; then
    kind=gpu
    if [[ " $* " == *" --device cpu "* ]]; then kind=cpu; fi
    engine() { echo "$PWD/.vllm-$kind"/engines/*/bin/python; }
    [ -x "$(engine)" ] || .venv/bin/rft engine install "$kind" --home "$PWD/.vllm-$kind"
    RFT_VLLM_PYTHON=$(engine)
fi
export RFT_VLLM_PYTHON=${RFT_VLLM_PYTHON:-}
export PYTHONPATH=core:grader_gateway:platform:tool_gateway:trainer${PYTHONPATH:+:$PYTHONPATH}
exec "$RFT_PYTHON" -m tests.gpu.measure "$@"
