"""Makes tiny-graphcodebert and tiny-starencoder in fixtures/, with random weights, and what transformers computes.

GraphCodeBERT: the tokens of functions and the flow of data between them come from the files of the tests of crates/source;
the rules by which these become token ids, positions and a mask are those of the paper (Guo et al., 2021, section 4.3) and of
its code search. Written with transformers 5.23 and torch 2.15: `python make_tiny_code_encoders.py`.
"""

import json
import re
import shutil
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, RobertaConfig, RobertaModel

DIRECTORY = Path(__file__).parent / "fixtures"
FLOWS = Path(__file__).parents[2] / "source/tests/data_flow"
CODE_LENGTH, NODES_LENGTH = 256, 64
SHAPE = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32)
TEXTS = [
    "sort a list by value",
    "def sort(values):\n    return sorted(values)",
    "",
    "é à ü 日本 \U0001f600",
    "<sep> and <cls> in the text",
    "read the list of files and sort it " * 12,
]


def randomise(model):
    """Random values wide enough that attention, biases and normalisations all show in the result."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter) * 0.4
            parameter.copy_(1 + noise if name.endswith("LayerNorm.weight") else noise)
    return model.eval()


def byte_pairs(special, texts, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save(name, model, tokenizer):
    directory = DIRECTORY / name
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory)
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    return directory


def read_flow(path):
    """Tokens, and pairs of a token's number and those of its sources, of which a variable has as many as it is used."""
    first, *lines = path.read_text().splitlines()
    tokens, nodes = json.loads(first), []
    for line in lines:
        node, sources = re.fullmatch(r".*?:(\d+) <- (.*)", line).groups()
        nodes.append((int(node), [int(source) for source in re.findall(r":(\d+)(?= |$)", sources)]))
    return tokens, nodes


def graph_inputs(tokenizer, tokens, nodes):
    first, last, padding, unknown = map(tokenizer.token_to_id, ["<s>", "</s>", "<pad>", "<unk>"])
    pieces = [
        tokenizer.encode(token if number == 0 else " " + token, add_special_tokens=False).ids
        for number, token in enumerate(tokens)
    ]
    spans, end = [], 1
    for ids in pieces:
        spans.append((end, end + len(ids)))
        end += len(ids)
    total = CODE_LENGTH + NODES_LENGTH
    ids = [first, *sum(pieces, [])[: total - 2 - min(len(nodes), NODES_LENGTH)], last]
    n_tokens = len(ids)
    nodes = nodes[: total - n_tokens]
    numbers = {token: number for number, (token, _) in enumerate(nodes)}
    ids += [unknown] * len(nodes)
    positions = [padding + 1 + at for at in range(n_tokens)] + [0] * len(nodes)
    mask = torch.zeros(len(ids), len(ids), dtype=torch.bool)
    mask[:n_tokens, :n_tokens] = True
    for at, token in enumerate(ids):
        if token in (first, last):
            mask[at] = True
    for number, (token, sources) in enumerate(nodes):
        start, end = spans[token]
        if end < n_tokens:
            mask[n_tokens + number, start:end] = True
            mask[start:end, n_tokens + number] = True
        for source in sources:
            if source in numbers:
                mask[n_tokens + number, n_tokens + numbers[source]] = True
    return ids, positions, mask


def graph_states(model, ids, positions, mask):
    ids, positions = torch.tensor([ids]), torch.tensor([positions])
    is_node = positions[0] == 0
    embeddings = model.embeddings.word_embeddings(ids)[0]
    shares = (mask & is_node[:, None] & ~is_node[None, :]).float()
    means = shares @ embeddings / shares.sum(1, keepdim=True).clamp(min=1)
    embeddings = torch.where(is_node[:, None], means, embeddings)
    scores = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    output = model(inputs_embeds=embeddings[None], position_ids=positions, attention_mask=scores[None, None])
    return output.last_hidden_state[0], output.pooler_output[0]


def rounded(values):
    return [round(float(value), 6) for value in values]


def make_graphcodebert():
    flows = {path.name.removesuffix(".txt"): read_flow(path) for path in sorted(FLOWS.glob("*.txt"))}
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = byte_pairs(special, [" ".join(tokens) for tokens, _ in flows.values()], 290)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    config = RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(), type_vocab_size=1, pad_token_id=1, max_position_embeddings=322, **SHAPE
    )
    config._attn_implementation = "eager"
    model = randomise(RobertaModel(config))
    save("tiny-graphcodebert", model, tokenizer)
    expected = {}
    for name, (tokens, nodes) in flows.items():
        ids, positions, mask = graph_inputs(tokenizer, tokens, nodes)
        states, pooler = graph_states(model, ids, positions, mask)
        expected[name] = {
            "n_tokens": sum(position > 0 for position in positions), "n_nodes": positions.count(0),
            "pooler": rounded(pooler), "cls": rounded(states[0]), "mean": rounded(states.mean(0)),
            "max": rounded(states.max(0).values), "last": rounded(states[-1]),
        }
    texts = []
    tokenizer.enable_truncation(CODE_LENGTH + NODES_LENGTH)
    for text in TEXTS:
        ids = torch.tensor([tokenizer.encode(text).ids])
        texts.append(rounded(model(ids, attention_mask=torch.ones_like(ids)).pooler_output[0]))
    return {"functions": expected, "queries": texts}


def make_starencoder():
    # Its tokenizer adds no special tokens; the model was trained with <cls> text <sep>.
    tokenizer = byte_pairs(["<pad>"], [*TEXTS[:3], *TEXTS[5:]], 300)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ["<mask>", "<sep>", "<cls>"]])
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=64, type_vocab_size=2, pad_token_id=0, **SHAPE
    )
    model = randomise(BertModel(config))
    directory = save("tiny-starencoder", model, tokenizer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", cls_token="<cls>", sep_token="<sep>", mask_token="<mask>",
        model_max_length=48,
    )
    fast.save_pretrained(directory)
    limit = 48
    first, last = tokenizer.token_to_id("<cls>"), tokenizer.token_to_id("<sep>")
    rows = {"ids": [], "cls": [], "mean": [], "pooler": []}
    for text in TEXTS:
        ids = [first, *tokenizer.encode(text, add_special_tokens=False).ids[: limit - 2], last]
        output = model(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)))
        rows["ids"].append(ids)
        rows["cls"].append(rounded(output.last_hidden_state[0, 0]))
        rows["mean"].append(rounded(output.last_hidden_state[0].mean(0)))
        rows["pooler"].append(rounded(output.pooler_output[0]))
    return rows


def main():
    torch.manual_seed(7)
    with torch.no_grad():
        expected = {"texts": TEXTS, "graphcodebert": make_graphcodebert(), "starencoder": make_starencoder()}
    path = DIRECTORY / "expected-code-encoders.json"
    path.write_text(json.dumps(expected, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
