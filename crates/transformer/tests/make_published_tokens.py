"""Writes fixtures/expected-published-tokens.json: the token ids that CoSQA+'s script gives to texts.

The script is not part of this repository: github.com/DeepSoftwareAnalytics/CoSQA_Plus, evaluate/run_evalute_transformer.py.
Only its function `convert_examples_to_features` is taken out of it and run, on the tokenizers of the tiny models. Written
with transformers 4.57: `python make_published_tokens.py run_evalute_transformer.py`.
"""

import ast
import json
import sys
from pathlib import Path
from types import SimpleNamespace

from transformers import PreTrainedTokenizerFast

DIRECTORY = Path(__file__).parent / "fixtures"
LIMITS = {"nl_length": 8, "code_length": 12}
TEXTS = [
    "sort a list",
    "",
    "def sort(values):\n    \"\"\"Sort  them.\"\"\"\n\n\treturn sorted(values)\n",
    "read the list\u00a0of files and sort it",
    " x </s> y ",
]
# The directory of the tokenizer, and the name by which the script knows the model.
MODELS = {"codebert": ("tiny-roberta", "codebert-base"), "unixcoder": ("tiny-roberta", "unixcoder-base"),
          "codet5p": ("tiny-codet5p", "codet5p-110m-embedding")}  # fmt: skip


def published(path):
    tree = ast.parse(Path(path).read_text())
    wanted = {"convert_examples_to_features", "InputFeatures", "model_type"}
    names = lambda node: {getattr(node, "name", None), *(getattr(target, "id", None) for target in getattr(node, "targets", []))}
    tree.body = [node for node in tree.body if wanted & names(node)]
    scope = {}
    exec(compile(tree, path, "exec"), scope)
    return scope["convert_examples_to_features"]


def main():
    convert = published(sys.argv[1])
    expected = {"texts": TEXTS, "limits": [LIMITS["nl_length"], LIMITS["code_length"]]}
    for model, (directory, name) in MODELS.items():
        text = (DIRECTORY / directory / "tokenizer.json").read_text()
        if model == "unixcoder":
            text = text.replace("<mask>", "<encoder-only>")
        copy = Path("/tmp") / "published-tokenizer.json"
        copy.write_text(text)
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(copy), cls_token="<s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>")
        args = SimpleNamespace(model_name_or_path=name, **LIMITS)
        keys = ["pair-idx", "query-idx", "code-idx", "label"]
        features = [convert({"query": text, "code": text, **dict.fromkeys(keys, 0)}, tokenizer, args) for text in TEXTS]
        expected[model] = {"queries": [found.nl_ids for found in features], "documents": [found.code_ids for found in features]}
    (DIRECTORY / "expected-published-tokens.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
