"""What all tests share: one thread a process, no network, one tiny workspace built once for all workers."""

import os

# Before torch or transformers can be imported: both are read at import.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
