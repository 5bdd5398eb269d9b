"""Transformers as people run them: prefill and decode with a cache, norms, masks, experts."""
