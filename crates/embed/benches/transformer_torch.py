"""The measurement of transformer.rs with sentence-transformers on PyTorch's CPU backend.

`python transformer_torch.py [BATCH_SIZE ...]`: same model shape, same texts, all cores, best of five runs.
"""

import sys
import tempfile
import time

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
N_TOKENS = 30_522
CONFIG = BertConfig(
    hidden_size=384, intermediate_size=1536, num_attention_heads=12, num_hidden_layers=6, vocab_size=N_TOKENS
)


def make_model():
    words = SPECIAL + [f"w{index}" for index in range(len(SPECIAL), N_TOKENS)]
    with tempfile.TemporaryDirectory() as folder:
        BertModel(CONFIG).save_pretrained(folder)
        BertTokenizer(vocab={word: index for index, word in enumerate(words)}).save_pretrained(folder)
        transformer = Transformer(folder, max_seq_length=512)
        return SentenceTransformer(modules=[transformer, Pooling(384), Normalize()], device="cpu")


def make_texts(n, length):
    words = [f"w{len(SPECIAL) + index * 7919 % (N_TOKENS - len(SPECIAL))}" for index in range(n * length)]
    return [" ".join(words[text * length : text * length + length - 2]) for text in range(n)]


def best_time(model, texts, batch_size):
    times = []
    for _ in range(5):
        start = time.perf_counter()
        model.encode(texts, batch_size=batch_size)
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    model = make_model()
    for n, length in [(1024, 16), (128, 128), (1, 16), (1, 128)]:
        texts = make_texts(n, length)
        for batch_size in [int(size) for size in sys.argv[1:]] or [32, 128]:
            seconds = best_time(model, texts, batch_size)
            print(
                f"{length} tokens, {n} texts, batch {batch_size}, {torch.get_num_threads()} threads:"
                f" {n / seconds:.1f} texts/s, {1000 * seconds:.1f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
