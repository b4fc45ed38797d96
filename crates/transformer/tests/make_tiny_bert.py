"""Makes the tiny models with random weights in fixtures/, and the vectors that sentence-transformers gives for them.

Written with sentence-transformers 6.2, transformers 5.23 and torch 2.15: `python make_tiny_bert.py`.
"""

import json
import shutil
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig, BertModel, BertTokenizer, PreTrainedTokenizerFast, RobertaConfig, RobertaModel,
)

DIRECTORY = Path(__file__).parent / "fixtures"
TEXTS = [
    "sort a list by value",
    "Open the file, read every line!",
    "def sort(values):\n    return sorted(values)",
    "",
    "   \t\n",
    "é à ü 日本",
    "unknowable zzz",
    "[SEP] in the text",
    "one",
    # Longer than the limit of 24 tokens.
    " ".join(["read the list of files and sort it"] * 6),
]
PROMPTS = {"query": "find: ", "document": "file: "}
MAX_TOKENS = 24
SHAPE = dict(
    hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=40,
)


def randomise(model):
    """Random values wide enough that attention, biases and normalisations all show in the result."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter) * 0.4
            parameter.copy_(1 + noise if name.endswith("LayerNorm.weight") else noise)
    return model.eval()


def make_bert():
    words = "sort a list by value open the file read every line def return find one of and it in text i n s d".split()
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, "##s", "##ed", "##e", "u", "##n", "a", "日", "本"]
    tokens += list("()[],:!_=.")
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = BertTokenizer(vocab=vocabulary, model_max_length=40)
    model = randomise(BertModel(BertConfig(vocab_size=len(vocabulary), **SHAPE), add_pooling_layer=False))
    return save("tiny-bert", model, tokenizer), list(vocabulary)


def make_roberta():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=280, special_tokens=special, initial_alphabet=alphabet)
    )
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
        cls_token="<s>", sep_token="</s>", mask_token="<mask>",
    )
    config = RobertaConfig(vocab_size=tokenizer.get_vocab_size(), type_vocab_size=1, pad_token_id=1, **SHAPE)
    model = randomise(RobertaModel(config, add_pooling_layer=False))
    return save("tiny-roberta", model, fast)


def save(name, model, tokenizer):
    """Saves a model and its tokenizer as a plain Hugging Face directory."""
    directory = DIRECTORY / name
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def sentence_model(directory, pooling):
    transformer = Transformer(str(directory), max_seq_length=MAX_TOKENS)
    modules = [transformer, Pooling(SHAPE["hidden_size"], pooling_mode=pooling), Normalize()]
    return SentenceTransformer(modules=modules, prompts=PROMPTS, device="cpu")


def rounded(vectors):
    return [[round(float(value), 6) for value in vector] for vector in vectors]


def main():
    torch.manual_seed(7)
    expected = {"texts": TEXTS}
    directory, vocabulary = make_bert()
    roberta = make_roberta()
    for path, poolings in [(directory, ["mean", "cls", "max"]), (roberta, ["cls"])]:
        for pooling in poolings:
            model = sentence_model(path, pooling)
            expected[f"{path.name} {pooling}"] = {
                "query": rounded(model.encode_query(TEXTS)),
                "document": rounded(model.encode_document(TEXTS)),
                "no prompt": rounded(model.encode(TEXTS, prompt="")),
            }
        sentence_model(path, poolings[0]).save(str(path), create_model_card=False)
    (directory / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    torch.save(sentence_model(roberta, "cls")[0].auto_model.state_dict(), roberta / "pytorch_model.bin")
    (roberta / "model.safetensors").unlink()
    (DIRECTORY / "expected.json").write_text(json.dumps(expected, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
