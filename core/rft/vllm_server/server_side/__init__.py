"""What our vLLM servers load into their own interpreter, where of ours nothing but this folder is found."""
