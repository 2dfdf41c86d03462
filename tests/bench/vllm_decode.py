#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vllm_decode.py - tokens per second of vLLM

Usage: vllm_decode.py CONFIG.JSON SLOTS SEQUENCES TOKENS TOP_P

The same work as decode.c on a GPU: random weights in bf16, prompts of 16 tokens,
completions of equal length, no cache of prefixes. As many sequences as slots
come first, unmeasured: they compile and record graphs.
"""

import json
import sys
import tempfile
import time

from vllm import LLM, SamplingParams

PROMPT = 16


def prompts(count, vocabulary):
    return [{"prompt_token_ids": [(n * 131 + t * 17) % vocabulary
                                  for t in range(PROMPT)]}
            for n in range(count)]


def main():
    config, top_p = sys.argv[1], float(sys.argv[5])
    slots, sequences, tokens = map(int, sys.argv[2:5])
    with tempfile.TemporaryDirectory() as model:
        with open(config, encoding="utf-8") as f:
            values = {**json.load(f), "architectures": ["Qwen2ForCausalLM"]}
        with open(f"{model}/config.json", "w", encoding="utf-8") as f:
            json.dump(values, f)
        llm = LLM(model=model, load_format="dummy", skip_tokenizer_init=True,
                  dtype="bfloat16", max_model_len=PROMPT + tokens,
                  max_num_seqs=slots, enable_prefix_caching=False)
        vocabulary = llm.llm_engine.model_config.get_vocab_size()
        sampling = SamplingParams(max_tokens=tokens, ignore_eos=True,
                                  temperature=1.0, top_p=top_p,
                                  detokenize=False)
        llm.generate(prompts(slots, vocabulary), sampling, use_tqdm=False)
        start = time.perf_counter()
        done = llm.generate(prompts(sequences, vocabulary), sampling,
                            use_tqdm=False)
        seconds = time.perf_counter() - start
    drawn = sum(len(x.outputs[0].token_ids) for x in done)
    print(f"{drawn / seconds:.1f} tokens/s of {drawn}")


if __name__ == "__main__":  # its engine is another process
    main()
