"""Makes the tiny static models with random vectors in fixtures/, in the format of model2vec, and what that package computes.

Run with model2vec 0.10 and NumPy 2.4 as `python make_tiny_model2vec.py`.
"""

import json
from pathlib import Path

import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

DIRECTORY = Path(__file__).parent / "fixtures"
TEXTS = [
    "sort a list by value",
    "Open the file, read every line!",
    "def sort(values):\n    return sorted(values)",
    "",
    "   \t\n",
    "é à ü 日本 ﬁ ½ \u200b e\u0301 \U0001f600",
    "unknowable zzz",
    "[UNK] and <pad> in the text",
    "one",
    # Longer than the limits of tokens, and of letters.
    " ".join(["read the list of files and sort it"] * 120),
]
WIDTH = 12
random = np.random.default_rng(17)


def noise(*shape):
    return random.standard_normal(shape).astype(np.float32)


def word_piece():
    words = "sort a list by value open the file read every line def return find one of and it in text i n s d".split()
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words, "##s", "##ed", "##e", "u", "##n", "日", "本", *"()[],:!_=."]
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    # Special tokens are not part of what these models add up.
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return tokenizer


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(
        TEXTS[:7] * 3, trainers.UnigramTrainer(vocab_size=90, special_tokens=["<pad>", "<unk>"], unk_token="<unk>")
    )
    return tokenizer


def main():
    plain = word_piece()
    rounded = unigram()
    n_tokens = rounded.get_vocab_size()
    all_models = {
        "tiny-model2vec": StaticModel(noise(plain.get_vocab_size(), WIDTH), plain, normalize=True),
        # 8 bits, a vector for several tokens, a weight for each token, and a limit of tokens.
        "tiny-model2vec-int8": StaticModel(
            random.integers(-127, 128, (20, WIDTH)).astype(np.int8), rounded,
            weights=np.abs(noise(n_tokens)), token_mapping=random.integers(0, 20, n_tokens), max_length=12,
        ),
    }
    expected = {"texts": TEXTS}
    for name, model in all_models.items():
        model.save_pretrained(DIRECTORY / name, model_name=name)
        (DIRECTORY / name / "README.md").unlink()
        loaded = StaticModel.from_pretrained(DIRECTORY / name)
        expected[name] = {
            "vectors": [[float(f"{x:.6g}") for x in row] for row in loaded.encode(TEXTS, normalize=False).astype(float)],
        }
    (DIRECTORY / "expected-model2vec.json").write_text(json.dumps(expected, ensure_ascii=True) + "\n")


main()
